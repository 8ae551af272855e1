"""Files and folders that are replaced as a whole or not at all."""

import ctypes
import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from angpn.utils.temporary_folders import remove_dead_folders, temporary_folder

_AT_FDCWD = -100  # paths are relative to the working directory
_RENAME_EXCHANGE = _RENAME_SWAP = 2  # of Linux, of macOS
_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file to write to, renamed to ``path`` when the block ends well; else ``path`` stays as it was.

    What was written is on the disk before the rename, so that a power cut too leaves the old file or the new one. What
    killed processes left of earlier attempts at ``path`` is removed.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_dead_folders(path.parent, path.name)
    with temporary_folder(path.parent, path.name) as folder:
        temporary = folder / path.name
        temporary.touch()
        usual = temporary.stat().st_mode
        yield temporary
        temporary.chmod(usual)  # whatever the writer's own habit
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)


def exchange(first: Path, second: Path) -> bool:
    """Exchange two files or folders in one step, so that each name always has one of them.

    Args:
        first: A file or folder.
        second: Another, on the same file system.

    Returns:
        True, or False if the system or the file system cannot do this and nothing was changed.

    Raises:
        OSError: If one of them is not there or may not be moved.
    """
    sys.audit("angpn.exchange", first, second)
    library: Any = None if sys.platform == "win32" else ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(first), os.fsencode(second)
    if hasattr(library, "renameat2"):  # Linux
        failed = library.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE)
    elif hasattr(library, "renamex_np"):  # macOS
        failed = library.renamex_np(*names, _RENAME_SWAP)
    else:
        return False
    if not failed:
        return True
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(first), None, str(second))


def sync_tree(folder: Path) -> None:
    """Wait until a folder and the files in it are on the disk."""
    for path in folder.iterdir():
        sync(path)
    sync(folder)


def sync(path: Path) -> None:
    """Wait until the content of a file, or the names in a folder, are on the disk."""
    is_folder = path.is_dir()
    if is_folder and os.name != "posix":  # where a folder cannot be opened
        return
    handle = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
