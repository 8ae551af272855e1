"""Labels in and out: what is exported is imported again, and files of other tools are read."""

import json

import numpy as np
import polars
import pytest

from angpn.annotation.label_export import RowLabel, write_labels
from angpn.annotation.label_import import read_import
from angpn.labelling.input_rows import Rows

TEXTS = Rows("text", ["a", "b", "c", "d"], ["one", "two", "three", "four"], None)
LABELS = [
    RowLabel(0, "cat, tom", "random", "anna"),
    RowLabel(1, "dög", "suggested", "anna,ben"),
    RowLabel(2, None, "grid", "ben"),
]
KINDS = {
    "text": TEXTS,
    "images": Rows("images", ["x/a.png", "x/b.png", "x/c.png", "x/d.png"], [], None),
    "table": Rows(
        "table", ["7", "8", "9", "10"], polars.DataFrame({"price": [1.5, None, 2, 3], "name": [*"wxyz"]}), None
    ),
    "array": Rows("array", ["0", "1", "2", "3"], np.eye(4), None),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["labels.csv", "labels.json", "labels.jsonl", "labels.parquet"])
def test_what_is_written_is_read_again(tmp_path, kind, name):
    rows = KINDS[kind]
    assert name in write_labels(LABELS, rows, tmp_path)
    found = read_import(tmp_path / name, rows)
    assert found.labels == [(0, "cat, tom", "random"), (1, "dög", "suggested")]
    assert found.other == [2]
    assert found.skipped == []


def test_the_csv_is_one_that_angpn_label_reads(tmp_path):
    from angpn.labelling.label_file import drawn_at_random, read_labels

    write_labels(LABELS, TEXTS, tmp_path)
    found = read_labels(tmp_path / "labels.csv", TEXTS.ids)
    assert found.labels == ["cat, tom", "dög", None, None]
    assert drawn_at_random(found.labels, found.sources).tolist() == [True, False, False, False]


def task(data, *choices, cancelled=False):
    result = [{"type": "choices", "from_name": "f", "to_name": "t", "value": {"choices": list(choices)}}]
    return {"id": 1, "data": data, "annotations": [{"was_cancelled": cancelled, "result": result if choices else []}]}


def test_tasks_of_label_studio(tmp_path):
    path = tmp_path / "export.json"
    images = Rows("images", ["x/a.png", "x/b.png", "y/c d.png"], [], None)
    path.write_text(
        json.dumps(
            [
                task({"image": "/data/upload/3/1f2e3d4c-a.png"}, "cat"),
                task({"image": "/data/local-files/b.png"}, cancelled=True),
                task({"image": "s3://bucket/folder/c%20d.png"}),
            ]
        )
    )
    found = read_import(path, images)
    assert (found.labels, found.skipped, found.other) == ([(0, "cat", "")], [1], [2])


def test_lines_of_prodigy(tmp_path):
    path = tmp_path / "export.jsonl"
    lines = [
        {"text": "one", "label": "cat", "answer": "accept"},
        {"text": "two", "label": "cat", "answer": "reject"},
        {"text": "three", "accept": ["dog"], "answer": "accept"},
        {"text": "four", "accept": [], "answer": "ignore"},
    ]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    found = read_import(path, TEXTS)
    assert (found.labels, found.other, found.skipped) == ([(0, "cat", ""), (2, "dog", "")], [], [3])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("l.csv", "id,label\nz,cat\n", "must name ids of the input, such as 'a', got 'z' that it does not have"),
        ("l.csv", "id,label\na,cat\na,dog\n", "must name each row once, got 'a' twice"),
        ("l.csv", "row,class\na,cat\n", "must begin with the header id,label"),
        ("l.csv", "id,label\na,nan\n", "must not mean a missing label, got 'nan'"),
        ("l.json", "{", "must hold JSON, got"),
        ("l.json", "{}", "must be a list of tasks as Label Studio exports them, got another JSON"),
        ("l.json", '[{"data": {"x": 1}}]', "must name rows of the input by id, row_id, image or a text"),
        ("l.jsonl", '{"text": "one"}\n[1]', "must hold one object a line, got another in line 2"),
        ("l.jsonl", '{"text": "none of these"}', "must name rows of the input by id, row_id, image or a text"),
        ("l.parquet", "no parquet", "must be a parquet file, got"),
        ("l.xlsx", "", "must be a file named .csv, .json, .jsonl, .parquet, got another suffix"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        read_import(tmp_path / name, TEXTS)


def test_a_file_that_is_not_there_or_lacks_columns(tmp_path):
    with pytest.raises(ValueError, match="must be a file of labels that can be read, got No such file"):
        read_import(tmp_path / "none.csv", TEXTS)
    polars.DataFrame({"id": ["a"], "class": ["cat"]}).write_parquet(tmp_path / "l.parquet")
    with pytest.raises(ValueError, match="must have columns id and label, got id, class"):
        read_import(tmp_path / "l.parquet", TEXTS)


def test_a_text_that_occurs_twice_names_no_row(tmp_path):
    rows = Rows("text", ["a", "b"], ["same", "same"], None)
    (tmp_path / "l.jsonl").write_text('{"text": "same", "label": "cat"}')
    with pytest.raises(ValueError, match="must name rows of the input"):
        read_import(tmp_path / "l.jsonl", rows)


def test_labels_given_at_the_start_are_imported_once(annotate, digits, tmp_path):
    path = tmp_path / "some.csv"
    path.write_text("id,label,source\n3,digit 0,random\n4,digit 1,\n5,,other\n")
    first = annotate(digits[0], labels=[path])
    state = first.get("/api/state")
    assert state["counts"] == {"labelled": 2, "other": 1, "skipped": 0, "audit": 1, "left": 147}
    first.act("label", row=3, name="digit 2")
    first.close()
    again = annotate(digits[0], labels=[path])
    assert again.session.state.seq == 2
    assert again.get("/api/rows/3")["label"] == "digit 2"


def test_an_import_that_fails_leaves_no_project(annotate, digits, tmp_path):
    path = tmp_path / "some.csv"
    path.write_text("id,label\n999,cat\n")
    with pytest.raises(ValueError, match="got '999' that it does not have"):
        annotate(digits[0], labels=[path])
    assert not (tmp_path / "out").exists()
