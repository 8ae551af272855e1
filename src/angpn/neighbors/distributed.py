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
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module
from typing import Any, Protocol

import numpy as np
import scipy.sparse
import torch
import torch.distributed as dist
from torch import Tensor

from angpn.neighbors.locality import NEAREST, locality_order
from angpn.neighbors.neighborhood import Neighborhood
from angpn.neighbors.partition import Halo, HaloExchange, Reordered

TIMEOUT = timedelta(minutes=30)  # that a process waits for the others, which may still be searching
_QUERIES_AT_ONCE = 2**14  # of all processes together

ParallelMap = Callable[[Sequence[Callable[[], Any]]], list[Any]]  # tasks, to what they return


class Search(Protocol):
    """How processes find the nearest rows together, each among the rows that it answers for."""

    dtype: torch.dtype  # of distances

    def assign_rows(self, rank: int, size: int, all_gather_columns: Callable[[Tensor], Tensor]) -> Tensor:  # (r,)
        """The rows that the process of this rank answers for, and asks about.

        What takes long and is done once is done here; ``all_gather_columns`` puts
        the tables of all processes side by side.
        """

    def groups(self, rows: Tensor, times: int) -> Tensor:  # (r, g)
        """Where to look for the nearest of these rows; ``times`` is more than 1 where too few were found."""

    def owners(self, groups: Tensor) -> Tensor:  # (r, processes) bool
        """Which processes must be asked."""

    def __call__(self, rows: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:  # (r, c) each
        """The numbers of the nearest, and their distances; -1 and infinity where there are fewer."""


def join_process_group(distributed: bool | None) -> bool:
    """Join the processes that torchrun has started, if that is asked for, and tell whether there are several.

    Args:
        distributed: True joins the process group of torchrun, or uses one that is initialised. False leaves
            torch.distributed alone. None is for a user who said neither.

    Returns:
        Whether the rows of a fit are to be distributed among several processes.

    Raises:
        ValueError: if ``distributed`` is None where there are several processes, or True where there is no job.
    """
    initialized = dist.is_available() and dist.is_initialized()
    size = dist.get_world_size() if initialized else int(os.environ.get("WORLD_SIZE", "1"))
    in_job = initialized or ("MASTER_ADDR" in os.environ and "WORLD_SIZE" in os.environ)
    if distributed is None and in_job and size > 1:
        raise ValueError(
            f"distributed must be said in a job of several processes, got {size} processes and distributed=None; pass "
            "distributed=True to share the rows out, or distributed=False for independent fits"
        )
    if not distributed:
        return False
    if not in_job or not dist.is_available():
        raise ValueError(
            "distributed=True needs several processes, got neither torchrun nor an initialised process group of "
            "torch.distributed; start the script with torchrun, or pass distributed=False"
        )
    if size > 1 and not initialized:
        # Its functions have the group as a default, and an optimizer imports it: later, and they would keep this group
        # alive to the end of the interpreter, which its threads then abort.
        import_module("torch.distributed.nn")
        with _clear_errors():
            dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=TIMEOUT)
        atexit.register(_leave)
    return size > 1


def _leave() -> None:
    """End the threads of the group before the interpreter ends, which else may abort."""
    if dist.is_initialized():
        dist.destroy_process_group()


def is_main_process() -> bool:
    """Whether this process has rank 0, or there is no process group."""
    return not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0


def n_processes() -> int:
    """The size of the process group, 1 where there is none."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def broadcast_from_main(number: int) -> int:
    """Return the number that the process of rank 0 passes."""
    return int(_broadcast(torch.tensor(number)))


def serial_map(tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """What these tasks return, done by this process."""
    return [task() for task in tasks]


def distributed_map(tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """What these tasks return, each done by one process and told to all."""
    size = dist.get_world_size()
    everyone: list[Any] = [None] * size
    mine = [task() for task in tasks[dist.get_rank() :: size]]
    with _clear_errors():
        dist.all_gather_object(everyone, mine)
    return [everyone[place % size][place // size] for place in range(len(tasks))]


class DistributedHalo(Halo):
    """The rows of other processes that this one needs, and those of its own that the others need."""

    def __init__(self, numbers: Tensor, bounds: Sequence[int]) -> None:
        """Of the rows with these numbers, in order; each process has the numbers from one bound to the next."""
        self.numbers, self._bounds, self._counts = numbers, bounds, _by_owner(numbers, bounds)
        self._sent_counts = _all_to_all_counts(self._counts)
        self._sent = _all_to_all(numbers, self._counts, self._sent_counts) - bounds[dist.get_rank()]
        self._positions: Tensor | None = None
        self.n_rows = len(numbers)

    def subset(self, positions: Tensor) -> "DistributedHalo":
        """Return a halo that exchanges only the rows at these positions and leaves the others zero."""
        subset = DistributedHalo(self.numbers[positions], self._bounds)
        subset._positions, subset.n_rows = positions, self.n_rows
        return subset

    def exchange(self, features: Any) -> Any:  # (n_rows + halo, ...), dense or a CSR array
        """Append the halo rows, received from the processes that own them."""
        if scipy.sparse.issparse(features):
            return self._exchange_sparse(features)
        own, shape = len(features), features.shape[1:]
        extended = features.new_empty(own + self.n_rows, *shape)
        received = extended[own:] if self._positions is None else features.new_empty(len(self.numbers), *shape)
        with _all_to_all_async(features[self._sent], received, self._sent_counts, self._counts):
            extended[:own] = features
        if self._positions is not None:
            extended[own:] = 0
            extended[own + self._positions] = received
        return extended

    def _exchange_sparse(self, features: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        sent = features[self._sent.numpy()]
        lengths = torch.from_numpy(np.diff(sent.indptr)).long()
        received = _all_to_all(lengths, self._sent_counts, self._counts)
        counts = [
            [int(part.sum()) for part in numbers.split(by_owner)]
            for numbers, by_owner in ((lengths, self._sent_counts), (received, self._counts))
        ]
        parts = sent.data, sent.indices.astype(np.int32, copy=False)  # of one type whatever scipy chose elsewhere
        entries = [_all_to_all(torch.from_numpy(part), *counts).numpy() for part in parts]
        starts = np.concatenate([[0], received.cumsum(0).numpy()])
        halo = scipy.sparse.csr_array((*entries, starts), shape=(len(self.numbers), features.shape[1]))
        return scipy.sparse.vstack([features, halo], format="csr")

    def reduce(self, gradient: Tensor) -> Tensor:  # (n_rows, ...)
        """Send the gradients of halo rows to their owners and add them there: the adjoint of :meth:`exchange`."""
        own = len(gradient) - self.n_rows
        received = gradient.new_empty(len(self._sent), *gradient.shape[1:])
        sent = gradient[own:].contiguous() if self._positions is None else gradient[own + self._positions]
        with _all_to_all_async(sent, received, self._counts, self._sent_counts):
            reduced = gradient[:own].clone()
        return reduced.index_add_(0, self._sent.to(gradient.device), received)


@dataclass(frozen=True, eq=False)
class Shard(Reordered):
    """The rows of one of several processes; in its lists, numbers from its number of rows on are those of its halo."""

    bounds: Sequence[int]  # numbers at which the rows of each process begin, and the last end
    halo: DistributedHalo = field()

    def total_rows(self, n_rows: int) -> int:
        """Return the number of rows of all processes, given that of this one."""
        return self.bounds[-1]

    @property
    def n_processes(self) -> int:  # type: ignore[override]
        """The number of processes that share the rows."""
        return len(self.bounds) - 1

    def with_transpose(self, graph: scipy.sparse.csr_array) -> tuple[scipy.sparse.csr_array, HaloExchange]:
        """Return own rows of ``S + S^T``, and the halo exchange for products with it.

        It is another halo: rows that list a row of this process are known only once the others have sent them.
        """
        own, start = len(self.rows), self.bounds[dist.get_rank()]
        within = graph[:, :own]
        entries = graph[:, own:].tocoo()  # to be sent to the owners of their columns
        rows, columns, weights = (torch.from_numpy(part) for part in (entries.row, entries.col, entries.data))
        rows, columns = start + rows.long(), self.halo.numbers[columns.long()]
        order = columns.argsort(stable=True)  # by number, and so by owner
        counts = _by_owner(columns, self.bounds)
        received = _all_to_all_counts(counts)
        back = [_all_to_all(part[order], counts, received) for part in (columns, rows, weights)]
        rows, columns, weights = (torch.cat(pair) for pair in zip((rows, columns, weights), back, strict=True))
        halo = DistributedHalo(columns.unique(), self.bounds)
        positions = (rows - start).numpy(), torch.searchsorted(halo.numbers, columns).numpy()
        beyond = scipy.sparse.csr_array((weights.numpy(), positions), shape=(own, halo.n_rows))
        return scipy.sparse.hstack([within + within.T, beyond], format="csr"), halo.exchange

    def all_reduce_sum(self, value: Tensor) -> Tensor:
        """Sum over all processes."""
        return _all_reduce(value, dist.ReduceOp.SUM)

    def all_reduce_sums(self, values: list[Tensor]) -> list[Tensor]:
        """Sum several tensors of one dtype over all processes, in one collective."""
        flat = self.all_reduce_sum(torch.cat([value.flatten() for value in values]))
        parts = flat.split([value.numel() for value in values])
        return [part.view_as(value) for part, value in zip(parts, values, strict=True)]

    def all_reduce_max(self, value: Tensor) -> Tensor:
        """Take the maximum over all processes."""
        return _all_reduce(value, dist.ReduceOp.MAX)

    def mean(self, values: Tensor) -> Tensor:
        """Take the mean over the rows of all processes."""
        return self.all_reduce_sum(values.sum()) / self.bounds[-1]

    def all_gather(self, values: Tensor) -> Tensor:
        """Concatenate the values of all processes."""
        return _all_gather(values)

    def gather_in_data_order(self, values: Tensor) -> Tensor:  # (total_rows, ...)
        """Return the values of all rows of all processes, in the order of the data."""
        found = values.new_empty(self.bounds[-1], *values.shape[1:])
        found[_all_gather(self.rows)] = _all_gather(values)
        return found


def distribute_rows(n_rows: int, n_candidates: int, search: Search, seed: int) -> Neighborhood:
    """Find the candidates of all rows together, and deal the rows out."""
    size, rank = dist.get_world_size(), dist.get_rank()
    if n_rows < 2 * size:
        raise ValueError(f"{size} processes need at least two rows each, got {n_rows} in all; start fewer processes")
    rows = search.assign_rows(rank, size, _all_gather_columns)
    indices, distances = _ask_all(rows, n_candidates, search, torch.Generator().manual_seed(seed))
    listed = _all_gather(indices[:, :NEAREST].contiguous())
    nearest = torch.empty_like(listed)
    nearest[_all_gather(rows)] = listed
    order = _broadcast(locality_order(nearest) if rank == 0 else torch.empty(n_rows, dtype=torch.int64))
    rank_of = torch.empty_like(order)
    rank_of[order] = torch.arange(n_rows)
    # The lists go from who found them to who owns their row: the process whose part it falls into by the new order.
    bounds = [n_rows * place // size for place in range(size + 1)]
    by_owner = rank_of[rows].argsort()
    sent = _by_owner(rank_of[rows], bounds)
    received = _all_to_all_counts(sent)
    rows, indices, distances = (_all_to_all(part[by_owner], sent, received) for part in (rows, indices, distances))
    mine = rank_of[rows].argsort()
    return _with_halo(rows[mine], rank_of[indices[mine].long()], distances[mine], bounds)


def _ask_all(
    rows: Tensor, count: int, search: Search, generator: torch.Generator
) -> tuple[Tensor, Tensor]:  # (r, count) each
    """Turn by turn each process asks about some of its rows, and answers all."""
    indices = torch.empty(len(rows), count, dtype=torch.int32)
    distances = torch.empty(len(rows), count, dtype=search.dtype)
    left, times = torch.arange(len(rows)), 1
    while most := int(_all_reduce(torch.tensor(len(left)), dist.ReduceOp.MAX)):  # once, unless groups were too small
        n_turns = -(-most * dist.get_world_size() // _QUERIES_AT_ONCE)
        for turn in range(n_turns):
            some = left[len(left) * turn // n_turns : len(left) * (turn + 1) // n_turns]
            indices[some], distances[some] = _ask(rows[some], search, times, generator)
        left, times = (indices[:, -1] < 0).nonzero().squeeze(1), 4 * times
    return indices, distances


def _ask(rows: Tensor, search: Search, times: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The nearest of what those who may know say of these rows; and an answer to each who asks the same."""
    groups = search.groups(rows, times)
    asked = search.owners(groups)
    questions = torch.cat([rows.int()[:, None], groups], dim=1)
    received = _all_to_all_tables([questions[places] for places in asked.T])
    answers = [search(table[:, 0].long(), table[:, 1:]) for table in received]
    numbers, lengths = (_all_to_all_tables(list(tables)) for tables in zip(*answers, strict=True))
    count, rank = numbers[0].shape[1], dist.get_rank()
    indices = torch.full((len(rows), count), -1, dtype=torch.int32)
    distances = torch.full((len(rows), count), torch.inf, dtype=search.dtype)
    indices[asked[:, rank]], distances[asked[:, rank]] = numbers[rank], lengths[rank]
    for other, places in enumerate(asked.T):
        if other != rank:
            both = torch.cat([indices[places], numbers[other]], dim=1)
            near = torch.cat([distances[places], lengths[other]], dim=1)
            # Among equals the order of processes, which may be that of the rows, must not decide.
            shuffle = torch.randperm(2 * count, generator=generator)
            nearest = shuffle[near[:, shuffle].argsort(dim=1, stable=True)[:, :count]]
            indices[places], distances[places] = both.gather(1, nearest), near.gather(1, nearest)
    return indices, distances


def _with_halo(rows: Tensor, indices: Tensor, distances: Tensor, bounds: Sequence[int]) -> Neighborhood:
    """Lists in numbers of the new order, in those of the shard."""
    start = bounds[dist.get_rank()]
    halo = DistributedHalo(_others(indices, start, start + len(rows)), bounds)
    return Neighborhood(_numbered(indices, start, len(rows), halo), distances, partition=Shard(rows, bounds, halo))


def _others(numbers: Tensor, start: int, stop: int) -> Tensor:
    """Those that are not from ``start`` to ``stop``, each once and in order."""
    return numbers[(numbers < start) | (numbers >= stop)].unique()


def _numbered(numbers: Tensor, start: int, own: int, halo: DistributedHalo) -> Tensor:
    """Numbers among all rows as numbers among own rows and halo."""
    found = numbers - start
    others = (found < 0) | (found >= own)  # few
    found[others] = own + torch.searchsorted(halo.numbers, numbers[others])
    return found


def _by_owner(numbers: Tensor, bounds: Sequence[int]) -> list[int]:
    """How many of these rows each process has."""
    owner = torch.bucketize(numbers, torch.tensor(bounds[1:]), right=True)
    return torch.bincount(owner, minlength=len(bounds) - 1).tolist()


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


@contextmanager
def _all_to_all_async(
    sent: Tensor, received: Tensor, sent_counts: Sequence[int], received_counts: Sequence[int]
) -> Iterator[None]:
    """What is done meanwhile must touch neither."""
    with _clear_errors():
        work = dist.all_to_all_single(received, sent, list(received_counts), list(sent_counts), async_op=True)
    yield
    with _clear_errors():
        work.wait()


def _all_to_all(values: Tensor, sent_counts: Sequence[int], received_counts: Sequence[int]) -> Tensor:
    received = values.new_empty(sum(received_counts), *values.shape[1:])
    with _all_to_all_async(values.contiguous(), received, sent_counts, received_counts):
        pass
    return received


def _broadcast(values: Tensor) -> Tensor:
    """What the first process has."""
    with _clear_errors():
        dist.broadcast(values, 0)
    return values


def _all_to_all_counts(counts: Sequence[int]) -> list[int]:
    """What every process has said to this one, each having a number for each."""
    ones = [1] * len(counts)
    return _all_to_all(torch.tensor(counts), ones, ones).tolist()


def _all_to_all_tables(tables: Sequence[Tensor]) -> list[Tensor]:
    """From each process its table for this one, where every process has a table for each; their sizes may differ."""
    ones = [1] * len(tables)
    shapes = _all_to_all(torch.tensor([table.shape for table in tables]), ones, ones).tolist()
    received = [rows * columns for rows, columns in shapes]
    flat = _all_to_all(torch.cat([table.flatten() for table in tables]), [t.numel() for t in tables], received)
    return [part.view(*shape) for part, shape in zip(flat.split(received), shapes, strict=True)]


def _all_gather_columns(table: Tensor) -> Tensor:
    """The tables of all processes, whose rows are the same."""
    return torch.cat(_all_to_all_tables([table] * dist.get_world_size()), dim=1)


def _all_gather(values: Tensor) -> Tensor:
    """The values of all processes, one after the other."""
    size = dist.get_world_size()
    counts = _all_to_all_counts([len(values)] * size)
    sent = values.repeat(size, *[1] * (values.ndim - 1))
    return _all_to_all(sent, [len(values)] * size, counts)


def _all_reduce(value: Tensor, how: Any) -> Tensor:
    value = value.clone()
    with _clear_errors():
        dist.all_reduce(value, how)
    return value
