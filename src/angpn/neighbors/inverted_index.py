"""An inverted index: rows grouped around centres (faiss), of which the nearest groups alone are searched."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse
import torch
from sklearn.utils.extmath import randomized_svd
from torch import Tensor

from angpn import kernels
from angpn.kernels.threads import one_library_thread, over_rows
from angpn.neighbors.locality import NEAREST, locality_order
from angpn.neighbors.metric_rows import BLOCK_ROWS, MetricRows, blocks_of, exact_nearest_distances, recall_of
from angpn.utils.array_checks import check_arrays, floats, integers, singles
from angpn.utils.optional import require
from angpn.utils.typing import Array

AllGatherColumns = Callable[[Tensor], Tensor]  # the tables of all processes side by side

_FINE = 0.1  # the number of groups to probe is the least that reaches the recall, up to this part of it
_LONGEST = 1e18  # row that has a squared distance to any other in float32


@dataclass(frozen=True, kw_only=True)
class IndexConfig:
    """Constants of the index; the defaults are measured in docs/scale.md."""

    centres_per_root: float = 3.0  # how many centres times the root of the number of rows
    rows_per_centre: int = 20  # that a centre is learnt from
    kmeans_steps: int = 5  # more take longer and find hardly better groups
    n_directions: int = 256  # sparse rows are searched by so many main directions,
    oversampling: int = 4  # for so many times as many as asked for; the nearest by true distance are kept
    max_rows_of_basis: int = 20_000  # main directions are found on a sample of rows
    n_sampled: int = 500  # rows that are also searched exactly, to tune by; as many again to measure the recall
    block_rows: int = BLOCK_ROWS


DEFAULT_CONFIG = IndexConfig()


class IndexState(NamedTuple):
    """What an index of all rows has learnt: with the rows it is the same index again, without the work."""

    centres: Array  # (g, p) float32
    sizes: Array  # (g,) of the groups
    rows: Array  # (n,) int32, the first group's rows, then the next one's
    n_probed: int  # groups, for a row,
    recall: float  # since this share of the nearest rows was to be found
    basis: Array | None = None  # (d, p) float32, main directions by which sparse rows are searched

    def to_arrays(self) -> dict[str, Array]:
        """Return what a file keeps of it."""
        return {name: np.atleast_1d(value) for name, value in self._asdict().items() if value is not None}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], rows: Any) -> Self:
        """Return the state that :meth:`to_arrays` described; compiled code will trust it.

        Raises:
            ValueError: If this is not the state of an index of these rows.
        """
        n, width = rows.shape
        of_basis = {"basis": singles(width, "p")} if scipy.sparse.issparse(rows) else {}
        specs = {
            **of_basis,
            "centres": singles("g", "p" if of_basis else width),
            "sizes": integers("g", low=0, high=n),
            "rows": integers(n, low=0, high=n - 1),
            "n_probed": integers(1, low=1, high=n),
            "recall": floats(1, low=0, high=1),
        }
        n_groups = check_arrays(arrays, specs)["g"]
        n_probed, recall = arrays["n_probed"].item(), arrays["recall"].item()
        if n_probed > n_groups:
            raise ValueError(f"an index of {n_groups} groups probes {n_probed} of them")
        if arrays["sizes"].sum() != n or (np.bincount(arrays["rows"], minlength=n) != 1).any():
            raise ValueError(f"the groups of an index do not hold each of {n} rows once")
        return cls(arrays["centres"], arrays["sizes"], arrays["rows"], n_probed, recall, arrays.get("basis"))


class InvertedIndex:
    """An inverted index over some of the rows, by centres of them all."""

    def __init__(self, rows: MetricRows, centres: Array, basis: Array | None, config: IndexConfig) -> None:
        """Make one without rows; :meth:`add` and :meth:`restore` put them in."""
        faiss = _faiss()
        self._rows, self._basis, self._config, self._n_groups = rows, basis, config, len(centres)
        self._centres = np.ascontiguousarray(centres, np.float32)
        self._is_chord = rows.metric == "chord"
        flat = faiss.IndexFlatIP if self._is_chord else faiss.IndexFlatL2
        self._quantizer = flat(self._centres.shape[1])
        self._quantizer.add(self._centres)
        # Of the chord products alone count: of sparse rows the main directions are not of unit length.
        self._origins = np.zeros_like(self._centres) if self._is_chord else self._centres
        self._order = np.arange(len(rows))  # in which rows are added: among equals the first are found
        self._members = np.empty(0, np.int64)
        self._insert(self._members, np.empty(0, np.int64))
        self.n_probed, self.recall = self._n_groups, 1.0  # groups, for a row, and the share of the nearest in them

    @classmethod
    def learn(cls, rows: MetricRows, generator: np.random.Generator, config: IndexConfig) -> "InvertedIndex":
        """Learn the centres from some of the rows; none is in it yet."""
        if rows.metric != "chord" and rows.lengths.max() > _LONGEST:
            raise ValueError(
                f"rows must not be longer than {_LONGEST:g}, since an index has float32, got one of "
                f"{rows.lengths.max():g}; scale the columns, or pass recall=1 to compare every pair in float64"
            )
        faiss, n, basis = _faiss(), len(rows), None
        if rows.is_sparse:
            some = rows[np.sort(generator.permutation(n)[: config.max_rows_of_basis])].scaled()
            width, seed = min(config.n_directions, min(some.shape)), int(generator.integers(2**31))
            basis = randomized_svd(some, width, random_state=seed)[2].T.astype(np.float32)
        n_groups = max(1, min(int(config.centres_per_root * np.sqrt(n)), n // config.rows_per_centre))
        first = rows[np.sort(generator.permutation(n)[: config.rows_per_centre * n_groups])]
        points = _points(first, basis)
        measure = faiss.METRIC_INNER_PRODUCT if rows.metric == "chord" else faiss.METRIC_L2
        clustered = faiss.index_factory(points.shape[1], f"IVF{n_groups},Flat", measure)
        clustering = clustered.cp
        clustering.seed, clustering.min_points_per_centroid = int(generator.integers(2**31)), 1
        clustering.niter = config.kmeans_steps
        clustered.train(points)
        index = cls(rows, clustered.quantizer.reconstruct_n(0, n_groups), basis, config)
        index._order = generator.permutation(n)
        return index

    @classmethod
    def restore(cls, rows: MetricRows, state: IndexState, config: IndexConfig) -> "InvertedIndex":
        """Return the index of all these rows that had this state."""
        index = cls(rows, state.centres, state.basis, config)
        index._members, index.n_probed, index.recall = np.arange(len(rows)), state.n_probed, state.recall
        index._insert(state.rows, np.repeat(np.arange(index._n_groups), state.sizes))
        return index

    def add(self, members: Array) -> None:
        """Add the rows with these numbers, which are sorted."""
        self._members = members
        is_member = np.zeros(len(self._rows), dtype=bool)
        is_member[members] = True
        order = self._order[is_member[self._order]]
        nearest = [self.groups(self._rows[order[block]], 1)[:, 0] for block in self._blocks(len(order))]
        groups = np.concatenate(nearest) if nearest else np.empty(0, np.int64)
        by_group = np.argsort(groups, kind="stable")
        self._insert(order[by_group], groups[by_group])

    def _insert(self, numbers: Array, groups: Array) -> None:
        """Hold the rows with these numbers, which are sorted by group."""
        sizes = np.bincount(groups, minlength=self._n_groups)
        self._bounds = np.concatenate([[0], np.cumsum(sizes)])
        self._numbers = np.ascontiguousarray(numbers, np.int32)
        self._held = np.empty((len(numbers), self._centres.shape[1]), np.float32)
        self._halves = np.zeros(len(numbers), np.float32)
        for block in self._blocks(len(numbers)):
            held = self._held[block]
            np.subtract(_points(self._rows[numbers[block]], self._basis), self._origins[groups[block]], out=held)
            if not self._is_chord:
                self._halves[block] = np.einsum("ij,ij->i", held, held) / 2

    def _blocks(self, n: int) -> Iterator[slice]:
        return blocks_of(n, self._config.block_rows)

    @property
    def state(self) -> IndexState:
        """What it has learnt."""
        sizes = np.diff(self._bounds)
        return IndexState(self._centres, sizes, self._numbers, self.n_probed, self.recall, self._basis)

    def assign_groups(self, group_of: Array, size: int) -> Array:  # (n_groups,) the process that owns each
        """Assign groups to so many processes, near ones together, so that a query goes to few of them.

        All get about as many rows; ``group_of`` is the group of each row.
        """
        near = self._quantizer.search(self._centres, min(self._n_groups, NEAREST + 1))[1]
        order = locality_order(torch.from_numpy(near)).numpy()
        counts = np.bincount(group_of, minlength=self._n_groups)[order]
        middles = np.cumsum(counts) - counts / 2
        owners = np.empty(self._n_groups, np.int64)
        owners[order] = np.minimum(middles * size / len(self._rows), size - 1).astype(np.int64)
        return owners

    def sample_rows(self, generator: np.random.Generator) -> tuple[Array, Array]:
        """Draw rows that are also searched exactly, in order: some to tune by, as many others to measure the recall."""
        sample = generator.permutation(len(self._rows))[: 2 * self._config.n_sampled]
        return np.sort(sample[::2]), np.sort(sample[1::2])

    def tune(
        self, sample: Array, count: int, recall: float, all_gather_columns: AllGatherColumns = lambda table: table
    ) -> None:
        """Choose how many groups are probed, so that this recall is reached, or this share of that of probing all.

        By main directions alone even that may miss many of the nearest, and no number of groups would suffice.
        ``all_gather_columns`` puts what several indexes find side by side.
        """
        queries, self.recall = self._rows[sample], recall
        if recall == 1:  # what suffices for a sample need not for all rows
            self.n_probed = self._n_groups
            return

        def nearest(distances: Array) -> Array:  # (r, count)
            return np.sort(all_gather_columns(torch.from_numpy(distances)).numpy(), axis=1)[:, :count]

        def found(n_groups: int) -> float:
            table = self.within(queries, self.groups(queries, n_groups), count, sample)[1]
            return recall_of(nearest(table), true)

        true = nearest(exact_nearest_distances(self._rows, sample, count, self._members, self._config.block_rows))
        if self._basis is not None:
            recall *= found(self._n_groups)
        too_few, groups = 0, 1
        while groups < self._n_groups and found(groups) < recall:
            too_few, groups = groups, min(self._n_groups, max(groups + 1, int(1.5 * groups)))
        while groups - too_few > max(1, _FINE * groups):  # all rows pay for each group more
            middle = (too_few + groups) // 2
            too_few, groups = (middle, groups) if found(middle) < recall else (too_few, middle)
        self.n_probed = groups

    def groups(self, queries: MetricRows, n_groups: int) -> Array:  # (r, g) int32
        """Return the groups to probe for each query, nearest first."""
        points = _points(queries, self._basis)
        return self._quantizer.search(points, min(n_groups, self._n_groups))[1].astype(np.int32)

    def within(
        self, queries: MetricRows, groups: Array, count: int, own: Array | None = None
    ) -> tuple[Array, Array]:  # (r, count) each
        """Return the nearest rows in these groups and their distances; -1 and infinity where there are fewer.

        Where a query is a row, ``own`` is its number, and it is left out.
        """
        wanted = 1 + count * (1 if self._basis is None else self._config.oversampling)
        numbers, scores = np.empty((len(queries), wanted), np.int32), np.empty((len(queries), wanted), np.float32)
        held = self._origins, self._bounds, self._held, self._halves, self._numbers
        with one_library_thread("blas"):  # threads have queries of their own
            kernel, points = kernels.grouped_rows.nearest_in_groups, _points(queries, self._basis)
            over_rows(kernel, len(queries), points, groups, *held, numbers, scores)
        distances = queries.distances_on(np.maximum(numbers, 0), self._rows)
        distances[numbers < 0] = np.inf
        return drop_own_row(numbers, distances, own, count)

    def nearest(
        self, queries: MetricRows, count: int, own: Array | None = None
    ) -> tuple[Array, Array]:  # (r, count) each
        """Return the ``count`` nearest rows and their distances, nearest first; see :meth:`within`."""
        numbers = np.empty((len(queries), count), np.int32)
        distances = np.empty((len(queries), count), self._rows.matrix.dtype)
        left, n_groups = np.arange(len(queries)), self.n_probed
        while len(left):  # once, unless the groups probed were too small
            some = queries[left]
            found = self.within(some, self.groups(some, n_groups), count, None if own is None else own[left])
            numbers[left], distances[left] = found
            left = left[numbers[left, -1] < 0]
            n_groups *= 4
        return numbers, distances


def _faiss() -> Any:
    faiss = require("faiss", 'pip install "angpn[scale]", or pass recall=1 to search exactly')
    faiss.omp_set_num_threads(torch.get_num_threads())
    return faiss


def _points(rows: MetricRows, basis: Array | None) -> Array:
    """Return rows as an index holds them."""
    scaled = rows.scaled()
    return np.ascontiguousarray(scaled if basis is None else scaled @ basis, np.float32)


def drop_own_row(
    numbers: Array, distances: Array, own: Array | None, count: int
) -> tuple[Array, Array]:  # (r, count) each, nearest first
    """Return the ``count`` nearest of these rows without the row itself; -1 and infinity where there are fewer."""
    if own is not None:
        itself = numbers == own[:, None]
        numbers, distances = np.where(itself, -1, numbers), np.where(itself, np.inf, distances)
    order = np.argsort(distances, axis=1, kind="stable")[:, :count]
    missing = (0, 0), (0, count - order.shape[1])
    numbers, distances = (np.take_along_axis(table, order, axis=1) for table in (numbers, distances))
    return np.pad(numbers, missing, constant_values=-1), np.pad(distances, missing, constant_values=np.inf)
