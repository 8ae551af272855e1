"""What files of tables unpack to, from what they say before they are unpacked."""

import zipfile
from contextlib import suppress

import numpy as np
import polars
import pytest

from angpn.utils.arrow_footer import unpacked_arrow_bytes
from angpn.utils.text_encoding import decode_text
from angpn.utils.workbook_size import workbook_bytes
from label_inputs import write_workbook


def test_the_metadata_of_an_arrow_file_tells_what_its_columns_take(tmp_path):
    numbers = np.arange(10**4)
    frame = polars.DataFrame(
        {
            "float": numbers + 0.5,
            "flag": numbers % 2 == 0,
            "text": [f"word {number}, long enough to be in a buffer" for number in numbers],
            "vector": [[0.5] * 20] * 10**4,
            "category": polars.Series(["a", "b"] * 5000, dtype=polars.Categorical),
        }
    )
    path = tmp_path / "t.arrow"
    for compression in ("uncompressed", "lz4", "zstd"):
        frame.write_ipc(path, compression=compression)
        assert 0.8 < unpacked_arrow_bytes(path) / frame.estimated_size() < 2


@pytest.mark.parametrize("compression", ["uncompressed", "zstd"])
def test_a_damaged_arrow_file_is_refused_or_has_a_size(tmp_path, compression):
    path = tmp_path / "t.arrow"
    polars.DataFrame({"x": np.arange(100.0), "t": ["text"] * 100}).write_ipc(path, compression=compression)
    whole = path.read_bytes()
    generator = np.random.default_rng(0)
    for _ in range(300):
        content = bytearray(whole)
        for place in generator.integers(len(whole), size=4):
            content[place] = generator.integers(256)
        path.write_bytes(content[: generator.integers(len(whole))] if generator.random() < 0.1 else content)
        with suppress(ValueError):  # and nothing else
            assert unpacked_arrow_bytes(path) >= 0


def test_a_workbook_takes_its_cells_up_to_the_last_one(tmp_path):
    path = write_workbook(tmp_path / "t.xlsx", {"Goods": [["a", "b"], [1, 2]]})
    assert workbook_bytes(path) < 10**5
    sheet = (
        '<worksheet><sheetData><row r="1"><c r="A1"/></row><row r="9"><c r="XFD1048576"/></row></sheetData></worksheet>'
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", sheet)
    assert workbook_bytes(path) > 2**34 * 30
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", '<dimension ref="A1:XFD1048576"/>')
    assert workbook_bytes(path) > 2**34 * 30


def test_a_workbook_that_says_too_little_of_its_size_is_found_out(tmp_path):
    path = tmp_path / "t.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/sharedStrings.xml", b"a" * 10**7)
    content = path.read_bytes()
    assert len(content) < 10**5
    path.write_bytes(content.replace((10**7).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    with zipfile.ZipFile(path) as archive:
        assert archive.infolist()[0].file_size == 10
    assert workbook_bytes(path) >= 10**7
    assert 10**6 < workbook_bytes(path, most=10**6) < 10**8  # it stops there


def test_workbooks_that_cannot_be_read_are_named(tmp_path):
    path = write_workbook(tmp_path / "t.xlsx", {"Goods": [["a"], [1]]})
    whole = path.read_bytes()
    path.write_bytes(whole[:50])
    with pytest.raises(ValueError, match="no workbook of Excel"):
        workbook_bytes(path)
    locked = bytearray(whole)
    locked[locked.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(locked)
    with pytest.raises(ValueError, match="a workbook that is locked by a password"):
        workbook_bytes(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", "<worksheet/>")
    with pytest.raises(ValueError, match="packed otherwise than by Excel"):
        workbook_bytes(path)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("Käse".encode(), ("Käse", "UTF-8")),
        ("Käse".encode("utf-8-sig"), ("Käse", "UTF-8")),
        ("Käse €".encode("cp1252"), ("Käse €", "Windows-1252")),
        (b"K\xe4se\x81", ("Käse\x81", "Latin-1")),  # a byte that Windows-1252 does not have
        ("Käse".encode("utf-16"), ("Käse", "UTF-16")),
        ("Käse".encode("utf-16-le"), ("Käse", "UTF-16")),
        ("Käse".encode("utf-16-be"), ("Käse", "UTF-16")),
        (b"", ("", "UTF-8")),
        (b"\xff\xfea", ("\xff\xfea".encode("latin-1").decode("cp1252")[2:], "Windows-1252")),  # half a character
    ],
)
def test_the_encoding_of_text_is_found_by_its_bytes(content, expected):
    assert decode_text(content) == expected
