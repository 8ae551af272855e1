"""Arrays in files: headers tell what would be read, and what does not fit is not."""

import io
import re
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from angpn.datasets.cache import read_arrays
from angpn.utils import memory
from angpn.utils.array_files import ArrayArchive, read_header

ARRAYS = {
    "one": np.arange(6.0).reshape(2, 3),
    "fortran": np.asfortranarray(np.arange(6, dtype=np.int8).reshape(2, 3)),
    "empty": np.empty((0, 5), np.float32),
    "scalar": np.array(3),
    "words": np.array(["a", "bc"]),
    "named": np.zeros(2, [("x", "f4"), ("y", "i8")]),
}


def packed(array, version=None):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, version=version)
    return buffer.getvalue()


def archive_of(path, members, kind=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", kind) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def opened(path):
    return ArrayArchive(io.BytesIO(path.read_bytes()), path)


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_a_header_tells_shape_type_and_bytes(name, version):
    array = ARRAYS[name]
    header = read_header(io.BytesIO(packed(array, version)))
    assert (header.shape, header.dtype, header.n_bytes) == (array.shape, array.dtype, array.nbytes)


def test_no_more_than_a_header_may_have_is_read():
    """A header that says it has four thousand million bytes is not read, however many there are."""

    class Endless(io.RawIOBase):
        asked = 0

        def read(self, size=-1):
            assert size > 0
            self.asked += size
            content = b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1) + b" " * size
            return content[:size]

    endless = Endless()
    with pytest.raises(ValueError, match="EOF|Header"):
        read_header(endless)
    assert endless.asked < 20_000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "EOF"),
        (b"PK\x03\x04 not numpy at all", "magic string"),
        (packed(ARRAYS["one"])[:20], "EOF"),
        (packed(np.zeros(1, [("ä", "f4")]), (3, 0)), "version 3.0 of the format, which is for tables"),
    ],
)
def test_what_is_no_header_is_an_error(content, message):
    with pytest.raises(ValueError, match=message):
        read_header(io.BytesIO(content))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_are_read_as_they_were_written(tmp_path, save):
    save(tmp_path / "a.npz", **ARRAYS)
    archive = opened(tmp_path / "a.npz")
    assert list(archive.headers) == list(ARRAYS)
    for found, expected in zip(archive.read(list(ARRAYS)), ARRAYS.values(), strict=True):
        assert found.dtype == expected.dtype
        assert_array_equal(found, expected)
    assert read_arrays(tmp_path / "a.npz").keys() == ARRAYS.keys()


def test_other_members_are_passed_over(tmp_path):
    path = archive_of(tmp_path / "a.npz", {"X.npy": packed(ARRAYS["one"]), "X": b"no array", "readme.txt": b"hello"})
    archive = opened(path)
    assert list(archive.headers) == ["X"]
    assert_array_equal(archive.read(["X"])[0], ARRAYS["one"])


def test_what_does_not_fit_into_memory_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, X=np.zeros((10**4, 100)), y=np.zeros(10**4))
    monkeypatch.setattr(memory, "available_bytes", lambda: 9 * 10**6)
    archive = opened(path)
    assert archive.read(["X"])[0].nbytes == 8 * 10**6
    monkeypatch.setattr(np.lib.format, "read_array", None)
    message = "must fit into memory, got one that takes 0.0 GB where 0.0 GB are free; save the matrix as .npy, which"
    with pytest.raises(MemoryError, match=f"{re.escape(str(path))} {message}"):
        archive.read(["X"], copies=2)
    monkeypatch.setattr(memory, "available_bytes", lambda: 1000)
    with pytest.raises(MemoryError, match="must fit into memory"):
        read_arrays(path)


def test_a_header_that_says_more_than_there_is_is_refused(tmp_path):
    content = packed(np.zeros((10, 10)))
    huge = content.replace(b"(10, 10), }    ", b"(999, 9999), }  "[:15])
    with pytest.raises(ValueError, match="928 bytes of 'X.npy' for an array of"):
        opened(archive_of(tmp_path / "a.npz", {"X.npy": huge}))


@pytest.mark.parametrize("shape", [b"(10**9, ", b"(-1, 10)", b"((((((((", b"(10, 'a'", b"[10, 10]", b"(10, 10;"])
def test_a_header_that_is_none_is_refused(shape):
    with pytest.raises(ValueError, match="a header"):
        read_header(io.BytesIO(packed(np.zeros((10, 10))).replace(b"(10, 10)", shape)))


def test_an_array_that_is_packed_otherwise_is_refused(tmp_path):
    """The memory of other decoders depends on what the file says."""
    path = archive_of(tmp_path / "a.npz", {"X.npy": packed(ARRAYS["one"])}, zipfile.ZIP_LZMA)
    with pytest.raises(ValueError, match="an array 'X.npy' that is packed otherwise than by numpy"):
        opened(path)


def test_a_file_that_is_not_there_or_no_archive(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_arrays(tmp_path / "none.npz")
    Path(tmp_path / "a.npz").write_bytes(b"no archive")
    with pytest.raises(ValueError, match=r"must be a whole .npz file, got one that cannot be read .*; replace it"):
        read_arrays(tmp_path / "a.npz")
