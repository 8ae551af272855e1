"""Temporary folders with an owner, so that those of killed processes are recognised and removed.

A writer may replace the file that it is given, or make temporary files of its own beside it (safetensors does both). So
what is owned is a folder around the file: whatever a killed writer leaves is inside. The owner locks the folder as long
as it lives; the system releases the lock of a process that dies, however it dies.
"""

import hashlib
import os
import platform
import re
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

if sys.platform != "win32":
    import fcntl

_HOST = hashlib.sha256(platform.node().encode(errors="surrogateescape")).hexdigest()[:4]
_NAME = re.compile(r"\.angpn-([0-9a-f]{4})[0-9a-f]{8}\.(.*)", re.DOTALL)
_NAME_LENGTH = 50  # of the target's name in the folder's, which file systems bound by 255 bytes
_SECONDS_OF_OTHER_HOSTS = 24 * 3600.0


class Leftover(NamedTuple):
    """A temporary folder that no living process is known to own."""

    path: Path
    is_dead: bool  # for certain; False where there are no locks, so that a living process may own it


@contextmanager
def temporary_folder(parent: Path, name: str) -> Iterator[Path]:
    """A new folder in ``parent``, for files that will become ``name`` there; it is removed when the block ends."""
    folder, lock = _make_locked_folder(parent, name)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # what cannot be removed now is removed by the next process
        if lock is not None:
            os.close(lock)


def find_leftovers(parent: Path, name: str) -> Iterator[Leftover]:
    """Find the temporary folders for ``name`` that no living process is known to own.

    A folder that is certainly dead is locked until the next one is asked for, so that no two processes treat it.

    Args:
        parent: The folder to look in; it need not exist.
        name: The name that :func:`temporary_folder` was called with.

    Yields:
        A folder, and whether its owner is certainly dead.
    """
    try:
        names = os.listdir(parent)
    except OSError:  # a folder may be writable and not readable
        return
    for entry in names:
        parts = _NAME.fullmatch(entry)
        if parts is None or parts[2] != name[:_NAME_LENGTH]:
            continue
        folder = parent / entry
        with suppress(OSError):  # locked by its owner, removed meanwhile, or not ours to open
            lock = _lock(folder)
            try:
                yield Leftover(folder, lock is not None and _is_of_this_host_or_old(folder, parts[1]))
            finally:
                if lock is not None:
                    os.close(lock)


def remove_dead_folders(parent: Path, name: str) -> None:
    """Remove the temporary folders for ``name`` that killed processes left."""
    for leftover in find_leftovers(parent, name):
        if leftover.is_dead:
            shutil.rmtree(leftover.path, ignore_errors=True)


def _make_locked_folder(parent: Path, name: str) -> tuple[Path, int | None]:
    while True:
        folder = parent / f".angpn-{_HOST}{secrets.token_hex(4)}.{name[:_NAME_LENGTH]}"
        folder.mkdir()
        # Between these two steps another process may take the folder for a dead one's, lock it and remove it.
        with suppress(BlockingIOError, FileNotFoundError):
            lock = _lock(folder)
            if lock is None:
                return folder, None
            try:
                if os.path.samestat(os.fstat(lock), folder.stat()):
                    return folder, lock
            except BaseException:
                os.close(lock)
                raise
            os.close(lock)


def _lock(folder: Path) -> int | None:
    """Lock a folder and return the descriptor that holds the lock, or None where there are no locks.

    Raises:
        BlockingIOError: If another process has locked it.
        OSError: If it is not there, is no folder, or may not be opened.
    """
    if sys.platform == "win32":
        return None
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise
    except OSError:  # such as on NFS, which locks only files that are open for writing
        os.close(handle)
        return None
    return handle


def _is_of_this_host_or_old(folder: Path, host: str) -> bool:
    """Whether the lock of a living owner would have been seen: some shared file systems lock for each host alone."""
    return host == _HOST or time.time() - folder.stat().st_mtime > _SECONDS_OF_OTHER_HOSTS
