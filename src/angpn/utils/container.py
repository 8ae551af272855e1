"""One file for a model, an encoder or a checkpoint: named arrays and a JSON header, in the safetensors format.

Nothing in such a file is ever executed: numbers are read as numbers and the header as JSON.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from angpn.utils.files import replacing
from angpn.utils.typing import Array

FORMAT = 2  # raised when a reader of the old format would misread the new one; older ones are still read
Kind = Literal["model", "checkpoint", "encoder"]


class Contents(NamedTuple):
    """What a file holds."""

    header: dict[str, Any]
    arrays: dict[str, Array]
    format: int  # that it was written in


def write_contents(
    path: str | os.PathLike[str], kind: Kind, header: Mapping[str, Any], arrays: Mapping[str, Array]
) -> None:
    """Write a file of that kind. If anything goes wrong, a file that was there before is left whole."""
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    text = json.dumps(header, allow_nan=False)
    stamp = {"angpn": kind, "format": str(FORMAT), "header": text, "sha256": _digest(text, arrays)}
    with replacing(path) as temporary:
        try:
            save_file(arrays, temporary, metadata=stamp)
        except SafetensorError as error:  # of the disk: what is written has been checked
            raise OSError(f"{path} must be writable, got {error}; free some space, or name another place") from None


def read_contents(path: str | os.PathLike[str], kind: Kind) -> Contents:
    """Read a file of that kind, as whole as it was written, or say what is wrong with it."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} must be an angpn {kind} file, got none there; check the name")
    try:
        with safe_open(path, framework="numpy") as file:
            stamp = file.metadata() or {}
            if "angpn" in stamp:
                _check_stamp(stamp, kind, path)
            arrays = {name: file.get_tensor(name) for name in file.keys()} if "angpn" in stamp else {}  # noqa: SIM118
    except (SafetensorError, OSError, TypeError, KeyError) as error:
        raise ValueError(
            f"{path} must be an angpn {kind} file, got one that cannot be read ({error}): cut short, altered or of "
            "another kind; write it anew"
        ) from error
    if "angpn" not in stamp:
        raise ValueError(f"{path} must be an angpn {kind} file, got a safetensors file of something else; name another")
    if _digest(stamp.get("header", ""), arrays) != stamp.get("sha256"):
        raise ValueError(f"{path} must be as it was written, got contents that do not match its digest; write it anew")
    return Contents(json.loads(stamp["header"]), arrays, int(stamp["format"]))


def _check_stamp(stamp: Mapping[str, str], kind: Kind, path: Path) -> None:
    if stamp["angpn"] != kind:
        raise ValueError(f"{path} must be an angpn {kind} file, got a {stamp['angpn']}; name another file")
    if stamp.get("format") not in [str(number) for number in range(1, FORMAT + 1)]:
        raise ValueError(
            f"{path} must have a format up to {FORMAT}, got format {stamp.get('format')}; a newer angpn wrote it: "
            "upgrade, or write it anew"
        )


def _digest(header: str, arrays: Mapping[str, Array]) -> str:
    digest = hashlib.sha256(header.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
