"""The file of an encoder: how rows were read, and how they become features."""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from angpn.features import TableEncoder
from angpn.features.column_state import TableState
from angpn.features.text import TextState
from angpn.labelling.embedding_encoder import EmbeddingEncoder, EmbeddingState
from angpn.labelling.encoders import ArrayEncoder, ArrayState, Encoder, TextEncoder
from angpn.labelling.image_encoder import ImageEncoder, ImageState
from angpn.labelling.input_rows import Kind
from angpn.labelling.joint_encoder import JointEncoder, JointState
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


class _EmbeddingHeader(_Header, tag_field="kind", tag="text by embedding", frozen=True):
    state: EmbeddingState


class _JointHeader(_Header, frozen=True):
    columns: list[str]  # beside texts or images
    state: JointState


class _JointTextHeader(_JointHeader, tag_field="kind", tag="text by several", frozen=True):
    pass


class _JointImageHeader(_JointHeader, tag_field="kind", tag="images by several", frozen=True):
    pass


class _TableHeader(_Header, tag_field="kind", tag="table", frozen=True):
    state: TableState


class _ArrayHeader(_Header, tag_field="kind", tag="array", frozen=True):
    state: ArrayState


EncoderHeader = (
    _ImageHeader | _TextHeader | _EmbeddingHeader | _JointTextHeader | _JointImageHeader | _TableHeader | _ArrayHeader
)
_ENCODERS: dict[type[Any], tuple[Kind, type[Any]]] = {
    _ImageHeader: ("images", ImageEncoder),
    _TextHeader: ("text", TextEncoder),
    _EmbeddingHeader: ("text", EmbeddingEncoder),
    _JointTextHeader: ("text", JointEncoder),
    _JointImageHeader: ("images", JointEncoder),
    _TableHeader: ("table", TableEncoder),
    _ArrayHeader: ("array", ArrayEncoder),
}
_HEADERS: dict[tuple[Kind, type[Any]], type[Any]] = {what: header for header, what in _ENCODERS.items()}


class SavedEncoder(NamedTuple):
    """What the file describes."""

    kind: Kind  # of the rows
    text: str | None  # the column of the texts
    id_column: str | None
    ignored: list[str]  # columns
    encoder: Encoder
    columns: Sequence[str] = ()  # beside texts or images


def write_encoder(path: str | os.PathLike[str], saved: SavedEncoder) -> None:
    """Write a fitted encoder.

    Args:
        path: Where to write it.
        saved: The encoder, and how the rows were read.
    """
    state, arrays = saved.encoder.to_state()
    kind = saved.kind, type(saved.encoder)
    header_type = _HEADERS[kind]
    joint = {"columns": list(saved.columns)} if issubclass(header_type, _JointHeader) else {}
    header = header_type(text=saved.text, id_column=saved.id_column, ignored=saved.ignored, state=state, **joint)
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
    kind, encoder_type = _ENCODERS[type(header)]
    encoder = encoder_type.from_state(header.state, arrays)
    columns = header.columns if isinstance(header, _JointHeader) else ()
    if isinstance(encoder, JointEncoder):
        _check_blocks(encoder, kind, columns)
    return SavedEncoder(kind, header.text, header.id_column, header.ignored, encoder, columns)


def _check_blocks(encoder: JointEncoder, kind: Kind, columns: Sequence[str]) -> None:
    """Check that blocks are of what the rows have: texts or images, and columns where there are any."""
    of_kind = ImageEncoder if kind == "images" else TextEncoder | EmbeddingEncoder
    n_tables = sum(isinstance(block.encoder, TableEncoder) for block in encoder.blocks)
    others = [block for block in encoder.blocks if not isinstance(block.encoder, TableEncoder)]
    if n_tables != bool(columns) or not all(isinstance(block.encoder, of_kind) for block in others):
        raise ValueError(f"its blocks are not those of {kind} with {len(columns)} columns")
