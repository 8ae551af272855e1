"""Rows whose label means little, in the output of the command."""

import json

import numpy as np
import polars
from typer.testing import CliRunner

from angpn.cli import app
from angpn.estimators.unreliable_rows import UnreliableRows
from angpn.inspection.unreliable_rows import REASONS, describe_unreliable
from label_inputs import write_labels


def run(*arguments):
    done = CliRunner().invoke(app, ["label", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_every_reason_has_a_sentence_and_none_without_rows():
    assert tuple(REASONS) == UnreliableRows._fields
    said = describe_unreliable({"unreached": 1200, "empty": 1, "conflicting": 0})
    assert said["unreached"].startswith("1,200 rows are reached by no label: no links of the graph lead")
    assert said["empty"].startswith("1 row is empty: they have no known word, no value, or zeros alone, so they get")
    assert list(said) == ["unreached", "empty"]


def test_texts_without_a_word_are_counted_and_never_suggested(tickets, tmp_path):
    path, _ = tickets
    frame = polars.read_csv(path)
    empty = frame.filter(polars.col("topic").is_null()).head(3)["ticket"].to_list()
    blank = polars.when(polars.col("ticket").is_in(empty)).then(polars.lit("?!")).otherwise(polars.col("body"))
    frame.with_columns(body=blank).write_csv(tmp_path / "tickets.csv")
    options = ["--text", "body", "--label-column", "topic", "--id-column", "ticket", "-o", tmp_path / "out"]
    facts = json.loads(run(tmp_path / "tickets.csv", *options, "--json"))
    assert facts["unreliable"]["empty"] == 3
    assert facts["unreliable"]["conflicting"] == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "3 rows are empty: they have no known word" in page


def test_the_text_counts_unreached_and_conflicting_rows(tmp_path):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(120, 3)).astype(np.float32)
    X[60:] += 100
    X[[10, 20]] = X[1]
    np.save(tmp_path / "rows.npy", X)
    names = ["low", "high"] * 6
    labels = write_labels(tmp_path / "labels.csv", [*map(str, range(11)), "20"], names)
    text = run(tmp_path / "rows.npy", "--labels", labels, "-o", tmp_path / "out")
    assert "60 rows are reached by no label: no links of the graph lead" in text
    assert "3 rows are in conflict: they equal labelled rows of different classes; correct a label" in text
    assert "none of these is suggested for labelling: see the report" in text
    labels = write_labels(tmp_path / "labels.csv", [*map(str, range(9)), "100"], names[:10])
    text = run(tmp_path / "rows.npy", "--labels", labels, "-o", tmp_path / "out")
    assert "suggested for labelling" not in text
    assert " no label:" not in text
