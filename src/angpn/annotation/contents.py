"""What a row shows: an image, a text, the cells of a table, or numbers; cells also beside an image or a text."""

import io
import math
from functools import lru_cache
from typing import Any

import numpy as np
import polars
import scipy.sparse

from angpn.annotation.actions import ActionError
from angpn.features.image_file import MAX_PIXELS, read_image
from angpn.features.image_source import Images, ImageSource, image_source
from angpn.labelling.input_rows import Rows
from angpn.utils.optional import require

MAX_TEXT = 20_000  # characters that are sent of a text
MAX_CELLS, MAX_CELL = 200, 2_000  # cells of a row, and characters of one
N_NUMBERS = 64  # that are sent of an array
_KEPT_IMAGES = 512  # of the size of a thumbnail, in memory
_LOSSLESS = 256 * 256  # pixels up to which an image is sent as PNG
_SIZES = (16, 2048)

Content = dict[str, Any]


class Contents:
    """The content of the rows of an input, by number.

    Args:
        rows: The rows.
        images: Images of rows that are arrays: a folder, files or an array.
        texts: Texts of rows that are arrays.
        max_pixels: An image of more pixels is not read.

    Raises:
        ValueError: If there is not one image or text for each row.
    """

    def __init__(
        self, rows: Rows, *, images: Images | None = None, texts: Any = None, max_pixels: int = MAX_PIXELS
    ) -> None:
        self.rows, self._max_pixels = rows, max_pixels
        self.kind = {"text": "texts"}.get(rows.kind, rows.kind) if texts is None else "texts"
        self._texts = list(map(str, texts)) if texts is not None else rows.content if rows.kind == "text" else None
        self._images: ImageSource | None = None
        if rows.kind == "images":
            self._images = ImageSource(len(rows.ids), lambda row: read_image(rows.content[row], max_pixels=max_pixels))
        elif images is not None:
            self._images = image_source(images, max_pixels=max_pixels)
        for what, count in (
            ("images", None if self._images is None else self._images.total),
            ("texts", None if self._texts is None else len(self._texts)),
        ):
            if count not in (None, len(rows.ids)):
                raise ValueError(f"{what} must be one for each of the {len(rows.ids)} rows, got {count}; pass as many")
        self._thumbnail = lru_cache(_KEPT_IMAGES)(self._encode)

    def __len__(self) -> int:
        return len(self.rows.ids)

    def of(self, row: int) -> Content:
        """Return what is shown of a row; why not, where its file was deleted or damaged meanwhile."""
        beside = self.rows.columns
        return self._alone(row) | ({} if beside is None else {"cells": _cells(beside, row)})

    def _alone(self, row: int) -> Content:
        """Return the same without columns beside texts or images."""
        if self.rows.kind == "images":
            try:
                width, height = self._size(row)
            except (OSError, ValueError) as error:
                return {"kind": "missing", "error": self._without_folder(row, error)}
            return {"kind": "image", "url": f"/api/image/{row}", "width": width, "height": height}
        if self._texts is not None:
            text = self._texts[row]
            return {"kind": "text", "text": text[:MAX_TEXT]} | ({"cut": True} if len(text) > MAX_TEXT else {})
        if self.rows.kind == "table":
            return {"kind": "cells", "cells": _cells(self.rows.content, row)}
        image = None if self._images is None else f"/api/image/{row}"
        return {"kind": "array", "values": _numbers(self.rows.content, row), "image": image}

    def image(self, row: int, size: int | None) -> tuple[bytes, str]:
        """Return an image and its media type, shrunk to so many pixels a side.

        Raises:
            FileNotFoundError: If the rows have no images, or the file cannot be read.
            ActionError: If it cannot be decoded, or is too large.
        """
        if self._images is None:
            raise FileNotFoundError("rows must have images to be shown, got none; pass images")
        try:
            if size is None:
                return self._encode(row, _SIZES[1])
            return self._thumbnail(row, min(max(size, _SIZES[0]), _SIZES[1]))
        except OSError as error:
            raise FileNotFoundError(self._without_folder(row, error)) from None
        except ValueError as error:
            raise ActionError(self._without_folder(row, error)) from None

    def _encode(self, row: int, size: int) -> tuple[bytes, str]:
        """Decode an image and encode it anew: nothing of the file itself reaches a browser."""
        assert self._images is not None
        picture = require("PIL.Image", 'pip install "angpn[images]"').fromarray(self._images.read(row))
        picture.thumbnail((size, size))
        buffer = io.BytesIO()
        is_small = math.prod(picture.size) <= _LOSSLESS
        picture.save(buffer, "PNG" if is_small else "JPEG", **({} if is_small else {"quality": 85}))
        return buffer.getvalue(), "image/png" if is_small else "image/jpeg"

    def _size(self, row: int) -> tuple[int, int]:
        """Return width and height from the header of a file."""
        pil = require("PIL.Image", 'pip install "angpn[images]"')
        path = self.rows.content[row]
        try:
            with pil.open(path) as image:
                width, height = image.size
                turned = image.getexif().get(0x0112, 1) >= 5
        except OSError as error:
            raise OSError(f"{path} must be an image that can be read, got {error.strerror or 'another file'}") from None
        except Exception as error:  # decoders raise many types
            raise ValueError(f"{path} must be an image that can be read, got {type(error).__name__}") from None
        if width * height > self._max_pixels:
            raise ValueError(f"{path} must have at most {self._max_pixels:,} pixels, got {width} x {height}; shrink it")
        return (height, width) if turned else (width, height)

    def _without_folder(self, row: int, error: Exception) -> str:
        """Return a message that names a file by its id, not by where it lies."""
        place = str(self.rows.content[row]) if self.rows.kind == "images" else ""
        return str(error).replace(place, self.rows.ids[row]) if place else str(error)

    def search(self, query: str) -> list[int]:
        """Return the rows whose id, text or cells contain this, in any case."""
        wanted = query.casefold()
        found = [wanted in name.casefold() for name in self.rows.ids]
        if self._texts is not None:
            found = [one or wanted in text.casefold() for one, text in zip(found, self._texts, strict=True)]
        frame = self.rows.content if self.rows.kind == "table" else self.rows.columns
        if frame is not None:
            columns = [polars.col(name).cast(polars.String, strict=False).fill_null("") for name in frame.columns]
            lines = frame.select(polars.concat_str(columns, separator="\n")).to_series().to_list()
            found = [one or wanted in line.casefold() for one, line in zip(found, lines, strict=True)]
        return [row for row, is_found in enumerate(found) if is_found]


def _cells(frame: polars.DataFrame, row: int) -> list[list[str]]:
    """Return the first columns of a row, each with its name."""
    cells = zip(frame.columns[:MAX_CELLS], frame.row(row)[:MAX_CELLS], strict=True)
    return [[name, _cell(value)] for name, value in cells]


def _cell(value: Any) -> str:
    return "" if value is None else str(value)[:MAX_CELL]


def _numbers(matrix: Any, row: int) -> list[float | None]:
    """Return the first numbers of a row, None for those that JSON lacks."""
    part = matrix[[row], :N_NUMBERS]
    values = part.toarray()[0] if scipy.sparse.issparse(matrix) else np.asarray(part)[0]
    return [float(value) if math.isfinite(value) else None for value in values]
