import pytest
from hypothesis import given
from hypothesis import strategies as st

from angpn.labelling.label_file import read_labels
from angpn.labelling.predictions import encode_csv, predictions_csv

BROKEN = b"caf\xe9.png".decode("utf-8", "surrogateescape")


@given(ids=st.lists(st.text(min_size=1), min_size=1, unique_by=str.strip), label=st.text(min_size=1))
def test_ids_and_labels_come_back_as_they_were(tmp_path_factory, ids, label):
    if not label.strip():
        return
    path = tmp_path_factory.mktemp("labels") / "labels.csv"
    path.write_bytes(encode_csv(predictions_csv([(name, label, 0.5, "b", "given") for name in ids])))
    assert read_labels(path, ids) == [label.strip()] * len(ids)


@pytest.mark.parametrize("name", [BROKEN, "a\rb", "a\nb", 'a"b', "a,b", "=1+1", " a ", "\x1b[2J", "a\r\n"])
def test_hostile_file_names_come_back_as_they_were(tmp_path, name):
    text = predictions_csv([(name, "=b", 0.25, "+c", "predicted"), ("other", "-d", 1, "@e", "given")])
    (tmp_path / "labels.csv").write_bytes(encode_csv(text))
    assert read_labels(tmp_path / "labels.csv", ["other", name]) == ["-d", "=b"]


def test_lines_end_with_a_newline_alone():
    text = predictions_csv([("1", "a", 0.98765, "b", "given")])
    assert text == "id,label,confidence,second,source\n1,a,0.9877,b,given\n"
