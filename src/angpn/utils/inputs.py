"""What users pass to the estimators, as models take it."""

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from angpn.utils.checks import as_sparse_rows, check_same_rows, warn
from angpn.utils.labels import UNLABELLED
from angpn.utils.powers_of_two import column_moments, largest_entries, unit_rows
from angpn.utils.typing import Array

LARGEST = 2.0**1000  # number in float64: sums over rows and columns, and standard deviations, do not overflow
# Of numbers whose units are kept: float32 holds their squares, and sums of these.
LARGEST_KEPT, SMALLEST_KEPT = 2.0**50, 2.0**-50


def prepared_rows(X: Any, at_unit_length: bool, dtype: Any = None) -> Any:
    """The rows as the network sees them: a contiguous array or a CSR array, our own copy, of this dtype or that of X.

    Rows that are mapped from a file and cannot be written to are not copied, unless they are scaled.
    """
    if scipy.sparse.issparse(X):
        X = scipy.sparse.csr_array(X, copy=True)
        X.sum_duplicates()
    elif at_unit_length:
        X = np.ascontiguousarray(X)  # copied below
    elif not _is_mapped(X):
        X = np.array(X, order="C")
    if at_unit_length:
        return unit_rows(X, dtype)
    return X if dtype is None else X.astype(dtype, copy=False)


def _is_mapped(X: Array) -> bool:
    """Whether this is a read-only view of a file."""
    base: Any = X
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    return isinstance(base, np.memmap) and X.flags.c_contiguous and not X.flags.writeable


def without_torch(X: Any) -> Any:
    """Return a tensor as numpy or CSR array, anything else as it is."""
    if not isinstance(X, torch.Tensor):
        return X
    X = X.float() if X.dtype == torch.bfloat16 else X  # numpy has no such type
    sparse = as_sparse_rows(X, X.dtype if X.is_floating_point() else torch.float64)
    return X.detach().cpu().numpy() if sparse is None else sparse


@contextmanager
def naming_table_encoder(X: Any) -> Iterator[None]:
    """Complete an error about text or missing values in X by the name of what encodes them."""
    try:
        yield
    except ValueError as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else ""
        if not re.search("contains NaN|could not convert", first):
            raise
        raise ValueError(
            f"X must hold numbers without gaps, got {type(X).__name__} of {_shape(X)} with text or missing values "
            f"({first}); encode it by angpn.features.TableEncoder(impute=True)"
        ) from error


def _shape(X: Any) -> str:
    return f"shape {X.shape}" if hasattr(X, "shape") else f"{len(X)} rows"


def as_distances(distances: Any) -> Any:
    """None, a dense array, or CSR."""
    if distances is None:
        return None
    sparse = as_sparse_rows(distances, torch.float64)
    if sparse is not None:
        return sparse
    dense = as_array(distances)
    if dense.ndim != 2 or dense.dtype.kind not in "fiub":
        raise ValueError(
            f"distances must be a matrix of numbers, got shape {dense.shape} of {dense.dtype}; pass a row for each of X"
        )
    return dense


def as_weights(sample_weight: Any, codes: Array) -> Array:  # (n,) float64
    """One weight a row; 1 where a row is unlabelled, since there it never counts."""
    weights = as_array(sample_weight)
    try:
        weights = weights.astype(np.float64, casting="unsafe" if weights.dtype.kind == "O" else "same_kind")
    except (TypeError, ValueError):
        raise ValueError(
            f"sample_weight must be numbers, got {weights.dtype}; convert the weights, or leave them out"
        ) from None
    if weights.ndim == 0:
        weights = np.full(len(codes), float(weights))
    if weights.ndim != 1:
        raise ValueError(f"sample_weight must have one number a row, got shape {weights.shape}; flatten the weights")
    check_same_rows(len(weights), len(codes), "sample_weight", "X")
    return np.where(codes == UNLABELLED, 1.0, weights)


def plain(value: Any) -> Any:
    """A numpy scalar, as a search over numpy.arange gives it, as Python's own number."""
    return value.item() if isinstance(value, np.generic) else value


def plain_seed(random_state: Any) -> Any:
    """What a checkpoint knows a seed by: a generator has no name, but what was drawn from it is in the file."""
    return int(random_state) if isinstance(random_state, int | np.integer) else None


def as_array(values: Any) -> Array:
    """A tensor, a list or a column of a table as a numpy array."""
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def as_mask(given: Any, n_rows: int, name: str, what: str) -> Array | None:  # (n,) bool
    """Return a mask of the rows of X, or None, if it has one bool a row; ``what`` says which rows it marks."""
    if given is None:
        return None
    mask = as_array(given)
    if mask.dtype != bool or mask.ndim != 1:
        raise ValueError(
            f"{name} must be one bool a row, got shape {mask.shape} of {mask.dtype}; mark rows {what} True"
        )
    check_same_rows(len(mask), n_rows, name, "X")
    return mask


def on_device(features: Any, device: torch.device) -> Any:
    """Dense rows as a tensor on the device; sparse ones stay what they are."""
    if scipy.sparse.issparse(features):
        return features
    with warnings.catch_warnings():
        # Of rows that are mapped from a file and cannot be written to. They are not copied, and nothing writes to them.
        warnings.filterwarnings("ignore", "The given NumPy array is not writ")
        return torch.from_numpy(features).to(device)


def equal_rows(a: Any, b: Any) -> bool:
    """Whether two sets of prepared rows are the same."""
    if type(a) is not type(b) or a.shape != b.shape or a.dtype != b.dtype:
        return False
    return bool((a != b).nnz == 0) if scipy.sparse.issparse(a) else np.array_equal(a, b)


def find_device(device: str | torch.device, sparse: bool) -> torch.device:
    """The device asked for, if it is there and fit for the rows."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() and not sparse else "cpu")
    try:
        found = torch.device(device)
        torch.empty(1, device=found).cpu()
    except (RuntimeError, AssertionError, NotImplementedError, ImportError) as error:
        raise ValueError(
            f"device must be one that torch finds on this machine, got {str(device)!r} ({str(error).splitlines()[0]}); "
            "use 'auto' or 'cpu'"
        ) from error
    if sparse and found.type != "cpu":
        raise ValueError(f"a sparse X is computed on the CPU, got device={str(device)!r}; use 'auto' or 'cpu'")
    return found


def as_widths(sizes: Any) -> list[int]:
    """The width of each hidden layer."""
    widths = [int(size) for size in np.atleast_1d(sizes)]
    if not widths or min(widths) < 1:
        raise ValueError(f"hidden_layer_sizes must be one or more widths >= 1, got {sizes}; the paper has (50, 50)")
    return widths


def check_scales(X: Any) -> None:
    """Warn where a few columns alone would decide who is near whom."""
    if scipy.sparse.issparse(X):
        return
    spread = column_moments(X)[1]
    spread = spread[spread > 0]
    if len(spread) and spread.max() / 100 > np.median(spread):
        warn(
            f"columns of X should be of like scale, got standard deviations up to {spread.max():.3g} with a median of "
            f"{np.median(spread):.3g}; standardise them (sklearn.preprocessing.StandardScaler)"
        )


def check_sizes(X: Any, units_kept_by: str | None, column_name: Callable[[int], str]) -> None:
    """Refuse numbers whose sums float64 could not hold, or whose squares float32 could not where units are kept."""
    top = float(largest_entries(X, axis=None))
    if top > LARGEST:
        raise ValueError(
            f"X must hold numbers up to {LARGEST:.3g}, since float64 has to hold sums of them, got {top:.3g} in column "
            f"{_names(largest_entries(X, axis=0) > LARGEST, column_name)}; divide it by a constant"
        )
    if units_kept_by is not None and top > 0 and not SMALLEST_KEPT <= top <= LARGEST_KEPT:
        beyond = largest_entries(X, axis=0) >= min(top, LARGEST_KEPT)
        raise ValueError(
            f"the largest number of X must lie between {SMALLEST_KEPT:.3g} and {LARGEST_KEPT:.3g} with "
            f"{units_kept_by}, since float32 has to hold squares, got {top:.3g} in column "
            f"{_names(beyond, column_name)}; divide X by a constant, or let it be scaled"
        )


def check_not_far(far: Array, column_name: Callable[[int], str]) -> None:
    """Refuse new rows in which some columns are out of all proportion to those of the fitted rows."""
    if far.any():
        raise ValueError(
            f"X must hold numbers of about the size that they had in fit, got some beyond {LARGEST_KEPT:.3g} times "
            f"that in column {_names(far, column_name)}; check its units"
        )


def _names(chosen: Array, column_name: Callable[[int], str]) -> str:
    """Return the names of up to three columns."""
    places = np.flatnonzero(chosen)
    return ", ".join(column_name(int(place)) for place in places[:3]) + (", ..." if len(places) > 3 else "")


def few_enough_neighbors(n_neighbors: int, n_rows: int) -> int:
    """k, or as many as so few rows allow."""
    if n_neighbors <= n_rows - 2:
        return n_neighbors
    warn(
        f"n_neighbors={n_neighbors} needs {n_neighbors + 2} rows, got n_samples={n_rows}, so n_neighbors is lowered to "
        f"{n_rows - 2}; pass more rows, or a lower n_neighbors"
    )
    return n_rows - 2


def check_not_negative(distances: Array) -> None:
    """A matrix of similarities passed for distances often shows by its signs."""
    if distances.size and np.nanmin(distances) < 0:
        raise ValueError(f"distances must be >= 0, got {np.nanmin(distances):g}; pass distances, not similarities")
