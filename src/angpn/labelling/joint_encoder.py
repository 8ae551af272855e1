"""Several encoders at once: blocks of features, each on a scale of its own, joined with weights that labels choose."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
import scipy.sparse
from msgspec import Meta
from sklearn.preprocessing import normalize

from angpn.features import TableEncoder
from angpn.features.column_state import TableState
from angpn.features.text import TextState
from angpn.labelling.block_weights import choose_weights, join_blocks
from angpn.labelling.embedding_encoder import EmbeddingEncoder, EmbeddingState
from angpn.labelling.encoders import Encoder, TextEncoder
from angpn.labelling.image_encoder import ImageEncoder, ImageState
from angpn.labelling.input_rows import COLUMNS
from angpn.utils.schema import Saved, Size
from angpn.utils.typing import Array


class Block(NamedTuple):
    """A part of the features.

    Attributes:
        name: What it is called in messages.
        encoder: What makes it.
    """

    name: str
    encoder: Encoder


class BlockState(Saved, frozen=True):
    """What a file keeps of a block that has a weight."""

    name: str
    weight: Annotated[float, Meta(gt=0, le=1)]
    scale: (
        Annotated[float, Meta(gt=0, le=1e15)] | None
    )  # what its features are multiplied by, or None where rows have unit length
    n_features: Size


class _TextBlock(BlockState, tag_field="kind", tag="text", frozen=True):
    state: TextState


class _EmbeddingBlock(BlockState, tag_field="kind", tag="embedding", frozen=True):
    state: EmbeddingState


class _ImageBlock(BlockState, tag_field="kind", tag="images", frozen=True):
    state: ImageState


class _TableBlock(BlockState, tag_field="kind", tag="table", frozen=True):
    state: TableState


_BLOCKS: dict[type[Any], type[Any]] = {
    TextEncoder: _TextBlock,
    EmbeddingEncoder: _EmbeddingBlock,
    ImageEncoder: _ImageBlock,
    TableEncoder: _TableBlock,
}
_ENCODERS: dict[type[Any], type[Any]] = {state: encoder for encoder, state in _BLOCKS.items()}


class JointState(Saved, frozen=True):
    """What a file keeps of a :class:`JointEncoder`."""

    blocks: Annotated[list[_TextBlock | _EmbeddingBlock | _ImageBlock | _TableBlock], Meta(min_length=1)]


class JointEncoder:
    """Features of several encoders side by side.

    Rows of texts, embeddings and images get unit length; columns of a table are standardised, and its rows get length 1
    on average. Each block is then multiplied by its weight; blocks of weight 0 are left out.

    Args:
        blocks: The encoders.
        seed: Seed of the choice of weights.

    Attributes:
        weights_: The weight of each block, chosen by :func:`~angpn.labelling.block_weights.choose_weights`.
    """

    def __init__(self, blocks: Sequence[Block], *, seed: int = 0) -> None:
        self.blocks, self.seed = list(blocks), seed
        self.weights_: tuple[float, ...] = ()
        self._scales: list[float | None] = []
        self._widths: list[int] = []

    def fit_transform(self, content: Any, y: Any = None) -> Any:
        """Fit all blocks, choose their weights by the labels, and return the joined features."""
        found = []
        for block in self.blocks:
            found.append(block.encoder.fit_transform(_part(content, block), y))
            content, y = _without_unreadable(block, content, y)
        self._scales = [_scale(block, rows) for block, rows in zip(self.blocks, found, strict=True)]
        self._widths = [rows.shape[1] for rows in found]
        scaled = [_scaled(rows, scale) for rows, scale in zip(found, self._scales, strict=True)]
        self.weights_ = choose_weights(scaled, y, self.seed)
        return join_blocks(scaled, self.weights_)

    def transform(self, content: Any) -> Any:
        """Return the features of other rows."""
        found = []
        for block, scale, weight in zip(self.blocks, self._scales, self.weights_, strict=True):
            found.append(_scaled(block.encoder.transform(_part(content, block)), scale) if weight else None)
            content, _ = _without_unreadable(block, content, None) if weight else (content, None)
        return join_blocks(found, self.weights_)

    @property
    def n_features(self) -> int:
        """How many features a row has."""
        return sum(width for width, weight in zip(self._widths, self.weights_, strict=True) if weight)

    def places(self) -> dict[str, slice]:
        """Return which columns of the joined features are those of each block that has a weight."""
        found, start = {}, 0
        for block, width, weight in zip(self.blocks, self._widths, self.weights_, strict=True):
            if weight:
                found[block.name] = slice(start, start + width)
                start += width
        return found

    def describe(self) -> str:
        """Return which blocks are used, for the user."""
        used = [block.name for block, weight in zip(self.blocks, self.weights_, strict=True) if weight]
        unused = [block.name for block, weight in zip(self.blocks, self.weights_, strict=True) if not weight]
        return f"features: {' and '.join(used)}" + (
            f"; held-out labels ruled out {', '.join(unused)}" if unused else ""
        )

    def to_state(self) -> tuple[JointState, dict[str, Array]]:
        """Return plain values, and arrays."""
        states: list[Any] = []
        arrays: dict[str, Array] = {}
        for block, weight, scale, width in zip(self.blocks, self.weights_, self._scales, self._widths, strict=True):
            if not weight:
                continue
            state, of_block = block.encoder.to_state()
            arrays |= {f"{len(states)}.{name}": array for name, array in of_block.items()}
            states.append(
                _BLOCKS[type(block.encoder)](name=block.name, weight=weight, scale=scale, n_features=width, state=state)
            )
        return JointState(states), arrays

    @classmethod
    def from_state(cls, state: JointState, arrays: Mapping[str, Array]) -> Self:
        """Restore a fitted encoder."""
        blocks = []
        for place, saved in enumerate(state.blocks):
            own = {name.partition(".")[2]: array for name, array in arrays.items() if name.startswith(f"{place}.")}
            encoder = _ENCODERS[type(saved)].from_state(saved.state, own)
            if encoder.n_features not in (None, saved.n_features):
                raise ValueError(f"the block {saved.name!a:.40} has {encoder.n_features} features")
            blocks.append(Block(saved.name, encoder))
        if len({block.name for block in blocks}) < len(blocks):
            raise ValueError("two blocks have the same name")
        unknown = [name for name in arrays if name.partition(".")[0] not in map(str, range(len(blocks)))]
        if unknown:
            raise ValueError(f"there is an array {unknown[0]!a:.40} that does not belong there")
        joint = cls(blocks)
        joint.weights_ = tuple(saved.weight for saved in state.blocks)
        joint._scales = [saved.scale for saved in state.blocks]
        joint._widths = [saved.n_features for saved in state.blocks]
        return joint


def blocks_of(encoder: Encoder) -> list[Block]:
    """Return the blocks of a fitted encoder that make its features; any other encoder is one block."""
    if not isinstance(encoder, JointEncoder):
        return [Block("", encoder)]
    return [block for block, weight in zip(encoder.blocks, encoder.weights_, strict=True) if weight]


def columns_of(
    encoder: Encoder,
    block: Block,
    features: Any,  # (n, d)
) -> Any:
    """Return the columns of the features that a block has made."""
    return features[:, encoder.places()[block.name]] if isinstance(encoder, JointEncoder) else features


def images_of(encoder: Encoder) -> ImageEncoder | None:
    """Return the encoder of images that an encoder is or has."""
    blocks = encoder.blocks if isinstance(encoder, JointEncoder) else [Block("", encoder)]
    return next((block.encoder for block in blocks if isinstance(block.encoder, ImageEncoder)), None)


def scaling_of(
    encoder: Encoder,
    features: Any,  # (n, d)
) -> Literal["auto", "unit"]:
    """Return the scaling that a classifier must use: one of each column alone would undo the weights of blocks."""
    return "unit" if len(blocks_of(encoder)) > 1 and not scipy.sparse.issparse(features) else "auto"


def _without_unreadable(block: Block, content: Any, y: Any) -> tuple[Any, Any]:
    """Return the content and labels without images that could not be read, for the blocks that come after these."""
    if not isinstance(block.encoder, ImageEncoder) or not block.encoder.unreadable:
        return content, y
    images = _part(content, block)
    kept = [row for row in range(len(images)) if row not in block.encoder.unreadable]
    if not isinstance(content, Mapping):
        return [images[row] for row in kept], y
    of_images = _part_name(content, block)
    others = {name: part[kept] for name, part in content.items() if name != of_images}
    return {of_images: [images[row] for row in kept], **others}, None if y is None else y[kept]


def _part(content: Any, block: Block) -> Any:
    """Return what a block is made of; where columns have no weight, a saved model needs none."""
    return content[_part_name(content, block)] if isinstance(content, Mapping) else content


def _part_name(content: Mapping[str, Any], block: Block) -> str:
    """Return which part of the content a block is made of: columns, or what stands beside them."""
    return next(name for name in content if (name == COLUMNS) == isinstance(block.encoder, TableEncoder))


def _scale(block: Block, rows: Any) -> float | None:
    """Return what makes rows of a table as long as 1 on average; rows of all else are given unit length."""
    if not isinstance(block.encoder, TableEncoder):
        return None
    length = float(np.sqrt(np.mean(np.sum(np.asarray(rows, np.float64) ** 2, axis=1))))
    return 1 / length if length > 0 else 1.0


def _scaled(rows: Any, scale: float | None) -> Any:
    if scale is None:
        return normalize(rows)
    return np.asarray(rows, np.float32) * np.float32(scale)
