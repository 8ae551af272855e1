"""Encoder files: every kind comes back as it was, and a bad one is one line that names it."""

import re
from pathlib import Path

import numpy as np
import polars
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from typer.testing import CliRunner

from angpn.cli import app
from angpn.features import TableEncoder
from angpn.features.column_state import MISSING
from angpn.labelling.encoders import ArrayEncoder, TextEncoder
from angpn.labelling.image_encoder import ImageEncoder
from angpn.labelling.saved_encoder import SavedEncoder, read_encoder, write_encoder
from saved_files import mutations, read_saved, write_saved

TABLE = polars.DataFrame({"age": [1.0, None, 3.0], "zip": ["007", None, "1"], "town": ["Ulm", "Ulm", "Bonn"]})
TEXTS = ["red roses", "red tulips", "old cars", "new cars"]
ROWS = np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 6.0]])
FITTED = {
    "images": (ImageEncoder(), None),
    "text": (TextEncoder(), TEXTS),
    "table": (TableEncoder(impute=True, categorical=["zip"], scale_categories=False), TABLE),
    "array": (ArrayEncoder(impute=True), ROWS),
}


def features(encoder, content):
    found = None if content is None else encoder.transform(content)
    return found.toarray() if scipy.sparse.issparse(found) else found


def written(path, kind):
    """Write an encoder of a kind; return its path, content to encode, and its features."""
    encoder, content = FITTED[kind]
    if content is not None:
        encoder.fit_transform(content)
    write_encoder(path, SavedEncoder(kind, None, "id", ["y"], encoder))
    return path, kind, content, features(encoder, content)


@pytest.fixture(params=FITTED)
def saved(request, tmp_path):
    """The path of an encoder, its kind, content to encode, and its features."""
    return written(tmp_path / "encoder.angpn", request.param)


def test_an_encoder_comes_back(saved):
    path, kind, content, expected = saved
    found = read_encoder(path)
    assert found[:4] == (kind, None, "id", ["y"])
    assert type(found.encoder) is type(FITTED[kind][0])
    if expected is not None:
        assert_array_equal(features(found.encoder, content), expected)
        assert found.encoder.n_features == expected.shape[1]


def test_an_encoder_of_format_2_is_still_read(saved):
    _, kind, content, expected = saved
    folder = Path(__file__).parents[1] / "estimators" / "saved_by_format_2"
    found = read_encoder(folder / f"encoder_{kind}.angpn")
    assert found[:4] == (kind, None, "id", ["y"])
    if expected is not None:
        assert_array_equal(features(found.encoder, content), expected)


MESSY = polars.DataFrame(
    {
        "price": ["1.200,50 €", "99,00 €", "5,25 €", ""],
        "sold": ["ja", "nein", "ja", "nein"],
        "day": ["1.2.2024", "13.2.2024", "n/a", "5.12.2023"],
        "at": ["10:30", "7:00", "12:15", "9:00"],
    }
)


def messy(path):
    encoder = TableEncoder(impute=True)
    encoder.fit(MESSY)
    write_encoder(path, SavedEncoder("table", None, None, [], encoder))
    return encoder


def test_how_messy_columns_are_read_comes_back(tmp_path):
    encoder = messy(tmp_path / "encoder.angpn")
    found = read_encoder(tmp_path / "encoder.angpn").encoder
    assert_array_equal(found.transform(MESSY), encoder.transform(MESSY))
    assert found.describe() == {"numbers": ["price", "at"], "booleans": ["sold"], "dates": ["day"]}
    new = polars.DataFrame({"price": ["1.200"], "sold": ["off"], "day": ["31.12.2023"], "at": ["0:00"]})
    assert_array_equal(found.transform(new), encoder.transform(new))


def test_a_table_encoder_from_before_dates_and_booleans_is_still_read():
    """Its columns of true and false are numbers, and an empty text is a category."""
    found = read_encoder(Path(__file__).parent / "saved_encoders" / "table_of_0.2.0.dev0.angpn").encoder
    towns = [[0, 1], [0, 1], [1, 0]]
    expected = [[1, 0, 0, *towns[0], 1, 0], [0, 0, 1, *towns[1], 0, 1], [0, 1, 0, *towns[2], 0, 1]]
    for member in ([True, False, True], ["true", "false", "true"], ["1", "0", "1"]):
        table = TABLE.with_columns(member=polars.Series(member), note=polars.Series(["", "a", "a"]))
        features = found.transform(table)
        assert_array_equal(features[:, [1, 2, 3, 4, 5, 7, 8]], expected)
        assert_allclose(features[:, 6], [0.5**0.5, -(2**0.5), 0.5**0.5], rtol=1e-6)


@pytest.mark.parametrize(
    ("column", "change", "message"),
    [
        (0, {"decimal": ";"}, "Invalid enum value ';' - at `$.state.columns[0].decimal`"),
        (0, {"time": "noon"}, "no format of times is named 'noon'"),
        (1, {"boolean": 1}, "Expected `bool`, got `int` - at `$.state.columns[1].boolean`"),
        (2, {"boolean": True}, "boolean and shares belong to a column of categories"),
        (1, {"decimal": ","}, "decimal and time belong to a column of numbers"),
        (1, {"shares": [0.5]}, "a column must have a share for each value"),
        (1, {"shares": [0.5, 1.5]}, "at `$.state.columns[1].shares[1]`"),
        (2, {"mean": 1.0, "std": 1.0, "median": 1.0}, "must have mean, std and median, or values, or a date"),
        (2, {"date": None}, "must have mean, std and median, or values, or a date"),
        (2, {"date": {"format": "%Y", "newest": 0.0, "parts": []}}, "length >= 5"),
        (
            2,
            {"date": {"format": "%Y", "newest": 0.0, "parts": [{"mean": 0.0, "std": 1.0, "median": 0.0}] * 5}},
            "no format of dates is named '%Y'",
        ),
        (
            2,
            {"date": {"format": "", "newest": 0.0, "parts": [{"mean": 0.0, "std": -1.0, "median": 0.0}] * 5}},
            "at `$.state.columns[2].date.parts[0].std`",
        ),
    ],
)
def test_bad_columns_of_a_messy_table_are_refused_by_name(tmp_path, column, change, message):
    messy(tmp_path / "good")
    changed = read_saved(tmp_path / "good")
    changed.header["state"]["columns"][column].update(change)
    assert message in refusal(write_saved(tmp_path / "bad", changed))


@pytest.mark.filterwarnings("ignore:column .* categories that the fit did not have")
@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_messy_table_with_one_change_is_refused_or_encodes(tmp_path, count):
    messy(tmp_path / "good")
    refusals = []
    for what, mutated in mutations(read_saved(tmp_path / "good"), 1, count):
        try:
            found = read_encoder(write_saved(tmp_path / "mutated", mutated)).encoder
            assert found.transform(MESSY).shape == (4, found.n_features), what
        except ValueError as error:
            refusals.append(str(error))
    assert count / 3 < len(refusals) < count
    assert all("must" in refusal and "\n" not in refusal for refusal in refusals)


def refusal(path):
    with pytest.raises(ValueError, match="must") as caught:
        read_encoder(path)
    assert str(caught.value).startswith(f"{path} must h")
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("text", lambda saved: saved.header.update(kind="audio"), "Invalid value 'audio' - at `$.kind`"),
        ("text", lambda saved: saved.header.pop("kind"), "missing required field `kind`"),
        ("text", lambda saved: saved.header.update(text=3), "Expected `str | null`, got `int` - at `$.text`"),
        ("text", lambda saved: saved.header.update(ignored="y"), "Expected `array`, got `str` - at `$.ignored`"),
        ("text", lambda saved: saved.header.update(state=None), "Expected `object`, got `null` - at `$.state`"),
        ("text", lambda saved: saved.header["state"].pop("vocabulary"), "required field `vocabulary` - at `$.state`"),
        ("text", lambda saved: saved.header["state"]["vocabulary"].append("more"), "'idf' is"),
        ("text", lambda saved: saved.header["state"]["vocabulary"].__setitem__(0, 3), "`$.state.vocabulary[0]`"),
        ("text", lambda saved: saved.header["state"]["vocabulary"].__setitem__(0, "red"), "occurs twice"),
        ("text", lambda saved: saved.arrays["idf"].__setitem__(0, np.nan), "'idf' has values from nan"),
        ("text", lambda saved: saved.arrays["idf"].__setitem__(0, 1e30), "'idf' has values from 1"),
        ("text", lambda saved: saved.arrays.clear(), "'idf' is missing"),
        ("table", lambda saved: saved.header["state"]["columns"].clear(), "length >= 1 - at `$.state.columns`"),
        ("table", lambda saved: saved.header["state"]["columns"][0].pop("std"), "must have mean, std and median, or"),
        ("table", lambda saved: saved.header["state"]["columns"][0].update(std=-1), "at `$.state.columns[0].std`"),
        ("table", lambda saved: saved.header["state"]["columns"][0].update(std="NaN"), "`$.state.columns[0].std`"),
        ("table", lambda saved: saved.header["state"]["columns"][0].update(values=["a"]), "median, or values"),
        (
            "table",
            lambda saved: saved.header["state"]["columns"][0].update(name=None),
            "at `$.state.columns[0].name`",
        ),
        ("table", lambda saved: saved.header["state"]["columns"][1].update(name="age"), "a column occurs twice"),
        ("table", lambda saved: saved.header["state"]["columns"][1].update(values=[]), "columns[1].values`"),
        ("table", lambda saved: saved.header["state"]["columns"][1].update(values=["a", "a"]), "category occurs twice"),
        ("table", lambda saved: saved.arrays.update(idf=np.zeros(2)), "'idf' that does not belong there"),
        ("array", lambda saved: saved.header["state"].update(impute=1), "Expected `bool`, got `int`"),
        ("array", lambda saved: saved.header["state"].update(impute=False), "'medians' that does not belong there"),
        ("array", lambda saved: saved.arrays.update(medians=np.zeros((2, 2))), "'medians' is float64 of shape (2, 2)"),
        ("array", lambda saved: saved.arrays.update(medians=np.array(["a"]).view(np.uint8)), "'medians' is uint8"),
        ("images", lambda saved: saved.header["state"].update(network="x"), "unknown field `network` - at `$.state`"),
    ],
)
def test_a_bad_encoder_is_refused_by_name(tmp_path, kind, change, message):
    changed = read_saved(written(tmp_path / "good", kind)[0])
    change(changed)
    assert message in refusal(write_saved(tmp_path / "bad", changed))


def test_a_category_that_is_named_as_missing_ones_are_is_one_category():
    frame = polars.DataFrame({"town": [MISSING, None, "Ulm"]})
    encoder = TableEncoder(impute=True, scale_categories=False)
    assert_array_equal(encoder.fit_transform(frame), [[1, 0], [1, 0], [0, 1]])


@pytest.mark.filterwarnings("ignore:column .* categories that the fit did not have")
@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_file_with_one_change_is_refused_or_encodes(saved, tmp_path, count):
    path, kind, content, expected = saved
    good = read_saved(path)
    refused = 0
    for what, mutated in mutations(good, 0, count):
        changed = write_saved(tmp_path / "mutated", mutated)
        try:
            try:
                found = read_encoder(changed)
            except ValueError as error:
                refused += str(error).startswith(f"{changed} must") and "\n" not in str(error)
                continue
            if expected is not None:
                try:
                    assert features(found.encoder, content).shape == (len(content), found.encoder.n_features)
                except ValueError as error:  # of columns that the table does not have, or values that are missing
                    if not re.search("must (have|hold)|rows must|must be (numbers|usable)", str(error)):
                        raise
        except BaseException as error:
            error.add_note(f"{kind}: {what}")
            raise
    assert count / 3 < refused < count


# Through the command


@pytest.fixture(scope="module")
def labelled(wine, tmp_path_factory):
    """The folder of a model of a table, and rows to predict."""
    path, _ = wine
    folder = tmp_path_factory.mktemp("labelled")
    command = ["label", str(path), "--label-column", "cultivar", "-o", str(folder / "out"), "-q"]
    assert CliRunner().invoke(app, command).exit_code == 0
    polars.read_parquet(path).head(5).write_parquet(folder / "new.parquet")
    return folder / "out" / "model", folder / "new.parquet"


def predicted(model, new, encoder=None, classifier=None):
    """Return what ``angpn predict`` says with another file in the model, and put the old one back."""
    name = "encoder.angpn" if encoder is not None else "classifier.angpn"
    before = (model / name).read_bytes()
    try:
        write_saved(model / name, encoder if encoder is not None else classifier)
        return CliRunner().invoke(app, ["predict", str(model), str(new)])
    finally:
        (model / name).write_bytes(before)


def test_no_bad_file_of_a_model_is_a_traceback(labelled):
    """88 of 262 such files ended in one."""
    model, new = labelled
    for name in ("encoder", "classifier"):
        refused = 0
        for what, mutated in mutations(read_saved(model / f"{name}.angpn"), 0, 60):
            done = predicted(model, new, **{name: mutated})
            assert done.exit_code in (0, 1), (what, done.exception)
            if done.exit_code == 1:
                lines = done.stderr.splitlines()
                assert lines[-1].startswith("error: "), what
                assert all(line.startswith(("warning: ", "error: ")) for line in lines), what
                refused += f"{name}.angpn" in done.stderr
            else:
                confidences = [float(line.split(",")[2]) for line in done.stdout.splitlines()[1:]]
                assert all(0 < confidence <= 1 for confidence in confidences), what
        assert 25 < refused < 60


def test_encoder_and_classifier_must_fit_together(labelled):
    model, new = labelled
    saved = read_saved(model / "encoder.angpn")
    saved.header["state"]["columns"].pop()
    done = predicted(model, new, encoder=saved)
    assert done.exit_code == 1
    expected = r"encoder\.angpn must be the encoder of classifier\.angpn beside it, got one that makes \d+ features"
    assert re.search(expected, done.stderr)
