"""Splits of the rows into training, validation and test rows."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from sklearn.model_selection import train_test_split

from angpn.utils.typing import Array

VALIDATION_PERCENT = 5
VALIDATION_COUNT = 1000


class Split(NamedTuple):
    """Masks of the rows; every row is in exactly one.

    Attributes:
        training: Rows whose labels are trained on.
        validation: Rows whose labels serve stopping and the selection of hyper-parameters.
        test: All other rows.
    """

    training: Array  # (n,) bool
    validation: Array  # (n,) bool
    test: Array  # (n,) bool


def paper_split(
    labels: Array,  # (n,)
    rate: int,
    number: int,
) -> Split:
    """Draw the paper's split: ``rate`` per cent of each class for training, 5 for validation, the rest for test.

    The same number gives every method the same split, and splits nest: training rows at 10 per cent are also training
    rows at 20.

    Args:
        labels: The class of each row.
        rate: Per cent of each class for training.
        number: Number of the split, the seed of the draw.

    Returns:
        The split.
    """
    generator = np.random.default_rng(number)
    training, validation = np.zeros(len(labels), dtype=bool), np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        rows = generator.permutation(np.flatnonzero(labels == label))
        first = max(1, round(len(rows) * rate / 100))
        second = first + max(1, round(len(rows) * VALIDATION_PERCENT / 100))
        training[rows[:first]], validation[rows[first:second]] = True, True
    return Split(training, validation, ~training & ~validation)


def lds_split(labels: Array, count: int, number: int) -> Split:
    """Draw a split of Franceschi et al. (2019): ``count`` training labels, twice as many for validation, the rest test.

    Three nested stratified splits with one seed. There, half of the validation labels serve early stopping and half the
    selection of hyper-parameters; here, all serve both.
    """
    rows = np.arange(len(labels))
    parts = []
    for kept in (3 * count, 2 * count, count):  # the test rows are split off first
        rows, split_off = train_test_split(
            rows, random_state=number, stratify=labels[rows], train_size=kept, test_size=len(rows) - kept
        )
        parts.append(split_off)
    return _as_split(labels, rows, np.concatenate(parts[1:]))


def counted_split(labels: Array, count: int, number: int) -> Split:
    """Draw ``count`` training labels in all and 1000 for validation, both stratified by class."""
    known, _ = train_test_split(
        np.arange(len(labels)), random_state=number, stratify=labels, train_size=count + VALIDATION_COUNT
    )
    training, validation = train_test_split(
        known, random_state=number, stratify=labels[known], train_size=count, test_size=VALIDATION_COUNT
    )
    return _as_split(labels, training, validation)


def few_split(labels: Array, count: int, number: int) -> Split:
    """Draw ``count`` training labels of each class, and none for validation."""
    generator = np.random.default_rng(number)
    chosen = [generator.permutation(np.flatnonzero(labels == label))[:count] for label in np.unique(labels)]
    return _as_split(labels, np.concatenate(chosen), np.array([], dtype=np.int64))


Protocol = Literal["paper", "lds", "counted", "few"]
SPLITS: dict[Protocol, Callable[[Array, int, int], Split]] = {
    "paper": paper_split,
    "lds": lds_split,
    "counted": counted_split,
    "few": few_split,
}


def _as_split(labels: Array, training: Array, validation: Array) -> Split:
    rows = np.arange(len(labels))
    in_training, in_validation = np.isin(rows, training), np.isin(rows, validation)
    return Split(in_training, in_validation, ~(in_training | in_validation))
