"""Checks of results and files; light, since they do not import angpn."""

import csv
import math
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np


class Fault(Exception):
    """A wrong result, a refusal that is not ours, or files left behind; ``kind`` is its name in the summary."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def check_probabilities(probabilities: Any, rows: int, classes: int) -> None:
    """Check that there is a finite distribution over the classes for each row."""
    found = np.asarray(probabilities)
    if found.shape != (rows, classes):
        raise Fault("result", f"probabilities must have shape {rows, classes}, got {found.shape}")
    if not np.isfinite(found).all():
        raise Fault("nan", f"probabilities must be finite, got {int((~np.isfinite(found)).sum())} that are not")
    if (found < 0).any() or np.abs(found.sum(axis=1) - 1).max(initial=0) > 1e-4:
        raise Fault("result", f"rows of probabilities must sum to 1, got {found.sum(axis=1)}")


def check_predictions(path: Path, classes: Collection[str] | None = None) -> None:
    """Check a CSV file of predictions: labels among the classes, where these are known, confidences from 0 to 1."""
    usual = csv.field_size_limit(10**9)  # of this reading only: it is a limit of the whole process
    try:
        with path.open(newline="", encoding="utf-8", errors="surrogateescape") as file:
            lines = list(csv.DictReader(file))
    finally:
        csv.field_size_limit(usual)
    for line in lines:
        if classes is not None and not {line["label"], line["second"]} <= set(classes):
            raise Fault("result", f"labels must be among {classes}, got {line}")
        if not math.isfinite(float(line["confidence"])):
            raise Fault("nan", f"a confidence must be a number from 0 to 1, got {line}")
        if not 0 <= float(line["confidence"]) <= 1:
            raise Fault("result", f"a confidence must be a number from 0 to 1, got {line}")


def listing(folder: Path) -> set[str]:
    """Return the names of everything below a folder, hidden or not."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def check_unchanged(before: set[str], folder: Path) -> None:
    """Check that a refused call left no file behind."""
    left = listing(folder) ^ before
    if left:
        raise Fault("leftovers", f"a refusal must leave the folder as it was, got {sorted(left)}")
