"""What is said about accuracy where classes are unequal."""

import csv
import json

import numpy as np
import polars
import pytest
from typer.testing import CliRunner

from angpn.cli import app
from angpn.cli.label import _result_summary
from label_inputs import write_labels


def test_an_answer_that_is_always_the_largest_class_is_not_called_accurate():
    estimate = {
        "kind": "cross-validation",
        "rows": 80,
        "sample": "random",
        "left_out": 0,
        "accuracy": 0.8,
        "low": 0.7,
        "high": 0.87,
        "base_rate": 0.8,
        "balanced_accuracy": 1 / 3,
        "recall": {"few": 0.0, "most": 1.0, "none": None, "some": 0.0},
    }
    about = {"predicted": 220, "given": 80, "seconds": 1.0, "rounds": 2, "estimate": estimate, "suspects": 0}
    about |= {"unreliable": {"unreached": 0, "empty": 0, "conflicting": 0}}
    about |= {"skipped": {}, "files": {}, "never_predicted": ["few", "some"]}
    _, accuracy, recalls, *warnings = _result_summary(about)
    assert accuracy.endswith("on 80 labels drawn at random; always answering the largest class: 80.0%")
    assert recalls == "balanced accuracy: 33.3%; lowest recall: few 0%, some 0%, most 100%"
    assert warnings == [
        "warning: this is no better than always answering the largest class; label more of the others",
        "warning: never predicted: few, some; label more rows of these classes",
    ]
    about |= {"estimate": estimate | {"accuracy": 0.81}, "never_predicted": []}
    assert len(_result_summary(about)) == 3


def test_the_command_reports_base_rate_and_recalls(tmp_path):
    generator = np.random.default_rng(0)
    np.save(tmp_path / "rows.npy", generator.normal(size=(300, 3)).astype(np.float32))
    names = ["most"] * 64 + ["some"] * 8 + ["few"] * 8
    labels = write_labels(tmp_path / "labels.csv", map(str, range(80)), names)
    command = ["label", str(tmp_path / "rows.npy"), "--labels", str(labels), "-o", str(tmp_path / "out"), "--json"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert facts["estimate"]["base_rate"] == 0.8
    recalls = facts["estimate"]["recall"]
    assert list(recalls) == ["few", "most", "some"]
    assert facts["estimate"]["balanced_accuracy"] == pytest.approx(np.mean(list(recalls.values())))
    right = 8 * recalls["few"] + 64 * recalls["most"] + 8 * recalls["some"]
    assert facts["estimate"]["accuracy"] == pytest.approx(right / 80)
    given = {str(row) for row in range(80)}
    with (tmp_path / "out" / "predictions.csv").open(newline="") as file:
        predicted = {line["label"] for line in csv.DictReader(file) if line["id"] not in given}
    assert set(facts["never_predicted"]) == {"few", "most", "some"} - predicted


def test_the_summary_says_how_the_labels_were_chosen():
    estimate = {"kind": "cross-validation", "rows": 34, "accuracy": 0.9, "low": 0.8, "high": 0.95, "base_rate": 0.5}
    estimate |= {"balanced_accuracy": 0.9, "recall": {"a": 0.9}, "sample": "random", "left_out": 70}
    about = {"predicted": 220, "given": 104, "seconds": 1.0, "rounds": 2, "suspects": 0, "skipped": {}, "files": {}}
    about |= {"never_predicted": [], "estimate": estimate, "unreliable": {"unreached": 0, "empty": 0, "conflicting": 0}}
    _, accuracy, recalls = _result_summary(about)
    assert "by cross-validation on 34 labels drawn at random, 70 others left out; always" in accuracy
    for sample, text in (
        ("unknown", "if these labels were not drawn at random, it may be off either way; if some were, write random"),
        ("not random", "none of these labels was drawn at random, so it may be off either way; draw a few rows"),
    ):
        _, accuracy, note, again = _result_summary(about | {"estimate": estimate | {"sample": sample, "left_out": 0}})
        assert "cross-validation on 34 labels; always" in accuracy
        assert note.startswith(text)
        assert again == recalls
    assert _result_summary(about | {"suspects": 6})[-1].startswith("given labels that may be wrong: 6, see Suspected")


@pytest.fixture
def table_with_sources(tmp_path):
    """Two far clusters, and one in which labels are coin flips: 40 labels drawn at random, and 40 of the last."""
    generator = np.random.default_rng(0)
    cluster = generator.choice(3, 400, p=[0.4, 0.4, 0.2])
    X = np.array([[8.0, 0], [-8, 0], [0, 8]])[cluster] + generator.normal(size=(400, 2))
    truth = np.array(["left", "right"])[np.where(cluster == 2, generator.integers(0, 2, 400), cluster)]
    source = np.full(400, None, dtype=object)
    source[generator.choice(np.flatnonzero(cluster == 2), 40, replace=False)] = "suggested"
    source[generator.choice(np.flatnonzero(source == None), 40, replace=False)] = "random"  # noqa: E711
    labels = [label if how else None for label, how in zip(truth.tolist(), source, strict=True)]
    frame = polars.DataFrame({"a": X[:, 0], "b": X[:, 1], "label": labels, "how": source.tolist()})
    frame.write_csv(tmp_path / "table.csv")
    return tmp_path / "table.csv"


def run_json(*arguments):
    done = CliRunner().invoke(app, ["label", *map(str, arguments), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_the_command_measures_on_labels_drawn_at_random(table_with_sources, tmp_path):
    columns = ["--label-column", "label", "--source-column", "how", "-o", tmp_path / "out"]
    facts = run_json(table_with_sources, *columns)
    assert (facts["given"], facts["at_random"]) == (80, 40)
    fair = facts["estimate"]
    assert (fair["sample"], fair["rows"], fair["left_out"]) == ("random", 40, 40)
    page = (tmp_path / "out" / "report.html").read_text()
    assert '"rows":40,"sample":"random","left_out":40' in page
    # New rows may have the column, or not.
    for drop in ([], ["how", "label"]):
        polars.read_csv(table_with_sources).drop(drop).write_csv(tmp_path / "new.csv")
        done = CliRunner().invoke(app, ["predict", str(tmp_path / "out" / "model"), str(tmp_path / "new.csv")])
        assert done.exit_code == 0, done.output
    naive = run_json(table_with_sources, "--label-column", "label", "--drop", "how", "-o", tmp_path / "out")["estimate"]
    assert (naive["sample"], naive["rows"], naive["left_out"]) == ("unknown", 80, 0)
    assert naive["accuracy"] < fair["accuracy"] - 0.1
    held = run_json(table_with_sources, *columns, "--holdout", 0.5)["estimate"]
    assert (held["kind"], held["sample"], held["rows"], held["left_out"]) == ("held out", "random", 20, 0)


def test_a_label_file_may_name_sources(table_with_sources, tmp_path):
    frame = polars.read_csv(table_with_sources)
    np.save(tmp_path / "rows.npy", frame.select("a", "b").to_numpy())
    lines = frame.with_row_index("id").drop_nulls("label").select("id", "label", source="how")
    lines.write_csv(tmp_path / "labels.csv")
    options = [tmp_path / "rows.npy", "--labels", tmp_path / "labels.csv", "-o", tmp_path / "out"]
    assert run_json(*options)["estimate"]["left_out"] == 40
    done = CliRunner().invoke(app, ["label", *map(str, options), "--dry-run"])
    assert "labels drawn at random: 40" in done.stdout
    lines.with_columns(source=polars.lit("chosen")).write_csv(tmp_path / "labels.csv")
    assert run_json(*options)["estimate"]["sample"] == "not random"
    done = CliRunner().invoke(app, ["label", *map(str, options), "--holdout", "0.2"])
    assert done.exit_code == 1
    assert "--holdout must find labels whose source is random" in done.stderr
    assert "got 0 such labels and no class with enough; label more rows drawn at random" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--labels", "l.csv", "--source-column", "how"], "got no --label-column; a file of --labels has them in its"),
        (["--label-column", "how", "--source-column", "how"], "got the same column"),
        (["--label-column", "label", "--source-column", "why"], "must have a column 'why'"),
    ],
)
def test_a_source_column_that_cannot_be_used_is_named(options, message, table_with_sources):
    done = CliRunner().invoke(app, ["label", str(table_with_sources), *options])
    assert done.exit_code == 1
    assert message in done.stderr
