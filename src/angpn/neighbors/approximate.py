"""The nearest candidates among very many rows: an inverted index (faiss) instead of every pair.

Rows are grouped around centres, and a row is compared with those of the nearest groups only. How many groups it takes
is found on a sample of rows whose nearest are also searched for exactly; what share of these the lists then hold is
measured on another sample. Of the index only the choice of candidates is taken: their distances are computed again,
from differences, so that equal rows are at distance 0.

The index holds a float32 copy of dense rows, which are not copied whole beside that, so ``x`` may be mapped from a
file; of sparse rows it holds their main directions.
"""

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from sklearn.utils.extmath import randomized_svd
from torch import Tensor

from angpn.kernels.rows import sparse_product_rows, squared_distance_rows
from angpn.kernels.threads import over_rows
from angpn.neighbors.exact import Metric, nearest_fitted
from angpn.neighbors.locality import NEAREST, locality_order
from angpn.neighbors.neighborhood import Neighborhood
from angpn.utils.checks import warn
from angpn.utils.optional import require
from angpn.utils.typing import Array

AllGatherColumns = Callable[[Tensor], Tensor]  # the tables of all processes side by side

EXACT_ROWS = 20_000  # up to so many rows comparing every pair takes seconds
EXACT_PAIRS = EXACT_ROWS**2
SAMPLE = 500  # rows that are also searched exactly
_ROWS_AT_ONCE = 2**14
_FOR_CENTRE = 40  # rows that a centre is learnt from
_LEARNT_IN = 5  # steps of k-means; more take longer and find hardly better groups
_WIDTH = 256  # sparse rows are looked up by so many main directions
_BEYOND = 4  # and so many times as many as asked for; the nearest by true distance are kept
_ROWS_FOR_BASIS = 20_000
_ROUNDING = 1e-13
_LONGEST = 1e18  # row that has a squared distance to any other in float32
_SLACK = 0.02  # by which a measured recall may miss the target before a warning says so


def has_index(n_rows: int) -> bool:
    """Whether there is a library for it; if not, a warning says that it will take long."""
    if find_spec("faiss") is None:
        warn(
            f"{n_rows} rows should be searched with an index, got no faiss, so every pair is compared, which takes "
            "long; pip install angpn[scale]"
        )
        return False
    return True


class Found(NamedTuple):
    """Lists of candidates, and how good they are."""

    neighborhood: Neighborhood
    recall: float  # share of the true nearest rows that are on the lists, on a sample


def approximate_candidates(
    x: Any,  # (n, d) array or CSR array
    n_candidates: int,
    metric: Metric = "chord",
    *,
    recall: float = 0.9,
    random_state: int = 0,
    on_rows: Callable[[int], None] = lambda count: None,  # told how many more rows are done
) -> Found:
    """About the ``n_candidates`` nearest other rows of each row; a share of ``recall`` are to be the true ones.

    ``metric`` is as for :func:`angpn.nearest_candidates`, and so are ties: rows enter the index in an order drawn from
    ``random_state``. Where the target is missed, a warning says so.
    """
    generator, rows = np.random.default_rng(random_state), _Rows(x, metric)
    index = _Index(rows, generator)
    index.add(np.arange(len(rows)))
    sample = _sample(generator, len(rows))
    index.tune(np.sort(sample[::2]), n_candidates, recall)
    indices, distances = np.empty((len(rows), n_candidates), np.int32), np.empty((len(rows), n_candidates), x.dtype)
    for block in _blocks(len(rows)):
        own = np.arange(block.start, block.stop)
        indices[block], distances[block] = index.nearest(rows[block], n_candidates, own)
        on_rows(len(own))
    judged = np.sort(sample[1::2])
    found = _recall(distances[judged], _exact(rows, judged, n_candidates))
    warn_low_recall(found, recall, rows.is_sparse)
    return Found(Neighborhood(torch.from_numpy(indices), torch.from_numpy(distances)), found)


def warn_low_recall(found: float, wanted: float, sparse: bool) -> None:
    """Warn where the target was missed."""
    if found < wanted - _SLACK:
        why = f", since {_WIDTH} main directions of the rows do not tell more" if sparse else ""
        warn(
            f"neighbours were to be found with a recall of {wanted:.2f}, got {found:.2f}{why}; pass recall=1 to "
            "compare every pair, which takes long"
        )


def approximate_fitted(
    x: Any,  # (n, d) array or CSR array
    queries: Any,  # (r, d) alike
    n_candidates: int,
    metric: Metric = "chord",
    *,
    recall: float = 0.9,
    random_state: int = 0,
) -> tuple[Tensor, Tensor]:  # (r, m) rows of x, and their distances, nearest first
    """For each query about the nearest rows of ``x``. What one query finds does not depend on the others."""
    generator, rows = np.random.default_rng(random_state), _Rows(x, metric)
    index = _Index(rows, generator)
    index.add(np.arange(len(rows)))
    index.tune(np.sort(_sample(generator, len(rows))[::2]), n_candidates, recall)
    asked = _Rows(queries, metric)
    found = [index.nearest(asked[block], n_candidates) for block in _blocks(len(asked))]
    indices, distances = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return torch.from_numpy(indices), torch.from_numpy(distances)


class DistributedSearch:
    """The share of one process in :func:`angpn.neighbors.distributed.distribute_rows`.

    Where rows are few, each answers for a part of them, exactly. Else all have the same centres, each has the rows of
    some groups, next to each other, and who asks looks up which groups a row must be compared with. Together they find
    what one index of all rows would.
    """

    def __init__(
        self,
        x: Any,  # (n, d) array or CSR array
        n_candidates: int,
        metric: Metric = "chord",
        *,
        recall: float = 0.9,
        random_state: int = 0,
    ) -> None:
        self._rows, self._count, self._target, self._seed = _Rows(x, metric), n_candidates, recall, random_state
        self.dtype = torch.from_numpy(np.empty(0, x.dtype)).dtype
        self._mine = np.arange(len(self._rows))
        self._index: _Index | None = None

    def assign_rows(self, rank: int, size: int, all_gather_columns: AllGatherColumns) -> Tensor:  # (r,)
        """The rows that the process of this rank answers for, and asks about."""
        n = len(self._rows)
        bounds = [n * place // size for place in range(size + 1)]
        self._mine, self._n_processes = np.arange(bounds[rank], bounds[rank + 1]), size
        if not self._is_exact(-(-n // size)):
            generator = np.random.default_rng(self._seed)
            self._index = _Index(self._rows, generator)
            blocks = (self._mine[block] for block in _blocks(len(self._mine)))
            nearest = np.concatenate([self._index.groups(self._rows[rows], 1) for rows in blocks])
            group_of = all_gather_columns(torch.from_numpy(nearest.T.copy()))[0].numpy()  # for all rows
            self._owner_of = self._index.assign_groups(group_of, size)
            self._mine = np.flatnonzero(self._owner_of[group_of] == rank)
            self._index.add(self._mine)
            self._index.tune(np.sort(_sample(generator, n)[::2]), self._count, self._target, all_gather_columns)
        return torch.from_numpy(self._mine)

    def groups(self, rows: Tensor, times: int) -> Tensor:  # (r, g), or (r, 0) where every pair is compared
        """Those to look into for these rows, so many times as many as it takes on the whole."""
        if self._index is None:
            return torch.empty(len(rows), 0, dtype=torch.int32)
        return torch.from_numpy(self._index.groups(self._rows[rows.numpy()], times * self._index.n_probed))

    def owners(self, groups: Tensor) -> Tensor:  # (r, processes) bool
        """Which processes must be asked."""
        asked = torch.zeros(len(groups), self._n_processes, dtype=torch.bool)
        if self._index is None:
            return ~asked
        return asked.scatter_(1, torch.from_numpy(self._owner_of)[groups.long()], True)

    def __call__(self, rows: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:  # (r, m) numbers, distances
        """The nearest of these rows among those that this process answers for, -1 and infinity where there are fewer.

        The row itself is left out.
        """
        own, mine = rows.numpy(), self._mine
        if not len(own) or not len(mine):
            found = np.full((len(own), self._count), -1), np.full((len(own), self._count), np.inf)
        elif self._index is not None:
            found = self._index.within(self._rows[own], groups.numpy(), self._count, own)
        else:
            numbers, distances = nearest_fitted(
                self._rows.matrix[mine[0] : mine[-1] + 1],
                self._rows.matrix[own],
                min(self._count + 1, len(mine)),
                self._rows.metric,
                random_state=self._seed + int(own[0]),
                each_anew=True,
            )
            found = _others(mine[0] + numbers.numpy(), distances.numpy(), own, self._count)
        return torch.from_numpy(found[0]).int(), torch.from_numpy(found[1]).to(self.dtype)

    def recall(self, rows: Array, distances: Array, size: int) -> float:
        """The share of the nearest that lists of these rows hold, on a sample of them."""
        if self._index is None:
            return 1.0
        sample = np.random.default_rng(self._seed).permutation(len(rows))[:size]
        return _recall(distances[sample], _exact(self._rows, rows[sample], self._count))

    def _is_exact(self, n_rows: int) -> bool:
        return n_rows <= EXACT_ROWS or self._target == 1 or not has_index(n_rows)


class _Rows:
    """Rows as a metric sees them: for the chord at unit length, where an empty row has cosine 0 with every other."""

    def __init__(self, matrix: Any, metric: Metric, lengths: Array | None = None) -> None:
        self.metric: Metric = metric
        self.is_sparse = scipy.sparse.issparse(matrix)
        self.matrix: Any = matrix.astype(np.float64, copy=False) if self.is_sparse else np.asarray(matrix)
        self.lengths = self._lengths() if lengths is None else lengths  # (n,)

    def __getitem__(self, chosen: Any) -> "_Rows":
        return _Rows(self.matrix[chosen], self.metric, self.lengths[chosen])

    def __len__(self) -> int:
        return self.matrix.shape[0]

    @property
    def inverse(self) -> Array:  # (n,)
        """What brings the rows to unit length; an empty one stays empty."""
        return np.where(self.lengths > 0, 1 / np.where(self.lengths > 0, self.lengths, 1), 0).astype(self.matrix.dtype)

    def scaled(self) -> Any:
        """The rows, at unit length for the chord."""
        if self.metric != "chord":
            return self.matrix
        if self.is_sparse:
            return scipy.sparse.csr_array(scipy.sparse.diags_array(self.inverse) @ self.matrix)
        return self.matrix * self.inverse[:, None]

    def distances_to(self, others: "_Rows") -> Array:  # (n, r) float64
        """Every pair."""
        rows, columns = self.scaled(), others.scaled()
        if self.is_sparse:
            return self._from_products((rows @ columns.T).toarray(), others.lengths)
        left, right = (torch.tensor(part, dtype=torch.float64) for part in (rows, columns))
        found = torch.cdist(left, right).numpy()
        if self.metric == "chord":
            found[self.lengths == 0], found[:, others.lengths == 0] = np.sqrt(2), np.sqrt(2)
        return np.square(found, out=found) if self.metric == "sqeuclidean" else found

    def distances_on(self, lists: Array, others: "_Rows") -> Array:  # (n, m)
        """Each row with its candidates among the others."""
        out = np.empty(lists.shape, self.matrix.dtype)
        if self.is_sparse:
            matrices = self.matrix, others.matrix
            parts = [part for matrix in matrices for part in (matrix.indptr, matrix.indices, matrix.data)]
            over_rows(sparse_product_rows, len(lists), lists, *parts, self.matrix.shape[1], out)
            if self.metric == "chord":
                out *= self.inverse[:, None] * others.inverse[lists]
            return self._from_products(out, others.lengths[lists])
        parts = [self.matrix, self.inverse, others.matrix, others.inverse]
        over_rows(squared_distance_rows, len(lists), lists, *parts, self.metric == "chord", out)
        return self._root(out)

    def _from_products(self, products: Array, lengths: Array) -> Array:
        """From those of the scaled rows; ``lengths`` are the others'."""
        scale = 2.0 if self.metric == "chord" else self.lengths[:, None] ** 2 + lengths**2
        squared = scale - 2 * products
        squared[squared <= _ROUNDING * scale] = 0  # what the subtraction leaves of equal rows
        return self._root(squared)

    def _root(self, squared: Array) -> Array:
        return squared if self.metric == "sqeuclidean" else np.sqrt(squared, out=squared)

    def _lengths(self) -> Array:
        if self.is_sparse:
            return np.sqrt(np.asarray(self.matrix.multiply(self.matrix).sum(axis=1)).ravel())
        lengths = np.empty(len(self), np.float64)
        for block in _blocks(len(self)):
            lengths[block] = np.linalg.norm(self.matrix[block], axis=1)
        return lengths


class _Index:
    """An inverted index over some of the rows, by centres of them all."""

    def __init__(self, rows: _Rows, generator: np.random.Generator) -> None:
        """Learn the centres; no row is in it yet."""
        faiss = require("faiss", "pip install angpn[scale], or pass recall=1 to search exactly")
        if rows.metric != "chord" and rows.lengths.max() > _LONGEST:
            raise ValueError(
                f"rows must not be longer than {_LONGEST:g}, since an index has float32, got one of "
                f"{rows.lengths.max():g}; scale the columns, or pass recall=1 to compare every pair in float64"
            )
        faiss.omp_set_num_threads(torch.get_num_threads())
        n, self._rows, self._basis = len(rows), rows, None
        if rows.is_sparse:
            some = rows[np.sort(generator.permutation(n)[:_ROWS_FOR_BASIS])].scaled()
            width, seed = min(_WIDTH, min(some.shape)), int(generator.integers(2**31))
            self._basis = randomized_svd(some, width, random_state=seed)[2].T
        self._n_groups = max(1, min(int(4 * np.sqrt(n)), n // _FOR_CENTRE))
        first = self._points(rows[np.sort(generator.permutation(n)[: _FOR_CENTRE * self._n_groups])])
        measure = faiss.METRIC_INNER_PRODUCT if rows.metric == "chord" else faiss.METRIC_L2
        self._index = faiss.index_factory(first.shape[1], f"IVF{self._n_groups},Flat", measure)
        self._index.cp.seed, self._index.cp.min_points_per_centroid = int(generator.integers(2**31)), 1
        self._index.cp.niter = _LEARNT_IN
        self._index.train(first)
        self._order = generator.permutation(n)  # in which rows enter: among equals the first are found
        self._members = np.empty(0, np.int64)
        self.n_probed = self._n_groups  # groups, for a row

    def add(self, members: Array) -> None:
        """Take in the rows with these numbers, which are in order."""
        self._members = members
        is_member = np.zeros(len(self._rows), dtype=bool)
        is_member[members] = True
        order = self._order[is_member[self._order]]
        for block in _blocks(len(order)):
            self._index.add_with_ids(self._points(self._rows[order[block]]), order[block])

    def assign_groups(self, group_of: Array, size: int) -> Array:  # (n_groups,) whose each group is
        """Groups shared out among so many, near ones together, so that a row need not be looked for in every part.

        All get about as many rows; ``group_of`` says which group each row is in.
        """
        centres = self._index.quantizer.reconstruct_n(0, self._n_groups)
        near = self._index.quantizer.search(centres, min(self._n_groups, NEAREST + 1))[1]
        order = locality_order(torch.from_numpy(near)).numpy()
        counts = np.bincount(group_of, minlength=self._n_groups)[order]
        middles = np.cumsum(counts) - counts / 2
        owners = np.empty(self._n_groups, np.int64)
        owners[order] = np.minimum(middles * size / len(self._rows), size - 1).astype(np.int64)
        return owners

    def tune(
        self, sample: Array, count: int, recall: float, all_gather_columns: AllGatherColumns = lambda table: table
    ) -> None:
        """Look into as many groups as this recall takes, or this share of what looking into all would find.

        By main directions alone even that may miss many of the nearest, and no number of groups would do.
        ``all_gather_columns`` puts what several indexes find side by side.
        """
        queries = self._rows[sample]

        def nearest(distances: Array) -> Array:  # (r, count)
            return np.sort(all_gather_columns(torch.from_numpy(distances)).numpy(), axis=1)[:, :count]

        def found(n_groups: int) -> float:
            table = self.within(queries, self.groups(queries, n_groups), count, sample)[1]
            return _recall(nearest(table), true)

        true = nearest(_exact(self._rows, sample, count, self._members))
        if self._basis is not None:
            recall *= found(self._n_groups)
        groups = 1
        while groups < self._n_groups and found(groups) < recall:
            groups = min(self._n_groups, max(groups + 1, int(1.5 * groups)))
        self.n_probed = groups

    def groups(self, queries: _Rows, n_groups: int) -> Array:  # (r, g) int32
        """The groups to look into for each query, nearest first."""
        return self._index.quantizer.search(self._points(queries), min(n_groups, self._n_groups))[1].astype(np.int32)

    def within(
        self, queries: _Rows, groups: Array, count: int, own: Array | None = None
    ) -> tuple[Array, Array]:  # (r, count) each
        """The nearest rows in these groups and their distances, nearest first; -1 and infinity where there are fewer.

        Where a query is a row, ``own`` says which, and that one is left out.
        """
        wanted = 1 + count * (1 if self._basis is None else _BEYOND)
        self._index.nprobe = groups.shape[1]
        assigned, centred = groups.astype(np.int64), np.zeros(groups.shape, np.float32)
        numbers = self._index.search_preassigned(self._points(queries), wanted, assigned, centred)[1].astype(np.int32)
        distances = queries.distances_on(np.maximum(numbers, 0), self._rows)
        distances[numbers < 0] = np.inf
        return _others(numbers, distances, own, count)

    def nearest(self, queries: _Rows, count: int, own: Array | None = None) -> tuple[Array, Array]:  # (r, count) each
        """As many rows as are asked for and their distances, nearest first; see :meth:`within`."""
        numbers = np.empty((len(queries), count), np.int32)
        distances = np.empty((len(queries), count), self._rows.matrix.dtype)
        left, n_groups = np.arange(len(queries)), self.n_probed
        while len(left):  # once, unless the groups looked into were too small
            some = queries[left]
            found = self.within(some, self.groups(some, n_groups), count, None if own is None else own[left])
            numbers[left], distances[left] = found
            left = left[numbers[left, -1] < 0]
            n_groups *= 4
        return numbers, distances

    def _points(self, rows: _Rows) -> Array:
        """What the index is told of rows."""
        scaled = rows.scaled()
        return np.ascontiguousarray(scaled if self._basis is None else scaled @ self._basis, np.float32)


def _sample(generator: np.random.Generator, n: int) -> Array:
    """Rows that are also searched exactly: every other one to tune by, the rest to judge by."""
    return generator.permutation(n)[: 2 * SAMPLE]


def _exact(rows: _Rows, chosen: Array, count: int, members: Array | None = None) -> Array:  # (r, count at most)
    """The true distances of some rows to those nearest to them, among all or among ``members``, which are in order."""
    members = np.arange(len(rows)) if members is None else members
    queries, nearest = rows[chosen], [torch.empty(len(chosen), 0, dtype=torch.float64)]
    for block in _blocks(len(members)):
        some = members[block]
        found = torch.from_numpy(queries.distances_to(rows[some]))
        here = np.flatnonzero(np.isin(chosen, some))
        found[here, np.searchsorted(some, chosen[here])] = torch.inf
        nearest.append(found.topk(min(count, found.shape[1]), largest=False)[0])
    joined = torch.cat(nearest, dim=1)
    return joined.topk(min(count, joined.shape[1]), largest=False)[0].numpy()


def _others(
    numbers: Array, distances: Array, own: Array | None, count: int
) -> tuple[Array, Array]:  # (r, count) each, nearest first
    """So many of these rows without the row itself; -1 and infinity where there are fewer."""
    if own is not None:
        itself = numbers == own[:, None]
        numbers, distances = np.where(itself, -1, numbers), np.where(itself, np.inf, distances)
    order = np.argsort(distances, axis=1, kind="stable")[:, :count]
    missing = (0, 0), (0, count - order.shape[1])
    numbers, distances = (np.take_along_axis(table, order, axis=1) for table in (numbers, distances))
    return np.pad(numbers, missing, constant_values=-1), np.pad(distances, missing, constant_values=np.inf)


def _recall(distances: Array, true: Array) -> float:
    """The share of candidates that are as near as the nearest are; by distance, since of equal rows any will do."""
    return float(np.mean(distances <= true[:, -1:] * (1 + 1e-5) + 1e-6))


def _blocks(n: int) -> Iterator[slice]:
    return (slice(start, min(n, start + _ROWS_AT_ONCE)) for start in range(0, n, _ROWS_AT_ONCE))
