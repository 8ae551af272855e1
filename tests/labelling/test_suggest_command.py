"""``angpn suggest``: from no labels to a file to fill in, and round again."""

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from angpn.cli import app

WORDS = {
    "sea": ["wave", "boat", "tide", "sail"],
    "air": ["wing", "cloud", "wind", "bird"],
    "rock": ["stone", "cave", "iron", "peak"],
}


@pytest.fixture
def texts(tmp_path):
    """A CSV of 90 texts on three topics, one of them empty and two alike; and the topic of each id."""
    generator = np.random.default_rng(0)
    truth = {f"t{row}": list(WORDS)[row % 3] for row in range(90)}
    path = tmp_path / "texts.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "body"])
        for name, topic in truth.items():
            own = generator.choice(WORDS[topic], 5)
            writer.writerow([name, " ".join([*own, generator.choice(["the", "old", "red", "new"])])])
        writer.writerow(["nothing", ""])
        writer.writerow(["first", "wave tide boat boat boat sail"])
        writer.writerow(["second", "wave tide boat boat boat sail"])
    return path, {**truth, "first": "sea", "second": "sea"}


def run(*arguments):
    return CliRunner().invoke(app, ["suggest", *map(str, arguments)])


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def fill_in(path, truth):
    lines = read(path)
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        writer.writerows({**line, "label": truth[line["id"]]} for line in lines)


def test_a_person_goes_from_nothing_to_labels(texts, tmp_path):
    path, truth = texts
    columns = "--text", "body", "--id-column", "name"
    first = tmp_path / "first.csv"
    done = run(path, *columns, "-n", 6, "-o", first)
    assert done.exit_code == 0, done.output
    assert "93 rows, 0 of them labelled" in done.output
    lines = read(first)
    assert list(lines[0]) == ["id", "label", "suggestion", "reason"]
    assert len(lines) == 6
    assert {truth[line["id"]] for line in lines} == set(WORDS)
    assert all(line["label"] == line["suggestion"] == "" and "stands for about" in line["reason"] for line in lines)

    fill_in(first, truth)
    second = tmp_path / "second.csv"
    done = run(path, *columns, "--labels", first, "-n", 5, "-o", second, "--json")
    facts = json.loads(done.output)
    assert facts["labelled"] == 6
    assert facts["classes"] == sorted(WORDS)
    lines = read(second)
    assert [line["id"] for line in lines] == [row["id"] for row in facts["suggested"]]
    assert not {line["id"] for line in lines} & {line["id"] for line in read(first)}
    assert all(line["suggestion"] in WORDS and "confidence" in line["reason"] for line in lines)

    fill_in(second, truth)
    done = run(path, *columns, "--labels", first, "--labels", second, "-o", tmp_path / "third.csv", "--json")
    assert json.loads(done.output)["labelled"] == 11


def label(*arguments):
    done = CliRunner().invoke(app, ["label", *map(str, arguments), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_labelling_goes_on_with_the_rows_that_angpn_label_suggests(texts, tmp_path):
    path, truth = texts
    first, out = tmp_path / "first.csv", tmp_path / "out"
    run(path, "--text", "body", "--id-column", "name", "-n", 9, "-o", first)
    fill_in(first, truth)
    columns = "--text", "body", "--id-column", "name", "-o", out
    facts = label(path, *columns, "--labels", first)
    assert facts["given"] == 9
    assert facts["at_random"] == 0  # suggested rows are no random sample
    following = out / "next.csv"
    assert facts["files"]["next.csv"] == str(following)
    assert len(read(following)) == 20
    assert all(line["suggestion"] in WORDS for line in read(following))

    fill_in(following, truth)
    before = following.read_bytes()
    facts = label(path, *columns, "--labels", first, "--labels", following)
    assert facts["given"] == 29
    assert following.read_bytes() == before  # a person's work is kept
    assert facts["files"]["next.csv"] == str(out / "next-2.csv")


def test_rows_drawn_at_random_measure_accuracy(texts, tmp_path):
    path, truth = texts
    out = tmp_path / "random.csv"
    run(path, "--text", "body", "--id-column", "name", "--strategy", "random", "-n", 12, "-o", out)
    assert all(line["reason"] == "drawn at random" for line in read(out))
    fill_in(out, truth)
    facts = label(path, "--text", "body", "--id-column", "name", "--labels", out, "-o", tmp_path / "out")
    assert facts["at_random"] == 12
    assert facts["estimate"]["sample"] == "random"


def test_of_several_files_the_later_wins_and_empty_labels_say_nothing(texts, tmp_path):
    path, truth = texts
    names = list(truth)[:9]
    files = tmp_path / "a.csv", tmp_path / "b.csv"
    files[0].write_text("id,label\n" + "".join(f"{name},{truth[name]}\n" for name in names))
    files[1].write_text(f"id,label\n{names[0]},other\n{names[1]},\n")
    columns = "--text", "body", "--id-column", "name", "-o", tmp_path / "out"
    facts = label(path, *columns, "--labels", files[0], "--labels", files[1], "--dry-run")
    assert facts["classes"] == {"air": 3, "other": 1, "rock": 3, "sea": 2}


def test_empty_rows_and_duplicates_are_left_out_and_all_others_come(texts):
    path, _ = texts
    done = run(path, "--text", "body", "--id-column", "name", "-n", 200, "-o", "-")
    names = [line.split(",")[0] for line in done.output.splitlines()[1:]]
    assert "nothing" not in names
    assert len({"first", "second"} & set(names)) == 1
    assert len(names) == len(set(names))


def test_typical_rows_of_each_cluster(texts, tmp_path):
    path, _ = texts
    out = tmp_path / "next.csv"
    assert run(path, "--text", "body", "--id-column", "name", "--per-cluster", "-n", 9, "-o", out).exit_code == 0
    lines = read(out)
    assert len(lines) == 9
    assert lines[0]["reason"].startswith("typical of cluster 0, ")
    assert len({line["reason"] for line in lines}) >= 2


def test_a_file_with_labels_is_not_overwritten(texts, tmp_path):
    path, truth = texts
    out = tmp_path / "next.csv"
    arguments = path, "--text", "body", "--id-column", "name", "-n", 3, "-o", out
    assert run(*arguments).exit_code == 0
    assert run(*arguments).exit_code == 0  # nothing was filled in
    fill_in(out, truth)
    before = out.read_bytes()
    done = run(*arguments)
    assert done.exit_code == 1
    assert "must hold no labels that would be lost, got 3; pass it as --labels" in done.output
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--text", "words"], "must have a column 'words'"),
        (["--text", "body", "--strategy", "margin"], "strategy='margin' needs labels of two classes"),
        (["--text", "body", "--labels", "none.csv"], "must be a file of labels that can be read"),
        (["--text", "body", "--strategy", "best"], "Invalid value for '--strategy'"),
        (["--text", "body", "-n", "0"], "Invalid value for '-n'"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(texts, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    done = run(texts[0], *options)
    assert done.exit_code in (1, 2)
    assert message in done.output
    assert not (tmp_path / "next.csv").exists()


def test_a_column_of_ids_is_no_feature(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("id,a,b\n" + "".join(f"{row},{row % 3},{row % 5}\n" for row in range(30)))
    done = run(path, "-o", "-")
    assert done.exit_code == 1
    assert "the table has a column 'id', got no --id-column" in done.output
    assert run(path, "--id-column", "id", "-o", "-").exit_code == 0


def test_labels_of_a_table_with_a_label_column_go_into_that_column(tmp_path):
    path, out = tmp_path / "t.csv", tmp_path / "next.csv"
    labels = [*"abababab", *[""] * 52]
    path.write_text("x,y\n" + "".join(f"{row % 7 + row / 100},{label}\n" for row, label in enumerate(labels)))
    done = run(path, "--label-column", "y", "-n", 3, "-o", out)
    assert done.exit_code == 0, done.stderr
    assert f"label these rows in the column 'y' of {path}, then run angpn label" in done.stdout
    assert "--labels" not in done.stdout


def test_when_all_rows_are_labelled_there_is_nothing_to_suggest(texts, tmp_path):
    path, truth = texts
    labels = tmp_path / "labels.csv"
    labels.write_text("id,label\n" + "".join(f"{name},{label}\n" for name, label in truth.items()))
    done = run(path, "--text", "body", "--id-column", "name", "--labels", labels, "-o", "-")
    assert done.exit_code == 1
    assert "some row must be left to suggest, got none" in done.output
