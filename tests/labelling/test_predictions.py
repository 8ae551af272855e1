import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from angpn.labelling.label_file import read_labels
from angpn.labelling.predictions import encode_csv, escape_formula, predictions_csv

BROKEN = b"caf\xe9.png".decode("utf-8", "surrogateescape")


@given(ids=st.lists(st.text(min_size=1), min_size=1, unique_by=str.strip), label=st.text(min_size=1))
def test_ids_and_labels_come_back_as_they_were(tmp_path_factory, ids, label):
    if not label.strip():
        return
    path = tmp_path_factory.mktemp("labels") / "labels.csv"
    path.write_bytes(encode_csv(predictions_csv([(name, label, 0.5, "b", "given") for name in ids])))
    assert read_labels(path, ids).labels == [label.strip()] * len(ids)


@pytest.mark.parametrize("name", [BROKEN, "a\rb", "a\nb", 'a"b', "a,b", "=1+1", " a ", "\x1b[2J", "a\r\n"])
def test_hostile_file_names_come_back_as_they_were(tmp_path, name):
    text = predictions_csv([(name, "=b", 0.25, "+c", "predicted"), ("other", "-d", 1, "@e", "given")])
    (tmp_path / "labels.csv").write_bytes(encode_csv(text))
    assert read_labels(tmp_path / "labels.csv", ["other", name]).labels == ["-d", "=b"]


def test_lines_end_with_a_newline_alone():
    text = predictions_csv([("1", "a", 0.98765, "b", "given")])
    assert text == "id,label,confidence,second,source\n1,a,0.9877,b,given\n"


@pytest.mark.parametrize(
    "cell", ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "-", "+", "-1.5x", "\uff0d1", "+1e"]
)
def test_a_formula_gets_an_apostrophe(cell):
    assert escape_formula(cell) == f"'{cell}"


@pytest.mark.parametrize("cell", ["-1.5", "+3", "-1e-9", "-.5", "1", "a=b", "a-b", " =1", "", "'=1", "x@y.org"])
def test_numbers_and_other_texts_get_none(cell):
    assert escape_formula(cell) == cell


def test_excel_safe_escapes_ids_and_labels_alone():
    lines = [("=cmd|' /C calc'!A0", "+a", 0.5, "@b", "given"), ("-7", "-8", 0.5, "c", "predicted")]
    (_, first, second) = csv.reader(io.StringIO(predictions_csv(lines, excel_safe=True)))
    assert first == ["'=cmd|' /C calc'!A0", "'+a", "0.5000", "'@b", "given"]
    assert second == ["-7", "-8", "0.5000", "c", "predicted"]
