"""Rows and a metric: distances of pairs and of lists, without a copy of all rows."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
import torch

from angpn import kernels
from angpn.kernels.threads import over_rows
from angpn.neighbors.exact import Metric
from angpn.utils.typing import Array

BLOCK_ROWS = 2**14  # worked on at once
_ROUNDING = 1e-13


class MetricRows:
    """Rows and a metric; for the chord rows have unit length, and an empty row has cosine 0 with every other."""

    def __init__(self, matrix: Any, metric: Metric, lengths: Array | None = None) -> None:
        self.metric: Metric = metric
        self.is_sparse = scipy.sparse.issparse(matrix)
        self.matrix: Any = matrix.astype(np.float64, copy=False) if self.is_sparse else np.asarray(matrix)
        self.lengths = self._lengths() if lengths is None else lengths  # (n,)

    def __getitem__(self, chosen: Any) -> "MetricRows":
        return MetricRows(self.matrix[chosen], self.metric, self.lengths[chosen])

    def __len__(self) -> int:
        return self.matrix.shape[0]

    @property
    def inverse(self) -> Array:  # (n,)
        """The factors that scale rows to unit length; 0 for an empty one."""
        return np.where(self.lengths > 0, 1 / np.where(self.lengths > 0, self.lengths, 1), 0).astype(self.matrix.dtype)

    def scaled(self) -> Any:
        """Return the rows, at unit length for the chord."""
        if self.metric != "chord":
            return self.matrix
        if self.is_sparse:
            return scipy.sparse.csr_array(scipy.sparse.diags_array(self.inverse) @ self.matrix)
        return self.matrix * self.inverse[:, None]

    def products_with(self, others: "MetricRows") -> Array:  # (n, r)
        """Return the inner products of every pair, of rows at unit length for the chord."""
        rows, columns = self.scaled(), others.scaled()
        return (rows @ columns.T).toarray() if self.is_sparse else rows @ columns.T

    def distances_on(self, lists: Array, others: "MetricRows") -> Array:  # (n, m)
        """Return the distances of each row to its candidates among the others."""
        out = np.empty(lists.shape, self.matrix.dtype)
        if self.is_sparse:
            matrices = self.matrix, others.matrix
            parts = [part for matrix in matrices for part in (matrix.indptr, matrix.indices, matrix.data)]
            over_rows(kernels.rows.sparse_product_rows, len(lists), lists, *parts, self.matrix.shape[1], out)
            if self.metric == "chord":
                out *= self.inverse[:, None] * others.inverse[lists]
            return self._from_products(out, others.lengths[lists])
        parts = [self.matrix, self.inverse, others.matrix, others.inverse]
        over_rows(kernels.rows.squared_distance_rows, len(lists), lists, *parts, self.metric == "chord", out)
        return self._root(out)

    def _from_products(self, products: Array, lengths: Array) -> Array:
        """Return distances from the products of scaled rows; ``lengths`` are those of the others."""
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
        for block in blocks_of(len(self)):
            lengths[block] = np.linalg.norm(self.matrix[block], axis=1)
        return lengths


def exact_nearest_distances(
    rows: MetricRows,
    chosen: Array,  # (r,)
    count: int,
    members: Array | None = None,  # in order; all rows by default
    block_rows: int = BLOCK_ROWS,
) -> Array:  # (r, count at most)
    """Return the true distances of the chosen rows to the nearest others among the members, nearest first.

    Products in the dtype of the rows tell which are the nearest but for rounding, so some more are kept until the
    distances of these few are computed from differences.
    """
    members = np.arange(len(rows)) if members is None else members
    queries, wanted = rows[chosen], count + count // 4 + 8
    nearest, lowest = [], []
    for block in blocks_of(len(members), block_rows):
        some = members[block]
        others = rows[some]
        keys = queries.products_with(others)
        np.negative(keys, out=keys)
        if rows.metric != "chord":
            keys += (others.lengths**2 / 2).astype(keys.dtype)  # half of what distinguishes their squared distances
        own = np.flatnonzero(np.isin(chosen, some))
        keys[own, np.searchsorted(some, chosen[own])] = np.inf
        low, places = torch.from_numpy(keys).topk(min(wanted, len(some)), largest=False)
        lowest.append(low)
        nearest.append(some[places.numpy()])
    low, places = torch.cat(lowest, dim=1).topk(min(wanted, len(members)), largest=False)
    lists = np.take_along_axis(np.concatenate(nearest, axis=1), places.numpy(), axis=1)
    distances = queries.distances_on(lists.astype(np.int32), rows)
    distances[np.isinf(low.numpy())] = np.inf  # the row itself
    return np.sort(distances, axis=1)[:, :count]


def recall_of(distances: Array, true: Array) -> float:
    """Return the share of candidates that are as near as the true ones, since of equal rows any may be found."""
    return float(np.mean(distances <= true[:, -1:] * (1 + 1e-5) + 1e-6))


def blocks_of(n: int, size: int = BLOCK_ROWS) -> Iterator[slice]:
    """Return slices of at most so many rows that cover them all."""
    return (slice(start, min(n, start + size)) for start in range(0, n, size))
