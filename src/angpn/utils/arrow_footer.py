"""How much memory the columns of an Arrow file take, from its metadata, before anything is unpacked.

The footer at the end of the file lists blocks of rows; the metadata of a block lists its buffers, and a packed buffer
begins with the number of bytes that it unpacks to. All of that is in the format of flatbuffers: tables whose fields are
found by a table of offsets.
"""

import struct
from pathlib import Path
from typing import BinaryIO

_MAGIC = b"ARROW1"
_MAX_METADATA = 2**26  # bytes
_BLOCK, _BUFFER = struct.Struct("<qi4xq"), struct.Struct("<qq")
_DICTIONARIES, _BATCHES = 2, 3  # fields of the footer
_HEADER_TYPE, _HEADER = 1, 2  # fields of a message
_IS_DICTIONARY, _DATA = 2, 1  # a type of message, and its field that holds the batch
_BUFFERS, _COMPRESSION = 2, 3  # fields of a batch


def unpacked_arrow_bytes(path: Path) -> int:
    """Return what the buffers of a file take in memory.

    Raises:
        ValueError: If it is not an Arrow file.
        OSError: If it cannot be read.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 10))
        end = file.read(10)
        length = int.from_bytes(end[:4], "little", signed=True)
        if end[4:] != _MAGIC or not 0 < length <= size - 10:
            raise ValueError("no footer of Arrow")
        try:
            footer = _Table.root(_read_at(file, size - 10 - length, length))
            blocks = [block for field in (_DICTIONARIES, _BATCHES) for block in footer.structs(field, _BLOCK)]
            return sum(_block_bytes(file, offset, length, size) for offset, length, _ in blocks)
        except (struct.error, IndexError, OSError) as error:  # the last of a place that no file has
            raise ValueError(f"metadata of Arrow that cannot be read ({error})") from error


def _block_bytes(file: BinaryIO, offset: int, metadata_length: int, size: int) -> int:
    """Return what the buffers of one block take."""
    if not (0 <= offset <= size and 8 <= metadata_length <= size):
        raise IndexError("a block beyond the file")
    metadata = _read_at(file, offset, metadata_length)
    message = _Table.root(metadata[8 if metadata[:4] == b"\xff\xff\xff\xff" else 4 :])
    batch = message.table(_HEADER)
    if message.byte(_HEADER_TYPE) == _IS_DICTIONARY:
        batch = batch.table(_DATA)
    total = 0
    for start, length in batch.structs(_BUFFERS, _BUFFER):
        unpacked = length
        if batch.has(_COMPRESSION) and length >= 8:
            declared = struct.unpack("<q", _read_at(file, offset + metadata_length + start, 8))[0]
            unpacked = max(length, declared)  # -1 where the buffer is not packed
        total += max(0, unpacked)
    return total


def _read_at(file: BinaryIO, place: int, length: int) -> bytes:
    if not (0 <= place < 2**62 and 0 <= length <= _MAX_METADATA):
        raise IndexError(f"{length} bytes at {place}")
    file.seek(place)
    found = file.read(length)
    if len(found) < length:
        raise IndexError("cut short")
    return found


class _Table:
    """A table of flatbuffers."""

    def __init__(self, data: bytes, place: int) -> None:
        self._data, self._place = data, place
        self._fields = place - self._number("<i", place)
        self._n_fields = (self._number("<H", self._fields) - 4) // 2

    @classmethod
    def root(cls, data: bytes) -> "_Table":
        return cls(data, struct.unpack_from("<I", data)[0])

    def has(self, field: int) -> bool:
        return self._field(field) != 0

    def byte(self, field: int) -> int:
        return self._data[self._field(field)] if self.has(field) else 0

    def table(self, field: int) -> "_Table":
        return _Table(self._data, self._follow(field))

    def structs(self, field: int, layout: struct.Struct) -> list[tuple[int, ...]]:
        """Return the structs of a vector, none where the field is missing."""
        if not self.has(field):
            return []
        start = self._follow(field)
        count = self._number("<I", start)
        if count * layout.size > len(self._data):
            raise IndexError("a vector beyond the metadata")
        return [layout.unpack_from(self._data, start + 4 + number * layout.size) for number in range(count)]

    def _field(self, field: int) -> int:
        """Return where a field is, 0 where it is missing."""
        offset = self._number("<H", self._fields + 4 + 2 * field) if field < self._n_fields else 0
        return self._place + offset if offset else 0

    def _follow(self, field: int) -> int:
        place = self._field(field)
        if not place:
            raise IndexError(f"no field {field}")
        return place + self._number("<I", place)

    def _number(self, form: str, place: int) -> int:
        if place < 0:
            raise IndexError("an offset before the metadata")
        return struct.unpack_from(form, self._data, place)[0]
