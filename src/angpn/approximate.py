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

from angpn.checks import warn
from angpn.distances import Metric, nearest_fitted
from angpn.kernels.rows import sparse_product_rows, squared_distance_rows
from angpn.kernels.threads import over_rows
from angpn.neighborhood import Neighborhood
from angpn.optional import require

Array = np.ndarray[Any, Any]

EXACT_ROWS = 20_000  # up to so many rows comparing every pair takes seconds
EXACT_PAIRS = EXACT_ROWS**2
SAMPLE = 500  # rows that are also searched exactly
_ROWS_AT_ONCE = 2**14
_FOR_CENTRE = 40  # rows that a centre is learnt from
_LEARNT_IN = 5  # steps of k-means; more take longer and find hardly better groups
_SAMPLE_OF_PART = 100  # at least, of rows that a process tunes its index by
_WIDTH = 256  # sparse rows are looked up by so many main directions
_BEYOND = 4  # and so many times as many as asked for; the nearest by true distance are kept
_ROWS_FOR_BASIS = 20_000
_ROUNDING = 1e-13
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

    hood: Neighborhood
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
    sample = generator.permutation(len(rows))[: 2 * SAMPLE]
    index.tune(np.sort(sample[::2]), n_candidates, recall)
    indices, distances = np.empty((len(rows), n_candidates), np.int32), np.empty((len(rows), n_candidates), x.dtype)
    for block in _blocks(len(rows)):
        own = np.arange(block.start, block.stop)
        indices[block], distances[block] = index.nearest(rows[block], n_candidates, own)
        on_rows(len(own))
    judged = np.sort(sample[1::2])
    found = _recall(distances[judged], _exact(rows, judged, n_candidates))
    tell_recall(found, recall, rows.is_sparse)
    return Found(Neighborhood(torch.from_numpy(indices), torch.from_numpy(distances)), found)


def tell_recall(found: float, wanted: float, sparse: bool) -> None:
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
    index.tune(np.sort(generator.permutation(len(rows))[:SAMPLE]), n_candidates, recall)
    asked = _Rows(queries, metric)
    found = [index.nearest(asked[block], n_candidates) for block in _blocks(len(asked))]
    indices, distances = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return torch.from_numpy(indices), torch.from_numpy(distances)


class PartSearch:
    """What one of several processes can say of the nearest rows, for :func:`angpn.sharding.share_out`.

    It answers for its own part of the rows of ``x``, exactly where that is small. Else all have the same centres, each
    with its own rows in the groups around them, and who asks says which groups to look into.
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
        self._dtype = torch.from_numpy(np.empty(0, x.dtype)).dtype
        self._index: _Index | None = None

    def prepare(self, mine: range) -> None:
        """Make the index, where there is to be one."""
        if not self._is_exact(len(mine)):
            self._index_of(mine)

    def groups(self, asked: range, mine: range) -> Tensor:  # (r, g), or (r, 0) where every pair is compared
        """Where the nearest of rows ``asked`` are, by what is known of rows ``mine``."""
        if self._is_exact(len(mine)):
            return torch.empty(len(asked), 0, dtype=torch.int32)
        return torch.from_numpy(self._index_of(mine).groups(self._rows[asked.start : asked.stop]))

    def __call__(self, asked: range, mine: range, groups: Tensor) -> tuple[Tensor, Tensor]:  # (r, m) numbers, distances
        """The nearest of rows ``asked`` among rows ``mine``, the row itself left out."""
        count, queries = min(self._count + 1, len(mine)), self._rows[asked.start : asked.stop]
        if self._is_exact(len(mine)):
            part, seed = self._rows.matrix[mine.start : mine.stop], self._seed + asked.start
            found = nearest_fitted(part, queries.matrix, count, self._rows.metric, random_state=seed, each_anew=True)
        else:
            looked_into = groups.numpy() if groups.shape[1] else None
            nearest = self._index_of(mine).nearest(queries, count, groups=looked_into)
            found = torch.from_numpy(nearest[0]), torch.from_numpy(nearest[1])
        numbers, distances = found[0].long() + mine.start, found[1].to(self._dtype)
        if asked.start not in mine and count <= self._count:  # a small part, of which all may be among the nearest
            return numbers, distances
        keep = torch.from_numpy(_others(numbers.numpy(), np.arange(asked.start, asked.stop)))
        return numbers[keep].view(len(asked), -1), distances[keep].view(len(asked), -1)

    def recall(self, rows: Array, distances: Array, size: int) -> float:
        """The share of the nearest that lists of these rows hold, on a sample of them."""
        if self._index is None:
            return 1.0
        sample = np.random.default_rng(self._seed).permutation(len(rows))[:size]
        return _recall(distances[sample], _exact(self._rows, rows[sample], self._count))

    def _is_exact(self, n_rows: int) -> bool:
        return n_rows <= EXACT_ROWS or self._target == 1 or not has_index(n_rows)

    def _index_of(self, mine: range) -> "_Index":
        if self._index is None:
            generator, part = np.random.default_rng(self._seed), self._rows[mine.start : mine.stop]
            self._index = _Index(part, generator, among=self._rows)
            # Of the nearest of all rows a part has its share, and of the rows to tune by.
            share, size = (number * len(mine) // len(self._rows) for number in (self._count, SAMPLE))
            sample = np.sort(generator.permutation(len(mine))[: max(_SAMPLE_OF_PART, size)])
            self._index.tune(sample, max(1, share), self._target)
        return self._index


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
    """An inverted index over rows."""

    def __init__(self, rows: _Rows, generator: np.random.Generator, among: _Rows | None = None) -> None:
        """Of ``rows``, grouped as suits them, or all rows that they are ``among``."""
        faiss = require("faiss", "pip install angpn[scale], or pass recall=1 to search exactly")
        faiss.omp_set_num_threads(torch.get_num_threads())
        everything = rows if among is None else among
        n, self._rows, self._basis = len(everything), rows, None
        if rows.is_sparse:
            some = everything[np.sort(generator.permutation(n)[:_ROWS_FOR_BASIS])].scaled()
            width, seed = min(_WIDTH, min(some.shape)), int(generator.integers(2**31))
            self._basis = randomized_svd(some, width, random_state=seed)[2].T
        self._n_groups = max(1, min(int(4 * np.sqrt(n)), n // _FOR_CENTRE))
        first = self._points(everything[np.sort(generator.permutation(n)[: _FOR_CENTRE * self._n_groups])])
        measure = faiss.METRIC_INNER_PRODUCT if rows.metric == "chord" else faiss.METRIC_L2
        self._index = faiss.index_factory(first.shape[1], f"IVF{self._n_groups},Flat", measure)
        self._index.cp.seed, self._index.cp.min_points_per_centroid = int(generator.integers(2**31)), 1
        self._index.cp.niter = _LEARNT_IN
        self._index.train(first)
        order = generator.permutation(len(rows))
        for block in _blocks(len(rows)):
            self._index.add_with_ids(self._points(rows[order[block]]), order[block])

    def tune(self, sample: Array, count: int, recall: float) -> None:
        """Look into as many groups as this recall takes, or this share of what looking into all would find.

        By main directions alone even that may miss many of the nearest, and no number of groups would do.
        """
        true = _exact(self._rows, sample, count)
        if self._basis is not None:
            self._index.nprobe = self._n_groups
            recall *= _recall(self.nearest(self._rows[sample], count, sample)[1], true)
        groups = 1
        while groups < self._n_groups:
            self._index.nprobe = groups
            if _recall(self.nearest(self._rows[sample], count, sample)[1], true) >= recall:
                break
            groups = min(self._n_groups, max(groups + 1, int(1.5 * groups)))
        self._index.nprobe = groups

    def groups(self, queries: _Rows) -> Array:  # (r, g) int32
        """The groups to look into for each query."""
        return self._index.quantizer.search(self._points(queries), self._index.nprobe)[1].astype(np.int32)

    def nearest(
        self, queries: _Rows, count: int, own: Array | None = None, groups: Array | None = None
    ) -> tuple[Array, Array]:
        """Rows and distances, nearest first. Where a query is a row, ``own`` says which, and that one is left out.

        ``groups`` are those to look into, where they are known.
        """
        points = self._points(queries)
        wanted = min(len(self._rows) - (own is not None), count * (1 if self._basis is None else _BEYOND))
        found = np.empty((len(queries), wanted), np.int32)
        left, n_groups = np.arange(len(queries)), self._index.nprobe
        while len(left):  # once, unless the groups looked into were too small
            some = self._search(points[left], wanted + (own is not None), groups)
            groups = None
            some = some if own is None else some[_others(some, own[left])].reshape(len(left), -1)
            full = some[:, -1] >= 0
            found[left[full]] = some[full]
            left = left[~full]
            self._index.nprobe = min(self._n_groups, 4 * self._index.nprobe)
        self._index.nprobe = n_groups
        distances = queries.distances_on(found, self._rows)
        order = np.argsort(distances, axis=1, kind="stable")[:, :count]
        return np.take_along_axis(found, order, axis=1), np.take_along_axis(distances, order, axis=1)

    def _search(self, points: Array, count: int, groups: Array | None) -> Array:  # (r, count), -1 where there are fewer
        if groups is None:
            return self._index.search(points, count)[1]
        self._index.nprobe = groups.shape[1]
        assigned = groups.astype(np.int64)
        return self._index.search_preassigned(points, count, assigned, np.zeros(assigned.shape, np.float32))[1]

    def _points(self, rows: _Rows) -> Array:
        """What the index is told of rows."""
        scaled = rows.scaled()
        return np.ascontiguousarray(scaled if self._basis is None else scaled @ self._basis, np.float32)


def _exact(rows: _Rows, chosen: Array, count: int) -> Array:  # (r, count)
    """The true distances of some rows to those nearest to them."""
    queries, nearest = rows[chosen], []
    for block in _blocks(len(rows)):
        found = torch.from_numpy(queries.distances_to(rows[block]))
        here = np.flatnonzero((chosen >= block.start) & (chosen < block.stop))
        found[here, chosen[here] - block.start] = torch.inf
        nearest.append(found.topk(min(count, found.shape[1]), largest=False)[0])
    return torch.cat(nearest, dim=1).topk(count, largest=False)[0].numpy()


def _others(found: Array, own: Array) -> Array:  # (r, m) bool, False once in each row
    """All but the row itself; all but the last, where the row is not there (many equal ones have crowded it out)."""
    keep = found != own[:, None]
    keep[keep.all(axis=1), -1] = False
    return keep


def _recall(distances: Array, true: Array) -> float:
    """The share of candidates that are as near as the nearest are; by distance, since of equal rows any will do."""
    return float(np.mean(distances <= true[:, -1:] * (1 + 1e-5) + 1e-6))


def _blocks(n: int) -> Iterator[slice]:
    return (slice(start, min(n, start + _ROWS_AT_ONCE)) for start in range(0, n, _ROWS_AT_ONCE))
