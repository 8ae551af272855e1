"""The labels of all rows of a fit, and what speaks for and against them."""

from typing import NamedTuple

import numpy as np

from angpn.inspection.fitted_classifier import FittedClassifier
from angpn.inspection.label_errors import Suspect, find_suspects
from angpn.utils.labels import UNLABELLED
from angpn.utils.typing import Array

N_INFLUENCES = 8


class LabelledRows(NamedTuple):
    """The labels of all rows; n rows, c classes.

    Attributes:
        distributions: The probability of each class.
        codes: The class number of the given label, or of the predicted one.
        confidence: The probability of that label.
        second: The class number of the most probable other label.
        influences: The rows that influenced the prediction of each row most, -1 where there are fewer.
        weights: Their weights, in decreasing order.
        suspects: Given labels that are probably wrong, the clearest first.
    """

    distributions: Array  # (n, c)
    codes: Array  # (n,)
    confidence: Array  # (n,)
    second: Array  # (n,)
    influences: Array  # (n, t)
    weights: Array  # (n, t)
    suspects: list[Suspect]


def labelled_rows(
    model: FittedClassifier,
    distributions: Array | None = None,  # (n, c)
) -> LabelledRows:
    """Collect what a model says of the rows that it was fitted on.

    Args:
        model: The fitted classifier.
        distributions: The probability of each class, where it is not that of the model.

    Returns:
        The labels of all rows.
    """
    distributions = model.label_distributions_ if distributions is None else distributions
    given = model._codes != UNLABELLED
    codes = np.where(given, model._codes, distributions.argmax(axis=1))
    others = distributions.copy()
    others[np.arange(len(codes)), codes] = -1
    influences, weights = model.influences(N_INFLUENCES)
    held_out, then = model.validation_mask_, model.validation_distributions_
    if then is None:  # a model of an older version
        held_out, then = np.zeros_like(held_out), np.empty((0, len(model.classes_)))
    return LabelledRows(
        distributions,
        codes,
        distributions[np.arange(len(codes)), codes],
        others.argmax(axis=1),
        influences,
        weights,
        find_suspects(model.label_distributions_, codes, given, held_out, then, influences, weights),
    )
