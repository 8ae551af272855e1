"""How much memory the sheets of an Excel workbook take, before they are read.

A workbook is a zip archive of XML files. Its own word for how large they are is not trusted: they are unpacked piece by
piece, and looked through for the last row and column, since a reader makes a cell for every place up to these.
"""

import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

_PIECE = 2**20
_PLACE = re.compile(rb"""\b(?:r|ref)\s*=\s*["'](?:[A-Z]{1,3}[0-9]{1,7}:)?([A-Z]{0,3})([0-9]{1,7})["']""")
_LONGEST_PLACE = 64  # bytes, more than such an attribute has
_CELL_BYTES = 40  # of a cell in the reader
_XML_COPIES = 3  # a cell takes about so many times its XML, with its text


def workbook_bytes(path: Path, most: int | None = None) -> int:
    """Return about what the sheets of a workbook take in memory.

    Args:
        path: The .xlsx file.
        most: Stop where it is more than that.

    Returns:
        The number of bytes; more than ``most`` is too much, however much it is.

    Raises:
        ValueError: If it is no workbook.
        OSError: If it cannot be read.
    """
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            total = 0
            for member in archive.infolist():
                if member.flag_bits & 1:
                    raise ValueError("a workbook that is locked by a password")
                file.seek(member.header_offset)
                total += _sheet_bytes(file, member, None if most is None else most - total)
                if most is not None and total > most:
                    break
            return total
    except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError) as error:
        raise ValueError(f"no workbook of Excel ({error})") from None


def _sheet_bytes(file: IO[bytes], member: zipfile.ZipInfo, most: int | None) -> int:
    """Return what one file of the archive takes: its XML, or the rectangle of its cells where that is more."""
    size, rows, columns, before = 0, 0, 0, b""
    for piece in _unpacked_pieces(file, member):
        size += len(piece)
        if most is not None and _XML_COPIES * size > most:
            break
        if not member.filename.startswith("xl/worksheets/"):
            continue
        text = before + piece
        for column, row in _PLACE.findall(text):
            rows, columns = max(rows, int(row)), max(columns, _column_number(column))
        before = text[-_LONGEST_PLACE:]
    return max(_XML_COPIES * size, _CELL_BYTES * rows * columns)


def _unpacked_pieces(file: IO[bytes], member: zipfile.ZipInfo) -> Iterator[bytes]:
    """Unpack a file of the archive to its true end, which zipfile would not: it stops where the archive says."""
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError("a workbook that is packed otherwise than by Excel")
    head = file.read(30)
    file.seek(int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little"), 1)
    left = member.compress_size
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    while left > 0 and (packed := file.read(min(left, _PIECE))):
        left -= len(packed)
        if member.compress_type == zipfile.ZIP_STORED:
            yield packed
            continue
        while packed:
            yield unpacker.decompress(packed, _PIECE)
            packed = unpacker.unconsumed_tail


def _column_number(letters: bytes) -> int:
    """Return the number of a column, of A 1; 1 where a row is named alone."""
    number = 0
    for letter in letters:
        number = 26 * number + letter - 64
    return max(1, number)
