"""Blocks of the matrix of distances, in float64 and of bounded memory."""

from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from angpn.utils.checks import as_float_tensor, as_sparse_rows, as_tensor, check_choice, check_distances, check_finite

Metric = Literal["chord", "euclidean", "sqeuclidean", "precomputed"]

# Of distances at once; a search takes several times that. More than 32 MB, since smaller arrays that come and go leave
# holes in the heap, and a process may grow to twice what it needs.
BLOCK_BYTES = 3 * 2**24
_ROUNDING = 1e-14


class DistanceBlocks:
    """Distances from a block of queries (by default of the rows themselves) to all rows, computed in float64."""

    def __init__(self, x: Any, metric: Metric, queries: Any = None) -> None:
        check_choice(metric, "metric", get_args(Metric))
        self.metric = metric
        self.x, self.dtype = _as_float64(x)
        self.n: int = self.x.shape[0]
        if metric == "precomputed":
            if isinstance(self.x, scipy.sparse.csr_array):
                raise ValueError(
                    "precomputed distances must be a dense (n, n) matrix, got a sparse one; call toarray()"
                )
            check_distances(self.x)
            self.queries = self.x
            return
        _check_finite_rows(self.x)
        # Distances do not depend on a common offset, but the squares they are computed from lose digits to it.
        offset = 0.0 if metric == "chord" or not isinstance(self.x, Tensor) else self.x.mean(dim=0)
        self.x, self.squares = _prepared(self.x, metric, offset)
        self.queries, self.query_squares = self.x, self.squares
        if queries is not None:
            self.queries = _as_float64(queries)[0]
            _check_finite_rows(self.queries)
            self.queries, self.query_squares = _prepared(self.queries, metric, offset)

    def blocks(self) -> list[tuple[int, int]]:
        """Return the bounds of blocks of queries that take so much memory."""
        size, count = max(1, BLOCK_BYTES // (8 * self.n)), self.queries.shape[0]
        return [(start, min(start + size, count)) for start in range(0, count, size)]

    def distances(self, rows: slice | np.ndarray[Any, Any]) -> Tensor:  # (r, n)
        """Return the distances of some queries to all rows."""
        if self.metric == "precomputed":
            return self.queries[rows].clone()
        product = self.queries[rows] @ self.x.T
        gram = product if isinstance(product, Tensor) else torch.from_numpy(product.toarray())
        # In place, and each pass over the block counts: at 50,000 rows these take as long as the product.
        # What the subtraction leaves of equal rows is rounding: let duplicates tie at zero.
        if self.metric == "chord":
            squared = torch.threshold_(gram.mul_(-2).add_(2), 2 * _ROUNDING, 0.0)
        else:
            scale = self.query_squares[rows, None] + self.squares
            squared = torch.add(scale, gram, alpha=-2, out=gram)
            squared.masked_fill_(squared <= scale.mul_(_ROUNDING), 0)
        return squared if self.metric == "sqeuclidean" else squared.sqrt_()


def _prepared(x: Any, metric: Metric, offset: Any) -> tuple[Any, Tensor]:
    """Return rows ready for products, and their squared lengths before scaling."""
    if isinstance(x, Tensor):
        x = x - offset
        squares = x.square().sum(dim=1)
    else:
        squares = torch.from_numpy(np.asarray(x.multiply(x).sum(axis=1), dtype=np.float64).ravel())
    if metric == "chord":
        scale = torch.where(squares > 0, squares, 1).rsqrt()
        if isinstance(x, Tensor):
            x = x * scale[:, None]
        else:
            x = scipy.sparse.csr_array(scipy.sparse.diags_array(scale.numpy()) @ x)
    return x, squares


def _check_finite_rows(x: Any) -> None:
    # A sparse row's sum is finite if its entries are, and tells which row it is.
    check_finite(x if isinstance(x, Tensor) else torch.from_numpy(x.sum(axis=1)[:, None]), "x")


def _as_float64(x: Any) -> tuple[Any, torch.dtype]:
    """Return ``x`` on the CPU as a float64 tensor or CSR array, and the dtype of its distances."""
    sparse = as_sparse_rows(x, torch.float64)
    if sparse is not None:
        return sparse, torch.float64 if x.dtype in (np.float64, torch.float64) else torch.float32
    given = as_tensor(x, "x").detach().cpu()
    return as_float_tensor(given.double(), "x"), as_float_tensor(given, "x").dtype
