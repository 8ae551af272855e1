"""Accuracy as held-out labels show it: an interval, and whether these labels are a random sample of the rows."""

from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np

from angpn.utils.typing import Array

# With these, intervals by cross-validation had the truth in at least 95 % of 200 runs with 10 to 200 random labels on
# six sets; as they were in 85 %.
_MORE_ERRORS = 1
_LABELS_PER_INDEPENDENT_LABEL = 1.5

# How the labels that measure accuracy were used: not at all in the fit ("held out"), one cross-validation fold at a
# time and for the selection of hyper-parameters ("cross-validation"), or for early stopping only ("validation").
EstimateKind = Literal["held out", "cross-validation", "validation"]
# How the rows with these labels were chosen: drawn at random, by a query strategy or by hand, or nobody said.
Sample = Literal["random", "unknown", "not random"]


class Estimate(NamedTuple):
    """Estimated accuracy of the predicted labels, in shares of 1.

    Attributes:
        kind: How the labels that it was measured on were used in the fit: "held out", "cross-validation" or
            "validation".
        accuracy: The share of them that was predicted correctly.
        low: Lower end of the 95 % interval.
        high: Upper end of the 95 % interval.
        n_rows: The number of labels that it was measured on.
        confusion: Counts by true class (rows) and predicted class (columns).
        sample: Whether the rows with these labels were drawn at random: "random", "unknown" or "not random". Where they
            were not, accuracy and interval may be off either way.
        n_left_out: How many held-out labels were not counted, since their rows were not drawn at random.
    """

    kind: EstimateKind
    accuracy: float
    low: float
    high: float
    n_rows: int
    confusion: Array  # (c, c)
    sample: Sample = "unknown"
    n_left_out: int = 0

    @property
    def base_rate(self) -> float:
        """The share that always answering the largest class would have predicted correctly."""
        return float(self.confusion.sum(axis=1).max() / self.confusion.sum())

    @property
    def recalls(self) -> list[float | None]:
        """The share of each class that was predicted correctly; None where none of its labels was held out."""
        totals = self.confusion.sum(axis=1).tolist()
        right = np.diag(self.confusion).tolist()
        return [one / total if total else None for one, total in zip(right, totals, strict=True)]

    @property
    def balanced_accuracy(self) -> float:
        """The mean of these shares, in which each class counts alike."""
        return float(np.mean([recall for recall in self.recalls if recall is not None]))


def estimate_from(
    kind: EstimateKind,
    truth: Array,  # (h,) class numbers of the held-out labels
    predicted: Array,  # (h,) class numbers
    n_classes: int,
    at_random: Array | None = None,  # (h,) bool, or None where nobody said
) -> Estimate:
    """Return the accuracy on held-out labels with a 95 % interval; on those drawn at random, where there are any.

    Labels that were held out in turn also selected the model, and the models of the folds share most of their labels:
    they may be optimistic, and tell less than as many independent ones. The interval is then that of two thirds as many
    labels, and its lower end that of an error more. Not so its upper end: models of the folds had fewer labels than the
    final one, so the labels may be pessimistic too.
    """
    sample: Sample = "unknown" if at_random is None else "random" if at_random.any() else "not random"
    n_held = len(truth)
    if at_random is not None and sample == "random":
        truth, predicted = truth[at_random], predicted[at_random]
    correct, count = int((truth == predicted).sum()), len(truth)
    if kind == "held out":
        low, high = wilson_interval(correct / count, count)
    else:
        low, _ = wilson_interval(correct / (count + _MORE_ERRORS), count / _LABELS_PER_INDEPENDENT_LABEL)
        _, high = wilson_interval(correct / count, count / _LABELS_PER_INDEPENDENT_LABEL)
    accuracy = correct / count
    confusion = np.bincount(n_classes * truth + predicted, minlength=n_classes**2).reshape(n_classes, n_classes)
    return Estimate(kind, accuracy, min(low, accuracy), max(high, accuracy), count, confusion, sample, n_held - count)


def wilson_interval(share: float, count: float) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share that was seen in so many cases."""
    z = NormalDist().inv_cdf(0.975)
    center = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z * (share * (1 - share) / count + z**2 / (4 * count**2)) ** 0.5 / (1 + z**2 / count)
    return float(max(0.0, center - half)), float(min(1.0, center + half))
