"""Options of an input that every command reads alike: which columns, and how they become features."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from angpn.features.image_file import MAX_PIXELS
from angpn.labelling.input_rows import Rows, read_rows

if TYPE_CHECKING:
    from angpn.labelling.encoders import Encoder


@dataclass(frozen=True, kw_only=True)
class InputOptions:
    """Options of an input.

    Attributes:
        input: Folder of images or file of rows, see :func:`~angpn.labelling.read_rows`.
        text: Column of the table that holds texts; the rows are then texts.
        id_column: Column of the table that holds ids; without it the id is the number of the row.
        drop: Columns of the table to leave out.
        columns: Columns of the table to take beside its texts, or of ``table``.
        table: Table with columns of the images of a folder, by their id.
        categorical: Columns of the table to encode as categories.
        impute: Fill missing values by the median, or by a category of their own.
        encoder: What makes features of texts or images: ``auto``, ``tfidf``, ``wordllama``,
            ``sentence-transformers:NAME_OR_FOLDER`` or ``module:function`` for texts, also several of these with commas
            between them, among which labels choose; ``auto``, ``efficientnet-lite0``, ``timm:NAME``,
            ``torchvision:NAME``, ``open_clip:NAME``, a TorchScript or a safetensors file for images.
        skip_bad: Leave out images that cannot be read.
        max_pixels: An image with more pixels is one that cannot be read.
        cache: Take features that are slow to compute from the user's cache, and keep new ones there.
        seed: Seed of all that is drawn.
    """

    input: str | os.PathLike[str]
    text: str | None = None
    id_column: str | None = None
    drop: Sequence[str] = ()
    columns: Sequence[str] = ()
    table: str | os.PathLike[str] | None = None
    categorical: Sequence[str] = ()
    impute: bool = False
    encoder: str = "auto"
    skip_bad: bool = False
    max_pixels: int = MAX_PIXELS
    cache: bool = True
    seed: int = 0

    def read(self, *, label_column: str | None = None, source_column: str | None = None) -> Rows:
        """Read the rows of the input, see :func:`~angpn.labelling.read_rows`."""
        return read_rows(
            self.input,
            text=self.text,
            label_column=label_column,
            source_column=source_column,
            id_column=self.id_column,
            drop=self.drop,
            categorical=self.categorical,
            columns=self.columns,
            table=self.table,
        )

    def check_id_column(self, rows: Rows) -> None:
        """Refuse a table with a column ``id`` that is not said to hold ids: it would be a feature."""
        if rows.kind == "table" and self.id_column is None and "id" in rows.content:
            raise ValueError(
                "the table has a column 'id', got no --id-column; pass --id-column id, or --drop id to count rows"
            )

    def make_encoder(self, rows: Rows, *, with_labels: bool = True, progress: bool = False) -> "Encoder":
        """Return the unfitted encoder for these rows; without labels, categories are not standardised."""
        from angpn.labelling.encoder_choice import (
            encoder_for,  # needs scikit-learn and torch, which take seconds to import
        )

        return encoder_for(
            rows,
            encoder=self.encoder,
            impute=self.impute,
            categorical=self.categorical,
            scale_categories=with_labels,
            skip_bad=self.skip_bad,
            max_pixels=self.max_pixels,
            cache=self.cache,
            seed=self.seed,
            progress=progress,
        )
