"""One file for a model, an encoder or a checkpoint: named arrays and a JSON header, in the safetensors format.

Nothing in such a file is ever executed, and nothing in it is trusted: the header is decoded into a schema of declared
types and limits, and what is made of the arrays checks them (:mod:`angpn.utils.array_checks`). All that is read from
files passes through :func:`read_contents`, so that everything behind it may rely on what it gets.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from angpn.utils.files import replacing
from angpn.utils.schema import Saved
from angpn.utils.typing import Array

FORMAT = 3  # raised when a reader of the old format would misread the new one; older ones are still read
Kind = Literal["model", "checkpoint", "encoder"]
T = TypeVar("T")
_DTYPES = {"BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64", "F16", "F32", "F64"}  # that numpy has too


class _Contents(NamedTuple):
    """What a file holds, as it was written; not yet checked."""

    header: str
    arrays: dict[str, Array]
    format: int  # that it was written in


def write_contents(path: str | os.PathLike[str], kind: Kind, header: Saved, arrays: Mapping[str, Array]) -> None:
    """Write a file of that kind. If anything goes wrong, a file that was there before is left whole.

    Args:
        path: Where to write it.
        kind: What it is.
        header: Plain values; they are read back by their schema before the file is written, so that what is written
            can be read.
        arrays: Arrays by name.

    Raises:
        ValueError: If a value is not as the schema declares it.
        OSError: If the file cannot be written.
    """
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    text = encode_header(header)
    stamp = {"angpn": kind, "format": str(FORMAT), "header": text, "sha256": _digest(text, arrays)}
    with replacing(path) as temporary:
        try:
            save_file(arrays, temporary, metadata=stamp)
        except SafetensorError as error:  # of the disk: what is written has been checked
            raise OSError(f"{path} must be writable, got {error}; free some space, or name another place") from None


def encode_header(header: Saved) -> str:
    """Return a header as JSON.

    Args:
        header: Plain values.

    Returns:
        JSON that its schema reads.

    Raises:
        ValueError: If a value is not as the schema declares it.
    """
    encoded = msgspec.json.encode(header, enc_hook=np.generic.item)  # a number may be numpy's
    msgspec.json.decode(encoded, type=type(header))
    return encoded.decode()


def read_contents(
    path: str | os.PathLike[str],
    kind: Kind,
    schema: Any,
    restore: Callable[[Any, dict[str, Array]], T],
) -> T:
    """Read a file of that kind, as whole as it was written, or say in one line what is wrong with it.

    Args:
        path: The file.
        kind: What it must be.
        schema: The type of the header; or, where these differ, a mapping from the number of a format to its type.
        restore: Function from the decoded header and the arrays to what the file describes. It checks the arrays; its
            errors are completed by the name of the file.

    Returns:
        What ``restore`` returns.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is not a whole and consistent file of that kind.
    """
    path = Path(path)
    contents = _read(path, kind)
    declared = schema.get(contents.format) if isinstance(schema, Mapping) else schema
    try:
        header = msgspec.json.decode(contents.header, type=declared)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(
            f"{path} must have a header as an angpn {kind} of format {contents.format} has it, got another "
            f"({_one_line(error)}); write it anew"
        ) from None
    with naming_file(path, kind):
        return restore(header, contents.arrays)


@contextmanager
def naming_file(path: str | os.PathLike[str], kind: Kind) -> Iterator[None]:
    """Complete the errors of checks inside the block by the name of the file that was checked."""
    try:
        yield
    except ValueError as error:
        raise ValueError(
            f"{os.fspath(path)} must hold a {kind} as angpn writes it, got parts that do not fit together "
            f"({_one_line(error)}); write it anew"
        ) from error


def _read(path: Path, kind: Kind) -> _Contents:
    if path.is_dir():
        inside = _find_inside(path, kind)
        remedy = f"pass {inside}" if inside is not None else "name a file"
        raise IsADirectoryError(f"{path} must be an angpn {kind} file, got a folder; {remedy}")
    if not path.is_file():
        raise FileNotFoundError(f"{path} must be an angpn {kind} file, got none there; check the name")
    try:
        # This checks that the arrays fill the file, so that they take no more memory than it has bytes.
        with safe_open(path, framework="numpy") as file:
            stamp = file.metadata() or {}
            names = list(file.keys()) if "angpn" in stamp else []
            foreign = [name for name in names if file.get_slice(name).get_dtype() not in _DTYPES]
            arrays = {} if foreign else {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError, ValueError, OverflowError) as error:
        raise ValueError(
            f"{path} must be an angpn {kind} file, got one that cannot be read ({_one_line(error)}): cut short, "
            "altered or of another kind; write it anew"
        ) from error
    if "angpn" not in stamp:
        raise ValueError(f"{path} must be an angpn {kind} file, got a safetensors file of something else; name another")
    _check_stamp(stamp, kind, path)
    if foreign or _digest(stamp["header"], arrays) != stamp.get("sha256"):
        raise ValueError(f"{path} must be as it was written, got contents that do not match its digest; write it anew")
    return _Contents(stamp["header"], arrays, int(stamp["format"]))


def _find_inside(folder: Path, kind: Kind) -> Path | None:
    """Return a file of that kind in a folder or one below it, such as the output of ``angpn label``."""
    for path in sorted([*folder.glob("*.angpn"), *folder.glob("*/*.angpn")]):
        try:
            with safe_open(path, framework="numpy") as file:
                if (file.metadata() or {}).get("angpn") == kind:
                    return path
        except (SafetensorError, OSError, ValueError, OverflowError):
            continue
    return None


def _check_stamp(stamp: Mapping[str, str], kind: Kind, path: Path) -> None:
    if stamp["angpn"] != kind:
        raise ValueError(
            f"{path} must be an angpn {kind} file, got one of kind {stamp['angpn']!a:.40}; name another file"
        )
    if stamp.get("format") not in [str(number) for number in range(1, FORMAT + 1)]:
        raise ValueError(
            f"{path} must have a format up to {FORMAT}, got format {stamp.get('format')!a:.40}; a newer angpn wrote "
            "it: upgrade, or write it anew"
        )
    if "header" not in stamp:
        raise ValueError(f"{path} must be an angpn {kind} file, got one without a header; write it anew")


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 400 else f"{text[:400]}..."


def _digest(header: str, arrays: Mapping[str, Array]) -> str:
    digest = hashlib.sha256(header.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
