import io
import sys

import numpy as np
import polars
import pytest
import scipy.sparse
from numpy.testing import assert_array_equal

from angpn.labelling import read_rows
from angpn.labelling.label_file import read_labels


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_a_table_gives_ids_labels_and_features(tmp_path):
    path = write(tmp_path / "a.csv", "name,size,colour,kind\nx,1,red,7\ny,2,,\nz,3,blue, 8 \n")
    rows = read_rows(path, label_column="kind", id_column="name")
    assert rows.kind == "table"
    assert rows.ids == ["x", "y", "z"]
    assert rows.labels == ["7", None, "8"]
    assert rows.content.columns == ["size", "colour"]
    assert read_rows(path, drop=["kind", "name"]).ids == ["0", "1", "2"]
    texts = read_rows(path, text="colour", label_column="kind")
    assert texts.kind == "text"
    assert texts.content == ["red", "", "blue"]


def test_tsv_parquet_and_standard_input_read_alike(tmp_path, monkeypatch):
    frame = polars.DataFrame({"id": [1, 2], "v": [0.5, 1.5], "label": ["a", None]})
    frame.write_csv(tmp_path / "a.tsv", separator="\t")
    frame.write_parquet(tmp_path / "a.parquet")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(frame.write_csv().encode())))
    for path in (tmp_path / "a.tsv", tmp_path / "a.parquet", "-"):
        rows = read_rows(path, id_column="id", label_column="label")
        assert rows.ids == ["1", "2"]
        assert rows.labels == ["a", None]
        assert rows.content["v"].to_list() == [0.5, 1.5]


def test_arrays_dense_sparse_and_named(tmp_path):
    matrix = np.arange(12.0).reshape(4, 3)
    np.save(tmp_path / "a.npy", matrix)
    np.savez(tmp_path / "b.npz", X=matrix, other=np.eye(2))
    np.savez(tmp_path / "c.npz", only=matrix)
    scipy.sparse.save_npz(tmp_path / "d.npz", scipy.sparse.csr_array(matrix))
    for name in ("a.npy", "b.npz", "c.npz", "d.npz"):
        rows = read_rows(tmp_path / name)
        assert rows.kind == "array"
        assert rows.ids == ["0", "1", "2", "3"]
        found = rows.content.toarray() if name == "d.npz" else rows.content
        assert_array_equal(found, matrix)
    assert isinstance(read_rows(tmp_path / "a.npy").content, np.memmap)


def test_a_column_of_vectors_is_a_matrix(tmp_path):
    frame = polars.DataFrame({"key": ["a", "b"], "vector": [[1.0, 2.0], [3.0, 4.0]], "y": ["p", None]})
    frame.write_parquet(tmp_path / "a.parquet")
    rows = read_rows(tmp_path / "a.parquet", id_column="key", label_column="y")
    assert (rows.kind, rows.ids, rows.labels) == ("array", ["a", "b"], ["p", None])
    assert_array_equal(rows.content, [[1, 2], [3, 4]])
    polars.DataFrame({"vector": [[1.0, 2.0], [3.0]]}).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(ValueError, match="must hold vectors of one length in 'vector', got 1 to 2 numbers"):
        read_rows(tmp_path / "b.parquet")


def test_lines_of_a_text_file_and_images_below_a_folder(tmp_path, photos):
    assert read_rows(write(tmp_path / "a.txt", "one\n\ntwo\n")).content == ["one", "", "two"]
    folder, *_ = photos
    assert read_rows(folder).ids[:2] == ["000.png", "001.png"]


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.csv", "", {}, "must hold a header and rows, got an empty file"),
        ("a.csv", "x,y\n", {}, "must hold at least one row below its header"),
        ("a.csv", "x,y\n1,2\n1,2,3\n", {}, "must be a csv file that can be read"),
        ("a.csv", "x,y\n1,2\n", {"text": "body"}, "must have a column 'body', got 'x', 'y'"),
        ("a.csv", "x,y\n1,2\n1,3\n", {"id_column": "x"}, "must name each row once, got '1' twice"),
        ("a.csv", "x,y\n1,2\n,3\n", {"id_column": "x"}, "must have an id in every row of 'x', got none in row 1"),
        ("a.csv", "x\n1\n", {"label_column": "x"}, "must have a column of features"),
        ("a.parquet", "not parquet", {}, "must be a parquet file that can be read"),
        ("a.npy", "not an array", {}, "must be an array that numpy can read without pickle"),
        ("a.dat", "1 2 3", {}, "must be a folder of images or a file named .csv"),
        ("a.txt", "a\nb\n", {"text": "body"}, "--text names a column of a table"),
    ],
)
def test_unreadable_inputs_are_named(name, content, options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read_rows(write(tmp_path / name, content), **options)


def test_missing_files_and_arrays_of_wrong_shape_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="must be a file or folder, got none there"):
        read_rows(tmp_path / "none.npy")
    with pytest.raises(FileNotFoundError, match="must be a file, got none there"):
        read_rows(tmp_path / "none.csv")
    np.save(tmp_path / "flat.npy", np.arange(3.0))
    with pytest.raises(ValueError, match=r"must hold a matrix, rows by features, got shape \(3,\)"):
        read_rows(tmp_path / "flat.npy")
    np.save(tmp_path / "words.npy", np.array([["a"]]))
    with pytest.raises(ValueError, match="must hold numbers, got <U1"):
        read_rows(tmp_path / "words.npy")
    np.savez(tmp_path / "two.npz", a=np.eye(2), b=np.eye(2))
    with pytest.raises(ValueError, match="must hold one matrix, or one named X, .* got arrays a, b"):
        read_rows(tmp_path / "two.npz")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "two.npz").read_bytes()[:40])
    with pytest.raises(ValueError, match="must be an array that numpy can read"):
        read_rows(tmp_path / "cut.npz")
    (tmp_path / "renamed.npy").write_bytes((tmp_path / "two.npz").read_bytes())
    with pytest.raises(ValueError, match="must be an array that numpy can read"):
        read_rows(tmp_path / "renamed.npy")
    np.save(tmp_path / "object.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="without pickle"):
        read_rows(tmp_path / "object.npy")


def test_labels_are_matched_by_id(tmp_path):
    path = write(tmp_path / "labels.csv", "\ufeffid,label,who\nb, cat ,me\nc,,you\n")
    assert read_labels(path, ["a", "b", "c"]) == [None, "cat", None]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,label\n", "got no line; label a few rows"),
        ("name,label\na,x\n", "must begin with the header id,label, with a comma, got name,label"),
        ("id,label\na,x\na,y\n", "must name each row once, got 'a' twice"),
        ("id,label\nz,x\ny,x\na,x\n", "must name ids of the input, such as 'a', got 'z' and 1 more"),
    ],
)
def test_unusable_label_files_are_named(content, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read_labels(write(tmp_path / "labels.csv", content), ["a", "b"])
    with pytest.raises(ValueError, match="must be a file of labels that can be read, got No such file"):
        read_labels(tmp_path / "none.csv", ["a"])
