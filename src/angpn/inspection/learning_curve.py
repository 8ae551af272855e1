"""Accuracy by the number of labels: what more of them would give, as scikit-learn's display."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import LearningCurveDisplay
from sklearn.utils.parallel import Parallel, delayed

from angpn.inspection.axes import axes_for
from angpn.model_selection import SemiSupervisedKFold
from angpn.utils.checks import check_number
from angpn.utils.labels import EncodedLabels, check_enough_classes, encode_labels
from angpn.utils.palette import PALETTE
from angpn.utils.progress import count_bar
from angpn.utils.typing import Array

_PLAIN = {"verbose": False, "warm_start": False, "checkpoint": None, "resume": False}  # of each of the fits


class LearningCurve(NamedTuple):
    """Accuracy by the number of labels.

    Attributes:
        train_sizes: Numbers of labels.
        train_scores: Accuracy on these labels, by number and fold.
        test_scores: Accuracy on labels that were held out, by number and fold.
    """

    train_sizes: Array  # (s,)
    train_scores: Array  # (s, f)
    test_scores: Array  # (s, f)


def learning_curve(
    estimator: Any,
    X: Any,  # (n, d)
    y: Any,  # (n,)
    *,
    train_sizes: Sequence[float],
    cv: int,
    n_jobs: int | None,
    random_state: int,
) -> LearningCurve:
    """Fit to nested subsets of the labels, and measure accuracy on labels that none of them has.

    A fold of the labels is held out; of the others, the first few, more and more, are given, and all rows of X always
    are. scikit-learn's function of this name would take away rows instead, and unlabelled ones first.
    """
    labels = encode_labels(y)
    check_enough_classes(labels)
    folds = list(SemiSupervisedKFold(cv, shuffle=True, random_state=random_state).split(X, labels.codes))
    generator = np.random.default_rng(random_state)
    orders = [_order(np.intersect1d(train, np.flatnonzero(labels.codes >= 0)), labels, generator) for train, _ in folds]
    sizes = _numbers_of_labels(train_sizes, len(labels.classes), min(map(len, orders)))
    model = clone(estimator)
    model.set_params(**{name: value for name, value in _PLAIN.items() if name in model.get_params(deep=False)})
    fits = [(order[:size], test) for size in sizes for order, (_, test) in zip(orders, folds, strict=True)]
    scores = []
    with count_bar("fits", len(fits), enabled=bool(estimator.verbose)) as advance:
        for score in Parallel(n_jobs=n_jobs, return_as="generator")(
            delayed(_accuracies)(clone(model), X, labels, train, test) for train, test in fits
        ):
            scores.append(score)
            advance(1)
    train_scores, test_scores = np.array(scores).reshape(len(sizes), len(folds), 2).transpose(2, 0, 1)
    return LearningCurve(np.array(sizes), train_scores, test_scores)


def learning_curve_display(curve: LearningCurve, ax: Any) -> LearningCurveDisplay:
    """Draw accuracy on held-out labels by the number of labels.

    Args:
        curve: Accuracy by the number of labels.
        ax: Axes of matplotlib; None makes a figure.

    Returns:
        scikit-learn's display.
    """
    display = LearningCurveDisplay(**curve._asdict(), score_name="Accuracy on held-out labels")
    line, band = {"color": PALETTE[0], "marker": "o"}, {"color": PALETTE[1], "alpha": 0.4}
    display.plot(axes_for(ax, (6, 4.4)), score_type="test", line_kw=line, fill_between_kw=band)
    display.ax_.set_xlabel("Number of labels")
    display.ax_.set_title(f"Mean and standard deviation of {curve.test_scores.shape[1]} folds")
    display.ax_.get_legend().remove()  # of a single line
    display.ax_.grid(visible=True, color=PALETTE[-1], alpha=0.25)
    display.ax_.spines[["top", "right"]].set_visible(False)
    return display


def _order(rows: Array, labels: EncodedLabels, generator: np.random.Generator) -> Array:
    """Shuffle labelled rows; the first ones are one of each class, so that every beginning has all classes."""
    rows = generator.permutation(rows)
    _, first = np.unique(labels.codes[rows], return_index=True)
    return np.concatenate([rows[np.sort(first)], np.delete(rows, first)])


def _numbers_of_labels(train_sizes: Sequence[float], fewest: int, most: int) -> list[int]:
    """Return numbers of labels in order; shares are of the most that a fold has, and at least a label a class."""
    for size in train_sizes:
        check_number(size, "train_sizes")
        is_share = isinstance(size, float | np.floating)
        if is_share and not 0 < size <= 1:
            raise ValueError(f"a share among train_sizes must lie in (0, 1], got {size}; an int is a number of labels")
        if not is_share and not fewest <= size <= most:
            raise ValueError(
                f"a number among train_sizes must lie from {fewest}, a label for each class, to {most}, what a fold "
                f"leaves, got {size}; a float is a share of these"
            )
    found = (max(fewest, int(size * most)) if isinstance(size, float | np.floating) else size for size in train_sizes)
    sizes = sorted({int(size) for size in found})
    if len(sizes) < 2:
        raise ValueError(
            f"train_sizes must be at least two numbers of labels from {fewest} to {most}, got {sizes}; pass others, or "
            "label more rows"
        )
    return sizes


def _accuracies(model: Any, X: Any, labels: EncodedLabels, train: Array, test: Array) -> tuple[float, float]:
    y = np.full(len(labels.codes), None, dtype=object)
    y[train] = labels.classes[labels.codes[train]].tolist()
    model.fit(X, y)
    right = model.transduction_ == labels.classes[labels.codes]
    return float(right[train].mean()), float(right[test].mean())
