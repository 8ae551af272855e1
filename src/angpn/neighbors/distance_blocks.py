"""Blocks of the matrix of distances, in float64 and of bounded memory."""

from copy import copy
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from angpn.utils.checks import as_float_tensor, as_sparse_rows, as_tensor, check_choice, check_distances, check_finite
from angpn.utils.powers_of_two import exponents, largest_entries, rows_near_one, times_powers

Metric = Literal["chord", "euclidean", "sqeuclidean", "precomputed"]

# Of distances at once; a search takes several times that. More than 32 MB, since smaller arrays that come and go leave
# holes in the heap, and a process may grow to twice what it needs.
BLOCK_BYTES = 3 * 2**24
ROUNDING = 1e-14  # a squared distance of at most so much of the two squares is 0
_SAFE_EXPONENT = 400  # float64 holds the squares, and sums of squares, of 2^-400 to 2^400


class DistanceBlocks:
    """Distances from a block of queries (by default of the rows themselves) to all rows, computed in float64."""

    def __init__(self, x: Any, metric: Metric) -> None:
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
        # What is squared is near 1, by powers of two: these are exact, and distances get theirs back.
        self.shift = 0 if metric == "chord" else _shift(self.x)
        if metric == "sqeuclidean" and self.shift:
            raise ValueError(
                "squared distances must be numbers that float64 can hold, got rows with entries of about "
                f"2^{self.shift}; divide x by a constant, or use metric='euclidean'"
            )
        self.x = _near_one(self.x, metric, self.shift)
        # Distances do not depend on a common offset, but the squares they are computed from lose digits to it.
        self._offset = 0.0 if metric == "chord" or not isinstance(self.x, Tensor) else self.x.mean(dim=0)
        self.x, self.squares = _prepared(self.x, metric, self._offset)
        self.queries, self.query_squares = self.x, self.squares

    @property
    def is_dense(self) -> bool:
        """Whether distances are computed from dense rows."""
        return self.metric != "precomputed" and isinstance(self.x, Tensor)

    def of_queries(self, queries: Any) -> "DistanceBlocks":
        """Return the distances from other rows to the same ones, which are not prepared again."""
        found = copy(self)
        rows = _as_float64(queries)[0]
        _check_finite_rows(rows)
        if self.metric != "chord" and _exponent(rows) - self.shift > _SAFE_EXPONENT:
            raise ValueError(
                "distances must be numbers whose squares float64 can hold, got queries with entries of about "
                f"2^{_exponent(rows)}; check their units, or use metric='chord'"
            )
        rows = _near_one(rows, self.metric, self.shift)
        found.queries, found.query_squares = _prepared(rows, self.metric, self._offset)
        return found

    def blocks(self, n_queries: int) -> list[slice]:
        """Return slices of so many queries whose distances take so much memory at once."""
        size = max(1, BLOCK_BYTES // (8 * self.n))
        return [slice(start, min(start + size, n_queries)) for start in range(0, n_queries, size)]

    def distances(self, rows: slice | np.ndarray[Any, Any]) -> Tensor:  # (r, n)
        """Return the distances of some queries to all rows."""
        if self.metric == "precomputed":
            found: Tensor = self.queries[rows]
            return found.clone() if isinstance(rows, slice) else found
        product = self.queries[rows] @ self.x.T
        gram = product if isinstance(product, Tensor) else torch.from_numpy(product.toarray())
        # In place, and each pass over the block counts: at 50,000 rows these take as long as the product.
        # What the subtraction leaves of equal rows is rounding: let duplicates tie at zero.
        if self.metric == "chord":
            squared = torch.threshold_(gram.mul_(-2).add_(2), 2 * ROUNDING, 0.0)
        else:
            scale = self.query_squares[rows, None] + self.squares
            squared = torch.add(scale, gram, alpha=-2, out=gram)
            squared.masked_fill_(squared <= scale.mul_(ROUNDING), 0)
        if self.metric == "sqeuclidean":
            return squared
        distances = squared.sqrt_()
        return distances.mul_(2.0**self.shift) if self.shift else distances


def in_dtype(distances: Tensor, dtype: torch.dtype) -> Tensor:
    """Return distances in the dtype of the rows, if it can hold them."""
    top, limits = float(distances.max()) if distances.numel() else 0.0, torch.finfo(dtype)
    if limits.max < top < torch.inf or 0 < top < limits.tiny:
        raise ValueError(
            f"distances must be numbers that {limits.dtype}, the type of x, can hold, got {top:.3g}; divide x by a "
            "constant, or pass float64"
        )
    return distances.to(dtype)


def _shift(x: Any) -> int:
    """Return the exponent of the largest entry where its square might overflow or vanish, else 0."""
    exponent = _exponent(x)
    return exponent if abs(exponent) > _SAFE_EXPONENT else 0


def _exponent(x: Any) -> int:
    return int(exponents(largest_entries(_array(x), axis=None)))


def _near_one(x: Any, metric: Metric, shift: int) -> Any:
    """Return rows whose squares float64 can hold: each near 1 for the chord, else all divided by one power of two."""
    array = _array(x)
    if metric == "chord":
        safe = np.abs(exponents(largest_entries(array, axis=1))).max(initial=0) <= _SAFE_EXPONENT
        scaled = array if safe else rows_near_one(array)
    else:
        scaled = times_powers(array, np.array(-shift)) if shift else array
    return torch.from_numpy(scaled) if isinstance(x, Tensor) else scaled


def _array(x: Any) -> Any:
    return x.numpy() if isinstance(x, Tensor) else x


def _prepared(x: Any, metric: Metric, offset: Any) -> tuple[Any, Tensor]:
    """Return rows ready for products, and their squared lengths; an empty row has length 1 under the chord."""
    if isinstance(x, Tensor):
        x = x - offset
        squares = torch.linalg.vecdot(x, x)
    else:
        squares = torch.from_numpy(np.asarray(x.multiply(x).sum(axis=1), dtype=np.float64).ravel())
    if metric == "chord":
        scale = torch.where(squares > 0, squares, 1).rsqrt()
        if isinstance(x, Tensor):
            x = x * scale[:, None]
        else:
            x = scipy.sparse.csr_array(scipy.sparse.diags_array(scale.numpy()) @ x)
        squares = torch.ones_like(squares)
    return x, squares


def _check_finite_rows(x: Any) -> None:
    if isinstance(x, Tensor) and np.isfinite(largest_entries(x.numpy(), axis=None)):
        return  # NaN and infinity would be the largest
    # A sparse row's largest entry is finite if all are, and tells which row it is.
    check_finite(x if isinstance(x, Tensor) else torch.from_numpy(largest_entries(x, axis=1)[:, None]), "x")


def _as_float64(x: Any) -> tuple[Any, torch.dtype]:
    """Return ``x`` on the CPU as a float64 tensor or CSR array, and the dtype of its distances."""
    sparse = as_sparse_rows(x, torch.float64)
    if sparse is not None:
        return sparse, torch.float64 if x.dtype in (np.float64, torch.float64) else torch.float32
    given = as_tensor(x, "x").detach().cpu()
    return as_float_tensor(given.double(), "x"), as_float_tensor(given, "x").dtype
