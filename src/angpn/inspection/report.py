"""The report: one HTML file that shows the labelled rows and needs no network and no server."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from angpn.inspection.accuracy_estimate import Estimate
from angpn.inspection.ensemble_choice import Choice
from angpn.inspection.label_errors import Suspect
from angpn.inspection.report_page import make_page, packed_array, read_template, write_page
from angpn.inspection.table_cells import Cells

MadeBy = Literal["command", "estimator"]  # angpn label, or a method: how to do what the page advises


class Curve(NamedTuple):
    """Loss and accuracy during the training of a network.

    Attributes:
        loss: Training loss of each epoch.
        held_out_accuracy: Accuracy on labels held out of training, or None where there were none.
        best: The epoch whose weights were kept, from 1.
    """

    loss: Sequence[float]
    held_out_accuracy: Sequence[float] | None
    best: int


class LabelReport(NamedTuple):
    """The content of the page; n rows, c classes.

    Attributes:
        title: Heading of the page.
        ids: The id of each row.
        classes: The name of each class.
        given: The class number of the given label, -1 where none was given.
        predicted: The class number of the prediction, also for rows whose label was given.
        confidence: The probability of the label, from 0 to 1.
        second: The class number of the second most probable class, -1 where there is none.
        positions: The position of each row on the map.
        influences: The rows that influenced the prediction of each row most, -1 where there are fewer.
        weights: Their weights, in decreasing order.
        estimate: Estimated accuracy, or None.
        uncertain: The rows most worth labelling next, in order.
        suspects: Given labels that are probably wrong, the clearest first.
        curve: Loss and accuracy during the training of a network, or None.
        choice: What was selected for an ensemble, or None.
        texts: An excerpt of each row, where the rows are texts.
        thumbnails: A ``data:image/...`` URI of each row or None, where the rows are images.
        facts: Names and values for the table about the run.
        unreliable: What is said of rows whose label means little, and some of these rows.
        cells: The cells of each row, where the rows are those of a table.
        made_by: Whether the page advises options of ``angpn label`` or arguments of the estimator.
    """

    title: str
    ids: Sequence[str]  # (n,)
    classes: Sequence[str]  # (c,)
    given: np.ndarray  # (n,)
    predicted: np.ndarray  # (n,)
    confidence: np.ndarray  # (n,)
    second: np.ndarray  # (n,)
    positions: np.ndarray  # (n, 2)
    influences: np.ndarray  # (n, t)
    weights: np.ndarray  # (n, t)
    estimate: Estimate | None
    uncertain: Sequence[int]
    suspects: Sequence[Suspect]
    curve: Curve | None
    texts: Sequence[str] | None  # (n,)
    thumbnails: Sequence[str | None] | None  # (n,)
    facts: Sequence[tuple[str, str]]
    unreliable: Sequence[tuple[str, Sequence[int]]] = ()
    choice: Choice | None = None
    cells: Cells | None = None
    made_by: MadeBy = "command"


def label_page(report: LabelReport) -> str:
    """Return the page as HTML.

    Args:
        report: The content of the page.

    Returns:
        The page.

    Raises:
        ValueError: If a part has the wrong shape, range or type.
    """
    _check(report)
    return make_page(read_template("angpn.inspection", "report.html"), report.title, _data(report))


def write_label_report(report: LabelReport, path: str | os.PathLike[str]) -> Path:
    """Write the page; it opens in any browser, also offline.

    Args:
        report: The content of the page.
        path: The file to write; an existing one is replaced as a whole.

    Returns:
        The path of the file.

    Raises:
        ValueError: If a part has the wrong shape, range or type.
    """
    return write_page(label_page(report), path)


def _check(report: LabelReport) -> None:
    n, c = len(report.ids), len(report.classes)
    t = np.shape(report.influences)[-1]
    shapes = {"positions": (n, 2), "influences": (n, t), "weights": (n, t)}
    for name in ("given", "predicted", "confidence", "second", "positions", "influences", "weights"):
        expected, shape = shapes.get(name, (n,)), np.shape(getattr(report, name))
        if shape != expected:
            raise ValueError(f"{name} must have shape {expected}, got {shape}")
    for name, low, high in (("given", -1, c), ("predicted", 0, c), ("second", -1, c), ("influences", -1, n)):
        _check_range(name, getattr(report, name), low, high)
    _check_range("uncertain", report.uncertain, 0, n)
    _check_range("unreliable", [row for _, rows in report.unreliable for row in rows], 0, n)
    _check_range("rows of suspects", [suspect.row for suspect in report.suspects], 0, n)
    _check_range("suggestions of suspects", [suspect.suggested for suspect in report.suspects], 0, c)
    for name in ("confidence", "positions", "weights"):
        if not np.isfinite(getattr(report, name)).all():
            raise ValueError(f"{name} must be finite numbers; leave out the rows that have none")
    if report.estimate is not None and np.shape(report.estimate.confusion) != (c, c):
        raise ValueError(f"confusion must have shape {(c, c)}, got {np.shape(report.estimate.confusion)}")
    cells = None if report.cells is None else report.cells.values
    for name, entries in (("texts", report.texts), ("thumbnails", report.thumbnails), ("cells", cells)):
        if entries is not None and len(entries) != n:
            raise ValueError(f"{name} must have an entry for each of the {n} rows, got {len(entries)}")
    for row, values in enumerate(cells or ()):
        if report.cells is not None and len(values) != len(report.cells.columns):
            raise ValueError(
                f"cells must have {len(report.cells.columns)} values in each row, got {len(values)} at row {row}"
            )
    for row, thumbnail in enumerate(report.thumbnails or ()):
        if thumbnail is not None and not thumbnail.startswith("data:image/"):
            raise ValueError(f"thumbnails must start with 'data:image/', got {thumbnail[:40]!r} at row {row}")


def _check_range(name: str, values: Any, low: int, high: int) -> None:
    numbers = np.asarray(values)
    if numbers.size and not (low <= numbers.min() and numbers.max() < high):
        raise ValueError(f"{name} must lie from {low} to {high - 1}, got {numbers.min()} to {numbers.max()}")


def _data(report: LabelReport) -> dict[str, Any]:
    return {
        "ids": list(report.ids),
        "classes": list(report.classes),
        "texts": None if report.texts is None else list(report.texts),
        "thumbnails": None if report.thumbnails is None else list(report.thumbnails),
        "facts": [list(fact) for fact in report.facts],
        "given": packed_array(report.given, "<i4"),
        "predicted": packed_array(report.predicted, "<i4"),
        "second": packed_array(report.second, "<i4"),
        "confidence": packed_array(report.confidence, "<f4"),
        "positions": packed_array(report.positions, "<f4"),
        "influences": packed_array(report.influences, "<i4"),
        "weights": packed_array(report.weights, "<f4"),
        "uncertain": packed_array(report.uncertain, "<i4"),
        "suspects": [[int(s.row), int(s.suggested), float(s.share)] for s in report.suspects],
        "unreliable": [[text, [int(row) for row in rows]] for text, rows in report.unreliable],
        "estimate": None if report.estimate is None else _estimate(report.estimate),
        "curve": None if report.curve is None else _curve(report.curve),
        "choice": None if report.choice is None else _choice(report.choice),
        "cells": None if report.cells is None else report.cells._asdict(),
        "made_by": report.made_by,
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {
        "kind": estimate.kind,
        "accuracy": float(estimate.accuracy),
        "low": float(estimate.low),
        "high": float(estimate.high),
        "rows": int(estimate.n_rows),
        "sample": estimate.sample,
        "left_out": int(estimate.n_left_out),
        "base_rate": estimate.base_rate,
        "balanced_accuracy": estimate.balanced_accuracy,
        "recalls": estimate.recalls,
        "confusion": packed_array(estimate.confusion, "<i4"),
    }


def _curve(curve: Curve) -> dict[str, Any]:
    accuracy = curve.held_out_accuracy
    return {
        "loss": packed_array(curve.loss, "<f4"),
        "accuracy": None if accuracy is None else packed_array(accuracy, "<f4"),
        "best": int(curve.best),
    }


def _choice(choice: Choice) -> dict[str, Any]:
    return {
        **choice._asdict(),
        "members": [[words, float(weight)] for words, weight in choice.members],
        "reliability": [each._asdict() for each in choice.reliability],
    }
