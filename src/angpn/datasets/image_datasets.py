"""SVHN and CIFAR-10: the paper's 500 images a class, as pixels or as descriptors of a convolutional network."""

import io
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.io

from angpn.datasets.archives import archive_files, unpickle_arrays
from angpn.datasets.cache import Source, download, read_arrays
from angpn.utils.files import replacing
from angpn.utils.typing import Array


class ImageDataset(NamedTuple):
    """An official training set of images, and the function that computes its descriptors."""

    name: str
    source: Source
    read: Callable[[Path], tuple[Array, Array]]  # images (n, 32, 32, 3) uint8 and labels from 0
    class_names: tuple[str, ...]
    describe: Callable[[Array, bool], Array]


def load_arrays(dataset: ImageDataset, folder: Path, *, images: bool, progress: bool) -> dict[str, Array]:
    """Read pixels or descriptors from the folder; what is missing is computed from the official file and stored."""
    described = folder / f"{dataset.name}_features.npz"
    if not images and described.exists():
        return read_arrays(described)
    selected = folder / f"{dataset.name}_images.npz"
    if not selected.exists():
        rows = selection(dataset.name)
        pixels, labels = dataset.read(download(dataset.source, folder, progress=progress))
        _save(selected, X=pixels[rows], y=labels[rows], train_index=rows)
    arrays = read_arrays(selected)
    if images:
        return arrays
    _save(described, X=dataset.describe(arrays["X"], progress).astype(np.float16), y=arrays["y"])
    return read_arrays(described)


def selection(name: str) -> Array:  # (5000,)
    """Return the rows of the official training set that were drawn once: 500 of each class."""
    contents = (files("angpn.datasets") / "selections.npz").read_bytes()
    with np.load(io.BytesIO(contents), allow_pickle=False) as file:
        return file[name].astype(np.int64)


def read_cifar10(archive: Path) -> tuple[Array, Array]:
    """Read the five official training batches."""
    batches: dict[str, tuple[Array, Array]] = {}
    for name, contents in archive_files(archive, lambda name: "/data_batch_" in name):
        batch = unpickle_arrays(contents)
        images = np.asarray(batch[b"data"], dtype=np.uint8).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        batches[name] = images, np.asarray(batch[b"labels"], dtype=np.int64)
    if len(batches) != 5:
        raise ValueError(f"{archive} must hold 5 training batches, got {len(batches)}; fetch it again")
    pixels, labels = zip(*(batches[name] for name in sorted(batches)), strict=True)
    return np.concatenate(pixels), np.concatenate(labels)


def read_svhn(path: Path) -> tuple[Array, Array]:
    """Read the official cropped digits; the file has 10 for the digit 0."""
    file = scipy.io.loadmat(path, variable_names=["X", "y"])
    return np.ascontiguousarray(file["X"].transpose(3, 0, 1, 2)), file["y"].ravel().astype(np.int64) % 10


def describe_cifar10(images: Array, progress: bool) -> Array:  # (n, 1280)
    """Return the last feature map of an ImageNet network, averaged."""
    from angpn.features import image_features

    return image_features(images, size=96, progress=progress)


def describe_svhn(images: Array, progress: bool) -> Array:  # (n, 256)
    """Return a middle layer on an 8 x 8 grid (positions of strokes matter), standardised, 256 principal components."""
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    from angpn.features import image_features

    maps = image_features(images, size=128, layer=10, pooling="grid:8", progress=progress)
    return PCA(256, random_state=0).fit_transform(StandardScaler().fit_transform(maps))


def _save(path: Path, **arrays: Array) -> None:
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


CIFAR10 = ImageDataset(
    "cifar10",
    Source(
        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        "sha256:6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
        "cifar-10-python.tar.gz",
        "Keras' cifar10 loader",
    ),
    read_cifar10,
    ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    describe_cifar10,
)
SVHN = ImageDataset(
    "svhn",
    Source(
        "http://ufldl.stanford.edu/housenumbers/train_32x32.mat",
        "md5:e26dedcc434d2e4c54c9b2d4a06d8373",
        "train_32x32.mat",
        "torchvision's SVHN loader",
    ),
    read_svhn,
    tuple(str(digit) for digit in range(10)),
    describe_svhn,
)
