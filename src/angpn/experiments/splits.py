"""Which rows are labelled, which validate, which are tested."""

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

VALIDATION_PERCENT = 5


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
