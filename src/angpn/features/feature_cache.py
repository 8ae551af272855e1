"""Features that were computed before, by the content that they were computed from: one SQLite file of the user.

What it lacks is computed, so nothing about it is an error: a damaged file is begun anew, and one that cannot be used
means a warning and no cache.
"""

import hashlib
import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self, TypeVar

from angpn.utils.checks import warn

T = TypeVar("T")
FOLDER_VARIABLE = "ANGPN_CACHE"
FILE = "features-1.sqlite"  # the number is that of the tables
MAX_BYTES = 10**9
_SECONDS_TO_WAIT = 10.0  # for another process that writes, which takes milliseconds
_EVICTED_AT_ONCE = 100
# SQLITE_ERROR, _CONSTRAINT: other tables than ours
_DAMAGE = sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT
_SETTINGS = (
    "PRAGMA trusted_schema = OFF",  # nothing that the file may define is run
    "PRAGMA synchronous = OFF",  # a power cut may damage the file, and a damaged file is begun anew
)
_TABLES = (
    # Runs are counted, so that no clock has to say which entries are the least recently used.
    "CREATE TABLE IF NOT EXISTS items (key BLOB PRIMARY KEY, run INTEGER NOT NULL, checksum BLOB, value BLOB)",
    "CREATE INDEX IF NOT EXISTS items_by_run ON items (run)",
)


def cache_file() -> Path:
    """Return the path of the cache: in the folder that ``ANGPN_CACHE`` names, else in the user's cache folder."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        import pooch  # which loads requests

        folder = pooch.os_cache("angpn")
    return Path(folder).expanduser() / FILE


class FeatureCache:
    """Bytes by the digest of the content that they were computed from.

    The least recently used entries leave when the file is full. Several processes may use it at once.

    Args:
        namespace: All else that the bytes depend on, such as the name and the version of an encoder.
        path: The file, if not that of :func:`cache_file`.
    """

    def __init__(self, namespace: str, path: Path | None = None) -> None:
        self._namespace = hashlib.sha256(namespace.encode()).digest()
        self._path = path or cache_file()
        self._connection: sqlite3.Connection | None = None
        self._run = 0
        self._found: list[bytes] = []  # keys that are not yet marked as used in this run
        self._was_replaced = self._has_failed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._found:
            self.put({})
        self._close()

    def get(self, digest: bytes) -> bytes | None:
        """Return the bytes of a digest, or None where there are none."""
        return self._attempt(lambda connection: self._read(connection, self._key(digest)))

    def put(self, values: Mapping[bytes, bytes]) -> None:
        """Keep bytes by their digest."""
        items = {self._key(digest): value for digest, value in values.items()}
        self._attempt(lambda connection: self._write(connection, items))

    def _key(self, digest: bytes) -> bytes:
        return hashlib.sha256(self._namespace + digest).digest()

    def _read(self, connection: sqlite3.Connection, key: bytes) -> bytes | None:
        found = connection.execute("SELECT checksum, value FROM items WHERE key = ?", (key,)).fetchone()
        if found is None or not isinstance(found[1], bytes) or found[0] != _checksum(key, found[1]):
            return None
        self._found.append(key)
        return found[1]

    def _write(self, connection: sqlite3.Connection, items: Mapping[bytes, bytes]) -> None:
        with connection:  # all of it or nothing
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("UPDATE items SET run = ? WHERE key = ?", [(self._run, key) for key in self._found])
            self._found.clear()
            if _make_room(connection, items):
                rows = [(key, self._run, _checksum(key, value), value) for key, value in items.items()]
                connection.executemany("INSERT OR REPLACE INTO items VALUES (?, ?, ?, ?)", rows)

    def _attempt(self, action: Callable[[sqlite3.Connection], T]) -> T | None:
        """Use the file: begin a damaged one anew, and where it fails otherwise, warn and do without it."""
        if self._has_failed:
            return None
        try:
            return action(self._open())
        except (sqlite3.DatabaseError, UnicodeDecodeError, OSError) as error:
            self._close()
            if not self._was_replaced and self._is_damage(error):
                self._was_replaced = True
                for suffix in ("", "-journal", "-wal", "-shm"):
                    with suppress(OSError):
                        self._path.with_name(self._path.name + suffix).unlink()
                return self._attempt(action)
            self._has_failed = True
            warn(
                f"{self._path} must be a file that can be written, got {error}; features are not cached: name another "
                f"folder by {FOLDER_VARIABLE}, or pass --no-cache"
            )
            return None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if not self._path.exists():
                self._path.touch(mode=0o600)  # it will show what the user's images show
            self._connection = sqlite3.connect(self._path, timeout=_SECONDS_TO_WAIT, isolation_level=None)
            for statement in (*_SETTINGS, *_TABLES):
                self._connection.execute(statement)
            (self._run,) = self._connection.execute("SELECT coalesce(max(run), 0) + 1 FROM items").fetchone()
        return self._connection

    def _is_damage(self, error: Exception) -> bool:
        """Whether the file itself is at fault, and not the disk, its rights or another process."""
        if not isinstance(error, sqlite3.DatabaseError):
            return isinstance(error, UnicodeDecodeError)  # of a name in the file
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        if code == sqlite3.SQLITE_READONLY:  # a header may say so too
            return os.access(self._path, os.W_OK)
        return code & 0xFF in _DAMAGE

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _make_room(connection: sqlite3.Connection, items: Mapping[bytes, bytes]) -> bool:
    """Delete the least recently used entries until the new ones fit in; return False where they never would."""
    page = _pragma(connection, "page_size")
    limit = MAX_BYTES // page - sum(len(value) // page + 2 for value in items.values())  # of the pages before
    if limit < 0:
        return False
    while _pragma(connection, "page_count") - _pragma(connection, "freelist_count") > limit:
        oldest = "SELECT rowid FROM items ORDER BY run, rowid LIMIT ?"
        if not connection.execute(f"DELETE FROM items WHERE rowid IN ({oldest})", (_EVICTED_AT_ONCE,)).rowcount:
            return False
    return True


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)


def _checksum(key: bytes, value: bytes) -> bytes:
    """Return a checksum of an entry: a damaged file may also give the value of another key."""
    return hashlib.blake2b(value, key=key, digest_size=8).digest()
