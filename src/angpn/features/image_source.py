"""Access to the images of a folder, a list of files or an array, one at a time."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from angpn.features.image_file import MAX_PIXELS, MIN_SIDE, read_image
from angpn.utils.typing import Array

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")


class ImageSource(NamedTuple):
    """The number of images, and a function that reads one of them: (h, w, 3) uint8."""

    total: int
    read: Callable[[int], Array]


Images = str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | Array | ImageSource


def image_files(folder: str | os.PathLike[str]) -> list[Path]:
    """List all image files below a folder, sorted by their path in it.

    Args:
        folder: The folder.

    Returns:
        The paths, in the order of the rows of :func:`~angpn.features.image_features`.

    Raises:
        ValueError: If it holds no image.
        OSError: If there is no such folder.
    """
    folder = Path(folder)
    return [folder / name for name in image_names(folder)]


def image_names(folder: Path) -> list[str]:
    """Return the paths of all image files below a folder, relative to it and with slashes, sorted.

    Raises:
        ValueError: If it holds no image.
        OSError: If there is no such folder.
    """
    if not folder.exists():
        raise FileNotFoundError(f"{folder} must be a folder of images, got none there; check the name")
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} must be a folder of images, got a file; pass a list for single files")
    found = sorted(_names_below(folder, ""))
    if not found:
        raise ValueError(
            f"{folder} must hold at least one image, got none with a name in {' '.join(SUFFIXES)}; name another folder"
        )
    return found


def _names_below(folder: str | os.PathLike[str], prefix: str) -> Iterator[str]:
    """Go through the image files of a folder and of the folders in it, except those that are links.

    Names are strings and the directory says what is a file: paths and their attributes take seconds for many images.
    """
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from _names_below(entry.path, f"{prefix}{entry.name}/")
                elif os.path.splitext(entry.name)[1].lower() in SUFFIXES and entry.is_file():
                    yield prefix + entry.name
    except PermissionError:  # a folder that is not ours to read holds none of our images
        return


def image_source(images: Images, *, max_pixels: int = MAX_PIXELS, min_side: int = MIN_SIDE) -> ImageSource:
    """Return access to images, after checks that do not read the files; see :func:`read_image` for the options."""
    if isinstance(images, ImageSource):
        return images
    if isinstance(images, np.ndarray):
        return _from_array(images)
    files = image_files(images) if isinstance(images, str | os.PathLike) else _existing_files(images)
    return ImageSource(len(files), lambda row: read_image(files[row], max_pixels=max_pixels, min_side=min_side))


def _from_array(images: Array) -> ImageSource:
    grey = images.ndim == 3
    if not grey and (images.ndim != 4 or images.shape[3] != 3):
        raise ValueError(
            f"an array of images must have shape (n, h, w, 3) or, grey, (n, h, w), got {images.shape}; move the "
            "channels to the end"
        )
    if 0 in images.shape:
        raise ValueError(f"an array of images must hold at least one pixel of one image, got shape {images.shape}")
    if images.dtype != np.uint8:
        raise ValueError(
            f"an array of images must have dtype uint8, values 0 to 255, got {images.dtype}; scale it and use "
            "astype('uint8')"
        )
    if grey:
        return ImageSource(len(images), lambda row: np.repeat(images[row, :, :, None], 3, axis=2))
    return ImageSource(len(images), lambda row: images[row])


def _existing_files(images: Iterable[Any]) -> list[Path]:
    """Return the paths, after a check that each file exists: an error should come before hours of work."""
    files = []
    for row, path in enumerate(images):
        if not isinstance(path, str | os.PathLike):
            raise TypeError(
                f"images must be a folder, a list of paths or a uint8 array, got {type(path).__name__} as images[{row}]"
                "; pass paths, or one array (n, h, w, 3)"
            )
        files.append(Path(path))
        if not files[-1].is_file():
            raise FileNotFoundError(f"images[{row}] must be a file, got {path}, where there is none; check the name")
    if not files:
        raise ValueError("images must hold at least one image, got an empty list; pass more")
    return files
