"""When to stop: accuracy as audits show it, and how many more labels a target will take."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from angpn.annotation.actions import Measured
from angpn.annotation.messages import MeasuredAccuracy
from angpn.inspection.accuracy_estimate import estimate_from

_LEAST_POINTS = 3  # of a curve that is extrapolated
_LEAST_SLOPE = 0.1  # of the error on logarithmic axes; a flatter curve says nothing
_FARTHEST = 10  # times the labels so far: no farther extrapolation is told
_STABLE = 2  # so many models in a row must be at the target
_MARGIN = 0.1  # by which the lower end of the interval may be below it
_MOST_AUDITS = 1000


def is_reached(curve: Sequence[Measured], target: float) -> bool:
    """Tell whether the target is reached.

    One good audit after another would reach any target at some moment. So the last models must all be there, each with
    one error more than was seen, and on so many audits that the lower end of the interval is near the target.
    """
    last = curve[-_STABLE:]
    return len(last) == _STABLE and all(_is_there(point, target) for point in last)


def _is_there(point: Measured, target: float) -> bool:
    right = round(point.accuracy * point.n)
    return right / (point.n + 1) >= target and point.low >= target - _MARGIN


def labels_to_go(curve: Sequence[Measured], target: float, audit: float) -> int | None:
    r"""Return how many more labels the target will probably take; None where the curve does not tell.

    The error falls about as a power of the number of labels, :math:`e = a n^{-b}`: a line on logarithmic axes, fitted
    by least squares in which a point counts by its number of audits. It takes as many labels, too, until enough of
    them are audits to tell: the share ``audit`` of them is.
    """
    if is_reached(curve, target):
        return 0
    points = [point for point in curve if point.n >= _LEAST_POINTS and point.labels > 0]
    if len({point.labels for point in points}) < _LEAST_POINTS or audit == 0:
        return None
    labels = np.log([point.labels for point in points])
    errors = np.log([(point.n * (1 - point.accuracy) + 0.5) / (point.n + 1) for point in points])
    slope, level = np.polyfit(labels, errors, 1, w=np.sqrt([point.n for point in points]))
    if slope > -_LEAST_SLOPE:
        return None
    last = points[-1]
    wanted = math.exp(min(60.0, (math.log(1 - target) - level) / slope))
    # A model exactly at the target is never seen to be there: it is taken to make half the errors that are allowed.
    missing = _audits_to_tell(max((1 + target) / 2, last.accuracy), target) - last.n
    found = max(1, math.ceil(wanted - last.labels), math.ceil(missing / audit))
    return found if found <= _FARTHEST * last.labels else None


def _audits_to_tell(accuracy: float, target: float) -> int:
    """Return on how many audits a model of this accuracy is seen to be at the target."""
    for count in range(1, _MOST_AUDITS):
        right = round(accuracy * count)
        codes = np.arange(count) >= right
        found = estimate_from("cross-validation", np.zeros(count, int), codes.astype(int), 2)
        if _is_there(Measured(0, found.accuracy, found.low, found.high, count), target):
            return count
    return _MOST_AUDITS


def describe_estimate(
    measured: MeasuredAccuracy | None,
    curve: Sequence[Measured],
    target: float | None,
    audit: float,
    names: dict[int, str],
    n_audited: int,
    n_other: int,
    n_skipped: int,
) -> dict[str, Any] | None:
    """Return what is told about accuracy, or None before there is an audit of a model.

    Args:
        measured: Accuracy of the model.
        curve: What was measured of models before, the last one last.
        target: The accuracy that is wanted, or None.
        audit: The share of labels that are audits.
        names: Names of the classes by number.
        n_audited: How many audit rows have a label.
        n_other: How many of these belong to none of the classes.
        n_skipped: How many audit rows were skipped.
    """
    if measured is None:
        return None
    reached = target is not None and is_reached(curve, target)
    return {
        "accuracy": measured.accuracy,
        "low": measured.low,
        "high": measured.high,
        "n": measured.n,
        "base_rate": measured.base_rate,
        "recalls": {names[number]: recall for number, recall in measured.recalls.items() if number in names},
        "curve": [
            {"labels": point.labels, "accuracy": point.accuracy, "low": point.low, "high": point.high}
            for point in _rising(curve)
        ],
        "labels_to_go": None if target is None else labels_to_go(curve, target, audit),
        "reached": reached,
        "left_to_doubt": _doubt(measured, target, n_audited, n_other, n_skipped),
    }


def _rising(curve: Sequence[Measured]) -> list[Measured]:
    """Return the points without those of as many labels or more than a later one has, as after an undo."""
    points: list[Measured] = []
    for point in curve:
        while points and points[-1].labels >= point.labels:
            points.pop()
        points.append(point)
    return points


def _doubt(
    measured: MeasuredAccuracy, target: float | None, n_audited: int, n_other: int, n_skipped: int
) -> str | None:
    """Say in a sentence what accuracy does not tell."""
    if n_other:
        return (
            f"{n_other} of {n_audited} rows drawn at random belong to none of the classes, and the model predicts a "
            "class for such rows"
        )
    if n_skipped:
        return f"{n_skipped} rows drawn at random were skipped; if these are hard ones, accuracy is lower"
    if target is not None and measured.low < target:
        return f"with {measured.n} rows drawn at random the accuracy may be as low as {100 * measured.low:.0f} %"
    if measured.accuracy <= measured.base_rate:
        return "this is no better than always answering the largest class"
    return None
