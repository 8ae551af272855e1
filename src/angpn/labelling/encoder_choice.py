"""Which encoder rows get: by their kind, and by what the user names."""

from collections.abc import Sequence

from angpn.features import TableEncoder
from angpn.features.image_file import MAX_PIXELS
from angpn.features.image_networks import DEFAULT_NETWORK
from angpn.features.text_embeddings import PACKAGED, is_packaged_installed
from angpn.labelling.embedding_encoder import EmbeddingEncoder
from angpn.labelling.encoders import ArrayEncoder, Encoder, TextEncoder
from angpn.labelling.image_encoder import ImageEncoder
from angpn.labelling.input_rows import COLUMNS, Rows
from angpn.labelling.joint_encoder import Block, JointEncoder, blocks_of
from angpn.labelling.named_encoder import AUTO

TFIDF = "tfidf"


def encoder_for(
    rows: Rows,
    *,
    encoder: str = AUTO,
    impute: bool = False,
    categorical: Sequence[str] = (),
    scale_categories: bool = True,
    skip_bad: bool = False,
    max_pixels: int = MAX_PIXELS,
    cache: bool = False,
    seed: int = 0,
    progress: bool = False,
) -> Encoder:
    """Return the unfitted encoder for this kind of rows."""
    if categorical and rows.kind != "table" and rows.columns is None:
        raise ValueError(f"--categorical is for tables, got {rows.kind}; leave it out")
    if encoder != AUTO and rows.kind not in ("images", "text"):
        raise ValueError(f"--encoder is for texts and images, got {rows.kind}; leave it out")
    if rows.kind == "array":
        return ArrayEncoder(impute=impute)
    table = TableEncoder(
        impute=impute, categorical=categorical, scale_categories=scale_categories, decimal=rows.decimal
    )
    if rows.kind == "table":
        return table
    if rows.kind == "images":
        name = DEFAULT_NETWORK if encoder == AUTO else encoder
        images = ImageEncoder(name, skip_bad=skip_bad, max_pixels=max_pixels, cache=cache, progress=progress)
        blocks = [Block(name, images)]
    else:
        blocks = text_blocks(encoder, cache=cache, progress=progress)
    if rows.columns is not None:
        blocks.append(Block(COLUMNS, table))
    return blocks[0].encoder if len(blocks) == 1 else JointEncoder(blocks, seed=seed)


def text_blocks(names: str, *, cache: bool = False, progress: bool = False) -> list[Block]:
    """Return the blocks of features that texts may have by these encoders.

    ``auto`` is TF-IDF, and the packaged embedding beside it where that is installed.
    """
    chosen = split_encoders(names)
    if chosen == [AUTO]:
        chosen = [TFIDF, PACKAGED] if is_packaged_installed() else [TFIDF]
    blocks = []
    for name in dict.fromkeys(chosen):
        if name == TFIDF:
            blocks.append(Block("TF-IDF", TextEncoder()))
        else:
            blocks.append(Block(name, EmbeddingEncoder(name, cache=cache, progress=progress)))
    return blocks


def split_encoders(names: str) -> list[str]:
    """Split names of encoders at commas."""
    found = [name.strip() for name in names.split(",") if name.strip()]
    if not found:
        raise ValueError(f"--encoder must name an encoder, got {names!r}; leave it out, or see angpn label --help")
    return found


def name_again(encoder: Encoder, names: str) -> None:
    """Tell a restored encoder what the user passed as ``--encoder``, see :mod:`angpn.labelling.named_encoder`.

    Args:
        encoder: The encoder.
        names: What the user passed, one name or several.
    """
    for block in blocks_of(encoder):
        part = block.encoder
        if isinstance(part, ImageEncoder):
            part.named = names
        elif isinstance(part, EmbeddingEncoder):
            library = part.name.partition(":")[0]
            named = split_encoders(names)
            of_library = [name for name in named if name.partition(":")[0] == library]
            part.named = part.name if part.name in named else (of_library or named)[0]
