"""The collectives of torch.distributed that rows distributed among processes need."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


@contextmanager
def clear_errors() -> Iterator[None]:
    """Replace the error of a collective: most likely another process is no longer there."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0]
        raise RuntimeError(
            f"all processes of the job must stay to the end, got none or no answer from another ({reason}); see its "
            "error, then start all again, with resume=True where there is a checkpoint"
        ) from error


@contextmanager
def all_to_all_async(
    sent: Tensor, received: Tensor, sent_counts: Sequence[int], received_counts: Sequence[int]
) -> Iterator[None]:
    """Exchange parts of tensors with all processes while the body runs, which must touch neither tensor."""
    with clear_errors():
        work = dist.all_to_all_single(received, sent, list(received_counts), list(sent_counts), async_op=True)
    yield
    with clear_errors():
        work.wait()


def all_to_all(values: Tensor, sent_counts: Sequence[int], received_counts: Sequence[int]) -> Tensor:
    """Send to each process so many rows in turn, and return the rows received from each."""
    received = values.new_empty(sum(received_counts), *values.shape[1:])
    with all_to_all_async(values.contiguous(), received, sent_counts, received_counts):
        pass
    return received


def broadcast(values: Tensor) -> Tensor:
    """Return the values of the process of rank 0."""
    with clear_errors():
        dist.broadcast(values, 0)
    return values


def all_to_all_counts(counts: Sequence[int]) -> list[int]:
    """Exchange one number with each process."""
    ones = [1] * len(counts)
    return all_to_all(torch.tensor(counts), ones, ones).tolist()


def all_to_all_tables(tables: Sequence[Tensor]) -> list[Tensor]:
    """Exchange one table with each process; their sizes may differ."""
    ones = [1] * len(tables)
    shapes = all_to_all(torch.tensor([table.shape for table in tables]), ones, ones).tolist()
    received = [rows * columns for rows, columns in shapes]
    flat = all_to_all(torch.cat([table.flatten() for table in tables]), [t.numel() for t in tables], received)
    return [part.view(*shape) for part, shape in zip(flat.split(received), shapes, strict=True)]


def all_gather_columns(table: Tensor) -> Tensor:
    """Concatenate the columns of all processes, which have as many rows each."""
    return torch.cat(all_to_all_tables([table] * dist.get_world_size()), dim=1)


def all_gather(values: Tensor) -> Tensor:
    """Concatenate the rows of all processes."""
    size = dist.get_world_size()
    counts = all_to_all_counts([len(values)] * size)
    sent = values.repeat(size, *[1] * (values.ndim - 1))
    return all_to_all(sent, [len(values)] * size, counts)


def all_reduce(value: Tensor, how: Any) -> Tensor:
    """Reduce a tensor over all processes, by one of ``dist.ReduceOp``."""
    value = value.clone()
    with clear_errors():
        dist.all_reduce(value, how)
    return value
