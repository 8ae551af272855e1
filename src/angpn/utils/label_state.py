"""Class names to and from a file, with their type.

Names of a numpy type are stored as an array, so that a file cannot ask for more memory than it has itself: a width
such as that of ``<U200000000`` is never read, it is the width of the array. Python's own strings are in the header.
"""

from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from angpn.utils.array_checks import FLOATS, ArraySpec, check_arrays
from angpn.utils.schema import Saved
from angpn.utils.typing import Array

CLASSES = "classes"  # the array's name
_NUMBERS = ("bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)), "float16", *FLOATS)
_LAST_CHARACTER = 0x10FFFF

TimeUnit = Literal["generic", "Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"]


class StringClasses(Saved, tag_field="kind", tag="strings", frozen=True):
    """Python strings, in an array of objects."""

    values: list[str]
    escaped: bool = False  # in Python's notation: a name that was read from bytes that are not UTF-8 has no other


class NumberClasses(Saved, tag_field="kind", tag="numbers", frozen=True):
    """Numbers or bools, of the array's own type."""


class TextClasses(Saved, tag_field="kind", tag="text", frozen=True):
    """Text of fixed width: a row of code points for each name, filled up with zeros."""


class ByteClasses(Saved, tag_field="kind", tag="bytes", frozen=True):
    """Bytes of fixed width: a row for each name, filled up with zeros."""


class TimeClasses(Saved, tag_field="kind", tag="time", frozen=True):
    """Dates or durations, as multiples of a unit."""

    type: Literal["datetime64", "timedelta64"]
    unit: TimeUnit
    step: Annotated[int, Meta(ge=1, le=2**31 - 1)]


ClassesState = StringClasses | NumberClasses | TextClasses | ByteClasses | TimeClasses


def classes_to_state(classes: Array) -> tuple[ClassesState, dict[str, Array]]:
    """Return what a file keeps of the classes, as :func:`~angpn.utils.labels.encode_labels` makes them.

    Args:
        classes: The names, (c,).

    Returns:
        Plain values, and arrays.
    """
    kind, dtype = classes.dtype.kind, classes.dtype
    if kind == "O":
        names = [str(name) for name in classes]
        if any("\ud800" <= character <= "\udfff" for name in names for character in name):
            return StringClasses(values=[name.encode("unicode_escape").decode() for name in names], escaped=True), {}
        return StringClasses(values=names), {}
    if kind in "US":
        part = np.uint32 if kind == "U" else np.uint8
        table = np.ascontiguousarray(classes).view(part).reshape(len(classes), -1)
        return TextClasses() if kind == "U" else ByteClasses(), {CLASSES: table}
    if kind in "mM":
        unit, step = np.datetime_data(dtype)
        state = TimeClasses(type="datetime64" if kind == "M" else "timedelta64", unit=unit, step=step)  # type: ignore[arg-type]
        return state, {CLASSES: classes.view(np.int64)}
    return NumberClasses(), {CLASSES: classes}


def classes_from_state(state: ClassesState, arrays: dict[str, Array]) -> Array:  # (c,)
    """Return the classes, after a check that there are at least two and that they are in order.

    Args:
        state: The plain values that :func:`classes_to_state` returned.
        arrays: The arrays.

    Returns:
        The names, of the type that they had.

    Raises:
        ValueError: If they are not as that function made them.
    """
    classes = _restored(state, arrays)
    # In order, so that they differ; neither NaN nor NaT is.
    if len(classes) < 2 or not bool(np.all(classes[:-1] < classes[1:])):
        raise ValueError("there are not two or more classes in ascending order")
    return classes


def _restored(state: ClassesState, arrays: dict[str, Array]) -> Array:
    if isinstance(state, StringClasses):
        check_arrays(arrays, {})
        names = [name.encode().decode("unicode_escape") for name in state.values] if state.escaped else state.values
        return np.array(names, dtype=object)
    if isinstance(state, NumberClasses):
        check_arrays(arrays, {CLASSES: ArraySpec(_NUMBERS, ("c",))})
        return arrays[CLASSES]
    if isinstance(state, TimeClasses):
        check_arrays(arrays, {CLASSES: ArraySpec(("int64",), ("c",), -(2**63) + 1, 2**63 - 1)})  # the lowest is NaT
        unit = "" if state.unit == "generic" else f"[{state.step}{state.unit}]"
        return arrays[CLASSES].view(np.dtype(f"{state.type}{unit}"))
    part, kind, last = ("uint32", "U", _LAST_CHARACTER) if isinstance(state, TextClasses) else ("uint8", "S", 255)
    width = check_arrays(arrays, {CLASSES: ArraySpec((part,), ("c", "w"), 0, last)})["w"]
    if width == 0:
        raise ValueError("the names of the classes are empty")
    return np.ascontiguousarray(arrays[CLASSES]).view(f"{kind}{width}")[:, 0]
