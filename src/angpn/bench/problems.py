"""Problems of a given shape that fits are timed on: a tenth of the labels of each class is given."""

from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits, load_iris

from angpn.utils.typing import Array

BUNDLED = {"150x4": load_iris, "1797x64": load_digits}
LABELLED, LEAST = 0.1, 2  # share of the labels of each class that is given, and at least how many
CLASSES, CLUSTERS, DIMENSIONS = 10, 30, 32
APART, NOISE = 0.7, 0.3  # of a cluster's spread: scale of the centres; noise in all columns


class LabelledRows(NamedTuple):
    """Rows, the labels that are given, and all labels."""

    X: Array  # (n, d)
    y: Array  # (n,), -1 where a row is unlabelled
    truth: Array  # (n,)


def overlapping_classes(n: int, columns: int) -> tuple[Array, Array]:
    """Return rows of ten classes, three clusters each, and their labels.

    Rows lie near a space of 32 dimensions, as descriptors of images and texts do, so that classes overlap as much in
    whatever number of columns.
    """
    generator = np.random.default_rng(n)
    cluster = generator.integers(CLUSTERS, size=n)
    centres = np.float32(APART) * generator.standard_normal((CLUSTERS, DIMENSIONS), np.float32)
    rows = centres[cluster] + generator.standard_normal((n, DIMENSIONS), np.float32)
    X = rows @ generator.standard_normal((DIMENSIONS, columns), np.float32) / np.float32(np.sqrt(DIMENSIONS))
    X += np.float32(NOISE) * generator.standard_normal((n, columns), np.float32)
    return X, cluster % CLASSES


def labelled_rows(shape: str) -> LabelledRows:
    """Return iris for "150x4", digits for "1797x64", and else ten synthetic classes that overlap."""
    n, columns = (int(part) for part in shape.split("x"))
    if shape in BUNDLED:
        X, truth = BUNDLED[shape](return_X_y=True)
    else:
        X, truth = overlapping_classes(n, columns)
    order = np.random.default_rng(0).permutation(n)
    y = np.full(n, -1)
    for code in np.unique(truth):
        rows = order[truth[order] == code]
        y[rows[: max(LEAST, round(LABELLED * len(rows)))]] = code
    return LabelledRows(X, y, truth)
