"""What is said about accuracy where classes are unequal."""

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from angpn.cli import app
from angpn.cli.label import _result_summary
from angpn.labelling.label_errors import find_suspects
from label_inputs import write_labels


def test_labels_of_a_class_that_is_never_predicted_are_not_suspected():
    """Rows that influence the labelled rows 0 and 1 say otherwise, and nobody is predicted to be of class 2."""
    codes, given = np.array([2, 1, 0, 0, 1]), np.array([True, True, False, False, False])
    probabilities = np.array([[0.9, 0.1, 0], [0.9, 0.1, 0], [1, 0, 0], [1, 0, 0], [0, 1, 0]])
    influences, weights = np.array([[2, 3]] * 5), np.full((5, 2), 0.5)
    assert [suspect.row for suspect in find_suspects(probabilities, codes, given, influences, weights)] == [1]
    codes[4] = 2
    assert [suspect.row for suspect in find_suspects(probabilities, codes, given, influences, weights)] == [0]


def test_an_answer_that_is_always_the_largest_class_is_not_called_accurate():
    estimate = {
        "kind": "cross-validation",
        "rows": 80,
        "accuracy": 0.8,
        "low": 0.7,
        "high": 0.87,
        "base_rate": 0.8,
        "balanced_accuracy": 1 / 3,
        "recall": {"few": 0.0, "most": 1.0, "none": None, "some": 0.0},
    }
    about = {"predicted": 220, "given": 80, "seconds": 1.0, "rounds": 2, "estimate": estimate, "suspects": 0}
    about |= {"skipped": {}, "files": {}, "never_predicted": ["few", "some"]}
    _, accuracy, recalls, *warnings = _result_summary(about)
    assert accuracy.endswith("on 80 labels; always answering the largest class: 80.0%")
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
