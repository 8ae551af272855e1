"""The file of an encoder: how rows were read, and how they become features."""

import os
from typing import Any, NamedTuple

from angpn.features.column_state import TableState
from angpn.features.text import TextState
from angpn.labelling.encoders import ENCODERS, ArrayState, Encoder
from angpn.labelling.image_encoder import ImageState
from angpn.labelling.input_rows import Kind
from angpn.utils.container import read_contents, write_contents
from angpn.utils.schema import Saved
from angpn.utils.typing import Array


class _Header(Saved, frozen=True):
    """How a table is read."""

    text: str | None  # the column of the texts
    id_column: str | None
    ignored: list[str]


class _ImageHeader(_Header, tag_field="kind", tag="images", frozen=True):
    state: ImageState


class _TextHeader(_Header, tag_field="kind", tag="text", frozen=True):
    state: TextState


class _TableHeader(_Header, tag_field="kind", tag="table", frozen=True):
    state: TableState


class _ArrayHeader(_Header, tag_field="kind", tag="array", frozen=True):
    state: ArrayState


EncoderHeader = _ImageHeader | _TextHeader | _TableHeader | _ArrayHeader
_HEADERS: dict[Kind, Any] = {
    "images": _ImageHeader,
    "text": _TextHeader,
    "table": _TableHeader,
    "array": _ArrayHeader,
}


class SavedEncoder(NamedTuple):
    """What the file describes."""

    kind: Kind  # of the rows
    text: str | None  # the column of the texts
    id_column: str | None
    ignored: list[str]  # columns
    encoder: Encoder


def write_encoder(path: str | os.PathLike[str], saved: SavedEncoder) -> None:
    """Write a fitted encoder.

    Args:
        path: Where to write it.
        saved: The encoder, and how the rows were read.
    """
    state, arrays = saved.encoder.to_state()
    header = _HEADERS[saved.kind](text=saved.text, id_column=saved.id_column, ignored=saved.ignored, state=state)
    write_contents(path, "encoder", header, arrays)


def read_encoder(path: str | os.PathLike[str]) -> SavedEncoder:
    """Read a fitted encoder.

    Args:
        path: The file.

    Returns:
        The encoder, and how the rows were read.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is not a whole encoder that this version knows.
    """
    return read_contents(path, "encoder", EncoderHeader, _restored)


def _restored(header: Any, arrays: dict[str, Array]) -> SavedEncoder:
    kind: Kind = header.__struct_config__.tag
    encoder = ENCODERS[kind].from_state(header.state, arrays)
    return SavedEncoder(kind, header.text, header.id_column, header.ignored, encoder)
