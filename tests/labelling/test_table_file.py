"""Files of tables: every kind is read as what it is, what it unpacks to is bounded, and errors name the remedy."""

import builtins
import bz2
import gzip
import importlib
import io
import json
import lzma
import sys
import zlib

import numpy as np
import polars
import pytest

from angpn.labelling import read_rows
from angpn.labelling.table_file import TABLES
from angpn.labelling.text_table import find_separator
from angpn.utils import memory
from label_inputs import write_workbook

ROWS = [["name", "price", "size"], ["Käse", "1,5", "3"], ["Öl", "2,25", "4"], ["Brot", "9", "5"]]
SEMICOLONS = "\n".join(";".join(row) for row in ROWS) + "\n"
COMMAS = "name,price,size\nKäse,1.5,3\nÖl,2.25,4\nBrot,9,5\n"


def columns(rows):
    return [rows.content[name].cast(polars.String).to_list() for name in rows.content.columns]


@pytest.mark.parametrize(
    ("name", "content", "notes"),
    [
        ("t.csv", COMMAS.encode(), ()),
        ("t.csv", SEMICOLONS.encode(), ("separated by semicolons",)),
        ("t.csv", SEMICOLONS.encode("cp1252"), ("separated by semicolons", "encoded in Windows-1252")),
        ("t.csv", COMMAS.encode("utf-8-sig"), ()),
        ("t.csv", COMMAS.encode("utf-16"), ("encoded in UTF-16",)),
        ("t.csv", COMMAS.encode("utf-16-be"), ("encoded in UTF-16",)),
        ("t.csv", COMMAS.replace(",", "\t").encode(), ("separated by tabs",)),
        ("t.csv", COMMAS.replace(",", "|").encode(), ("separated by vertical bars",)),
        ("t.tsv", COMMAS.replace(",", "\t").encode(), ()),
        ("t.tsv", COMMAS.encode(), ("separated by commas",)),
        ("t.csv.gz", gzip.compress(COMMAS.encode()), ("packed by gzip",)),
        ("t.csv", gzip.compress(SEMICOLONS.encode()), ("packed by gzip", "separated by semicolons")),
        ("t.csv.bz2", bz2.compress(COMMAS.encode()), ("packed by bzip2",)),
        ("t.tsv.xz", lzma.compress(COMMAS.replace(",", "\t").encode()), ("packed by xz",)),
    ],
)
def test_text_in_every_separator_encoding_and_packing_is_one_table(name, content, notes, tmp_path, monkeypatch):
    (tmp_path / name).write_bytes(content)
    rows = read_rows(tmp_path / name)
    decimal_comma = "separated by semicolons" in notes
    prices = ["1,5", "2,25", "9"] if decimal_comma else ["1.5", "2.25", "9"]
    assert columns(rows) == [["Käse", "Öl", "Brot"], prices, ["3", "4", "5"]]
    assert rows.notes == notes
    assert rows.decimal == ("," if decimal_comma else None)
    if not name.startswith("t.tsv"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert columns(read_rows("-")) == columns(rows)


def test_lines_of_separators_alone_at_the_end_are_left_out(tmp_path):
    (tmp_path / "t.csv").write_text("a;b\n1;2\n;\n3;4\n;\n;\n")
    rows = read_rows(tmp_path / "t.csv")
    assert columns(rows) == [["1", None, "3"], ["2", None, "4"]]
    assert rows.notes == ("separated by semicolons", "without 2 empty lines at the end")
    (tmp_path / "t.csv").write_text("a,b\n,\n")
    assert len(read_rows(tmp_path / "t.csv").ids) == 1


def test_files_with_types_are_one_table(tmp_path):
    frame = polars.DataFrame({"name": ["Käse", "Öl", "Brot"], "price": [1.5, None, 9.0], "size": [3, 4, 5]})
    frame.write_parquet(tmp_path / "t.parquet")
    frame.write_ipc(tmp_path / "t.arrow")
    frame.write_ipc(tmp_path / "t.feather", compression="zstd")
    frame.write_ndjson(tmp_path / "t.jsonl")
    (tmp_path / "t.ndjson.gz").write_bytes(gzip.compress((tmp_path / "t.jsonl").read_bytes() + b"\n\n"))
    write_workbook(tmp_path / "t.xlsx", {"Goods": [frame.columns, *map(list, frame.rows())]})
    for name in ("t.parquet", "t.arrow", "t.feather", "t.jsonl", "t.ndjson.gz", "t.xlsx"):
        rows = read_rows(tmp_path / name)
        assert rows.content.with_columns(polars.col("size").cast(polars.Int64)).equals(frame), name
        assert rows.ids == ["0", "1", "2"]


def test_the_first_sheet_with_rows_is_read_and_named(tmp_path):
    path = write_workbook(
        tmp_path / "t.xlsx", {"Cover": [], "Goods": [["a", "y"], [1, "u"], [2, None]], "Old": [["b"], [3]]}
    )
    rows = read_rows(path, label_column="y")
    assert rows.labels == ["u", None]
    assert rows.content.columns == ["a"]
    assert rows.notes == ("sheet 'Goods', one of 3",)
    with pytest.raises(
        ValueError, match=r"t.xlsx must hold a sheet with a header and rows, got none; name another file"
    ):
        read_rows(write_workbook(tmp_path / "t.xlsx", {"Cover": [["a", "b"]]}))


def test_a_workbook_without_the_package_that_reads_it_names_the_extra(tmp_path, monkeypatch):
    path = write_workbook(tmp_path / "t.xlsx", {"Goods": [["a"], [1]]})
    found = importlib.import_module

    def without(name, *rest):
        if name == "fastexcel":
            raise ImportError(name)
        return found(name, *rest)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(
        ImportError, match=r'needs fastexcel, .*; pip install "angpn\[excel\]" to read .*t.xlsx, or save'
    ):
        read_rows(path)


@pytest.mark.parametrize(
    ("sample", "usual", "expected"),
    [
        ("a;b\n1,5;2,5\n", ",", ";"),
        ("a,b\n1;2,3;4\n", ",", ","),
        ("a;b,c;d\n1;2;3\n", ",", ";"),  # a comma in a name
        ('body\n"one; two; three"\n', ",", ","),
        ("text\nhello; you\nand; me\n", ",", ","),
        ("", ",", ","),
        ('"a;b","c"\n1,2\n', ",", ","),
        ("a\tb\n1\t2\n", ",", "\t"),
    ],
)
def test_the_separator_divides_the_header_and_the_other_lines_alike(sample, usual, expected):
    assert find_separator(sample, usual) == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", zlib.compress(COMMAS.encode()), "plain text, or packed by gzip, bzip2, xz, got text packed by zlib"),
        ("t.csv", b"\x28\xb5\x2f\xfd....", "got text packed by zstd; unpack it"),
        ("t.csv", b"PK\x03\x04....", "got text packed by zip; unpack it"),
        ("t.csv.gz", gzip.compress(COMMAS.encode())[:-9], "must be text packed by gzip, got .*; pack it anew"),
        ("t.csv.gz", gzip.compress(COMMAS.encode())[:30], "must be text packed by gzip, got .*; pack it anew"),
        ("t.csv.bz2", bz2.compress(COMMAS.encode())[:30], "must be text packed by bzip2, got .*; pack it anew"),
        ("t.csv.xz", lzma.compress(COMMAS.encode())[:40], "must be text packed by xz, got .*; pack it anew"),
        ("t.jsonl", b'{"a": 1}\n[2]\n', "must hold one JSON object a line, got list in line 2; repair it"),
        ("t.jsonl", b'{"a": 1}\n\n{"a": }\n', "must hold one JSON object a line, got .* in line 3; repair it"),
        ("t.jsonl", b"\n", "must hold at least one row"),
        ("t.arrow", b"not arrow", "must be a arrow file that can be read, got no footer of Arrow; repair it"),
        ("t.xlsx", b"not excel", r"must be a xlsx file that can be read, got no workbook of Excel \(.*\); repair it"),
        ("t.xls", b"", "got .xls suffix; save it as .xlsx or .csv"),
        ("t.json", b"[]", "got .json suffix; write one object a line, as .jsonl"),
        ("t.csv", b"\n", "must hold"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_read_are_named_with_the_remedy(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_rows(tmp_path / name)
    assert str(caught.value).startswith(str(tmp_path / name))
    assert "\n" not in str(caught.value)


def test_a_column_that_is_not_there_says_how_the_file_was_read(tmp_path):
    (tmp_path / "t.csv").write_text(SEMICOLONS)
    with pytest.raises(
        ValueError, match="must have a column 'kind', got 'name', 'price', 'size'; it was read as separ"
    ):
        read_rows(tmp_path / "t.csv", label_column="kind")


# What a small file unpacks to


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_packed_text_is_unpacked_no_further_than_fits(tmp_path, monkeypatch, pack):
    content = pack(b"x,y\n" + b"1,2\n" * 10**6)
    assert len(content) < 10**5
    (tmp_path / "t.csv").write_bytes(content)
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**6)
    with pytest.raises(
        MemoryError, match=r"t.csv must fit into memory, got one that takes 0.0 GB where 0.0 GB are free"
    ):
        read_rows(tmp_path / "t.csv")


def test_lines_that_make_more_cells_than_fit_are_not_read(tmp_path, monkeypatch):
    """A wide header, and short lines below it: each would be filled up with empty cells."""
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**8)
    names = [f"column {number}" for number in range(5000)]
    (tmp_path / "t.csv").write_text(",".join(names) + "\n" + "1\n" * 5000)
    with pytest.raises(MemoryError, match=r"t.csv must fit into memory, got one that takes 0.4 GB"):
        read_rows(tmp_path / "t.csv")
    (tmp_path / "t.jsonl").write_text(json.dumps(dict.fromkeys(names, 1)) + "\n" + "{}\n" * 5000)
    with pytest.raises(MemoryError, match=r"t.jsonl must fit into memory, got one that takes 0.4 GB"):
        read_rows(tmp_path / "t.jsonl")


def test_an_arrow_file_that_unpacks_to_more_than_fits_is_not_read(tmp_path, monkeypatch):
    frame = polars.DataFrame({"x": np.zeros(10**5), "text": ["a" * 100] * 10**5})
    frame.write_ipc(tmp_path / "t.arrow", compression="zstd")
    assert (tmp_path / "t.arrow").stat().st_size < 10**6
    assert read_rows(tmp_path / "t.arrow").content.shape == frame.shape
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**6)
    with pytest.raises(MemoryError, match=r"t.arrow must fit into memory, .*; take fewer columns or rows"):
        read_rows(tmp_path / "t.arrow")


def test_a_workbook_that_unpacks_to_more_than_fits_is_not_read(tmp_path, monkeypatch):
    path = write_workbook(tmp_path / "t.xlsx", {"Goods": [["a", "b"], *([1, 2] for _ in range(20000))]})
    assert path.stat().st_size < 10**6
    assert read_rows(path).content.shape == (20000, 2)
    monkeypatch.setattr("angpn.labelling.table_file.available_bytes", lambda: 10**6)
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**6)
    with pytest.raises(MemoryError, match=r"t.xlsx must fit into memory, .*; save the sheet as CSV"):
        read_rows(path)


def test_every_kind_of_table_is_in_the_message_about_others(tmp_path):
    (tmp_path / "t.dat").write_text("")
    with pytest.raises(ValueError, match="rename it") as caught:
        read_rows(tmp_path / "t.dat")
    assert all(suffix in str(caught.value) for suffix in TABLES)


def test_nothing_is_opened_as_text_in_the_encoding_of_the_system(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_bytes(SEMICOLONS.encode("cp1252"))
    opened = builtins.open

    def binary_only(file, mode="r", *rest, **options):
        assert "b" in mode
        return opened(file, mode, *rest, **options)

    monkeypatch.setattr(builtins, "open", binary_only)
    assert read_rows(tmp_path / "t.csv").content["name"][0] == "Käse"
