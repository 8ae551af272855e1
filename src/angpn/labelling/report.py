"""The page that shows what was labelled: one HTML file that needs no network and no server."""

import base64
import json
import os
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from angpn.utils.files import replacing
from angpn.utils.palette import PALETTE

# The hues of PALETTE, lifted until each stands out from a dark ground, and still apart to colour-blind readers.
DARK_PALETTE = (
    "#7663EE", "#9BEBFA", "#58BFC6", "#36A04A", "#B0B83E", "#F5D3A0", "#F58090", "#C0376C", "#C673D6", "#767DA0",
)  # fmt: skip


class Estimate(NamedTuple):
    """How accurate the labels are thought to be, in shares of 1."""

    kind: str  # "held out" (labels hidden on purpose) or "validation" (labels held out in turn)
    accuracy: float
    low: float  # of the 95 % interval
    high: float
    n_rows: int
    confusion: np.ndarray  # (c, c) counts, rows truth, columns predicted


class Suspect(NamedTuple):
    """A given label that the neighbourhood contradicts."""

    row: int
    suggested: int
    probability: float


class Curve(NamedTuple):
    """What training saw at each epoch."""

    loss: Sequence[float]
    validation_accuracy: Sequence[float] | None
    best: int  # epoch, from 1


class LabelReport(NamedTuple):
    """All that the page shows; n rows, c classes."""

    title: str
    ids: Sequence[str]  # (n,)
    classes: Sequence[str]  # (c,)
    given: np.ndarray  # (n,) class number, -1 where no label was given
    predicted: np.ndarray  # (n,) class number: the model's opinion, also on rows whose label was given
    confidence: np.ndarray  # (n,) 0 to 1
    second: np.ndarray  # (n,) class number of the second most probable class
    positions: np.ndarray  # (n, 2) the map
    influences: np.ndarray  # (n, t) rows that carried the label of each row, -1 where fewer
    weights: np.ndarray  # (n, t) their weights, heaviest first
    estimate: Estimate | None
    uncertain: Sequence[int]  # rows most worth labelling next, in order
    suspects: Sequence[Suspect]
    curve: Curve | None
    texts: Sequence[str] | None  # an excerpt of each row, where the rows are texts
    thumbnails: Sequence[str | None] | None  # data:image/... of each row, where the rows are images
    facts: Sequence[tuple[str, str]]  # name and value, for a small table


def write_label_report(report: LabelReport, path: str | os.PathLike[str]) -> Path:
    """Write the page to ``path``; it opens in any browser, also from a disk without a network."""
    _check(report)
    template = files("angpn.labelling").joinpath("report.html").read_text(encoding="utf-8")
    page = _fill(template, {"TITLE": escape(report.title), "DATA": _json(_data(report))})
    with replacing(path) as temporary:
        # A file name that was not valid text holds half characters, which a page can only show as unknown.
        temporary.write_bytes(page.encode("utf-8", errors="xmlcharrefreplace"))
    return Path(path)


def _check(report: LabelReport) -> None:
    n, c = len(report.ids), len(report.classes)
    t = np.shape(report.influences)[-1]
    shapes = {"positions": (n, 2), "influences": (n, t), "weights": (n, t)}
    for name in ("given", "predicted", "confidence", "second", "positions", "influences", "weights"):
        expected, found = shapes.get(name, (n,)), np.shape(getattr(report, name))
        if found != expected:
            raise ValueError(f"{name} must have shape {expected}, got {found}")
    for name, low, high in (("given", -1, c), ("predicted", 0, c), ("second", -1, c), ("influences", -1, n)):
        _check_range(name, getattr(report, name), low, high)
    _check_range("uncertain", report.uncertain, 0, n)
    _check_range("rows of suspects", [suspect.row for suspect in report.suspects], 0, n)
    _check_range("suggestions of suspects", [suspect.suggested for suspect in report.suspects], 0, c)
    for name in ("confidence", "positions", "weights"):
        if not np.isfinite(getattr(report, name)).all():
            raise ValueError(f"{name} must be finite numbers; leave out the rows that have none")
    if report.estimate is not None and np.shape(report.estimate.confusion) != (c, c):
        raise ValueError(f"confusion must have shape {(c, c)}, got {np.shape(report.estimate.confusion)}")
    for name, entries in (("texts", report.texts), ("thumbnails", report.thumbnails)):
        if entries is not None and len(entries) != n:
            raise ValueError(f"{name} must have an entry for each of the {n} rows, got {len(entries)}")
    for row, picture in enumerate(report.thumbnails or ()):
        if picture is not None and not picture.startswith("data:image/"):
            raise ValueError(f"thumbnails must start with 'data:image/', got {picture[:40]!r} at row {row}")


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
        "palette": {"light": PALETTE, "dark": DARK_PALETTE},
        "given": _array(report.given, "<i4"),
        "predicted": _array(report.predicted, "<i4"),
        "second": _array(report.second, "<i4"),
        "confidence": _array(report.confidence, "<f4"),
        "positions": _array(report.positions, "<f4"),
        "influences": _array(report.influences, "<i4"),
        "weights": _array(report.weights, "<f4"),
        "uncertain": _array(report.uncertain, "<i4"),
        "suspects": [[int(s.row), int(s.suggested), float(s.probability)] for s in report.suspects],
        "estimate": None if report.estimate is None else _estimate(report.estimate),
        "curve": None if report.curve is None else _curve(report.curve),
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {
        "kind": estimate.kind,
        "accuracy": float(estimate.accuracy),
        "low": float(estimate.low),
        "high": float(estimate.high),
        "rows": int(estimate.n_rows),
        "confusion": _array(estimate.confusion, "<i4"),
    }


def _curve(curve: Curve) -> dict[str, Any]:
    accuracy = curve.validation_accuracy
    return {
        "loss": _array(curve.loss, "<f4"),
        "accuracy": None if accuracy is None else _array(accuracy, "<f4"),
        "best": int(curve.best),
    }


def _array(values: Any, dtype: str) -> dict[str, str]:
    """Numbers as the page decodes them: a JavaScript typed array is little-endian on every machine that has one."""
    kind = {"<i4": "Int32Array", "<f4": "Float32Array"}[dtype]
    return {"type": kind, "base64": base64.b64encode(np.ascontiguousarray(values, dtype=dtype).tobytes()).decode()}


def _json(value: Any) -> str:
    """JSON that no HTML parser can leave: ASCII only, so U+2028 and half characters are escaped as well."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _fill(template: str, parts: Mapping[str, str]) -> str:
    """Put the parts in their places in one pass: a part that looks like a place is left as it is."""
    return re.sub(r"\{\{([A-Z]+)\}\}", lambda found: parts[found[1]], template)
