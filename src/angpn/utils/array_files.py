"""Arrays in .npy and .npz files: their headers are read first, since a few bytes may unpack to very many.

numpy reads an array before it tells its shape, and a header before it looks how long that is.
"""

import io
import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from angpn.utils.memory import check_fits
from angpn.utils.typing import Array

_HEAD = 2**14  # bytes within which a header must end; numpy refuses headers of more than 10,000

_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


class ArrayHeader(NamedTuple):
    """What is known of an array before it is read."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def n_bytes(self) -> int:
        """What the array takes in memory."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(file: IO[bytes]) -> ArrayHeader:
    """Read the header of an array in the .npy format, and no more than 16 kB.

    Raises:
        ValueError: If there is none.
    """
    head = io.BytesIO(file.read(_HEAD))
    version = np.lib.format.read_magic(head)
    if version not in _READERS:
        raise ValueError(f"version {version[0]}.{version[1]} of the format, which is for tables of named columns")
    try:
        shape, _, dtype = _READERS[version](head)
    except Exception as error:  # of the parser, of many types
        raise ValueError(f"a header that cannot be read ({type(error).__name__}: {error})") from error
    if min(shape, default=0) < 0:
        raise ValueError(f"a header of shape {shape}")
    return ArrayHeader(shape, dtype)


class ArrayArchive:
    """An open .npz file: the headers of its arrays at once, each array when it is asked for."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        """Read the headers.

        Raises:
            ValueError: If one of them has none, or cannot be an array of so many bytes.
            zipfile.BadZipFile: If it is no zip archive.
        """
        self._archive, self._path = zipfile.ZipFile(file), path
        names = [name for name in dict.fromkeys(self._archive.namelist()) if name.endswith(".npy")]
        self.headers = {name.removesuffix(".npy"): self._header(name) for name in names}

    def _header(self, name: str) -> ArrayHeader:
        member = self._archive.getinfo(name)
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"an array {name!r} that is packed otherwise than by numpy")
        with self._archive.open(member) as packed:
            header = read_header(packed)
        if header.n_bytes > member.file_size and not header.dtype.hasobject:
            raise ValueError(f"{member.file_size} bytes of {name!r} for an array of {header.n_bytes}")
        return header

    def read(self, names: Sequence[str], copies: int = 1) -> list[Array]:
        """Read some arrays, after a check that so many copies of them fit into memory.

        Raises:
            MemoryError: If they do not.
            ValueError: If one holds objects.
        """
        needed = copies * sum(self.headers[name].n_bytes for name in names)
        check_fits(needed, self._path, "save the matrix as .npy, which is mapped and not read, or take fewer rows")
        return [self._read(name) for name in names]

    def _read(self, name: str) -> Array:
        with self._archive.open(f"{name}.npy") as packed:
            found: Array = np.lib.format.read_array(packed, allow_pickle=False)
        return found
