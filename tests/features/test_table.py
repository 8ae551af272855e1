"""Tables as they come: how cells are read, what they become, and what is said of columns that cannot be used."""

import datetime
import re

import numpy as np
import pandas
import polars
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from angpn import ANGPNClassifier
from angpn.features import TableEncoder, table_features

TABLE = polars.DataFrame(
    {
        "age": [10.0, 20.0, 30.0, 40.0],
        "count": [1, 1, 2, 2],
        "member": [True, False, True, False],
        "town": ["Bonn", "Ulm", "Bonn", "Trier"],
    }
)


def reloaded(encoder):
    """Return the encoder after a round trip through its state."""
    return type(encoder).from_state(*encoder.to_state())


def standardised(values):
    values = np.array(values, dtype=float)
    return (values - values.mean()) / values.std()


def test_numbers_are_standardised_and_categories_become_columns():
    encoder = TableEncoder(scale_categories=False)
    found = encoder.fit_transform(TABLE)
    assert_allclose(found[:, 0], (np.array([10, 20, 30, 40]) - 25) / np.sqrt(125), rtol=1e-6)
    assert_array_equal(found[:, 2:], [[0, 1, 1, 0, 0], [1, 0, 0, 0, 1], [0, 1, 1, 0, 0], [1, 0, 0, 1, 0]])
    assert encoder.describe() == {"numbers": ["age", "count"], "categories": ["town"], "booleans": ["member"]}
    assert encoder.get_feature_names_out().tolist() == [
        *("age", "count", "member=false", "member=true", "town=Bonn", "town=Trier", "town=Ulm")
    ]
    assert_array_equal(reloaded(encoder).transform(TABLE), found)
    with pytest.warns(UserWarning, match="column 'town' has 1 categories that the fit did not have"):
        new = reloaded(encoder).transform(TABLE.with_columns(town=polars.lit("Kiel"), more=polars.lit(1)))
    assert_array_equal(new[:, 4:], 0)  # a town that the fit did not have


@pytest.mark.parametrize("name", ["count", "value", "code", "classes", "literal", ""])
def test_columns_may_have_any_name(name):
    y = ["a", "b"] * 15
    for column in (
        ["u", "v", "w"] * 10,
        ["ja", "ja", "nein"] * 10,
        np.arange(30) % 7,
        ["2024-01-01"] * 5 + ["2024-02-02"] * 25,
    ):
        assert TableEncoder().fit_transform({name: np.array(column, dtype=object)}, y).shape[0] == 30


def test_features_of_categories_are_standardised_as_those_of_numbers_are():
    plain = TableEncoder(scale_categories=False).fit_transform(TABLE)
    encoder = TableEncoder()
    found = encoder.fit_transform(TABLE)
    assert_allclose(found, StandardScaler().fit_transform(plain), rtol=1e-5, atol=1e-6)
    assert_array_equal(reloaded(encoder).transform(TABLE), found)
    with pytest.warns(UserWarning, match="the same value in every row"):
        assert_array_equal(TableEncoder().fit_transform({"k": ["x", "x", "x"]}), 0)


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["1,234.50", "12.25", "3"], [1234.5, 12.25, 3]),
        (["1.234,50", "12,25", "3"], [1234.5, 12.25, 3]),
        (["1 234,5", "1\u202f000,25", "7"], [1234.5, 1000.25, 7]),
        (["1'234.5", "1\u2019000", "7"], [1234.5, 1000, 7]),
        (["$1,200", "-$5", "$ 7.50"], [1200, -5, 7.5]),
        (["1.200,50 €", "€ -7,5", "9 EUR"], [1200.5, -7.5, 9]),
        (["12 %", "3.5%", "100%"], [0.12, 0.035, 1]),
        (["(1,234)", "\u22125", "+6"], [-1234, -5, 6]),
        (["1e3", "2.5E-1", " 4 "], [1000, 0.25, 4]),
        (["1,234", "5,678", "9"], [1234, 5678, 9]),  # thousands, since no column has a decimal comma
        (["0,123", "5,678", "9"], [0.123, 5.678, 9]),  # no thousands begin with 0
        (["007", "0815", "4711"], None),  # codes
        (["1,5", "1.5", "2"], "holds numbers and text, such as '1,5'"),
    ],
)
def test_numbers_as_people_write_them(texts, numbers):
    encoder = TableEncoder()
    frame = polars.DataFrame({"x": texts})
    if isinstance(numbers, str):
        with pytest.raises(ValueError, match=re.escape(numbers)):
            encoder.fit(frame)
        return
    found = encoder.fit_transform(frame)
    assert encoder.describe() == {"categories" if numbers is None else "numbers": ["x"]}
    if numbers is not None:
        assert_allclose(found[:, 0], standardised(numbers), rtol=1e-5)
        assert_array_equal(reloaded(encoder).transform(frame), found)


def test_numbers_that_either_decimal_sign_reads_follow_the_other_columns():
    either = ["1.234", "12.500", "9"]
    for frame, decimal, thousands in (
        ({"x": either}, None, False),
        ({"x": either}, ",", True),  # as a table with semicolons suggests
        ({"x": either, "y": ["1,5", "2,25", "3"]}, None, True),
        ({"x": either, "y": ["1.5", "2.25", "3"]}, ",", False),
        ({"x": either, "y": ["1,5", "2,25", "3"], "z": ["1.5", "2.25", "3"]}, None, False),
    ):
        encoder = TableEncoder(decimal=decimal)
        found = encoder.fit_transform(polars.DataFrame(frame))
        expected = [1234, 12500, 9] if thousands else [1.234, 12.5, 9]
        assert_allclose(found[:, 0], standardised(expected), rtol=1e-5)
        alone = polars.DataFrame({name: ["1.500" if name == "x" else "1"] for name in frame})
        assert reloaded(encoder).transform(alone)[0, 0] == pytest.approx(
            ((1500 if thousands else 1.5) - np.mean(expected)) / np.std(expected), rel=1e-5
        )


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["yes", "no", "YES"], [1, 0, 1]),
        (["Ja", "nein", "ja"], [1, 0, 1]),
        (["t", "f", "T"], [1, 0, 1]),
        (["true", "no", "1"], [1, 0, 1]),
        (["oui", "non", "n/a"], [1, 0, None]),
        (["y", "t", "y"], None),  # two letters
        (["yes", "ja", "yes"], None),  # two words for one thing
        (["n", "f", "t"], None),
    ],
)
def test_words_for_true_and_false(texts, values):
    encoder = TableEncoder(impute=True, scale_categories=False)
    found = encoder.fit_transform(polars.DataFrame({"x": texts, "z": [1, 2, 3]}))
    if values is None:
        assert encoder.describe()["categories"] == ["x"]
        return
    assert encoder.describe()["booleans"] == ["x"]
    assert_array_equal(found[:, 1], [value == 1 for value in values])
    assert_array_equal(found[:, 0], [value == 0 for value in values])
    assert found.shape[1] == (4 if None in values else 3)  # a missing one is a category of its own
    for new in (["wahr", "off"], [True, False], [1, 0], [1.0, 0.0]):
        table = polars.DataFrame({"x": new, "z": [1, 2]})
        assert_array_equal(reloaded(encoder).transform(table)[:, :2], [[0, 1], [1, 0]])


@pytest.mark.parametrize(
    "texts",
    [
        ["2024-03-01", "2023-12-31", "2024-01-15"],
        ["01.03.2024", "31.12.2023", "15.1.2024"],
        ["01.03.24", "31.12.23", "15.01.24"],
        ["3/1/2024", "12/31/2023", "1/15/2024"],
        ["1/3/2024", "31/12/2023", "15/1/2024"],
        ["1 Mar 2024", "31-Dec-2023", "15 Jan 2024"],
        ["March 1, 2024", "December 31, 2023", "January 15, 2024"],
        ["2024-03-01T00:00:00Z", "2023-12-31T01:00:00+01:00", "2024-01-15T00:00:00Z"],
        ["2024-03-01 00:00", "2023-12-31T00:00", "2024-01-15 00:00"],
        [datetime.date(2024, 3, 1), datetime.date(2023, 12, 31), datetime.date(2024, 1, 15)],
    ],
)
def test_dates_become_year_month_weekday_hour_and_age(texts):
    frame = polars.DataFrame({"seen": texts})
    encoder = TableEncoder()
    found = encoder.fit_transform(frame)
    assert encoder.describe() == {"dates": ["seen"]}
    expected = [[2024, 3, 5, 0], [2023, 12, 7, 0], [2024, 1, 1, 46]]  # weekdays are Friday, Sunday and Monday
    year, month, weekday, _ = np.array(expected, dtype=float).T
    for place, values in ((0, year), (1, month), (2, weekday), (4, [0, 61, 46])):
        assert_allclose(found[:, place], standardised(values), rtol=1e-5)
    assert_array_equal(found[:, 3], 0)  # of the hour
    assert encoder.get_feature_names_out()[-1] == "seen age in days"
    assert_array_equal(reloaded(encoder).transform(frame), found)


def test_hours_of_dates_and_times_count():
    frame = polars.DataFrame({"at": ["2024-03-01 10:30", "2024-03-01 12:00"], "time": ["10:30", "7:00"]})
    encoder = TableEncoder()
    found = encoder.fit_transform(frame)
    assert encoder.describe() == {"numbers": ["time"], "dates": ["at"]}
    assert_allclose(found[:, [3, 5]], [[-1, 1], [1, -1]])
    typed = frame.with_columns(
        polars.col("time").str.to_time("%H:%M"), polars.col("at").str.to_datetime("%Y-%m-%d %H:%M")
    )
    assert_array_equal(encoder.transform(typed), found)
    encoder.fit(typed)
    assert_array_equal(reloaded(encoder).transform(frame), found)


def test_dates_that_can_be_read_in_two_ways_are_a_warning():
    with pytest.warns(UserWarning, match="'seen' was read as month/day/year, and day/month/year fits as well"):
        encoder = TableEncoder().fit(polars.DataFrame({"seen": ["3/4/2024", "5/6/2024"]}))
    assert [str(found) for found in encoder.readings_] == ["seen: '3/4/2024' is 2024-03-04"]


def test_how_texts_were_read_is_shown_by_examples():
    frame = polars.DataFrame(
        {"price": ["5 €", "1.200,50 €"], "sold": ["ja", "nein"], "day": ["1.2.2024", "2.2.2024"], "plain": ["1", "2.5"]}
    )
    assert [str(found) for found in TableEncoder().fit(frame).readings_] == [
        *("price: '1.200,50 €' is 1200.5", "sold: 'ja' is true", "day: '1.2.2024' is 2024-02-01")
    ]


# Missing values


def test_missing_values_are_an_error_or_imputed_and_said():
    holes = TABLE.with_columns(
        age=polars.Series([10.0, None, 30.0, float("nan")]), town=polars.Series(["Bonn", None, "Bonn", " "])
    )
    with pytest.raises(
        ValueError,
        match=r"got 2 of 4 that are not: 'age' lacks 2 of 4 values, the first in row 1 \(--impute fills them, --drop "
        r"age leaves it out\); 'town' lacks 2 of 4 values, the first in row 1",
    ):
        TableEncoder().fit(holes)
    encoder = TableEncoder(impute=True)
    found = encoder.fit_transform(holes)
    assert found[1, 0] == found[3, 0] == 0  # the median of 10 and 30 is the mean as well
    assert_array_equal(found[:, 4:] > 0, [[1, 0], [0, 1], [1, 0], [0, 1]])
    assert [str(imputed) for imputed in encoder.imputed_] == [
        "age: 2 cells with the median 20, the first in row 1",
        "town: 2 cells with the category (missing), the first in row 1",
    ]
    assert_array_equal(reloaded(encoder).transform(holes), found)
    assert len(encoder.imputed_) == 2


def test_rows_without_any_value_need_no_imputing():
    nothing = polars.DataFrame({"age": [None], "count": [None], "member": [None], "town": [None]}, schema=TABLE.schema)
    encoder = TableEncoder(scale_categories=False)
    found = encoder.fit_transform(polars.concat([TABLE, nothing]))
    assert encoder.empty_rows_.tolist() == [4]
    assert encoder.imputed_ == []
    assert_array_equal(found[4, 2:], 0)
    assert found.shape == (5, 7)
    encoder = reloaded(encoder)
    encoder.transform(polars.concat([nothing, TABLE]))
    assert encoder.empty_rows_.tolist() == [0]
    with pytest.raises(ValueError, match="a table must have values, got 1 rows without any; check the file"):
        TableEncoder().fit(nothing)


def test_new_rows_with_missing_values_are_an_error_unless_the_fit_imputed():
    encoder = TableEncoder().fit(TABLE)
    with pytest.raises(
        ValueError, match=r"'age' lacks 1 of 2 values, the first in row 0 \(fill them; a model of --imp"
    ):
        encoder.transform(TABLE[:2].with_columns(age=polars.Series([None, 2.0])))


def test_markers_of_missing_values_count_among_numbers_and_dates_only():
    frame = polars.DataFrame(
        {
            "a": ["1", " n/a ", "3", "4"],
            "b": ["x", "NA", "NA", "y"],  # a category may be named so
            "c": ["NA", "?", "NA", "1"],
            "d": ["07", "07", "11", "11"],  # codes stay categories
            "e": ["2024-01-01", "2024-01-02", "-", "2024-01-04"],
        }
    )
    with pytest.raises(ValueError, match="'a' lacks 1 of 4 values, the first in row 1 .*'e' lacks 1 of 4 .* in row 2"):
        TableEncoder().fit(frame)
    encoder = TableEncoder(impute=True)
    found = encoder.fit_transform(frame)
    assert encoder.describe() == {"numbers": ["a"], "categories": ["b", "c", "d"], "dates": ["e"]}
    assert_allclose(found[:, 0], standardised([1, 3, 3, 4]), rtol=1e-6)
    alone = frame[:1].with_columns(a=polars.lit("?"))  # the type of a column was determined by the fit
    assert_allclose(reloaded(encoder).transform(alone)[0, 0], found[1, 0])
    assert TableEncoder(categorical=["a"], impute=True).fit_transform(frame).shape == (4, 4 + 3 + 3 + 2 + 5)


# Columns that cannot be used


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["1", "2", "3", "many"], r"'x' holds numbers and text, such as 'many' \(correct it, .* --categorical x\)"),
        (["2024-01-01", "2024-01-02", "soon"], r"'x' holds dates written as year-month-day and others, such as 'soon'"),
        ([[1], [2], [3], [4]], r"'x' holds List\(Int64\), which is no number and no text \(turn it .* or --drop x\)"),
        ([1.0, 2.0, 3.0, float("inf")], r"'x' holds an infinite number \(correct it\)"),
        ([1.0, -1.7e308], r"'x' holds numbers up to 1.7e\+308, more than 1.07e\+301 \(divide it by a constant\)"),
        ([f"note {n}" for n in range(60)], r"'x' holds 60 different texts, such as 'note 0' \(--text x labels by it, "
         r"--id-column x if they are ids, --drop x leaves it out, --categorical x keeps it\)"),
    ],
)  # fmt: skip
def test_columns_that_cannot_be_used_are_named_with_an_example_and_what_helps(column, message):
    with pytest.raises(ValueError, match=f"every column of a table must be usable, got 1 of 1 that is not: {message}"):
        TableEncoder().fit(polars.DataFrame({"x": column}))


def test_all_columns_that_cannot_be_used_are_named_at_once():
    frame = polars.DataFrame(
        {"a": ["1", "2", "3", "x"], "b": [1, None, 3, 4], "c": [1, 2, 3, 4], "d": [[1], [2], [3], [4]]}
    )
    with pytest.raises(ValueError, match="got 3 of 4 that are not: 'a' holds .*; 'b' lacks .*; 'd' holds") as caught:
        TableEncoder().fit(frame)
    assert "\n" not in str(caught.value)
    wide = polars.DataFrame({f"x{number}": ["1", "2", "x"] for number in range(25)})
    with pytest.raises(ValueError, match="got 25 of 25 that are not: .*'x19' holds .*; and 5 more$"):
        TableEncoder().fit(wide)


def test_a_column_of_texts_is_no_category_unless_declared():
    frame = polars.DataFrame({"note": [f"note {number}" for number in range(200)]})
    assert TableEncoder(categorical=["note"]).fit_transform(frame).shape == (200, 200)
    with pytest.raises(ValueError, match="--categorical must name columns of the table, got 'nota'"):
        TableEncoder(categorical=["nota"]).fit(frame)


def test_a_new_table_must_have_the_fitted_columns():
    encoder = TableEncoder().fit(TABLE)
    with pytest.raises(ValueError, match="must have the columns it was fitted with, got no 'age' and 1 more"):
        encoder.transform(TABLE.drop("age", "town"))
    with pytest.raises(NotFittedError, match="must be fitted before transform"):
        TableEncoder().transform(TABLE)


def test_cells_that_are_not_as_in_the_fit_are_named_by_row_and_value():
    encoder = TableEncoder().fit(TABLE.with_columns(day=polars.Series(["2024-01-01"] * 2 + ["2024-02-02"] * 2)))
    new = polars.DataFrame(
        {
            "age": ["10", "old", "30", "new"],
            "count": [1, 2, 3, 4],
            "member": ["yes", "perhaps", "no", "no"],
            "town": ["Ulm"] * 4,
            "day": ["2024-01-01", "2024-01-02", "1.2.2024", "2024-01-05"],
        }
    )
    with pytest.raises(
        ValueError,
        match="got 3 of 5 that are not: 'age' must hold numbers as it did in the fit, got 'old' in row 1 and 1 more "
        ".*; 'member' must hold booleans as it did in the fit, got 'perhaps' in row 1 .*; 'day' must hold dates as it "
        "did in the fit, got '1.2.2024' in row 2",
    ):
        encoder.transform(new)
    with pytest.raises(ValueError, match="'day' must hold dates as it did in the fit, got Int64"):
        encoder.transform(TABLE.with_columns(day=polars.lit(1, polars.Int64)))
    with pytest.raises(ValueError, match="'age' must hold numbers as it did in the fit, got List"):
        encoder.transform(TABLE.with_columns(age=polars.Series([[1]] * 4), day=polars.lit("2024-01-01")))


# Columns to look at


def remarks(frame, y=None):
    with pytest.warns(UserWarning) as caught:  # noqa: PT030
        encoder = TableEncoder().fit(frame, y)
    assert [str(warning.message) for warning in caught] == encoder.remarks_
    return encoder.remarks_


def test_constant_columns_and_ids_are_warned_of_by_name():
    generator = np.random.default_rng(0)
    frame = polars.DataFrame(
        {
            "good": generator.normal(size=40),
            "same": [7] * 40,
            "number": np.arange(40) + 1000,
            "customer_id": generator.permutation(10**6)[:40],
            "code": [f"c{row}" for row in range(40)],
            "salary": generator.permutation(10**6)[:40],  # whole numbers that differ, and no id by name or range
        }
    )
    found = remarks(frame)
    assert found[0] == "column 'same' has the same value in every row, so it says nothing; pass --drop same"
    assert [re.search("'(.*?)'", text)[1] for text in found[1:]] == ["number", "customer_id", "code"]
    assert "looks like an id, which says nothing of new rows; pass --id-column number, or --drop number" in found[1]


def test_a_column_that_alone_decides_the_label_is_warned_of():
    generator = np.random.default_rng(0)
    codes = np.arange(60) % 3
    y = np.where(generator.random(60) < 0.6, np.array(["a", "b", "c"])[codes], None)
    frame = polars.DataFrame(
        {
            "noise": generator.normal(size=60),
            "word": np.array(["u", "v", "w"])[codes],
            "interval": codes + generator.random(60),
            "half": np.where(codes == 0, "first", "other"),
            "flag": codes == 1,
        }
    )
    found = remarks(frame, y)
    n_labels = sum(label is not None for label in y)
    assert [re.search("'(.*?)'", text)[1] for text in found] == ["word", "interval"]
    assert f"'word' alone decides the label of all {n_labels} labelled rows; if it was made from the label" in found[0]
    few = np.where(np.arange(60) < 12, y, None)  # so few that chance might do it
    assert TableEncoder().fit(frame, few).remarks_ == []
    with pytest.raises(ValueError, match="y must have one row for each row of X, expected 60, got 59"):
        TableEncoder().fit(frame, y[1:])


# Numbers of any size


def test_a_constant_column_stays_small_for_new_values():
    with pytest.warns(UserWarning, match="the same value in every row"):
        encoder = TableEncoder().fit(polars.DataFrame({"k": [0.1] * 80}))  # its deviation is a rounding error
    assert np.abs(encoder.transform(polars.DataFrame({"k": [0.11]}))).max() < 1


def test_a_constant_of_huge_numbers_is_zero():
    with pytest.warns(UserWarning, match="the same value in every row"):
        assert_array_equal(TableEncoder().fit_transform(polars.DataFrame({"k": [0.1 * 2.0**90] * 77}))[:, 0], 0)


@pytest.mark.parametrize("factor", [1e-200, 1e160, 1e299])
def test_columns_of_a_table_may_have_any_scale(factor):
    usual = TableEncoder().fit_transform(TABLE)
    scaled = TABLE.with_columns(age=polars.col("age") * factor)
    assert_allclose(TableEncoder().fit_transform(scaled), usual, rtol=1e-6)


@pytest.mark.parametrize("value", [1e60, float("inf")])
def test_new_numbers_out_of_all_proportion_are_refused_by_column(value):
    encoder = TableEncoder().fit(TABLE)
    with pytest.raises(
        ValueError,
        match=r"column 'age' must hold numbers of about the size that it had in the fit, 25, got .* in row 1; check",
    ):
        encoder.transform(TABLE[:2].with_columns(age=polars.Series([20.0, value])))


# As users pass tables


def test_frames_of_pandas_columns_by_name_and_matrices_are_read_alike():
    columns = {
        "number": [1.0, None, 3.0],
        "whole": [1, 2, 3],
        "text": ["a", None, "b"],
        "day": [datetime.datetime(2024, 1, 1), None, datetime.datetime(2024, 1, 3)],
        "flag": [True, False, True],
    }
    expected = TableEncoder(impute=True).fit_transform(polars.DataFrame(columns))
    frame = pandas.DataFrame(columns)
    assert_array_equal(table_features(frame, impute=True), expected)
    zoned = frame.assign(day=pandas.to_datetime(frame["day"]).dt.tz_localize("UTC"))
    assert_array_equal(table_features(zoned, impute=True), expected)
    nullable = frame.convert_dtypes()
    assert_array_equal(table_features(nullable, impute=True), expected)
    assert_array_equal(table_features(frame.astype({"text": "category"}), impute=True), expected)
    named = {name: np.array(values, dtype=object) for name, values in columns.items()}
    assert_array_equal(table_features(named, impute=True), expected)
    matrix = np.array([[1, "a"], [2, "b"], [3, "a"]], dtype=object)
    assert TableEncoder().fit(matrix).describe() == {"numbers": ["x0"], "categories": ["x1"]}
    for nothing in (np.zeros(3), 5):
        with pytest.raises(ValueError, match="must be a frame of polars or pandas, columns by name or a matrix, got"):
            table_features(nothing)
    with pytest.raises(ValueError, match="a table must have rows and columns, got 0 and 2; pass some"):
        table_features(pandas.DataFrame({"a": [], "b": []}))


def test_the_encoder_is_a_step_of_a_pipeline_for_tables_with_gaps_and_texts():
    generator = np.random.default_rng(0)
    codes = np.arange(80) % 2
    frame = pandas.DataFrame(
        {"size": generator.normal(size=80) + 4 * codes, "colour": np.where(generator.random(80) < 0.5, "red", "blue")}
    )
    frame.loc[::9, "size"] = np.nan
    frame.loc[::7, "colour"] = None
    y = np.where(np.arange(80) < 30, np.array(["a", "b"])[codes], None)
    model = clone(make_pipeline(TableEncoder(impute=True), ANGPNClassifier(random_state=0))).fit(frame, y)
    assert (model.predict(frame) == np.array(["a", "b"])[codes]).mean() > 0.85
