"""How much memory the columns of a Parquet file take, from its footer, before anything is unpacked.

The footer is a struct of Thrift's compact protocol at the end of the file. Of it, the number of values of each column
counts: a thousand million equal values may be packed into a few bytes.
"""

import struct
from pathlib import Path
from typing import Any

_MAGIC = b"PAR1"
_MAX_DEPTH = 32  # of nested structs; the format has fewer than ten
# Bytes of a value in memory, by its physical type: boolean, int32, int64, int96, float, double, and two of text.
_WIDTHS = (1, 4, 8, 8, 4, 8, 16, 16)
_ROW_GROUPS, _COLUMNS, _METADATA, _TYPE, _N_VALUES, _UNPACKED = 4, 1, 3, 1, 5, 6  # numbers of fields


def unpacked_bytes(path: Path) -> int:
    """Return about what the columns of a file take in memory; a lower bound for texts.

    Raises:
        ValueError: If it is not a Parquet file.
        OSError: If it cannot be read.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 8))
        end = file.read(8)
        length = int.from_bytes(end[:4], "little")
        if end[4:] != _MAGIC or length > size - 8:
            raise ValueError("no footer of Parquet")
        file.seek(size - 8 - length)
        footer = file.read(length)
    try:
        groups = _Compact(footer).read_struct()[_ROW_GROUPS]
        columns = [column[_METADATA] for group in groups for column in group[_COLUMNS]]
        return sum(max(_WIDTHS[column[_TYPE]] * column[_N_VALUES], column[_UNPACKED]) for column in columns)
    except (IndexError, KeyError, TypeError, struct.error) as error:
        raise ValueError(f"a footer of Parquet that cannot be read ({type(error).__name__})") from error


class _Compact:
    """A reader of Thrift's compact protocol: structs as dictionaries by the numbers of their fields."""

    def __init__(self, data: bytes) -> None:
        self._data, self._place = data, 0

    def read_struct(self, depth: int = 0) -> dict[int, Any]:
        if depth > _MAX_DEPTH:
            raise IndexError("nested too deeply")
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            kind = head & 15
            found[number] = kind == 1 if kind in (1, 2) else self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2, 3):
            return self._byte()
        if kind in (4, 5, 6):
            return self._integer()
        if kind == 7:
            return struct.unpack("<d", self._bytes(8))[0]
        if kind == 8:
            return self._bytes(self._varint())
        if kind in (9, 10):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._varint()
            return [self._value(head & 15, depth + 1) for _ in range(count)]  # each takes a byte at least
        if kind == 12:
            return self.read_struct(depth + 1)
        raise IndexError(f"no type {kind}")  # the format has no maps

    def _byte(self) -> int:
        self._place += 1
        return self._data[self._place - 1]

    def _bytes(self, count: int) -> bytes:
        self._place += count
        if self._place > len(self._data):
            raise IndexError("cut short")
        return self._data[self._place - count : self._place]

    def _varint(self) -> int:
        found = shift = 0
        while (byte := self._byte()) & 128:
            found, shift = found | (byte & 127) << shift, shift + 7
            if shift > 63:
                raise IndexError("a number of too many bytes")
        return found | byte << shift

    def _integer(self) -> int:
        found = self._varint()
        return found >> 1 ^ -(found & 1)
