"""Rows shared out among the processes of a torch.distributed job.

Each process has some rows of its own: their candidate lists, their features and activations. What its lists need of
other processes' rows, the *halo*, is fetched before each step of Algorithm 1, and in the backward pass what the halo
got of the gradient is sent home. Beside that only sums go round: of losses, and of the gradients of the weights.

Rows are dealt out in an order in which neighbours are near each other, so that halos are small.
"""

import atexit
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from angpn.neighborhood import Neighborhood, locality_order

TIMEOUT = timedelta(minutes=10)  # that a process waits for the others, which may still be searching
_QUERIES_AT_ONCE = 2**13

# Of rows `asked` among rows `mine`: (r, c) numbers of the nearest, each row as many, and their distances.
Find = Callable[[range, range], tuple[Tensor, Tensor]]


def join() -> bool:
    """Whether this process works together with others; joins them where torchrun has started it."""
    if not dist.is_available():
        return False
    if not dist.is_initialized():
        if int(os.environ.get("WORLD_SIZE", "1")) < 2 or "MASTER_ADDR" not in os.environ:
            return False
        with _clear_errors():
            dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=TIMEOUT)
        atexit.register(_leave)
    return dist.get_world_size() > 1


def _leave() -> None:
    """End the threads of the group before the interpreter ends, which else may abort."""
    if dist.is_initialized():
        dist.destroy_process_group()


def is_first() -> bool:
    """Whether this process speaks and writes for all."""
    return not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0


def n_processes() -> int:
    """How many work together, this one included."""
    return dist.get_world_size() if join() else 1


def agreed(number: int) -> int:
    """The number that the first process has drawn."""
    value = torch.tensor(number)
    with _clear_errors():
        dist.broadcast(value, 0)
    return int(value)


@dataclass(frozen=True, eq=False)
class Shard(Neighborhood):
    """The lists of this process's rows: numbers below ``n_rows`` are its own rows, the others those of its halo."""

    rows: Tensor = field(kw_only=True)  # (n_rows,) which rows of the data these are
    total_rows: int = field(kw_only=True)  # of all processes
    sent: Tensor = field(kw_only=True)  # own rows that others need, process after process
    sent_counts: Sequence[int] = field(kw_only=True)
    halo_counts: Sequence[int] = field(kw_only=True)  # rows of the halo, process after process

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a Shard means something inside its job only, got a request to pickle it; pickle whole()")

    @property
    def n_columns(self) -> int:
        """Own rows and halo."""
        return len(self.rows) + sum(self.halo_counts)

    def to(self, *args: Any, **kwargs: Any) -> "Shard":
        """As :meth:`torch.Tensor.to`."""
        distances = self.distances.to(*args, **kwargs)
        if distances is self.distances:
            return self
        device = distances.device
        return replace(self, indices=self.indices.to(device), distances=distances, sent=self.sent.to(device))

    def extend(self, features: Tensor) -> Tensor:  # (n_columns, ...)
        """Own rows, followed by those of the halo."""
        extended = features.new_empty(self.n_columns, *features.shape[1:])
        extended[: self.n_rows] = features
        _exchange(features[self.sent], extended[self.n_rows :], self.sent_counts, self.halo_counts)
        return extended

    def fold(self, gradient: Tensor) -> Tensor:  # (n_rows, ...)
        """The adjoint of :meth:`extend`: what the halo has is sent home and added there."""
        received = gradient.new_empty(len(self.sent), *gradient.shape[1:])
        _exchange(gradient[self.n_rows :].contiguous(), received, self.halo_counts, self.sent_counts)
        return gradient[: self.n_rows].index_add(0, self.sent, received)

    def total(self, value: Tensor) -> Tensor:
        """The sum over all processes."""
        return _reduced(value, dist.ReduceOp.SUM)

    def largest(self, value: Tensor) -> Tensor:
        """The maximum over all processes."""
        return _reduced(value, dist.ReduceOp.MAX)

    def average(self, values: Tensor) -> Tensor:
        """The mean over the rows of all processes."""
        return self.total(values.sum()) / self.total_rows

    def gathered(self, values: Tensor) -> Tensor:  # (total_rows, ...)
        """What each process has for its rows, for all rows in the order of the data."""
        found = values.new_empty(self.total_rows, *values.shape[1:])
        found[_gathered(self.rows)] = _gathered(values)
        return found

    def whole(self) -> Neighborhood:
        """The lists of all rows, for a model that is of use after the job."""
        numbers = self.extend(self.rows)[self.indices.long()].int()
        return Neighborhood(self.gathered(numbers), self.gathered(self.distances))


def share_out(n_rows: int, n_candidates: int, find: Find, seed: int) -> Shard:
    """Find the candidates of all rows together, and deal the rows out.

    Each process answers for one part of the rows, by ``find``; who asks keeps the nearest of all answers.
    """
    size, rank = dist.get_world_size(), dist.get_rank()
    bounds = [n_rows * place // size for place in range(size + 1)]
    parts = [range(*pair) for pair in pairwise(bounds)]
    indices, distances = _ask_all(parts, n_candidates, find, torch.Generator().manual_seed(seed))
    order = locality_order(_gathered(indices[:, :8].contiguous()))
    rank_of = torch.empty_like(order)
    rank_of[order] = torch.arange(n_rows)
    # The lists go from who found them to who owns their row: the process whose part it falls into by the new order.
    rows = torch.arange(parts[rank].start, parts[rank].stop)
    owner = torch.bucketize(rank_of[rows], torch.tensor(bounds[1:]), right=True)
    by_owner = owner.argsort(stable=True)
    sent = torch.bincount(owner, minlength=size).tolist()
    received = _told(sent)
    rows, indices, distances = (_exchanged(part[by_owner], sent, received) for part in (rows, indices, distances))
    mine = rank_of[rows].argsort()
    return _with_halo(rows[mine], rank_of[indices[mine].long()], distances[mine], bounds)


def _ask_all(
    parts: Sequence[range], count: int, find: Find, generator: torch.Generator
) -> tuple[Tensor, Tensor]:  # (r, m) each, for the rows of this process's part
    """Every process in turn asks for its rows, a block at a time, and all answer."""
    rank, kept = dist.get_rank(), []
    for asker, part in enumerate(parts):
        for start in range(part.start, part.stop, _QUERIES_AT_ONCE):
            block = range(start, min(part.stop, start + _QUERIES_AT_ONCE))
            answer = find(block, parts[rank])
            everyone = [_sent_to(asker, tensor.contiguous()) for tensor in answer]
            if rank == asker:
                indices, distances = (torch.cat(tensors, dim=1) for tensors in everyone)
                # Among equals the order of processes, which is that of the rows, must not decide.
                shuffle = torch.randperm(indices.shape[1], generator=generator)
                nearest = shuffle[distances[:, shuffle].argsort(dim=1, stable=True)[:, :count]]
                kept.append((indices.gather(1, nearest), distances.gather(1, nearest)))
    indices, distances = (torch.cat(tensors) for tensors in zip(*kept, strict=True))
    return indices, distances


def _with_halo(rows: Tensor, indices: Tensor, distances: Tensor, bounds: Sequence[int]) -> Shard:
    """Lists in numbers of the new order, in those of the shard."""
    rank, size = dist.get_rank(), dist.get_world_size()
    start, stop = bounds[rank], bounds[rank + 1]
    outside = (indices < start) | (indices >= stop)
    halo = indices[outside].unique()  # in order, and so by process
    owner = torch.bucketize(halo, torch.tensor(bounds[1:]), right=True)
    halo_counts = torch.bincount(owner, minlength=size).tolist()
    sent_counts = _told(halo_counts)
    sent = _exchanged(halo, halo_counts, sent_counts) - start
    local = torch.where(outside, stop - start + torch.searchsorted(halo, indices), indices - start)
    return Shard(
        local,
        distances,
        rows=rows,
        total_rows=bounds[-1],
        sent=sent,
        sent_counts=sent_counts,
        halo_counts=halo_counts,
    )


# The collectives. Whatever goes wrong in one is most likely another process that is no longer there.


@contextmanager
def _clear_errors() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0]
        raise RuntimeError(
            f"all processes of the job must stay to the end, got none or no answer from another ({reason}); see its "
            "error, then start all again, with resume=True where there is a checkpoint"
        ) from error


def _exchange(sent: Tensor, received: Tensor, sent_counts: Sequence[int], received_counts: Sequence[int]) -> None:
    with _clear_errors():
        dist.all_to_all_single(received, sent, list(received_counts), list(sent_counts))


def _exchanged(values: Tensor, sent_counts: Sequence[int], received_counts: Sequence[int]) -> Tensor:
    received = values.new_empty(sum(received_counts), *values.shape[1:])
    _exchange(values.contiguous(), received, sent_counts, received_counts)
    return received


def _told(counts: Sequence[int]) -> list[int]:
    """What every process has said to this one, each having a number for each."""
    ones = [1] * len(counts)
    return _exchanged(torch.tensor(counts), ones, ones).tolist()


def _sent_to(receiver: int, values: Tensor) -> list[Tensor]:
    """Everyone's values at the receiver, nothing elsewhere. They may differ in their number of columns."""
    size = dist.get_world_size()
    rows = values.shape[0]
    widths = _gathered(torch.tensor([values.shape[1]])).tolist()
    sent = [values.numel() if place == receiver else 0 for place in range(size)]
    received = [rows * width if dist.get_rank() == receiver else 0 for width in widths]
    flat = _exchanged(values.flatten(), sent, received)
    if dist.get_rank() != receiver:
        return []
    return [part.view(rows, width) for part, width in zip(flat.split(received), widths, strict=True)]


def _gathered(values: Tensor) -> Tensor:
    """The values of all processes, one after the other."""
    size = dist.get_world_size()
    counts = _told([len(values)] * size)
    sent = values.repeat(size, *[1] * (values.ndim - 1))
    return _exchanged(sent, [len(values)] * size, counts)


def _reduced(value: Tensor, how: Any) -> Tensor:
    value = value.clone()
    with _clear_errors():
        dist.all_reduce(value, how)
    return value
