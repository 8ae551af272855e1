"""Which rows are labelled, which validate, which are tested."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from sklearn.model_selection import train_test_split

from angpn.utils.typing import Array

VALIDATION_PERCENT = 5
VALIDATION_COUNT = 1000


class Split(NamedTuple):
    """A part of the rows for each purpose, (n,) bool each; every row is in exactly one."""

    training: Array
    validation: Array
    test: Array


def paper_split(labels: Array, rate: int, number: int) -> Split:
    """``rate`` per cent of each class to train on, 5 per cent to validate on, the rest to test.

    The same number gives the same split to every method, and splits nest: what is trained on at 10 per cent is also
    trained on at 20.
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
    """The protocol of Franceschi et al. (2019): ``count`` labels to train on, twice as many held out, the rest to test.

    Three nested stratified splits with one seed; of the held-out labels half are for early stopping and half for
    settings there, all for settings here.
    """
    rows = np.arange(len(labels))
    parts = []
    for left in (3 * count, 2 * count, count):  # the test rows leave first
        rows, away = train_test_split(
            rows, random_state=number, stratify=labels[rows], train_size=left, test_size=len(rows) - left
        )
        parts.append(away)
    return _as_split(labels, rows, np.concatenate(parts[1:]))


def counted_split(labels: Array, count: int, number: int) -> Split:
    """``count`` labels to train on in all, 1000 more to validate on, both as the classes are distributed."""
    known, _ = train_test_split(
        np.arange(len(labels)), random_state=number, stratify=labels, train_size=count + VALIDATION_COUNT
    )
    training, validation = train_test_split(
        known, random_state=number, stratify=labels[known], train_size=count, test_size=VALIDATION_COUNT
    )
    return _as_split(labels, training, validation)


def few_split(labels: Array, count: int, number: int) -> Split:
    """``count`` labels of each class, and none to validate on."""
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
