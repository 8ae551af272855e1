"""Search by all processes together: each finds candidates among the rows it indexes, then rows are distributed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from angpn.neighbors.approximate import EXACT_ROWS, has_index
from angpn.neighbors.collectives import (
    all_gather,
    all_gather_columns,
    all_reduce,
    all_to_all,
    all_to_all_counts,
    all_to_all_tables,
    broadcast,
)
from angpn.neighbors.exact import Metric, nearest_fitted
from angpn.neighbors.halo import DistributedHalo, counts_by_owner
from angpn.neighbors.inverted_index import DEFAULT_CONFIG, IndexConfig, InvertedIndex, drop_own_row
from angpn.neighbors.locality import NEAREST, locality_order
from angpn.neighbors.metric_rows import MetricRows, blocks_of, exact_nearest_distances, recall_of
from angpn.neighbors.neighborhood import Neighborhood
from angpn.neighbors.shard import Shard


class DistributedSearch:
    """The part of one process in the search for candidates, see :func:`distribute_rows`.

    Where rows are few, each process indexes some of them and compares every query with these. Else all processes have
    the same centres, each indexes the rows of some groups, near ones together, and a query goes to the owners of the
    groups nearest to it. Together they find what one index of all rows would.
    """

    def __init__(
        self,
        x: Any,  # (n, d) array or CSR array
        n_candidates: int,
        metric: Metric = "chord",
        *,
        recall: float = 0.9,
        random_state: int = 0,
        max_exact_rows: int = EXACT_ROWS,  # of a process
        config: IndexConfig = DEFAULT_CONFIG,
    ) -> None:
        self.n_candidates, self.seed, self.n_rows = n_candidates, random_state, x.shape[0]
        self.dtype = torch.from_numpy(np.empty(0, x.dtype)).dtype
        self._rows, self._target, self._config = MetricRows(x, metric), recall, config
        self._max_exact_rows = max_exact_rows
        self._indexed = np.arange(self.n_rows)
        self._index: InvertedIndex | None = None

    def assign_rows(self, rank: int, size: int) -> Tensor:  # (r,)
        """Index some of the rows and return which; their candidates this process searches for. A collective."""
        n = self.n_rows
        bounds = [n * place // size for place in range(size + 1)]
        self._indexed, self._n_processes = np.arange(bounds[rank], bounds[rank + 1]), size
        if not self._is_exact(-(-n // size)):
            generator = np.random.default_rng(self.seed)
            self._index = InvertedIndex.learn(self._rows, generator, self._config)
            blocks = (self._indexed[block] for block in blocks_of(len(self._indexed), self._config.block_rows))
            nearest = np.concatenate([self._index.groups(self._rows[rows], 1) for rows in blocks])
            group_of = all_gather_columns(torch.from_numpy(nearest.T.copy()))[0].numpy()  # for all rows
            self._owner_of = self._index.assign_groups(group_of, size)
            self._indexed = np.flatnonzero(self._owner_of[group_of] == rank)
            self._index.add(self._indexed)
            sample, _ = self._index.sample_rows(generator)
            self._index.tune(sample, self.n_candidates, self._target, all_gather_columns)
        return torch.from_numpy(self._indexed)

    def groups(self, rows: Tensor, times: int) -> Tensor:  # (r, g), or (r, 0) where every pair is compared
        """Return the groups nearest to these rows, ``times`` as many as the index was tuned to."""
        if self._index is None:
            return torch.empty(len(rows), 0, dtype=torch.int32)
        return torch.from_numpy(self._index.groups(self._rows[rows.numpy()], times * self._index.n_probed))

    def owners(self, groups: Tensor) -> Tensor:  # (r, processes) bool
        """Return the processes that index rows of these groups."""
        owners = torch.zeros(len(groups), self._n_processes, dtype=torch.bool)
        if self._index is None:
            return ~owners
        return owners.scatter_(1, torch.from_numpy(self._owner_of)[groups.long()], True)

    def __call__(self, rows: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:  # (r, m) numbers, distances
        """Return the nearest other rows among those this process indexes, -1 and infinity where there are fewer."""
        own, indexed, count = rows.numpy(), self._indexed, self.n_candidates
        if not len(own) or not len(indexed):
            found = np.full((len(own), count), -1), np.full((len(own), count), np.inf)
        elif self._index is not None:
            found = self._index.within(self._rows[own], groups.numpy(), count, own)
        else:
            numbers, distances = nearest_fitted(
                self._rows.matrix[indexed[0] : indexed[-1] + 1],
                self._rows.matrix[own],
                min(count + 1, len(indexed)),
                self._rows.metric,
                random_state=self.seed + int(own[0]),
                each_anew=True,
            )
            found = drop_own_row(indexed[0] + numbers.numpy(), distances.numpy(), own, count)
        return torch.from_numpy(found[0]).int(), torch.from_numpy(found[1]).to(self.dtype)

    def recall(self, shard: Neighborhood) -> float:
        """Return the share of the true nearest rows that lists hold, on a sample of the rows of all processes."""
        if self._index is None:
            return 1.0
        partition = shard.partition
        sample = np.random.default_rng(self.seed).permutation(shard.n_rows)
        sample = sample[: max(1, self._config.n_sampled // partition.n_processes)]
        rows = partition.global_ids(torch.from_numpy(sample)).numpy()
        true = exact_nearest_distances(self._rows, rows, self.n_candidates, block_rows=self._config.block_rows)
        own = recall_of(shard.distances.numpy()[sample], true)
        return float(partition.mean(torch.full((shard.n_rows,), own, dtype=torch.float64)))

    def _is_exact(self, n_rows: int) -> bool:
        return n_rows <= self._max_exact_rows or self._target == 1 or not has_index(n_rows)


def distribute_rows(search: DistributedSearch, *, max_queries: int = 2**14) -> Neighborhood:
    """Find the candidates of all rows by all processes together, and distribute the rows among them. A collective.

    Args:
        search: the part of this process in the search.
        max_queries: rows that all processes together search for at once.

    Returns:
        The lists of the rows of this process, with a :class:`~angpn.neighbors.shard.Shard` for their partition.
    """
    n, size, rank = search.n_rows, dist.get_world_size(), dist.get_rank()
    if n < 2 * size:
        raise ValueError(f"{size} processes need at least two rows each, got {n} in all; start fewer processes")
    rows = search.assign_rows(rank, size)
    indices, distances = _search_all(rows, search, max_queries)
    listed = all_gather(indices[:, :NEAREST].contiguous())
    nearest = torch.empty_like(listed)
    nearest[all_gather(rows)] = listed
    order = broadcast(locality_order(nearest) if rank == 0 else torch.empty(n, dtype=torch.int64))
    number_of = torch.empty_like(order)
    number_of[order] = torch.arange(n)
    # Lists go from the process that found them to the owner of their row, whose range has its new number.
    bounds = [n * place // size for place in range(size + 1)]
    by_owner = number_of[rows].argsort()
    sent = counts_by_owner(number_of[rows], bounds)
    received = all_to_all_counts(sent)
    rows, indices, distances = (all_to_all(part[by_owner], sent, received) for part in (rows, indices, distances))
    own = number_of[rows].argsort()
    return _with_halo(rows[own], number_of[indices[own].long()], distances[own], bounds)


def _search_all(rows: Tensor, search: DistributedSearch, max_queries: int) -> tuple[Tensor, Tensor]:  # (r, m) each
    """Search for the candidates of these rows, a block of each process at a time."""
    generator = torch.Generator().manual_seed(search.seed)
    indices = torch.empty(len(rows), search.n_candidates, dtype=torch.int32)
    distances = torch.empty(len(rows), search.n_candidates, dtype=search.dtype)
    left, times = torch.arange(len(rows)), 1
    while most := int(all_reduce(torch.tensor(len(left)), dist.ReduceOp.MAX)):  # once, unless groups were too small
        n_blocks = -(-most * dist.get_world_size() // max_queries)
        for number in range(n_blocks):
            block = left[len(left) * number // n_blocks : len(left) * (number + 1) // n_blocks]
            indices[block], distances[block] = _search_block(rows[block], search, times, generator)
        left, times = (indices[:, -1] < 0).nonzero().squeeze(1), 4 * times
    return indices, distances


def _search_block(
    rows: Tensor, search: DistributedSearch, times: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:  # (r, m) each
    """Send queries to the owners of their groups, search for those received, and merge what comes back."""
    groups = search.groups(rows, times)
    owners = search.owners(groups)
    queries = torch.cat([rows.int()[:, None], groups], dim=1)
    received = all_to_all_tables([queries[queried] for queried in owners.T])
    results = [search(table[:, 0].long(), table[:, 1:]) for table in received]
    numbers, lengths = (all_to_all_tables(list(tables)) for tables in zip(*results, strict=True))
    count, rank = search.n_candidates, dist.get_rank()
    indices = torch.full((len(rows), count), -1, dtype=torch.int32)
    distances = torch.full((len(rows), count), torch.inf, dtype=search.dtype)
    indices[owners[:, rank]], distances[owners[:, rank]] = numbers[rank], lengths[rank]
    for other, queried in enumerate(owners.T):
        if other != rank:
            both = torch.cat([indices[queried], numbers[other]], dim=1)
            near = torch.cat([distances[queried], lengths[other]], dim=1)
            # Among equals the order of processes, which may be that of the rows, must not decide.
            shuffle = torch.randperm(2 * count, generator=generator)
            nearest = shuffle[near[:, shuffle].argsort(dim=1, stable=True)[:, :count]]
            indices[queried], distances[queried] = both.gather(1, nearest), near.gather(1, nearest)
    return indices, distances


def _with_halo(rows: Tensor, numbers: Tensor, distances: Tensor, bounds: Sequence[int]) -> Neighborhood:
    """Return lists of numbers among all rows as lists of numbers among own rows and halo."""
    start, own = bounds[dist.get_rank()], len(rows)
    indices = numbers - start
    others = (indices < 0) | (indices >= own)  # few
    halo = DistributedHalo(numbers[others].unique(), bounds)
    indices[others] = own + torch.searchsorted(halo.numbers, numbers[others])
    return Neighborhood(indices, distances, partition=Shard(rows, bounds, halo))
