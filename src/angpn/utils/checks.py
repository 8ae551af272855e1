"""Checks of what a user passes in. An error says what, the limit, what came and the remedy."""

import math
import numbers
import sys
import warnings
from collections.abc import Collection
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's code that led here, however deep in this package or scikit-learn that is."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("angpn", "sklearn"):
        frame = frame.f_back
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, registry=registry)


def as_tensor(values: Any, name: str, remedy: str = "convert it (a sparse matrix by toarray())") -> Tensor:
    """A dense tensor of real numbers or bools from a tensor or anything numpy takes."""
    if not isinstance(values, Tensor):
        array = np.asarray(values)
        if array.dtype.kind not in "fiub":
            raise ValueError(
                f"{name} must be a dense array of numbers, got {type(values).__name__} of {array.dtype}; {remedy}"
            )
        # torch takes neither a foreign byte order nor negative strides, and warns of a read-only array.
        values = torch.as_tensor(np.array(array, dtype=array.dtype.newbyteorder("="), order="C"))
    if values.layout != torch.strided or values.is_complex():
        raise ValueError(
            f"{name} must be a dense array of real numbers, got {values.layout} of {values.dtype}; {remedy}"
        )
    return values


def as_float_tensor(values: Any, name: str) -> Tensor:  # (n, d)
    """``values`` as a floating matrix; integers become torch's default dtype."""
    tensor = as_tensor(values, name)
    if tensor.ndim != 2:
        raise ValueError(f"{name} must have 2 dimensions, got shape {tuple(tensor.shape)}; reshape it first")
    return tensor if tensor.is_floating_point() else tensor.to(torch.get_default_dtype())


def as_sparse_rows(values: Any, dtype: torch.dtype) -> scipy.sparse.csr_array | None:
    """A scipy or torch sparse matrix as CSR of that dtype, or None where ``values`` is not sparse."""
    if isinstance(values, Tensor) and values.layout != torch.strided:
        coo = values.detach().cpu().to_sparse_coo().coalesce()
        values = scipy.sparse.coo_array((coo.values().numpy(), tuple(coo.indices().numpy())), shape=tuple(coo.shape))
    if not scipy.sparse.issparse(values):
        return None
    if values.ndim != 2:
        raise ValueError(f"sparse features must have 2 dimensions, got shape {values.shape}; reshape them first")
    return scipy.sparse.csr_array(values, dtype=torch.empty(0, dtype=dtype).numpy().dtype)


def as_common_dtype(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Both in the wider of their dtypes."""
    dtype = torch.promote_types(first.dtype, second.dtype)
    return first.to(dtype), second.to(dtype)


def check_finite(tensor: Tensor, name: str) -> None:
    """No NaN and no infinity."""
    bad = ~torch.isfinite(tensor)
    if bad.any():
        raise ValueError(
            f"{name} must be finite, got {int(bad.sum())} NaN or infinite value(s), the first in row "
            f"{int(bad.nonzero()[0, 0])}; impute or drop those rows"
        )


def check_square(matrix: Tensor, name: str) -> None:
    """One row and one column for each sample."""
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(
            f"{name} must be a square (n, n) matrix, got shape {tuple(matrix.shape)}; "
            "pass a row and a column for each sample"
        )


def check_distances(distances: Tensor) -> None:
    """A square matrix without NaN. An infinite distance is allowed: it rules the pair out."""
    check_square(distances, "distances")
    bad = (torch.isnan(distances) | (distances == -torch.inf)).sum()
    if bad:
        raise ValueError(
            f"distances must not be NaN or -inf, got {int(bad)} such value(s); recompute them, or use inf to rule a "
            "pair out"
        )


def check_same_rows(n_rows: int, n_expected: int, name: str, other: str) -> None:
    """Check that two arguments have the same rows."""
    if n_rows != n_expected:
        raise ValueError(
            f"{name} must have one row for each row of {other}, expected {n_expected}, got {n_rows}; "
            "pass arrays of equal length"
        )


def check_number(value: Any, name: str) -> None:
    """A real number, perhaps infinite; its range is checked elsewhere."""
    if not isinstance(value, numbers.Real) or value != value:
        raise ValueError(f"{name} must be a number, got {value!r}; the default is in the documentation of the class")


def check_n_neighbors(n_neighbors: int, n_rows: int) -> None:
    """Eq. (9) looks at the k + 1 nearest other rows, so there must be k + 2 rows."""
    if n_rows < n_neighbors + 2:
        raise ValueError(
            f"n_neighbors={n_neighbors} needs at least {n_neighbors + 2} samples, got n_samples={n_rows}; "
            "lower n_neighbors or pass more data"
        )


def check_alpha(alpha: Any) -> None:
    """The fraction a row takes from its neighbours, Eq. (1)."""
    if not (isinstance(alpha, int | float | np.number) and 0 < alpha < 1):
        raise ValueError(
            f"alpha must lie strictly between 0 and 1, got {alpha!r}; 0.5 is the paper's, smaller trusts the graph less"
        )


def check_beta(beta: Any) -> None:
    """The weight of the features in the graph, Eq. (5)."""
    if not (isinstance(beta, int | float | np.number) and beta >= 0 and math.isfinite(beta)):
        raise ValueError(f"beta must be a finite number >= 0, got {beta!r}; 0.3 is the paper's, 0 fixes the graph")


def check_gamma(gamma: float | str) -> None:
    """The weight of the quadratic term in Eq. (5), or the name of a rule for it."""
    if isinstance(gamma, str):
        check_choice(gamma, "gamma", ("auto", "local"), "or pass a number > 0")
    elif not (gamma > 0 and math.isfinite(gamma)):
        raise ValueError(f"gamma must be a finite number > 0, got {gamma}; gamma='auto' derives one from the distances")


def check_choice(value: object, name: str, choices: Collection[str], remedy: str = "choose one of these") -> None:
    """One of a few names."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}; {remedy}")
