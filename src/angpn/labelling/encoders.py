"""From rows to features, the same way for the rows of the fit and for new ones."""

import base64
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import scipy.sparse

from angpn.features import TextFeatures, image_features
from angpn.features.reading import ImageSource, read_image
from angpn.labelling.rows import Kind, Rows
from angpn.labelling.table_encoder import State, TableEncoder
from angpn.utils.optional import require
from angpn.utils.typing import Array

THUMBNAIL = 64  # pixels


class Encoder(Protocol):
    """Makes features, and can be written down."""

    def fit(self, content: Any) -> Any:
        """Learn what is needed from the rows of the fit, and give their features."""

    def transform(self, content: Any) -> Any:
        """The features of other rows."""

    def to_state(self) -> State:
        """All that ``from_state`` needs."""

    @classmethod
    def from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """The encoder that ``to_state`` wrote down."""


class ImageEncoder:
    """Descriptors of an ImageNet network; on the way it keeps a small picture of each image."""

    def __init__(self, *, skip_bad: bool = False, progress: bool = False) -> None:
        self.skip_bad, self.progress = skip_bad, progress
        self.thumbnails: list[str] = []
        self.bad: dict[int, str] = {}  # why an image could not be read, by its place

    def fit(self, content: Sequence[Path]) -> Any:
        """Nothing is learnt: the network is trained already."""
        return self.transform(content)

    def transform(self, content: Sequence[Path]) -> Any:  # (images that could be read, d)
        """The descriptors of the images that could be read."""
        self.thumbnails, self.bad = [], {}
        source = ImageSource(len(content), lambda row: self._read(row, content[row]))
        features = image_features(source, progress=self.progress)
        kept = [row for row in range(len(content)) if row not in self.bad]
        if not kept:
            raise ValueError(f"at least one image must be readable, got {len(content)} that are not; {self.bad[0]}")
        return features[kept]

    def _read(self, row: int, path: Path) -> Array:
        try:
            image = read_image(path)
        except (ValueError, OSError) as error:
            if not self.skip_bad:
                raise ValueError(f"{error}, or pass --skip-bad") from None
            self.bad[row] = str(error)
            return np.zeros((8, 8, 3), np.uint8)
        self.thumbnails.append(thumbnail(image))
        return image

    def to_state(self) -> State:
        """What a file keeps of it."""
        return {}, {}

    @classmethod
    def from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Back from such a file."""
        return cls()


def thumbnail(image: Array) -> str:
    """A small JPEG as a data URI."""
    picture = require("PIL.Image", "pip install angpn[images]").fromarray(image)
    picture.thumbnail((THUMBNAIL, THUMBNAIL))
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=70)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


class TextEncoder:
    """TF-IDF."""

    def __init__(self, features: TextFeatures | None = None) -> None:
        self._features = features or TextFeatures()

    def fit(self, content: Sequence[str]) -> Any:
        """Learn the words and how rare they are."""
        return self._features.fit_transform(content)

    def transform(self, content: Sequence[str]) -> Any:
        """The rows of other texts, in the same words."""
        return self._features.transform(content)

    def to_state(self) -> State:
        """What a file keeps of it."""
        return self._features.to_state()

    @classmethod
    def from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Back from such a file."""
        return cls(TextFeatures.from_state(header, arrays))


class ArrayEncoder:
    """Features as they are; missing numbers take the median of their column where that is asked for."""

    def __init__(self, *, impute: bool = False) -> None:
        self.impute = impute
        self._medians: Array | None = None

    def fit(self, content: Any) -> Any:
        """Learn the medians, where they are asked for."""
        if not scipy.sparse.issparse(content) and self.impute:
            with np.errstate(all="ignore"):
                self._medians = np.nan_to_num(np.nanmedian(np.asarray(content, dtype=np.float64), axis=0))
        return self.transform(content)

    def transform(self, content: Any) -> Any:
        """The features of other rows."""
        if scipy.sparse.issparse(content):
            return content
        rows = np.asarray(content, dtype=content.dtype if content.dtype.kind == "f" else np.float32)
        if self._medians is not None and rows.shape[1] != len(self._medians):
            raise ValueError(f"rows must have {len(self._medians)} features as in the fit, got {rows.shape[1]}")
        missing = np.isnan(rows)
        if not missing.any():
            return rows
        if self._medians is None:
            raise ValueError(
                f"features must be numbers, got {int(missing.sum())} missing, the first in row "
                f"{int(missing.any(axis=1).argmax())}; fill them, or pass --impute"
            )
        return np.where(missing, self._medians, rows).astype(rows.dtype)

    def to_state(self) -> State:
        """What a file keeps of it."""
        return {"impute": self.impute}, {} if self._medians is None else {"medians": self._medians}

    @classmethod
    def from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Back from such a file."""
        encoder = cls(impute=header["impute"])
        encoder._medians = arrays.get("medians")
        return encoder


def encoder_for(
    rows: Rows, *, impute: bool = False, categorical: Sequence[str] = (), skip_bad: bool = False, progress: bool = False
) -> Encoder:
    """The encoder that suits the rows."""
    if categorical and rows.kind != "table":
        raise ValueError(f"--categorical is for tables, got {rows.kind}; leave it out")
    if rows.kind == "images":
        return ImageEncoder(skip_bad=skip_bad, progress=progress)
    if rows.kind == "text":
        return TextEncoder()
    return TableEncoder(impute=impute, categorical=categorical) if rows.kind == "table" else ArrayEncoder(impute=impute)


ENCODERS: dict[Kind, type[Encoder]] = {
    "images": ImageEncoder,
    "text": TextEncoder,
    "table": TableEncoder,
    "array": ArrayEncoder,
}
