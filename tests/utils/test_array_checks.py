import numpy as np
import pytest

from angpn.utils.array_checks import check_arrays, flags, floats, integers, singles


def test_a_name_stands_for_the_same_length_everywhere():
    arrays = {"a": np.zeros((3, 5)), "b": np.zeros(5, np.float32), "c": np.zeros(0, bool)}
    specs = {"a": floats(3, "m"), "b": singles("m"), "c": flags("e")}
    assert check_arrays(arrays, specs) == {"m": 5, "e": 0}
    with pytest.raises(ValueError, match=r"'b' is float32 of shape \(4,\) and not float32 of shape \(5\)"):
        check_arrays(arrays | {"b": np.zeros(4, np.float32)}, specs)


@pytest.mark.parametrize(
    ("array", "spec"),
    [
        (np.array([0.0, np.nan]), floats(2)),
        (np.array([0.0, np.inf]), floats(2)),
        (np.array([0.0, -np.inf]), floats(2)),
        (np.array([0.0, 1.1]), floats(2, low=0, high=1)),
        (np.array([-1e-9, 1.0]), floats(2, low=0)),
        (np.array([1e20, 1.0], np.float32), singles(2)),
        (np.array([3, -2]), integers(2, low=-1, high=3)),
        (np.array([4, -1]), integers(2, low=-1, high=3)),
        (np.array([2**63 - 1, 0]), integers(2, low=-1, high=3)),
        (np.array([1.0, 2.0]), singles(2)),
        (np.array([1, 0], np.uint8), flags(2)),
        (np.array([1.0, 2.0], np.float16), floats(2)),
        (np.array([[1.0, 2.0]]), floats(2)),
        (np.array(1.0), floats(1)),
    ],
    ids=str,
)
def test_what_is_not_as_declared_is_refused(array, spec):
    with pytest.raises(ValueError, match="the array 'x' (is|has values)"):
        check_arrays({"x": array}, {"x": spec})


def test_missing_and_unknown_arrays_are_refused():
    with pytest.raises(ValueError, match="the array 'x' is missing"):
        check_arrays({}, {"x": floats(2)})
    with pytest.raises(ValueError, match="there is an array 'y' that does not belong there"):
        check_arrays({"x": np.zeros(2), "y": np.zeros(2)}, {"x": floats(2)})
