import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from numpy.testing import assert_array_equal

from angpn.utils.labels import check_enough_classes, encode_labels


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


@pytest.mark.parametrize(
    "y",
    [
        np.array([True, False]),
        [True, False, None],
        np.array([True, False, np.nan], dtype=object),
        pd.Series([True, False, None], dtype="boolean"),
        pl.Series([True, False, None]),
    ],
    ids=lambda y: type(y).__name__,
)
def test_bools_are_classes(y):
    classes, codes = encode_labels(y)
    assert classes.tolist() == [False, True]
    assert classes.dtype == bool
    assert_array_equal(codes[:2], [1, 0])
    assert (codes[2:] == -1).all()


def test_whole_numbers_stay_whole():
    for y in ([3, 7, None], pd.Series([3, 7, None], dtype="Int64"), np.array([3, 7, np.nan], dtype=object)):
        assert encode_labels(y).classes.dtype == np.int64


def test_a_missing_date_is_missing():
    classes, codes = encode_labels(np.array(["2026-01-01", "NaT", "2026-02-01"], dtype="datetime64[D]"))
    assert len(classes) == 2
    assert codes[1] == -1


def test_the_string_that_numpy_makes_of_minus_one_is_refused():
    with pytest.raises(ValueError, match="got the string '-1'; write None there, and make the array with dtype=object"):
        encode_labels(np.array(["a", "b", -1]))
    for disguise in ("", "nan", "-1"):
        with pytest.raises(ValueError, match=f"got the string '{disguise}'"):
            encode_labels(pd.Series(["a", "b", disguise]))


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


DATES = [datetime.date(2026, 2, 1), None, datetime.date(2026, 1, 1), datetime.date(2026, 2, 1)]


@pytest.mark.parametrize(
    ("y", "dtype"),
    [
        (DATES, "datetime64[D]"),
        (np.array(DATES, dtype=object), "datetime64[D]"),
        (pl.Series(DATES), "datetime64[D]"),
        (np.array(DATES, dtype="datetime64[s]"), "datetime64[s]"),
        (pd.Series(np.array(DATES, dtype="datetime64[ns]")), "datetime64[ns]"),
        (pd.Series(np.array(DATES, dtype="datetime64[ns]")).astype("category"), "datetime64[ns]"),
        ([datetime.timedelta(2), None, datetime.timedelta(1), datetime.timedelta(2)], "timedelta64[us]"),
        (pd.Series(pd.to_timedelta([2, None, 1, 2], unit="D")).astype("timedelta64[s]"), "timedelta64[s]"),
        ([b"b", None, b"a", b"b"], "S1"),
        (pd.Series(["b", None, "a", "b"], dtype="category"), "object"),
        (pd.Series([2, None, 1, 2], dtype="Int64").astype("category"), "int64"),
        (np.array([2, -1, 1, 2], dtype=">i4"), "int32"),
    ],
    ids=lambda part: part if isinstance(part, str) else type(part).__name__,
)
def test_dates_durations_bytes_and_categories_are_classes(y, dtype):
    classes, codes = encode_labels(y)
    assert classes.dtype == dtype
    assert len(classes) == 2
    assert_array_equal(codes, [1, -1, 0, 1])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([decimal.Decimal(1), decimal.Decimal(2)], "bools, dates or durations, got Decimal; convert the labels"),
        (pd.Series([pd.Period("2026-01"), pd.Period("2026-02")]), "dates or durations, got Period"),
        ([datetime.date(2026, 1, 1), datetime.datetime(2026, 1, 2)], "dates or durations, got date"),
        ([datetime.datetime(2026, 1, day, tzinfo=datetime.UTC) for day in (1, 2)], "dates without a time zone"),
        pytest.param(
            np.array([1, 2], dtype=np.longdouble),
            "dates or durations, got float",
            marks=pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="it is float64 here"),
        ),
    ],
)
def test_labels_that_could_not_be_saved_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        encode_labels(y)
