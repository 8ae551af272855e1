"""The log of all actions: JSON lines that are only ever appended, and on the disk before anybody is told so."""

import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from angpn.annotation.actions import Action, Entry
from angpn.utils.files import sync


class ActionLog:
    """An append-only file of entries, one a line.

    A process that is killed while it appends leaves a line without its end. Nobody was told that it is there, so it is
    cut off when the log is opened. Any other line that cannot be read is damage from outside, and an error.

    Args:
        path: The file; it is created where it does not exist.

    Attributes:
        entries: What the file held when it was opened, and what was appended since.

    Raises:
        ValueError: If a line is damaged; the file is left as it is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        is_new = not path.exists()
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if is_new:
                sync(path.parent)
            self.entries, whole = _read_whole(path)
            if whole < path.stat().st_size:
                os.ftruncate(self._handle, whole)
                os.fsync(self._handle)
            self._end = whole
        except BaseException:
            self.close()
            raise

    def append(self, action: Action, *, user: str, client: str = "", id: str = "", audit: bool = False) -> Entry:
        """Append an entry and wait until it is on the disk.

        Args:
            action: What was done.
            user: Who did it.
            client: The page that posted it.
            id: The page's name of the action.
            audit: Whether it is about an audit row.

        Returns:
            The entry, with its number.

        Raises:
            OSError: If it could not be written, as on a full disk; the log is then as it was before.
        """
        seq = self.entries[-1].seq + 1 if self.entries else 1
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        entry = Entry(seq, now, user, client, id, action, audit)
        line = msgspec.json.encode(entry) + b"\n"
        try:
            os.lseek(self._handle, self._end, os.SEEK_SET)
            written = 0
            while written < len(line):
                written += _write(self._handle, line[written:])
            os.fsync(self._handle)
        except OSError as error:
            os.ftruncate(self._handle, self._end)
            raise OSError(
                f"{self.path.name} must be written before an action counts, got {error.strerror}; make room on the "
                "disk, then do it again: all before it is kept"
            ) from None
        self._end += len(line)
        self.entries.append(entry)
        return entry

    def close(self) -> None:
        """Close the file; nothing is lost without it."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def _write(handle: int, content: bytes) -> int:
    """Write some of this, and return how many bytes."""
    return os.write(handle, content)


def read_entries(path: Path) -> list[Entry]:
    """Return the entries of a log that another process may be writing to.

    Raises:
        ValueError: If a line is damaged.
        OSError: If the file cannot be read.
    """
    return _read_whole(path)[0]


def _read_whole(path: Path) -> tuple[list[Entry], int]:
    """Return the entries, and how many bytes they take; what comes after has no end yet."""
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    return _read_entries(content[:whole], path), whole


def _read_entries(content: bytes, path: Path) -> list[Entry]:
    decoder = msgspec.json.Decoder(Entry)
    entries: list[Entry] = []
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            entry = decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ValueError(
                f"{path} must hold one action a line, got line {number} that cannot be read ({error}); restore the "
                "file from a copy, or take that line out: nothing was changed"
            ) from None
        if entries and entry.seq <= entries[-1].seq:
            raise ValueError(
                f"{path} must number its lines in order, got {entry.seq} after {entries[-1].seq} in line {number}; "
                "restore the file from a copy: nothing was changed"
            )
        entries.append(entry)
    return entries
