"""Read one image file within limits: how large it is stands in its header, before anything is decoded.

A few kilobytes can unpack to billions of pixels. Networks see about a hundred pixels a side, so a large image is shrunk
while it is decoded where its format can (JPEG), and else right after, in strips: beside the decoder's own 4 bytes a
pixel, nothing of the full size is held.
"""

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from angpn.utils.memory import available_bytes
from angpn.utils.optional import require
from angpn.utils.typing import Array

MAX_PIXELS = 100_000_000  # more than nearly all cameras give; decoded they are 0.4 GB
MIN_SIDE = 1024  # to which the shorter side is shrunk at most
_MAX_KEPT = 2**23  # pixels of the result
_STRIP = 2**20  # pixels converted at once
_BYTES = 4  # of a pixel in Pillow
_ORIENTATION = 0x0112  # EXIF tag


def read_image(path: Path, *, max_pixels: int = MAX_PIXELS, min_side: int = MIN_SIDE) -> Array:  # (h, w, 3) uint8
    """Read an image file as RGB: rotated by its EXIF tag, on white where transparent, the first frame of several.

    Args:
        path: The file.
        max_pixels: An image of more pixels is refused.
        min_side: An image is shrunk by the largest whole factor that leaves its shorter side so long; and where it then
            has more than 8 million pixels, to that.

    Returns:
        The pixels.

    Raises:
        ValueError: If the file is not an image that can be decoded, or a larger one than allowed.
        OSError: If it cannot be read.
    """
    pil = require("PIL.Image", 'pip install "angpn[images]"')
    try:
        file = path.open("rb")
    except OSError as error:
        raise OSError(
            f"{path} must be a file that can be read, got {error.strerror}; check its rights, or leave it out"
        ) from error
    with file, _pixel_limit(pil, max_pixels):
        with _decoding(path, pil, max_pixels):
            image = pil.open(file)
        if math.prod(image.size) > max_pixels:
            raise _too_large(path, max_pixels, f"{image.width} x {image.height}")
        with _decoding(path, pil, max_pixels):
            # JPEG decodes to a half, a quarter or an eighth; other formats ignore this.
            image.draft(None, tuple(-(-side // _factor(image, min_side)) for side in image.size))
        needed, free = _BYTES * math.prod(image.size), available_bytes()
        if free is not None and needed > free:
            raise ValueError(
                f"{path} must fit into memory, got {image.width} x {image.height} pixels, which need "
                f"{needed / 1e9:.1f} GB where {free / 1e9:.1f} GB are free; shrink it or leave it out"
            )
        with _decoding(path, pil, max_pixels):
            rotation = _rotation(pil, image)
            pixels = _shrunk(pil, image, _factor(image, min_side))
    return pixels if rotation is None else np.array(pil.fromarray(pixels).transpose(rotation))


def _factor(image: Any, min_side: int) -> int:
    """Return the factor by which an image is to be shrunk."""
    return max(1, min(image.size) // min_side, math.ceil(math.sqrt(math.prod(image.size) / _MAX_KEPT)))


def _shrunk(pil: Any, image: Any, factor: int) -> Array:  # (h, w, 3) uint8
    """Decode an image, and return it shrunk."""
    width, height = image.size
    image.load()
    rows = factor * max(1, _STRIP // (width * factor))
    found = np.empty((-(-height // factor), -(-width // factor), 3), np.uint8)
    for top in range(0, height, rows):
        bottom = min(top + rows, height)
        strip = _on_white(pil, image.crop((0, top, width, bottom)))
        found[top // factor : -(-bottom // factor)] = np.asarray(strip if factor == 1 else strip.reduce(factor))
    return found


def _on_white(pil: Any, image: Any) -> Any:
    if image.mode.startswith("I;16"):  # Pillow would clip values above 8 bits instead of scaling them
        image = pil.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    image = image.convert("RGBA")
    return pil.alpha_composite(pil.new("RGBA", image.size, "white"), image).convert("RGB")


def _rotation(pil: Any, image: Any) -> Any:
    """Return the operation that turns an image as its EXIF tag says, or None."""
    turn = pil.Transpose
    turns = [turn.FLIP_LEFT_RIGHT, turn.ROTATE_180, turn.FLIP_TOP_BOTTOM]
    turns += [turn.TRANSPOSE, turn.ROTATE_270, turn.TRANSVERSE, turn.ROTATE_90]
    return dict(enumerate(turns, start=2)).get(image.getexif().get(_ORIENTATION))


@contextmanager
def _pixel_limit(pil: Any, max_pixels: int) -> Iterator[None]:
    """Let Pillow refuse more than twice so many pixels, in whatever a file contains, and warn of nothing."""
    before = pil.MAX_IMAGE_PIXELS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pil.DecompressionBombWarning)
        pil.MAX_IMAGE_PIXELS = max_pixels
        try:
            yield
        finally:
            pil.MAX_IMAGE_PIXELS = before


@contextmanager
def _decoding(path: Path, pil: Any, max_pixels: int) -> Iterator[None]:
    """Turn what decoders raise into one error."""
    try:
        yield
    except pil.DecompressionBombError as error:
        raise _too_large(path, max_pixels, "more than twice as many") from error
    except Exception as error:  # of many types
        reason = str(error)
        if not reason or "<_io." in reason:  # the name of a file object says nothing
            reason = type(error).__name__
        raise ValueError(
            f"{path} must be an image that can be decoded, got one that cannot ({reason}): truncated, damaged "
            "or of another format; repair it or leave it out"
        ) from error


def _too_large(path: Path, max_pixels: int, got: str) -> ValueError:
    return ValueError(f"{path} must have at most {max_pixels:,} pixels, got {got}; shrink it, or raise max_pixels")
