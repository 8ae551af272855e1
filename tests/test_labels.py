import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from numpy.testing import assert_array_equal

from angpn.labels import check_enough_classes, encode_labels


@pytest.mark.parametrize(
    "y",
    [
        ["b", -1, "a", "b"],
        ("b", None, "a", "b"),
        np.array(["b", -1, "a", "b"], dtype=object),
        np.array(["b", None, "a", "b"], dtype=object),
        np.array(["b", np.nan, "a", "b"], dtype=object),
        pd.Series(["b", None, "a", "b"]),
        pd.Series(["b", None, "a", "b"], dtype="category"),
        pd.Series(["b", pd.NA, "a", "b"], dtype="string"),
        pl.Series(["b", None, "a", "b"]),
    ],
    ids=lambda y: type(y).__name__,
)
def test_names_with_a_missing_one(y):
    classes, codes = encode_labels(y)
    assert classes.tolist() == ["a", "b"]
    assert_array_equal(codes, [1, -1, 0, 1])


@pytest.mark.parametrize(
    "y",
    [
        [7, -1, 3, 7],
        np.array([7, -1, 3, 7], dtype=np.int8),
        np.array([7.0, np.nan, 3.0, 7.0]),
        np.array([7.0, -1.0, 3.0, 7.0]),
        torch.tensor([7, -1, 3, 7]),
        pd.Series([7, None, 3, 7], dtype="Int64"),
        pl.Series([7, None, 3, 7]),
    ],
    ids=lambda y: type(y).__name__,
)
def test_numbers_with_a_missing_one(y):
    classes, codes = encode_labels(y)
    assert classes.tolist() == [3, 7]
    assert_array_equal(codes, [1, -1, 0, 1])


def test_bools_are_classes():
    assert encode_labels(np.array([True, False]))[0].tolist() == [False, True]


def test_the_string_that_numpy_makes_of_minus_one_is_refused():
    with pytest.raises(ValueError, match="got '-1' or 'nan' as a string, .*; make the array with dtype=object"):
        encode_labels(np.array(["a", "b", -1]))


def test_labels_of_several_kinds_are_refused():
    with pytest.raises(ValueError, match="y must hold labels of one kind, got int, strings; make all of them strings"):
        encode_labels(np.array(["a", 3, None], dtype=object))


def test_measurements_are_refused():
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        encode_labels([0.5, 1.5, np.nan])
    with pytest.raises(ValueError, match="y contains infinity"):
        encode_labels([0.0, np.inf])


def test_there_must_be_two_classes():
    with pytest.raises(ValueError, match="got every row unlabelled; give some rows a label other than -1"):
        check_enough_classes(encode_labels([-1, -1]))
    with pytest.raises(ValueError, match=r"at least 2 classes, got 1 class \(cat\); label a row of another class"):
        check_enough_classes(encode_labels(["cat", None, "cat"]))
