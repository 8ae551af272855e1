"""Rows without anything to go by, through the real commands: counted, labelled by the prior, and never suggested."""

import json

import numpy as np
import polars
import pytest
from typer.testing import CliRunner

from angpn import ANGPNClassifier
from angpn.cli import app
from angpn.labelling.empty_rows import find_empty
from angpn.labelling.encoders import ArrayEncoder
from label_inputs import TOPICS, read_predictions, write_labels

EMPTY = [3, 17, 29]  # unlabelled
N_ROWS = 40
LABELLED = range(0, 20, 2)
NAMES = np.array(["b", "a", "a"])  # two thirds are a, so that the prior is not the first class seen


def truth(row):
    return str(NAMES[row % 3])


def table_input(folder, missing):
    generator = np.random.default_rng(0)
    lines = ["size,colour,seen,label"]
    for row in range(N_ROWS):
        cells = [
            f"{generator.normal() + 4 * (truth(row) == 'a'):.3f}",
            "red" if row % 2 else "blue",
            "2024-01-0" + str(row % 9 + 1),
        ]
        cells = missing if row in EMPTY else cells
        lines.append(",".join([*cells, truth(row) if row in LABELLED else ""]))
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    return [folder / "t.csv", "--label-column", "label"]


def array_input(folder, value):
    X = np.random.default_rng(0).normal(size=(N_ROWS, 4)) + 4 * np.array([[truth(row) == "a"] for row in range(N_ROWS)])
    X[EMPTY] = value
    np.save(folder / "t.npy", X)
    labels = write_labels(folder / "labels.csv", map(str, LABELLED), [truth(row) for row in LABELLED])
    return [folder / "t.npy", "--labels", labels]


def text_input(folder, text):
    generator = np.random.default_rng(0)
    words = {"a": TOPICS["billing"].split(), "b": TOPICS["network"].split()}
    texts = [text if row in EMPTY else " ".join(generator.choice(words[truth(row)], 6)) for row in range(N_ROWS)]
    labels = [truth(row) if row in LABELLED else None for row in range(N_ROWS)]
    polars.DataFrame({"body": texts, "label": labels}).write_csv(folder / "t.csv")
    return [folder / "t.csv", "--label-column", "label", "--text", "body"]


INPUTS = {
    "table": lambda folder: table_input(folder, ["", "", ""]),
    "markers": lambda folder: table_input(folder, ["n/a", " ", "?"]),
    "zeros": lambda folder: array_input(folder, 0),
    "gaps": lambda folder: array_input(folder, np.nan),
    "no text": lambda folder: text_input(folder, None),
    "no known word": lambda folder: text_input(folder, "?!"),
}


UNLABELLED = {  # options of the same input without its labels
    "table": ["--drop", "label"],
    "markers": ["--drop", "label"],
    "no text": ["--text", "body"],
    "no known word": ["--text", "body"],
}


def run(*arguments):
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done


@pytest.mark.filterwarnings("ignore:n_neighbors=20 needs")
@pytest.mark.parametrize("kind", INPUTS)
def test_empty_rows_are_counted_labelled_by_the_prior_and_never_suggested(kind, tmp_path):
    path, *options = INPUTS[kind](tmp_path)
    done = run("label", path, *options, "-o", tmp_path / "out", "--json")
    facts = json.loads(done.stdout)
    assert facts["empty"] == facts["unreliable"]["empty"] == len(EMPTY)
    assert facts["imputed"] == []
    lines = read_predictions(tmp_path / "out" / "predictions.csv")
    assert [int(line["id"]) for line in lines if line["source"] == "empty"] == EMPTY
    share = np.mean([truth(row) == "a" for row in LABELLED])
    for row in EMPTY:
        assert (lines[row]["label"], lines[row]["second"]) == ("a", "b")
        assert float(lines[row]["confidence"]) == pytest.approx(share, abs=1e-4)
    suggested = {line["id"] for line in read_predictions(tmp_path / "out" / "next.csv")}
    assert suggested
    assert not suggested & set(map(str, EMPTY))
    assert "3 rows are empty: they have no known word, no value, or zeros alone" in (
        (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    )
    shown = run("label", path, *options, "-o", tmp_path / "out").stdout
    assert "empty: 3 rows without anything to go by\n" in shown
    # New rows
    new = run("predict", tmp_path / "out" / "model", path, "-o", tmp_path / "new.csv")
    assert "empty: 3 rows without anything to go by\n" in new.stderr
    again = read_predictions(tmp_path / "new.csv")
    assert [again[row] for row in EMPTY] == [lines[row] for row in EMPTY]
    assert [int(line["id"]) for line in again if line["source"] == "empty"] == EMPTY
    # Suggestions, with labels, without them and by cluster
    without = UNLABELLED.get(kind, [])
    for more in (options, without, [*without, "--per-cluster"]):
        found = json.loads(run("suggest", path, *more, "-n", N_ROWS, "-o", tmp_path / "s.csv", "--json").stdout)
        assert found["empty"] == len(EMPTY)
        assert not {row["id"] for row in found["suggested"]} & set(map(str, EMPTY))
    # Clusters
    found = json.loads(run("cluster", path, *without, "-k", 2, "-o", tmp_path / "clusters", "--json").stdout)
    assert found["empty"] == len(EMPTY)


@pytest.mark.filterwarnings("ignore:n_neighbors=20 needs")
def test_a_given_label_of_an_empty_row_stays_and_a_file_of_predictions_serves_as_labels(tmp_path):
    path, *_ = array_input(tmp_path, 0)
    labels = write_labels(tmp_path / "labels.csv", ["3", *map(str, LABELLED)], ["b", *(truth(row) for row in LABELLED)])
    run("label", path, "--labels", labels, "-o", tmp_path / "out")
    lines = read_predictions(tmp_path / "out" / "predictions.csv")
    assert (lines[3]["label"], lines[3]["source"]) == ("b", "given")
    assert [int(line["id"]) for line in lines if line["source"] == "empty"] == EMPTY[1:]
    kept = [line for line in lines if int(line["id"]) < 30]
    with (tmp_path / "again.csv").open("w") as file:
        file.write("id,label,source\n" + "".join(f"{line['id']},{line['label']},{line['source']}\n" for line in kept))
    done = run("label", path, "--labels", tmp_path / "again.csv", "--dry-run", "--json")
    assert json.loads(done.stdout)["at_random"] is None  # the sources of predictions do not say how rows were chosen


def test_rows_of_arrays_without_a_value_need_no_imputing():
    rows = np.array([[1.0, 2.0], [np.nan, np.nan], [0.0, 0.0], [3.0, 4.0]])
    encoder = ArrayEncoder()
    features = encoder.fit_transform(rows)
    assert find_empty(encoder, features).tolist() == [False, True, True, False]
    assert encoder.imputed_ == []
    rows[0, 1] = np.nan
    with pytest.raises(ValueError, match="got 1 missing, the first in row 0; fill them, or pass --impute"):
        ArrayEncoder().fit_transform(rows)
    encoder = ArrayEncoder(impute=True)
    assert find_empty(encoder, encoder.fit_transform(rows)).tolist() == [False, True, True, False]
    assert [str(imputed) for imputed in encoder.imputed_] == ["column 1: 1 cell with the median 2, the first in row 0"]


@pytest.mark.filterwarnings("ignore:n_neighbors=20 needs")
def test_the_class_prior_is_the_share_of_given_labels(tmp_path):
    X = np.random.default_rng(0).normal(size=(20, 3))
    y = np.array(["a", "b", "b", "b", "a", "b", "b", "b"] + [None] * 12, dtype=object)
    model = ANGPNClassifier(random_state=0).fit(X, y)
    assert model.class_prior_.tolist() == [0.25, 0.75]
    model.save(tmp_path / "m.angpn")
    assert ANGPNClassifier.load(tmp_path / "m.angpn").class_prior_.tolist() == [0.25, 0.75]
    with pytest.raises(AttributeError, match="class_prior_ is there after fit"):
        _ = ANGPNClassifier().class_prior_
