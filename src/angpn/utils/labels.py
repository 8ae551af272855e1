"""Labels as users have them (numbers or names, some missing) to class numbers and back."""

import datetime
import numbers
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d
from torch import Tensor

UNLABELLED = -1


class EncodedLabels(NamedTuple):
    """Class names in order, and for each row the number of its class, -1 where it is unlabelled."""

    classes: np.ndarray[Any, Any]  # (c,)
    codes: np.ndarray[Any, Any]  # (n,) int64


def encode_labels(y: Any) -> EncodedLabels:
    """Number the classes of ``y``. -1 is unlabelled; so are None, NaN and NaT.

    Labels are text, bytes, numbers, bools, dates or durations: all that a saved model can hold. Dates and durations of
    Python and pandas become those of numpy.

    >>> encode_labels(["cat", "dog", None, "cat"])
    EncodedLabels(classes=array(['cat', 'dog'], dtype=object), codes=array([ 0,  1, -1,  0]))
    """
    y = column_or_1d(_as_array(y), warn=True)
    missing = _missing(y)
    known = y[~missing]
    if y.dtype.kind == "O":
        known = _of_one_kind(known)
    _check_no_disguise(known)
    known = _as_saved(known)
    if known.dtype.kind == "f" and len(known):
        check_classification_targets(known)  # measurements are no labels
    classes, numbered = np.unique(known, return_inverse=True)
    codes = np.full(len(y), UNLABELLED, dtype=np.int64)
    codes[~missing] = numbered
    return EncodedLabels(classes, codes)


def check_enough_classes(labels: EncodedLabels) -> None:
    """At least two classes, so that there is something to tell apart."""
    if len(labels.classes) == 0:
        raise ValueError("y must label a few rows, got every row unlabelled; give some rows a label other than -1")
    if len(labels.classes) == 1:
        raise ValueError(
            f"y must hold at least 2 classes, got 1 class ({labels.classes[0]}); label a row of another class"
        )


def _as_array(y: Any) -> np.ndarray[Any, Any]:
    if isinstance(y, Tensor):
        return y.detach().cpu().numpy()
    if isinstance(y, list | tuple) and any(isinstance(label, str) for label in y):
        return np.array(y, dtype=object)  # numpy would write -1 and NaN as strings
    # pandas' own types, written out by numpy, lose their kind beside a missing value.
    own = not isinstance(getattr(y, "dtype", np.dtype(object)), np.dtype)
    try:
        return np.array(list(y), dtype=object) if own and hasattr(y, "iloc") else np.asarray(y)
    except ValueError as error:
        raise ValueError(f"y must hold one label a row, got lists of unlike length ({error}); flatten it") from None


def _missing(y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:  # (n,) bool
    if y.dtype.kind in "iu":
        return y == UNLABELLED
    if y.dtype.kind == "f":
        if np.isinf(y).any():
            raise ValueError("Input y contains infinity or a value too large; write -1 or NaN where it is unlabelled")
        return np.isnan(y) | (y == UNLABELLED)
    if y.dtype.kind in "mM":
        return np.isnat(y)
    if y.dtype.kind == "O":
        return np.array([_is_missing(label) for label in y], dtype=bool)
    return np.zeros(len(y), dtype=bool)


def _is_missing(label: Any) -> bool:
    if label is None or type(label).__name__ in ("NAType", "NaTType"):  # pandas' own, without importing it
        return True
    return isinstance(label, numbers.Real) and (label != label or label == UNLABELLED)


def _of_one_kind(known: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Strings as they are, all else as numpy has it."""
    kinds = {"strings" if isinstance(label, str) else type(label).__name__ for label in known}
    if "strings" in kinds and len(kinds) > 1:
        raise ValueError(
            f"y must hold labels of one kind, got {', '.join(sorted(kinds))}; make all of them strings, and write -1, "
            "None or NaN where a row is unlabelled"
        )
    if "strings" in kinds:
        return known
    # Those of pandas are subclasses of Python's, with nanoseconds that only their own conversion keeps.
    labels = [getattr(label, "asm8", label) for label in known if getattr(label, "tzinfo", None) is None]
    if len(labels) < len(known):
        raise ValueError(
            "y must hold dates without a time zone, got some that have one; convert them to UTC and drop the zone, or "
            "make them strings"
        )
    if len(kinds) == 1 and all(isinstance(label, datetime.date | datetime.timedelta) for label in labels):
        return np.array(labels, dtype="m8" if isinstance(labels[0], datetime.timedelta) else "M8")
    return np.array(labels)


def _as_saved(known: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Labels in the byte order of the machine, or an error where a saved model could not hold them."""
    kind, strings = known.dtype.kind, known.tolist() if known.dtype.kind == "O" else []
    others = [label for label in strings if not isinstance(label, str)]
    if others or kind not in "biufUSmMO" or (kind == "f" and known.dtype.itemsize > 8):
        found = type(others[0]).__name__ if others else known.dtype
        raise ValueError(
            f"y must hold text, bytes, numbers, bools, dates or durations, got {found}; convert the labels, for "
            "example to strings"
        )
    return known.astype(known.dtype.newbyteorder("="), copy=False)


def _check_no_disguise(known: np.ndarray[Any, Any]) -> None:
    """A missing label that became a string on its way here would be a class."""
    if known.dtype.kind not in "UO":
        return
    disguised = {"", "-1", "nan", "NaN", "NaT", "<NA>"} & set(known.tolist())
    if disguised:
        raise ValueError(
            f"y must mark unlabelled rows by -1, None or NaN, got the string {disguised.pop()!r}; write None there, "
            "and make the array with dtype=object, since numpy turns -1 and NaN beside strings into strings"
        )
