import io
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import polars
import pytest
import scipy.sparse
from numpy.testing import assert_array_equal

from angpn.labelling import Rows, read_rows
from angpn.labelling.label_file import drawn_at_random, read_labels
from angpn.labelling.predictions import predictions_csv
from angpn.utils import memory
from angpn.utils.parquet_footer import unpacked_bytes
from label_inputs import write_workbook


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
        assert rows.content["v"].cast(polars.Float64).to_list() == [0.5, 1.5]


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


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr"])
def test_sparse_matrices_are_read_in_every_form_that_has_rows(tmp_path, kind):
    dense = np.random.default_rng(0).normal(size=(12, 8))
    matrix = scipy.sparse.csr_array(np.where(dense > 0.5, dense, 0)).asformat(kind)
    for save in (scipy.sparse.save_npz, partial(scipy.sparse.save_npz, compressed=False)):
        save(tmp_path / "a.npz", matrix)
        found = read_rows(tmp_path / "a.npz").content
        assert isinstance(found, scipy.sparse.csr_array)
        assert_array_equal(found.toarray(), matrix.toarray())


def sparse_parts(**changes):
    parts = {"format": np.array(b"csr"), "shape": np.array([2, 3]), "data": np.ones(2), "indices": np.array([0, 2])}
    return {**parts, "indptr": np.array([0, 1, 2]), **changes}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"indices": np.array([0, 3])}, "must be an array that numpy can read .*, got .*ind"),
        ({"indices": np.array([0, -1])}, "must be an array that numpy can read .*, got .*ind"),
        ({"indptr": np.array([0, 9, 2])}, "must be an array that numpy can read"),
        ({"shape": np.array([2.0, 3.0])}, r"must hold the shape of a matrix, got float64 of shape \(2,\); save it"),
        ({"shape": np.array([5, 3])}, "must be an array that numpy can read"),
        ({"format": np.array("dia")}, "must hold a matrix as csr, csc, bsr, got 'dia'; convert it by tocsr"),
        ({"data": np.array(["a", "b"])}, "must be an array that numpy can read|must hold numbers"),
    ],
)
def test_sparse_matrices_whose_parts_do_not_fit_are_refused(tmp_path, changes, message):
    np.savez(tmp_path / "good.npz", **sparse_parts())
    assert read_rows(tmp_path / "good.npz").content.shape == (2, 3)
    np.savez(tmp_path / "a.npz", **sparse_parts(**changes))
    with pytest.raises(ValueError, match=message):
        read_rows(tmp_path / "a.npz")


def test_a_sparse_matrix_of_more_columns_than_fit_into_memory_is_refused(tmp_path, monkeypatch):
    np.savez(tmp_path / "a.npz", **sparse_parts(shape=np.array([2, 2**40])))
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**10)
    with pytest.raises(MemoryError, match=r"takes 35184.4 GB where 10.0 GB are free; leave out empty ones of the 1099"):
        read_rows(tmp_path / "a.npz")
    (tmp_path / "a.npz").unlink()
    lacking = sparse_parts()
    del lacking["data"]
    np.savez(tmp_path / "a.npz", **lacking)
    with pytest.raises(ValueError, match="must be an array that numpy can read .*, got 'data'"):
        read_rows(tmp_path / "a.npz")


def test_only_the_matrix_that_is_wanted_is_read(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "a.npz", X=np.eye(3), images=np.zeros((10, 20, 20, 3)), y=np.zeros(10**5))
    monkeypatch.setattr(memory, "available_bytes", lambda: 100)  # what X takes is 72
    assert_array_equal(read_rows(tmp_path / "a.npz").content, np.eye(3))
    np.savez_compressed(tmp_path / "a.npz", X=np.eye(4))
    with pytest.raises(MemoryError, match=r"a.npz must fit into memory, .* save the matrix as .npy"):
        read_rows(tmp_path / "a.npz")
    np.save(tmp_path / "a.npy", np.eye(4))
    assert_array_equal(read_rows(tmp_path / "a.npy").content, np.eye(4))  # is mapped


def test_a_locked_archive_is_named(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(3))
    content = bytearray((tmp_path / "a.npz").read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + place] |= 1  # the flag of encryption
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(ValueError, match="must be an array that numpy can read without pickle, got .*encrypted"):
        read_rows(tmp_path / "a.npz")


@pytest.mark.skipif(memory.peak_bytes() is None, reason="the system does not tell")
@pytest.mark.slow
def test_zeros_that_unpack_to_much_take_no_more_than_that(tmp_path):
    """Once each, to see their shapes, and then the matrix again: 1.5 GB took 6.4."""
    code = f"""
import numpy as np
from angpn.labelling import read_rows
from angpn.utils import memory
path = {str(tmp_path / "a.npz")!r}
np.savez_compressed(path, X=np.zeros((250_000, 100)), other=np.zeros((10, 250_000, 10)))
memory.forget_peak()
before = memory.resident_bytes()
matrix = read_rows(path).content
print(memory.peak_bytes() - before - matrix.nbytes)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 50e6  # beside 200 MB; of the ids of 250,000 rows 20 MB


def test_a_table_that_unpacks_to_more_than_fits_is_not_read(tmp_path, monkeypatch):
    """Equal values are packed into a few bytes, be they numbers, vectors or texts."""
    path = tmp_path / "a.parquet"
    frame = polars.DataFrame({"x": np.zeros(10**5), "text": ["a" * 1000] * 10**5})
    frame.write_parquet(path)
    assert path.stat().st_size < 10**4
    assert read_rows(path).content.shape == frame.shape
    monkeypatch.setattr(memory, "available_bytes", lambda: 2 * 10**6)
    with pytest.raises(
        MemoryError, match=r"a.parquet must fit into memory, .* GB are free; take fewer columns or rows"
    ):
        read_rows(path)
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**7)  # for the packed texts, and not for 100,000 copies
    for column in ("text", "label_column", "id_column"):
        with pytest.raises(MemoryError, match=r"takes 0.1 GB where .* are free; shorten the texts of 'text'"):
            read_rows(path, **{column: "text"})


def test_vectors_that_unpack_to_more_than_fits_are_not_read(tmp_path, monkeypatch):
    polars.DataFrame({"v": [[0.5] * 100] * 1000}).write_parquet(tmp_path / "a.parquet")
    assert read_rows(tmp_path / "a.parquet").content.shape == (1000, 100)
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**6)  # enough for 100,000 numbers, not for lists of them
    with pytest.raises(MemoryError, match=r"takes 0.0 GB where 0.0 GB are free; save the vectors as a matrix, .npy"):
        read_rows(tmp_path / "a.parquet")


def test_the_footer_of_a_table_tells_what_its_columns_take(tmp_path):
    numbers = np.arange(10**4)
    frame = polars.DataFrame(
        {
            "float": numbers + 0.5,
            "int": numbers.astype(np.int32),
            "flag": numbers % 2 == 0,
            "text": [f"word {number}" for number in numbers],
            "vector": [[0.5] * 20] * 10**4,
            "category": polars.Series(["a", "b"] * 5000, dtype=polars.Categorical),
            "struct": [{"u": 1, "v": 2.0}] * 10**4,
        }
    )
    for options in ({}, {"compression": "uncompressed"}, {"row_group_size": 999}, {"statistics": "full"}):
        frame.write_parquet(tmp_path / "a.parquet", **options)
        assert 0.8 < unpacked_bytes(tmp_path / "a.parquet") / frame.estimated_size() < 2
    whole = (tmp_path / "a.parquet").read_bytes()
    generator, length = np.random.default_rng(0), int.from_bytes(whole[-8:-4], "little")
    for _ in range(300):
        footer = bytearray(whole[-8 - length :])
        for place in generator.integers(length, size=2):
            footer[place] = generator.integers(256)
        (tmp_path / "b.parquet").write_bytes(footer)
        with suppress(ValueError):  # and nothing else
            unpacked_bytes(tmp_path / "b.parquet")
    (tmp_path / "b.parquet").write_bytes(whole[:-8] + b"\xff\xff\xff\x7fPAR1")
    with pytest.raises(
        ValueError, match="must be a parquet file that can be read, got no footer of Parquet; repair it"
    ):
        read_rows(tmp_path / "b.parquet")


def test_labels_are_matched_by_id(tmp_path):
    path = write(tmp_path / "labels.csv", "\ufeffid,label,who\nb, cat ,me\nc,,you\n")
    assert read_labels(path, ["a", "b", "c"]) == ([None, "cat", None], None)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_labels_are_read_with_any_separator_and_encoding(tmp_path, separator, encoding):
    text = "id,label\nKäse,süß\nÖl,a\n".replace(",", separator)
    (tmp_path / "labels.csv").write_bytes(text.encode(encoding))
    assert read_labels(tmp_path / "labels.csv", ["Öl", "Brot", "Käse"]).labels == ["a", None, "süß"]


def test_ids_that_are_not_utf_8_are_kept_as_they_are(tmp_path):
    name = "K\udce4se.png"  # as Python reads the name of such a file
    (tmp_path / "labels.csv").write_bytes(b"id,label\nK\xe4se.png,a\nb.png,b\n")
    assert read_labels(tmp_path / "labels.csv", [name, "b.png"]).labels == ["a", "b"]


def test_a_workbook_is_no_file_of_labels(tmp_path):
    path = write_workbook(tmp_path / "labels.xlsx", {"labels": [["id", "label"], ["a", "b"]]})
    with pytest.raises(
        ValueError, match=r"labels.xlsx must be a CSV file, got a packed one, .* workbook; save it as CSV"
    ):
        read_labels(path, ["a"])


def test_texts_are_read_in_any_usual_encoding(tmp_path):
    for encoding, notes in (
        ("utf-8", ()),
        ("cp1252", ("encoded in Windows-1252",)),
        ("utf-16", ("encoded in UTF-16",)),
    ):
        (tmp_path / "a.txt").write_bytes("Käse\n\nÖl\n".encode(encoding))
        rows = read_rows(tmp_path / "a.txt")
        assert rows.content == ["Käse", "", "Öl"]
        assert rows.notes == notes


def test_the_source_of_labels_is_read_where_there_is_a_column(tmp_path):
    path = write(
        tmp_path / "labels.csv", "id,label,source\nb,cat, Random \nc,dog,suggested\nd,,random\ne,dog\nf,cat,\n"
    )
    labels, sources = read_labels(path, list("abcdef"))
    assert sources == ["", "Random", "suggested", "random", "", ""]
    assert drawn_at_random(labels, sources).tolist() == [False, True, False, False, False, False]
    assert drawn_at_random(["x", "y"], ["", ""]).tolist() == [False, False]
    assert drawn_at_random(["x", "y"], None) is None


def test_a_file_of_predictions_does_not_say_how_rows_were_chosen(tmp_path):
    path = write(
        tmp_path / "labels.csv", predictions_csv([("a", "x", 1, "y", "given"), ("b", "y", 1, "x", "predicted")])
    )
    assert drawn_at_random(*read_labels(path, ["a", "b", "c"])) is None
    assert drawn_at_random(["x", "y", None], ["given", "random", "other"]).tolist() == [False, True, False]


def test_a_column_of_sources_is_no_feature(tmp_path):
    frame = polars.DataFrame({"a": [1, 2], "y": ["u", None], "how": ["random", None], "t": ["p", "q"]})
    for name, save in (("t.csv", frame.write_csv), ("t.parquet", frame.write_parquet)):
        save(tmp_path / name)
        rows = read_rows(tmp_path / name, label_column="y", source_column="how")
        assert rows.content.columns == ["a", "t"]
        assert rows.sources == ["random", None]
        assert read_rows(tmp_path / name, text="t", label_column="y", source_column="how").sources == rows.sources
    with pytest.raises(ValueError, match="must have a column 'why', got 'a', 'y', 'how', 't'"):
        read_rows(tmp_path / "t.csv", label_column="y", source_column="why")
    np.save(tmp_path / "a.npy", np.eye(3))
    with pytest.raises(ValueError, match="--source-column names a column of a table, got .*a.npy, which is none"):
        read_rows(tmp_path / "a.npy", source_column="how")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,label\n", "got no line; label a few rows"),
        ("name,label\na,x\n", "must begin with the header id,label, got name,label"),
        ("id,label\na,x\na,y\n", "must name each row once, got 'a' twice"),
        ("id,label\nz,x\ny,x\na,x\n", "must name ids of the input, such as 'a', got 'z' and 1 more"),
    ],
)
def test_unusable_label_files_are_named(content, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read_labels(write(tmp_path / "labels.csv", content), ["a", "b"])
    with pytest.raises(ValueError, match="must be a file of labels that can be read, got No such file"):
        read_labels(tmp_path / "none.csv", ["a"])


def test_a_file_that_makes_polars_panic_is_an_error_of_one_line(tmp_path, monkeypatch):
    polars.DataFrame({"a": [1]}).write_parquet(tmp_path / "a.parquet")

    def panic(source):
        raise polars.exceptions.PanicException(
            "range end index 9 out of range"
        )  # no Exception, as Rust's panics are not

    monkeypatch.setattr(polars, "read_parquet", panic)
    with pytest.raises(ValueError, match="a.parquet must be a parquet file that can be read, got range end index 9"):
        read_rows(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("text", ["one", "two", "three"]),
        ("images", [Path("one"), Path("two"), Path("three")]),
        ("table", polars.DataFrame({"x": [1, 2, 3]})),
        ("array", np.arange(6).reshape(3, 2)),
        ("array", scipy.sparse.csr_array(np.arange(6).reshape(3, 2))),
    ],
)
def test_some_of_the_rows_of_any_kind(kind, content):
    rows = Rows(kind, ["a", "b", "c"], content, ["x", None, "y"]).take([2, 0])
    assert rows.ids == ["c", "a"]
    assert rows.labels is None
    if kind in ("text", "images"):
        assert rows.content == [content[2], content[0]]
    else:
        first = rows.content.toarray() if scipy.sparse.issparse(content) else np.asarray(rows.content)
        whole = content.toarray() if scipy.sparse.issparse(content) else np.asarray(content)
        assert_array_equal(first, whole[[2, 0]])
