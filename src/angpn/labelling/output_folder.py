"""The output folder, in which a new result replaces an earlier one in one step::

    model/             classifier.angpn, encoder.angpn, predictions.csv, report.html
    predictions.csv    a link to model/predictions.csv
    report.html        a link to model/report.html

All files of a result are in ``model``, so the exchange of that folder for a new one replaces them all at once: a
process that is killed at any moment leaves the earlier result or the new one. Clusters are kept likewise::

    clusters/          clusters.csv, names.csv, report.html
    clusters.csv, names.csv, report.html    links into it
"""

import errno
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from angpn.utils.files import exchange, replacing, sync, sync_tree
from angpn.utils.temporary_folders import find_leftovers, temporary_folder

PREDICTIONS, MODEL, REPORT = "predictions.csv", "model", "report.html"
CLASSIFIER, ENCODER = "classifier.angpn", "encoder.angpn"
CLUSTERS, NAMES = "clusters.csv", "names.csv"
_NEW, _OLD = "new", "old"  # in the temporary folder: the new files, and the old ones while none are in their place
_NO_LINKS = (errno.EPERM, errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
_NAME_BEFORE = re.compile(r"\.angpn\.[a-z0-9_]{8}")  # of the temporary folders of version 0.1.0, which had no locks
_SECONDS_BEFORE = 3600.0  # much longer than a result took to write


class Layout(NamedTuple):
    """Names of the files of a result.

    Attributes:
        files: The folder that holds them all.
        content: What this folder is called in an error.
        links: Those that have a link beside that folder.
        others: The others.
    """

    files: str
    content: str
    links: tuple[str, ...]
    others: tuple[str, ...] = ()


LABELLED = Layout(MODEL, "a model", (PREDICTIONS, REPORT), (CLASSIFIER, ENCODER))
CLUSTERED = Layout("clusters", "clusters", (CLUSTERS, NAMES, REPORT))


@contextmanager
def replacing_output(folder: Path, layout: Layout = LABELLED) -> Iterator[Path]:
    """Replace the result in a folder by a new one: as a whole, or not at all if the block raises.

    Files of others in the folder are kept. What killed runs left there is removed.

    Args:
        folder: The folder; it is created where it does not exist.
        layout: Names of the files of the result.

    Yields:
        The path of a folder to create, with all files of the result in it.

    Raises:
        OSError: If the folder cannot be used or written.
    """
    recover_output(folder, layout)
    check_output_folder(folder, layout)
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with temporary_folder(folder, layout.files) as temporary:
            yield temporary / _NEW
            sync_tree(temporary / _NEW)
            _install(temporary, folder, layout)
            sync(folder)
    except BaseException:
        for name in layout.links:
            if _is_link(folder / name, layout) and not (folder / name).exists():
                (folder / name).unlink()
        if is_new:
            with suppress(OSError):  # another run has written there
                folder.rmdir()
        raise
    _remove_folders_of_0_1_0(folder)


def recover_output(folder: Path, layout: Layout = LABELLED) -> None:
    """Complete or remove what killed runs left in an output folder; do nothing where there is nothing left.

    Args:
        folder: The folder, which need not exist.
        layout: Names of the files of a result.
    """
    files = folder / layout.files
    for leftover, is_dead in find_leftovers(folder, layout.files):
        # Killed between the two renames of _replace_files. The new files were whole before the first of them.
        if (leftover / _OLD).exists() and (leftover / _NEW).exists() and not files.exists():
            (leftover / _NEW).rename(files)
        if is_dead:
            shutil.rmtree(leftover, ignore_errors=True)


def check_output_folder(folder: Path, layout: Layout = LABELLED) -> None:
    """Check, before any work is done, that the output can be written to a folder.

    Args:
        folder: The folder, which need not exist.
        layout: Names of the files of the result.

    Raises:
        ValueError: If it is ``-``.
        OSError: If it cannot be written, or holds something else under the name of an output.
    """
    remedy = "name another with --output"
    if str(folder) == "-":
        raise ValueError(f"--output must be a folder, got -; {remedy}")
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} must be a folder for the output, got a file; {remedy}")
    parent = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not os.access(parent, os.W_OK | os.X_OK) or not parent.is_dir():
        raise PermissionError(f"{folder} must be a folder that can be written, got one that cannot; {remedy}")
    for path in (folder / name for name in layout.links):
        if path.is_dir():
            raise IsADirectoryError(f"{path} must be a file or not there, got a folder; {remedy}")
        if path.is_symlink() and not _is_link(path, layout):
            raise FileExistsError(f"{path} must be a file or not there, got a link to {path.readlink()}; {remedy}")
        if path.exists() and not path.is_file():
            raise FileExistsError(f"{path} must be a file or not there, got something else; {remedy}")
    files = folder / layout.files
    if (files.is_symlink() or files.exists()) and not _is_result(files, layout):
        raise FileExistsError(f"{files} must be {layout.content} of angpn or not there, got something else; {remedy}")
    if files.exists() and not os.access(files, os.W_OK | os.X_OK):
        raise PermissionError(f"{files} must be a folder that can be replaced, got one that is read-only; {remedy}")


def _is_result(path: Path, layout: Layout) -> bool:
    if path.is_symlink() or not path.is_dir():
        return False
    known = {*layout.links, *layout.others}
    with os.scandir(path) as entries:
        return all(entry.name in known and entry.is_file(follow_symlinks=False) for entry in entries)


def _is_link(path: Path, layout: Layout) -> bool:
    """Whether this is our link to a file of the result."""
    return path.is_symlink() and path.readlink() == Path(layout.files, path.name)


def _install(temporary: Path, folder: Path, layout: Layout) -> None:
    """Move the new files from the temporary folder into their place, and let the links show them."""
    files = folder / layout.files
    if _has_links(temporary, layout):
        for name in layout.links:
            if not _is_link(folder / name, layout):
                _make_link(folder / name, files, temporary)
        _replace_files(temporary, files)
    else:  # files instead of links, replaced one after the other
        _replace_files(temporary, files)
        for name in layout.links:
            with replacing(folder / name) as copy:
                shutil.copyfile(files / name, copy)


def _has_links(temporary: Path, layout: Layout) -> bool:
    """Whether this user may make links on this file system."""
    try:
        (temporary / "link").symlink_to(layout.files)
    except OSError as error:
        if os.name == "nt" or error.errno in _NO_LINKS:
            return False
        raise
    return True


def _make_link(path: Path, files: Path, temporary: Path) -> None:
    """Put a link to a file of the result in the place of nothing, or of a file whose content it then shows."""
    if path.exists():
        files.mkdir(exist_ok=True)
        copy = temporary / path.name
        shutil.copyfile(path, copy)
        sync(copy)
        copy.replace(files / path.name)
        sync(files)
    link = temporary / f"{path.name}.link"
    link.symlink_to(Path(files.name, path.name))
    link.replace(path)


def _replace_files(temporary: Path, files: Path) -> None:
    new, old = temporary / _NEW, temporary / _OLD
    if not files.exists():
        try:
            new.rename(files)
            return
        except OSError:
            if not files.exists():  # else another run was faster, and its result is replaced
                raise
    if exchange(new, files):
        return
    try:
        files.rename(old)
        new.rename(files)
    except BaseException:
        if old.exists() and not files.exists():
            old.rename(files)
        raise


def _remove_folders_of_0_1_0(folder: Path) -> None:
    """Remove temporary folders that killed runs of version 0.1.0 left; the new result has replaced what they hold."""
    for path in folder.iterdir():
        if _NAME_BEFORE.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
            with suppress(OSError):  # of another user
                names = {entry.name for entry in path.iterdir() if not entry.name.startswith(".")}
                if names <= {PREDICTIONS, REPORT, MODEL, _OLD} and time.time() - path.stat().st_mtime > _SECONDS_BEFORE:
                    shutil.rmtree(path)
