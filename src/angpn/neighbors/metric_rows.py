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

    def distances_to(self, others: "MetricRows") -> Array:  # (n, r) float64
        """Return the distances of every pair."""
        rows, columns = self.scaled(), others.scaled()
        if self.is_sparse:
            return self._from_products((rows @ columns.T).toarray(), others.lengths)
        left, right = (torch.tensor(part, dtype=torch.float64) for part in (rows, columns))
        found = torch.cdist(left, right).numpy()
        if self.metric == "chord":
            found[self.lengths == 0], found[:, others.lengths == 0] = np.sqrt(2), np.sqrt(2)
        return np.square(found, out=found) if self.metric == "sqeuclidean" else found

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
    """Return the true distances of the chosen rows to the nearest others among the members."""
    members = np.arange(len(rows)) if members is None else members
    queries, nearest = rows[chosen], [torch.empty(len(chosen), 0, dtype=torch.float64)]
    for block in blocks_of(len(members), block_rows):
        some = members[block]
        found = torch.from_numpy(queries.distances_to(rows[some]))
        own = np.flatnonzero(np.isin(chosen, some))
        found[own, np.searchsorted(some, chosen[own])] = torch.inf
        nearest.append(found.topk(min(count, found.shape[1]), largest=False)[0])
    merged = torch.cat(nearest, dim=1)
    return merged.topk(min(count, merged.shape[1]), largest=False)[0].numpy()


def recall_of(distances: Array, true: Array) -> float:
    """Return the share of candidates that are as near as the true ones, since of equal rows any may be found."""
    return float(np.mean(distances <= true[:, -1:] * (1 + 1e-5) + 1e-6))


def blocks_of(n: int, size: int = BLOCK_ROWS) -> Iterator[slice]:
    """Return slices of at most so many rows that cover them all."""
    return (slice(start, min(n, start + size)) for start in range(0, n, size))
