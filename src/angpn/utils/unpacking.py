"""Packed text: unpacked piece by piece, no further than fits into memory, since a few bytes may unpack to very many."""

import bz2
import gzip
import lzma
import zlib
from pathlib import Path
from typing import IO, Any, NamedTuple

from angpn.utils.memory import check_fits

_PIECE = 2**20
_COPIES = 4  # of the text: its bytes, decoded, encoded again, and the columns that are made of it
_OPENERS: dict[str, tuple[bytes, Any]] = {
    "gzip": (b"\x1f\x8b", gzip.open),
    "bzip2": (b"BZh", bz2.open),
    "xz": (b"\xfd7zXZ\x00", lzma.open),
}
_UNKNOWN = {"zlib": (b"\x78\x01", b"\x78\x9c", b"\x78\xda"), "zstd": (b"\x28\xb5\x2f\xfd",), "zip": (b"PK\x03\x04",)}
SUFFIXES = (".gz", ".bz2", ".xz")


class Unpacked(NamedTuple):
    """The bytes of a file, and by what it was packed, None where it was not."""

    content: bytes
    packed_by: str | None


def read_unpacked(file: IO[bytes], path: Path) -> Unpacked:
    """Read a file that may be packed by gzip, bzip2 or xz, which its first bytes tell.

    Args:
        file: The open file.
        path: Its name, for errors.

    Returns:
        Its content, unpacked.

    Raises:
        ValueError: If it is packed otherwise, or cannot be unpacked.
        MemoryError: If it does not fit into memory, as soon as that is known.
    """
    packed = _read_within_memory(file, path)
    for kind, marks in _UNKNOWN.items():
        if packed.startswith(marks):
            raise ValueError(
                f"{path} must be plain text, or packed by {', '.join(_OPENERS)}, got text packed by {kind}; unpack it"
            )
    for kind, (mark, opener) in _OPENERS.items():
        if packed.startswith(mark):
            file.seek(0)
            try:
                with opener(file) as unpacked:
                    return Unpacked(_read_within_memory(unpacked, path), kind)
            except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
                raise ValueError(
                    f"{path} must be text packed by {kind}, got {error or type(error).__name__}; pack it anew"
                ) from None
    return Unpacked(packed, None)


def _read_within_memory(file: IO[bytes], path: Path) -> bytes:
    content = bytearray()
    while piece := file.read(_PIECE):
        content += piece
        if len(content) % (64 * _PIECE) < _PIECE:  # memory that is free is looked up now and then
            check_fits(_COPIES * len(content), path, "take fewer columns or rows")
    check_fits((_COPIES - 1) * len(content), path, "take fewer columns or rows")
    return bytes(content)
