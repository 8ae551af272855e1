"""Class names in files: every type comes back as it was, and no file decides how much memory that takes."""

import msgspec
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from angpn.utils.label_state import (
    ByteClasses,
    ClassesState,
    NumberClasses,
    StringClasses,
    TextClasses,
    TimeClasses,
    classes_from_state,
    classes_to_state,
)


@pytest.mark.parametrize(
    "classes",
    [
        np.array(["a", "b\n\x00c", "ä"], dtype=object),
        np.array(["a\\n\n", "caf\udce9", "ä\udc80"], dtype=object),
        np.array(["a", "z\U0001f600", "ä"]),
        np.array(["a", "b"], dtype="U200"),
        np.array(["a\udc80", "b"]),  # a file's name that is not UTF-8
        np.array([b"a", b"\xff\xfe"], dtype="S9"),
        np.array([False, True]),
        np.array([-3, 0, 7], dtype=np.int8),
        np.array([0, 2**64 - 1], dtype=np.uint64),
        np.array([0, 1], dtype=np.float16),
        np.array([-1.5e300, 2]),
        np.array(["1969-01-01", "2026-02-01"], dtype="datetime64[D]"),
        np.array(["1969", "2026"], dtype="datetime64[Y]"),
        np.array(["1969-01-01T00:00:00.123456789", "2026"], dtype="datetime64[ns]"),
        np.array([-3, 5], dtype="timedelta64[25s]"),
        np.array([-3, 5], dtype="timedelta64"),
    ],
    ids=lambda classes: str(classes.dtype),
)
def test_classes_come_back_with_their_type(classes):
    state, arrays = classes_to_state(classes)
    read = msgspec.json.decode(msgspec.json.encode(state), type=ClassesState)
    found = classes_from_state(read, {name: array.copy() for name, array in arrays.items()})
    assert found.dtype == classes.dtype
    assert_array_equal(found, classes)


@pytest.mark.parametrize(
    ("state", "array", "message"),
    [
        (StringClasses(values=["a"]), None, "not two or more classes in ascending order"),
        (StringClasses(values=["b", "a"]), None, "ascending order"),
        (StringClasses(values=["a", "a"]), None, "ascending order"),
        (StringClasses(values=["a", "b"]), np.arange(2), "does not belong there"),
        (StringClasses(values=["a", "b\\u12"], escaped=True), None, "truncated"),
        (NumberClasses(), None, "'classes' is missing"),
        (NumberClasses(), np.array([0.0, np.nan]), "not all finite"),
        (NumberClasses(), np.array([[0], [1]]), "of shape"),
        (NumberClasses(), np.array([2, 1]), "ascending order"),
        (TextClasses(), np.array([[97], [0x110000]], dtype=np.uint32), "not all in"),
        (TextClasses(), np.zeros((2, 0), dtype=np.uint32), "names of the classes are empty"),
        (TextClasses(), np.array([[97], [98]], dtype=np.uint8), "and not uint32"),
        (ByteClasses(), np.array([97, 98], dtype=np.uint8), r"and not uint8 of shape \(c, w\)"),
        (TimeClasses(type="datetime64", unit="D", step=1), np.array([0.0, 1.0]), "and not int64"),
        (TimeClasses(type="datetime64", unit="D", step=1), np.array([-(2**63), 1]), "not all in"),  # NaT
    ],
)
def test_classes_that_are_none_are_refused(state, array, message):
    with pytest.raises(ValueError, match=message):
        classes_from_state(state, {} if array is None else {"classes": array})
