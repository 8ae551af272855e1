"""Scaling by powers of two, so that squares of very large or very small numbers neither overflow nor vanish.

A product with a power of two is exact, so what is computed afterwards has the same digits for X as for 2^k X.
"""

from typing import Any

import numpy as np
import scipy.sparse
from sklearn.preprocessing import normalize

from angpn.utils.typing import Array

_ROWS_AT_ONCE = 1024  # in float64, so that they stay in the cache


def largest_entries(X: Any, axis: int | None) -> Array:
    """Return the largest absolute value along an axis of an array or CSR array, or of all; 0 where there are none."""
    if scipy.sparse.issparse(X):
        return _largest_sparse(X, axis)
    return np.maximum(X.max(axis=axis, initial=0), -X.min(axis=axis, initial=0))


def _largest_sparse(X: Any, axis: int | None) -> Array:
    # Not by X.max, which sorts the indices in place, though another matrix may share them.
    values = np.abs(X.data[: X.indptr[-1]])
    if axis is None:
        return values.max(initial=0)
    found = np.zeros(X.shape[1 - axis], X.dtype)
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)) if axis == 1 else X.indices[: len(values)]
    np.maximum.at(found, rows, values)
    return found


def exponents(values: Array) -> Array:  # int
    """Return the exponent of the largest power of two that is no larger than each value; 0 for a value of 0."""
    return np.where(values > 0, np.frexp(values)[1] - 1, 0)


def times_powers(X: Array, shifts: Array) -> Array:
    """Return ``X * 2^shifts`` as a new array, exactly, also where 2^shifts itself would not be a finite number."""
    halves = shifts // 2
    one = X.dtype.type(1)
    scaled: Array = X * np.ldexp(one, halves)
    scaled *= np.ldexp(one, shifts - halves)
    return scaled


def rows_near_one(X: Any) -> Any:
    """Return a copy in which each row is divided by a power of two, so that its largest entry is in [1, 2)."""
    shifts = -exponents(largest_entries(X, axis=1))
    if not scipy.sparse.issparse(X):
        return times_powers(X, shifts[:, None])
    data = times_powers(X.data[: X.indptr[-1]], np.repeat(shifts, np.diff(X.indptr)))
    return scipy.sparse.csr_array((data, X.indices[: len(data)].copy(), X.indptr.copy()), shape=X.shape)


def unit_rows(X: Any, dtype: Any = None) -> Any:
    """Return a copy with rows of length 1, of this dtype or that of X; an empty row stays empty."""
    X = rows_near_one(X)
    return normalize(X if dtype is None else X.astype(dtype, copy=False), copy=False)


def column_moments(X: Array) -> tuple[Array, Array]:  # (d,) each, float64
    """Return mean and standard deviation of the columns."""
    if X.dtype == np.float32:  # whose squares float64 holds
        mean, squares = X.mean(axis=0, dtype=np.float64), np.zeros(X.shape[1])
        for start in range(0, len(X), _ROWS_AT_ONCE):  # a copy of all rows in float64 would be twice as large as X
            deviations = X[start : start + _ROWS_AT_ONCE] - mean
            squares += np.einsum("ij,ij->j", deviations, deviations)
        return mean, np.sqrt(squares / len(X))
    shifts = exponents(largest_entries(X, axis=0))
    near_one = times_powers(X, -shifts)
    return times_powers(near_one.mean(axis=0), shifts), times_powers(near_one.std(axis=0), shifts)
