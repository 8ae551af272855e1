"""The folder of an annotation: which rows it belongs to, and who may write to it."""

import hashlib
import json
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import scipy.sparse

from angpn.annotation.actions import Entry
from angpn.annotation.lock import open_locked
from angpn.annotation.log import ActionLog, read_entries
from angpn.annotation.queue import Wanted
from angpn.labelling.input_options import InputOptions
from angpn.labelling.input_rows import Rows
from angpn.utils.files import replacing
from angpn.utils.fingerprint import fingerprint

FOLDER, LOG, PROJECT, LOCK, TOKEN, QUEUE = "annotate", "log.jsonl", "project.json", "lock", "token", "queue.json"
_TOKEN_BYTES = 24
_SAMPLE = 1000  # rows whose content is part of the fingerprint
_LEAST_SHARE = 0.5  # of the images of a project that must still be there


class ProjectFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ``project.json`` holds.

    Attributes:
        input: The input, as an absolute path, or the name of an array.
        kind: The kind of its rows.
        n_rows: How many.
        fingerprint: A digest of them; of images, whose files may come and go, that of nothing.
        options: Options of the input, to read it again.
        ids: The ids of images, in the order of their numbers.
        format: Version of this file.
    """

    input: str
    kind: str
    n_rows: int
    fingerprint: str
    options: dict[str, Any]
    ids: list[str] | None = None
    format: int = 1


class Project:
    """An annotation on the disk, which this process alone may write to.

    Args:
        folder: The output folder.

    Attributes:
        folder: The output folder.
        log: The log, after :meth:`open`.

    Raises:
        OSError: If the folder cannot be used.
        BlockingIOError: If another process has opened it; the message has its address.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._private = folder / FOLDER
        try:
            self._private.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(
                f"{folder} must be a folder for the output, got a file; name another with --output"
            ) from None
        self._lock = open_locked(self._private / LOCK)
        self.log: ActionLog

    def open(self, options: InputOptions, rows: Rows) -> Rows:
        """Begin a project for these rows, or go on with theirs, and open the log.

        Returns:
            The rows, by the numbers that they have in this project: images that were deleted since keep theirs, and
            new ones come last.

        Raises:
            ValueError: If the folder belongs to other rows, or cannot be read.
        """
        path = self._private / PROJECT
        known = read_project(self.folder)
        if known is not None:
            rows = _same_rows(known, options, rows, self.folder)
        if known is None or rows.kind == "images":
            found = _describe(options, rows)
            if found != known:
                with replacing(path) as temporary:
                    temporary.write_bytes(msgspec.json.encode(found))
        self.log = ActionLog(self._private / LOG)
        return rows

    def token(self) -> str:
        """Return what requests must hold; it stays, so that an open page goes on after a restart."""
        path = self._private / TOKEN
        if path.exists() and len(known := path.read_text().strip()) >= _TOKEN_BYTES:
            return known
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(token)
        return token

    def save_queue(self, suggested: Sequence[Wanted]) -> None:
        """Keep what the model wants to know, so that after a restart the same row is on screen, before it is fitted."""
        with replacing(self._private / QUEUE) as temporary:
            temporary.write_bytes(msgspec.json.encode(suggested))

    def load_queue(self, n_rows: int) -> list[Wanted]:
        """Return what was kept; nothing where it cannot be read, as it will be computed again."""
        try:
            found = msgspec.json.decode((self._private / QUEUE).read_bytes(), type=list[Wanted])
        except (OSError, msgspec.DecodeError):
            return []
        return [one for one in found if 0 <= one.row < n_rows]

    def name(self) -> str:
        """Return what tells this project from others, by which pages keep what they could not send."""
        return hashlib.sha256(self.token().encode()).hexdigest()[:16]

    def write_address(self, address: str) -> None:
        """Tell who tries to open the project, too, where it is served."""
        os.ftruncate(self._lock, 0)
        os.write(self._lock, json.dumps({"pid": os.getpid(), "address": address}).encode())

    def close(self) -> None:
        """Let others open the project."""
        if hasattr(self, "log"):
            self.log.close()
        if self._lock >= 0:
            os.ftruncate(self._lock, 0)
            os.close(self._lock)
            self._lock = -1


def read_project(folder: Path) -> ProjectFile | None:
    """Return what a folder says of its project; None where it has none.

    Raises:
        ValueError: If it cannot be read.
    """
    path = folder / FOLDER / PROJECT
    try:
        return msgspec.json.decode(path.read_bytes(), type=ProjectFile)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise ValueError(f"{path} must say what the project is, got {error}; restore it from a copy") from None


class SavedProject(NamedTuple):
    """A project that is only read.

    Attributes:
        options: Options of the input.
        rows: Its rows, by their numbers in the project.
        entries: The log.
    """

    options: InputOptions
    rows: Rows
    entries: list[Entry]


def load_project(folder: Path, encoder: str = "auto") -> SavedProject:
    """Read a project, also while a server has it open.

    Args:
        folder: Its folder.
        encoder: The encoder of its rows. It is never taken from the folder, since it may name any code.

    Raises:
        FileNotFoundError: If the folder has no project.
        ValueError: If its input is another one by now, or something is damaged.
    """
    known = read_project(folder)
    if known is None:
        raise FileNotFoundError(f"{folder} must be an output folder of angpn annotate, got one without a project")
    options = InputOptions(input=known.input, **{**known.options, "encoder": encoder})
    if not Path(known.input).exists():
        raise FileNotFoundError(
            f"{folder} must have its input where it was, got none at {known.input}; put it there, or export from the "
            "Python session that it was begun in"
        )
    rows = _same_rows(known, options, options.read(), folder)
    return SavedProject(options, rows, read_entries(folder / FOLDER / LOG))


def _describe(options: InputOptions, rows: Rows) -> ProjectFile:
    named = {
        "text": options.text,
        "id_column": options.id_column,
        "drop": list(options.drop),
        "categorical": list(options.categorical),
        "impute": options.impute,
        "skip_bad": options.skip_bad,
        "max_pixels": options.max_pixels,
        "cache": options.cache,
        "seed": options.seed,
    }
    ids = rows.ids if rows.kind == "images" else None
    printable = None if ids is None else [name.encode("utf-8", "surrogateescape").decode("latin-1") for name in ids]
    return ProjectFile(_absolute(options.input), rows.kind, len(rows.ids), _fingerprint(rows), named, printable)


def _absolute(name: str | os.PathLike[str]) -> str:
    path = Path(name)
    return str(path.absolute()) if path.exists() else str(name)


def _fingerprint(rows: Rows) -> str:
    """Return a digest of the ids and of the content of some rows."""
    if rows.kind == "images":
        return ""
    step = max(1, len(rows.ids) // _SAMPLE)
    content: Any = rows.content[::step]
    if rows.kind == "table":
        content = [str(rows.content.columns), *map(str, content.rows())]
    elif rows.kind == "array":
        content = scipy.sparse.csr_array(content) if scipy.sparse.issparse(content) else np.asarray(content)
    ids = hashlib.sha256("\0".join(rows.ids).encode("utf-8", "surrogateescape")).hexdigest()
    return fingerprint({"ids": ids, "content": content})


def _same_rows(known: ProjectFile, options: InputOptions, rows: Rows, folder: Path) -> Rows:
    """Return the rows of the input by the numbers that they have in the project."""
    remedy = "name another folder with --output, or the input that it was begun with"
    if rows.kind != known.kind:
        raise ValueError(f"{folder} must be a project of {rows.kind}, got one of {known.kind}; {remedy}")
    if rows.kind != "images":
        if _fingerprint(rows) != known.fingerprint:
            raise ValueError(
                f"{folder} must be a project of these {len(rows.ids)} rows, got one of {known.n_rows} others, of "
                f"{known.input}; {remedy}"
            )
        return rows
    before = [name.encode("latin-1").decode("utf-8", "surrogateescape") for name in known.ids or []]
    files = dict(zip(rows.ids, rows.content, strict=True))
    numbered = set(before)
    kept = sum(name in files for name in before)
    if kept < _LEAST_SHARE * len(before):
        raise ValueError(
            f"{folder} must be a project of these images, got one of {known.input}, of whose {len(before)} images "
            f"{kept} are here; {remedy}"
        )
    ids = [*before, *(name for name in rows.ids if name not in numbered)]
    source = Path(options.input)
    return rows._replace(ids=ids, content=[files[name] if name in files else source / name for name in ids])
