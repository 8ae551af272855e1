"""Loaders with the interface of scikit-learn's own."""

import inspect
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import sklearn.datasets
from sklearn.utils import Bunch

from angpn.datasets import image_datasets, newsgroups
from angpn.datasets.cache import FOLDER_VARIABLE, data_folder, read_arrays

DataHome = str | os.PathLike[str] | None


class DatasetInfo(NamedTuple):
    """Description of a data set.

    Attributes:
        load: Its loader.
        shape: Number of rows and of features.
        n_classes: Number of classes.
        files: Files any of which the loader can read; empty where scikit-learn bundles the set.
        source: Publication and origin.
        licence: Licence.
    """

    load: Callable[..., Any]
    shape: tuple[int, int]
    n_classes: int
    files: tuple[str, ...]
    source: str
    licence: str


def load_coraml(*, data_home: DataHome = None, return_X_y: bool = False) -> Any:
    """Load CoraML: 1617 papers on machine learning in 7 fields by 8329 words, 1 where a word occurs, sparse.

    187 rows are empty. No stable official download exists, so the file must be put into the folder by hand.

    Args:
        data_home: Folder of the data sets, see :func:`~angpn.datasets.data_folder`.
        return_X_y: Return (data, target) instead of a Bunch.

    Returns:
        A Bunch (data, target, feature_names, target_names, DESCR), or data and target.

    Raises:
        FileNotFoundError: If the file is missing; the message says how to write it.
        ValueError: If the file is damaged.
    """
    folder = data_folder(data_home)
    path = folder / "coraml.npz"
    if not path.exists():
        raise FileNotFoundError(
            f"{path} must hold CoraML, got no such file, and no stable official download exists for it. It is the ML "
            "part of the Cora collection of Zhu et al. (2007), which circulates as Cora_ML_uni.mat (1617 x 8329, 7 "
            "classes). Write the parts of its CSR matrix and the labels from 0 with numpy.savez(path, data=..., "
            "indices=..., indptr=..., shape=..., y=...), or name the folder it is in by data_home or "
            f"{FOLDER_VARIABLE}"
        )
    arrays = read_arrays(path)
    names = [f"field {label}" for label in range(7)]
    _check_classes(arrays, len(names), path)
    return _bunch(load_coraml, _sparse(arrays, path), arrays["y"], names, None, return_X_y)


def load_20news(*, data_home: DataHome = None, return_X_y: bool = False, progress: bool = True) -> Any:
    """Load 20News: 3970 messages of the four ``rec`` groups of 20 Newsgroups by 8014 words, tf x ln(n/df), sparse.

    Rows are sorted by class and not normalised. Where the matrix is not in the folder it is computed from the raw
    messages (with two words fewer).

    Args:
        data_home: Folder of the data sets, see :func:`~angpn.datasets.data_folder`.
        return_X_y: Return (data, target) instead of a Bunch.
        progress: Show the progress bar of a download.

    Returns:
        A Bunch (data, target, feature_names, target_names, DESCR), or data and target.

    Raises:
        ConnectionError: If a download fails.
        ValueError: If a file is damaged.
    """
    folder = data_folder(data_home)
    arrays = newsgroups.load_arrays(folder, progress=progress)
    _check_classes(arrays, len(newsgroups.GROUPS), folder / "20news.npz")
    words = [str(word) for word in arrays["vocab"]] if "vocab" in arrays else None
    return _bunch(
        load_20news, _sparse(arrays, folder / "20news.npz"), arrays["y"], newsgroups.GROUPS, words, return_X_y
    )


def load_svhn(
    *, data_home: DataHome = None, return_X_y: bool = False, images: bool = False, progress: bool = True
) -> Any:
    """Load SVHN: 5000 house-number digits, 500 a class, as 256 descriptors of a convolutional network, or as pixels.

    Descriptors: EfficientNet-lite0 at 128 px, block 10 on an 8 x 8 grid, standardised, 256 principal components.

    Args:
        data_home: Folder of the data sets, see :func:`~angpn.datasets.data_folder`.
        return_X_y: Return (data, target) instead of a Bunch.
        images: Return pixels instead of descriptors.
        progress: Show progress bars of downloads and descriptors.

    Returns:
        A Bunch (data, target, feature_names, target_names, DESCR), or data and target.

    Raises:
        ConnectionError: If a download fails.
        ValueError: If a file is damaged.
    """
    return _load_images(load_svhn, image_datasets.SVHN, data_home, images, progress, return_X_y)


def load_cifar10(
    *, data_home: DataHome = None, return_X_y: bool = False, images: bool = False, progress: bool = True
) -> Any:
    """Load CIFAR-10: 5000 small photographs, 500 a class, as 1280 descriptors of a convolutional network, or as pixels.

    Descriptors: EfficientNet-lite0 at 96 px, last feature map, averaged.

    Args:
        data_home: Folder of the data sets, see :func:`~angpn.datasets.data_folder`.
        return_X_y: Return (data, target) instead of a Bunch.
        images: Return pixels instead of descriptors.
        progress: Show progress bars of downloads and descriptors.

    Returns:
        A Bunch (data, target, feature_names, target_names, DESCR), or data and target.

    Raises:
        ConnectionError: If a download fails.
        ValueError: If a file is damaged.
    """
    return _load_images(load_cifar10, image_datasets.CIFAR10, data_home, images, progress, return_X_y)


def load_digits(*, data_home: DataHome = None, return_X_y: bool = False) -> Any:
    """Load 1797 handwritten digits of 8 x 8 pixels, bundled with scikit-learn.

    Args:
        data_home: Folder of the data sets, see :func:`~angpn.datasets.data_folder`, unused here.
        return_X_y: Return (data, target) instead of a Bunch.

    Returns:
        A Bunch (data, target, feature_names, target_names, DESCR), or data and target.
    """
    return _bundled(load_digits, sklearn.datasets.load_digits(), return_X_y)


def load_wine(*, data_home: DataHome = None, return_X_y: bool = False) -> Any:
    """Load 178 wines of three cultivars with 13 measurements, bundled with scikit-learn.

    Args:
        data_home: Folder of the data sets, see :func:`~angpn.datasets.data_folder`, unused here.
        return_X_y: Return (data, target) instead of a Bunch.

    Returns:
        A Bunch (data, target, feature_names, target_names, DESCR), or data and target.
    """
    return _bundled(load_wine, sklearn.datasets.load_wine(), return_X_y)


def load_breast_cancer(*, data_home: DataHome = None, return_X_y: bool = False) -> Any:
    """Load 569 tumours, benign or malignant, with 30 measurements, bundled with scikit-learn.

    Args:
        data_home: Folder of the data sets, see :func:`~angpn.datasets.data_folder`, unused here.
        return_X_y: Return (data, target) instead of a Bunch.

    Returns:
        A Bunch (data, target, feature_names, target_names, DESCR), or data and target.
    """
    return _bundled(load_breast_cancer, sklearn.datasets.load_breast_cancer(), return_X_y)


def load_mnist10k(*, data_home: DataHome = None, return_X_y: bool = False) -> Any:
    """Load 10,000 handwritten digits of MNIST, the first 1,000 of each class, 28 x 28 pixels from 0 to 1.

    They come from ``mnist.npz`` in the folder, else by scikit-learn from OpenML.

    Args:
        data_home: Folder of the data sets, see :func:`~angpn.datasets.data_folder`.
        return_X_y: Return (data, target) instead of a Bunch.

    Returns:
        A Bunch (data, target, feature_names, target_names, DESCR), or data and target.
    """
    folder = data_folder(data_home)
    path = folder / "mnist.npz"
    if path.exists():
        arrays = read_arrays(path)
        pixels, labels = arrays["X_train"], arrays["y_train"]
    else:
        bunch = sklearn.datasets.fetch_openml("mnist_784", version=1, as_frame=False, data_home=str(folder))
        pixels, labels = bunch.data, bunch.target.astype(np.int64)
    rows = np.sort(np.concatenate([np.flatnonzero(labels == label)[:1000] for label in range(10)]))
    data = np.asarray(pixels[rows], dtype=np.float32).reshape(len(rows), -1) / 255
    return _bunch(load_mnist10k, data, labels[rows], [str(label) for label in range(10)], None, return_X_y)


def _load_images(
    load: Callable[..., Any],
    dataset: image_datasets.ImageDataset,
    data_home: DataHome,
    images: bool,
    progress: bool,
    return_X_y: bool,
) -> Any:
    folder = data_folder(data_home)
    arrays = image_datasets.load_arrays(dataset, folder, images=images, progress=progress)
    _check_classes(
        arrays, len(dataset.class_names), folder / f"{dataset.name}_{'images' if images else 'features'}.npz"
    )
    data = arrays["X"] if images else arrays["X"].astype(np.float32)
    return _bunch(load, data, arrays["y"], dataset.class_names, None, return_X_y)


def _bundled(load: Callable[..., Any], bunch: Bunch, return_X_y: bool) -> Any:
    return _bunch(
        load, bunch.data, bunch.target, bunch.target_names, [str(name) for name in bunch.feature_names], return_X_y
    )


def _bunch(
    load: Callable[..., Any],
    data: Any,
    target: Any,
    target_names: Sequence[Any],
    feature_names: list[str] | None,
    return_X_y: bool,
) -> Any:
    target = np.asarray(target).astype(np.int64)
    if return_X_y:
        return data, target
    if feature_names is None:
        feature_names = [f"feature {column}" for column in range(data.shape[-1])]
    return Bunch(
        data=data,
        target=target,
        feature_names=feature_names,
        target_names=np.array([str(name) for name in target_names]),
        DESCR=inspect.cleandoc(load.__doc__ or "").partition("\n\nArgs:")[0],
    )


def _check_classes(arrays: dict[str, np.ndarray[Any, Any]], n_classes: int, path: Path) -> None:
    present = np.unique(arrays["y"]) if "y" in arrays else np.array([])
    missing = sorted(set(range(n_classes)) - set(present.tolist()))
    if missing or len(present) != n_classes:
        got = f"none of class {missing[0]}" if missing else f"{len(present)} classes"
        raise ValueError(f"{path} must hold rows of {n_classes} classes, labelled from 0, got {got}; replace it")


def _sparse(arrays: dict[str, np.ndarray[Any, Any]], path: Path) -> scipy.sparse.csr_array:
    try:
        parts = arrays["data"], arrays["indices"], arrays["indptr"]
        matrix = scipy.sparse.csr_array(parts, shape=tuple(arrays["shape"]))
        matrix.check_format(full_check=True)
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path} must hold the parts of a CSR matrix, got {error}; replace it") from error
    return matrix


SETS: dict[str, DatasetInfo] = {
    "svhn": DatasetInfo(
        load_svhn,
        (5000, 256),
        10,
        ("svhn_features.npz", "svhn_images.npz", image_datasets.SVHN.source.filename),
        "Netzer et al. 2011, ufldl.stanford.edu/housenumbers",
        "non-commercial use only",
    ),
    "cifar10": DatasetInfo(
        load_cifar10,
        (5000, 1280),
        10,
        ("cifar10_features.npz", "cifar10_images.npz", image_datasets.CIFAR10.source.filename),
        "Krizhevsky 2009, cs.toronto.edu/~kriz",
        "none stated",
    ),
    "20news": DatasetInfo(
        load_20news,
        (3970, 8014),
        4,
        ("20news.npz", "20news_raw.zip", newsgroups.ARCHIVE.filename),
        "20 Newsgroups, Lang 1995; selection of Zhou et al. 2004",
        "none stated",
    ),
    "coraml": DatasetInfo(load_coraml, (1617, 8329), 7, ("coraml.npz",), "Zhu et al. 2007; by hand", "none stated"),
    "mnist10k": DatasetInfo(
        load_mnist10k, (10_000, 784), 10, ("mnist.npz",), "LeCun et al. 1998, by OpenML", "CC BY-SA 3.0"
    ),
    "digits": DatasetInfo(load_digits, (1797, 64), 10, (), "UCI, bundled with scikit-learn", "CC BY 4.0"),
    "wine": DatasetInfo(load_wine, (178, 13), 3, (), "UCI, bundled with scikit-learn", "CC BY 4.0"),
    "breast_cancer": DatasetInfo(load_breast_cancer, (569, 30), 2, (), "UCI, bundled with scikit-learn", "CC BY 4.0"),
}
