"""Small pictures of images, inside a page."""

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from angpn.utils.optional import require
from angpn.utils.typing import Array

THUMBNAIL_PIXELS = 64
_MAX_THUMBNAILS = 8000  # of a page, about 1.5 kB each
_SMALL = 32  # pixels of a side below which an image is enlarged, or JPEG would blur it


def make_thumbnail(
    image: Array,  # (h, w, 3) uint8
) -> str:
    """Return a small JPEG of an image as a data URI."""
    return data_uri(small_jpeg(image))


def small_jpeg(
    image: Array,  # (h, w, 3) uint8
) -> bytes:
    """Return a small JPEG of an image."""
    picture = require("PIL.Image", 'pip install "angpn[images]"').fromarray(image)
    picture.thumbnail((THUMBNAIL_PIXELS, THUMBNAIL_PIXELS))
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=70)
    return buffer.getvalue()


def data_uri(jpeg: bytes) -> str:
    """Return a JPEG as a data URI."""
    return "data:image/jpeg;base64," + base64.b64encode(jpeg).decode()


class ArrayThumbnails(Sequence[str]):
    """Thumbnails of an array of images, each made when it is asked for.

    Args:
        images: Images, grey or in colour; numbers that are not uint8 are scaled, so that the smallest of all is black
            and the largest white.

    Raises:
        ValueError: If it is no array of images.
    """

    def __init__(self, images: Any) -> None:  # (n, h, w[, 3])
        self._images = np.asarray(images)
        shape, dtype = self._images.shape, self._images.dtype
        if len(shape) not in (3, 4) or shape[3:] not in ((), (3,)) or 0 in shape:
            raise ValueError(
                f"images must have shape (n, h, w, 3) or, grey, (n, h, w), got {shape}; move the channels to the end"
            )
        if dtype.kind not in "biuf" or not np.isfinite(self._images).all():
            raise ValueError(f"images must be finite numbers, got {dtype} with others; replace NaN and infinity")
        self._range = (0.0, 255.0) if dtype == np.uint8 else (float(self._images.min()), float(self._images.max()))

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, row: Any) -> Any:
        low, high = self._range
        scaled = (self._images[row].astype(np.float64) - low) * (255 / ((high - low) or 1))
        image = np.round(scaled).astype(np.uint8)
        factor = -(-_SMALL // min(image.shape[:2]))
        image = image.repeat(factor, axis=0).repeat(factor, axis=1)
        return make_thumbnail(np.repeat(image[..., None], 3, axis=2) if image.ndim == 2 else image)


def limit_thumbnails(thumbnails: Sequence[str] | None, listed: Sequence[int], seed: int) -> list[str | None] | None:
    """Return the thumbnails of at most 8,000 rows, which bound the size of the page; listed rows first."""
    if thumbnails is None or len(thumbnails) <= _MAX_THUMBNAILS:
        return None if thumbnails is None else list(thumbnails)
    by_priority = [*listed, *np.random.default_rng(seed).permutation(len(thumbnails))]
    shown = set(list(dict.fromkeys(int(row) for row in by_priority))[:_MAX_THUMBNAILS])
    return [thumbnails[row] if row in shown else None for row in range(len(thumbnails))]
