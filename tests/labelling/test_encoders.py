import numpy as np
import polars
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

from angpn.labelling.encoders import ArrayEncoder, ImageEncoder, TextEncoder, encoder_for
from angpn.labelling.input_rows import Rows
from angpn.labelling.table_encoder import TableEncoder

TABLE = polars.DataFrame(
    {
        "age": [10.0, 20.0, 30.0, 40.0],
        "count": [1, 1, 1, 1],
        "member": [True, False, True, False],
        "town": ["Bonn", "Ulm", "Bonn", "Trier"],
    }
)


def reloaded(encoder):
    """Return the encoder after a round trip through its state."""
    return type(encoder).from_state(*encoder.to_state())


def test_numbers_are_standardised_and_categories_become_columns():
    encoder = TableEncoder()
    found = encoder.fit(TABLE)
    assert_allclose(found[:, 0], (np.array([10, 20, 30, 40]) - 25) / np.sqrt(125), rtol=1e-6)
    assert_array_equal(found[:, 1], 0)  # the same in all rows
    assert_allclose(found[:, 2], [1, -1, 1, -1])
    assert_array_equal(found[:, 3:], [[1, 0, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0]])
    assert encoder.describe() == {"numbers": ["age", "count", "member"], "categories": ["town"]}
    assert_array_equal(reloaded(encoder).transform(TABLE), found)
    with pytest.warns(UserWarning, match="column 'town' has 1 categories that the fit did not have"):
        new = reloaded(encoder).transform(TABLE.with_columns(town=polars.lit("Kiel"), more=polars.lit(1)))
    assert_array_equal(new[:, 3:], 0)  # a town that the fit did not have


def test_a_constant_column_stays_small_for_new_values():
    encoder = TableEncoder()
    encoder.fit(polars.DataFrame({"k": [0.1] * 80}))  # its standard deviation is a rounding error
    assert np.abs(encoder.transform(polars.DataFrame({"k": [0.11]}))).max() < 1


def test_a_number_beyond_all_that_the_fit_had_is_named():
    encoder = TableEncoder()
    encoder.fit(TABLE)
    with pytest.raises(ValueError, match="'age' must hold numbers of about the size .*, 25, got 1e\\+300 in row 1"):
        encoder.transform(TABLE[:2].with_columns(age=polars.Series([20.0, 1e300])))


def test_missing_values_are_an_error_or_imputed():
    holes = TABLE.with_columns(
        age=polars.Series([10.0, None, 30.0, float("nan")]), town=polars.Series(["Bonn", None, "Bonn", "Trier"])
    )
    with pytest.raises(ValueError, match="got 3 missing in 2 columns, the first in 'age', row 1; .* or pass --impute"):
        TableEncoder().fit(holes)
    encoder = TableEncoder(impute=True)
    found = encoder.fit(holes)
    assert found[1, 0] == found[3, 0] == 0  # the median of 10 and 30 is the mean as well
    assert_array_equal(found[:, 3:], [[1, 0, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0]])
    assert_array_equal(reloaded(encoder).transform(holes), found)


def test_markers_of_missing_values_count_in_numeric_columns_only():
    frame = polars.DataFrame(
        {
            "a": ["1", " n/a ", "3", "4"],
            "b": ["x", "NA", "NA", "y"],  # a category may be named so
            "c": ["NA", "?", "NA", "1"],
            "d": ["07", "07", "11", "11"],  # codes stay categories
        }
    )
    with pytest.raises(ValueError, match="got 1 missing in 1 columns, the first in 'a', row 1"):
        TableEncoder().fit(frame)
    encoder = TableEncoder(impute=True)
    found = encoder.fit(frame)
    assert encoder.describe() == {"numbers": ["a"], "categories": ["b", "c", "d"]}
    assert_allclose(found[:, 0], (np.array([1, 3, 3, 4]) - 2.75) / np.std([1, 3, 3, 4]), rtol=1e-6)
    alone = frame[:1].with_columns(a=polars.lit("?"))  # the type of a column was determined by the fit
    assert_allclose(reloaded(encoder).transform(alone)[0, 0], found[1, 0])
    assert TableEncoder(categorical=["a"]).fit(frame).shape == (4, 4 + 3 + 3 + 2)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["1", "2", "3", "many"], "must hold numbers or text, got both, such as 'many'; .* --categorical x"),
        ([f"a long text {number}" for number in range(4)] * 1, None),
        ([[1], [2], [3], [4]], "must hold numbers or categories, got List"),
        ([1.0, 2.0, 3.0, float("inf")], "must hold finite numbers, got an infinite one"),
    ],
)
def test_columns_of_unusable_type_are_named(column, message):
    frame = polars.DataFrame({"x": column})
    if message is None:
        assert TableEncoder().fit(frame).shape == (4, 4)
        return
    with pytest.raises(ValueError, match=message):
        TableEncoder().fit(frame)


def test_a_column_of_texts_is_no_category_unless_declared():
    frame = polars.DataFrame({"note": [f"note {number}" for number in range(200)]})
    with pytest.raises(ValueError, match="got 200 different texts; pass --text note .* --drop note"):
        TableEncoder().fit(frame)
    assert TableEncoder(categorical=["note"]).fit(frame).shape == (200, 200)
    with pytest.raises(ValueError, match="--categorical must name columns of the table, got 'nota'"):
        TableEncoder(categorical=["nota"]).fit(frame)


def test_a_new_table_must_have_the_fitted_columns():
    encoder = TableEncoder()
    encoder.fit(TABLE)
    with pytest.raises(ValueError, match="must have the columns it was fitted with, got no 'age'"):
        encoder.transform(TABLE.drop("age"))
    with pytest.raises(ValueError, match="column 'age' must hold numbers as it did in the fit"):
        encoder.transform(TABLE.with_columns(age=polars.lit("old")))


def test_arrays_are_unchanged_or_imputed():
    rows = np.array([[1, 2], [3, np.nan], [5, 6]], dtype=np.float32)
    with pytest.raises(ValueError, match="got 1 missing, the first in row 1; fill them, or pass --impute"):
        ArrayEncoder().fit(rows)
    encoder = ArrayEncoder(impute=True)
    assert_array_equal(encoder.fit(rows), [[1, 2], [3, 4], [5, 6]])
    assert_array_equal(reloaded(encoder).transform(rows[1:2]), [[3, 4]])
    assert encoder.fit(np.array([[1, 2]])).dtype == np.float32
    sparse = scipy.sparse.csr_array(np.eye(3))
    assert ArrayEncoder().fit(sparse) is sparse


def test_texts_are_encoded_alike_after_a_round_trip():
    encoder = TextEncoder()
    texts = ["red roses grow", "red tulips grow", "old cars", "new cars"]
    found = encoder.fit(texts)
    assert_array_equal(reloaded(encoder).transform(texts).toarray(), found.toarray())


def test_an_unreadable_image_is_named_or_skipped(photos, tmp_path):
    folder, *_ = photos
    broken = tmp_path / "broken.png"
    broken.write_bytes((folder / "000.png").read_bytes()[:60])
    files = [folder / "000.png", broken, folder / "001.png"]
    with pytest.raises(ValueError, match=r"broken\.png must be an image .*, or pass --skip-bad"):
        ImageEncoder().fit(files)
    encoder = ImageEncoder(skip_bad=True)
    found = encoder.fit(files)
    assert_allclose(found, ImageEncoder().fit([files[0], files[2]]), rtol=1e-4, atol=1e-5)
    assert list(encoder.unreadable) == [1]
    assert len(encoder.thumbnails) == 2
    assert encoder.thumbnails[0].startswith("data:image/jpeg;base64,")
    with pytest.raises(ValueError, match="at least one image must be readable, got 1 that are not"):
        ImageEncoder(skip_bad=True).fit([broken])


@pytest.mark.parametrize("factor", [1e-200, 1e160, 1e299])
def test_columns_of_a_table_may_have_any_scale(factor):
    usual = TableEncoder().fit(TABLE)
    assert_allclose(TableEncoder().fit(TABLE.with_columns(age=polars.col("age") * factor)), usual, rtol=1e-6)


@pytest.mark.parametrize("value", [1e60, float("inf")])
def test_new_numbers_out_of_all_proportion_are_refused_by_column(value):
    encoder = TableEncoder()
    encoder.fit(TABLE)
    with pytest.raises(
        ValueError, match=r"column 'age' must hold numbers of about the size .* got .*; check its units"
    ):
        encoder.transform(TABLE.with_columns(age=polars.lit(value)))


def test_a_constant_of_huge_numbers_is_zero():
    assert_array_equal(TableEncoder().fit(polars.DataFrame({"k": [0.1 * 2.0**90] * 77}))[:, 0], 0)


def test_numbers_beyond_all_sums_are_refused_by_column():
    with pytest.raises(ValueError, match=r"column 'age' must hold numbers up to 1.07e\+301, got 1.7e\+308; divide it"):
        TableEncoder().fit(TABLE.with_columns(age=polars.Series([1.0, 2.0, 3.0, -1.7e308])))


def test_an_image_of_too_many_pixels_is_one_that_cannot_be_read(tmp_path):
    images = pytest.importorskip("PIL.Image", reason="reading images needs pip install angpn[images]")
    files = [tmp_path / "small.png", tmp_path / "large.png"]
    for path, size in zip(files, (10, 11), strict=True):
        images.new("RGB", (size, 10), "red").save(path)
    with pytest.raises(
        ValueError, match=r"large\.png must have at most 100 pixels, got 11 x 10; .*, or pass --skip-bad"
    ):
        ImageEncoder(max_pixels=100).fit(files)
    encoder = encoder_for(Rows("images", ["a", "b"], files, None), max_pixels=100, skip_bad=True)
    assert len(encoder.fit(files)) == 1
    assert list(encoder.unreadable) == [1]
    assert len(ImageEncoder(max_pixels=110).fit(files)) == 2
