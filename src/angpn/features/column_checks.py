"""Columns that a user should look at: constant ones, ids in disguise, and those that alone decide the label."""

import re
from typing import Any

import numpy as np
import polars

from angpn.features.column_reading import Reading
from angpn.utils.checks import check_same_rows
from angpn.utils.labels import UNLABELLED, encode_labels
from angpn.utils.typing import Array

_LEAST_ROWS = 20  # before integers that all differ are taken for ids
_LEAST_LABELS, _LEAST_OF_CLASS = 20, 5  # before a column may be said to decide them
_ID_NAME = re.compile(r"(^|[^a-z])(id|nr|no|key|uuid|guid|index|number|nummer)$|[a-z](Id|ID|Nr|No|Key)$")


def column_remarks(readings: list[Reading], declared: list[str], y: Any) -> list[str]:
    """Return what a user should look at, by the names of columns.

    Args:
        readings: The columns.
        declared: Those that were declared to be categories.
        y: Labels, or None.

    Returns:
        A sentence each.
    """
    found = [reading.remark for reading in readings if reading.remark is not None]
    for name in constant_columns(readings):
        found.append(f"column {name!r} has the same value in every row, so it says nothing; pass --drop {name}")
    for name in id_columns(readings, declared):
        found.append(
            f"column {name!r} differs in every row and looks like an id, which says nothing of new rows; pass "
            f"--id-column {name}, or --drop {name}"
        )
    if y is not None:
        codes = encode_labels(y).codes
        check_same_rows(len(codes), len(readings[0].values), "y", "X")
        for name in deciding_columns(readings, codes):
            n_labels = int((codes != UNLABELLED).sum())
            found.append(
                f"column {name!r} alone decides the label of all {n_labels} labelled rows; if it was made from the "
                f"label, or is not known before it, pass --drop {name}"
            )
    return found


def constant_columns(readings: list[Reading]) -> list[str]:
    """Return the names of columns that have one value in all rows."""
    return [reading.name for reading in readings if reading.values.n_unique() == 1]


def id_columns(readings: list[Reading], declared: list[str]) -> list[str]:
    """Return the names of columns that differ in every row, as ids do.

    Whole numbers are ids where they are next to one another or the column is so named; texts always, unless they were
    declared to be categories.
    """
    return [reading.name for reading in readings if reading.name not in declared and _is_id(reading)]


def _is_id(reading: Reading) -> bool:
    values = reading.values
    if reading.kind not in ("numbers", "categories") or len(values) < _LEAST_ROWS:
        return False
    if values.null_count() or values.n_unique() < len(values):
        return False
    if reading.kind == "categories":
        return True
    numbers = values.to_numpy()
    if not np.isfinite(numbers).all() or (numbers % 1).any():
        return False
    is_dense = np.ptp(numbers) < 1.2 * len(numbers)
    return bool(is_dense or _ID_NAME.search(reading.name) or _ID_NAME.search(reading.name.lower()))


def deciding_columns(
    readings: list[Reading],
    codes: Array,  # (n,) class numbers, -1 where unlabelled
) -> list[str]:
    """Return the names of columns that alone tell the class of every labelled row.

    Each value of a category must come with one class, and there must be few values; numbers and dates must fall into as
    many intervals as there are classes. With fewer than 20 labels, or 5 of a class, chance alone might do that.

    Args:
        readings: The columns.
        codes: The labels.

    Returns:
        The names.
    """
    labelled = np.flatnonzero(codes != UNLABELLED)
    counts = np.unique(codes[labelled], return_counts=True)[1]
    if len(labelled) < _LEAST_LABELS or len(counts) < 2 or counts.min() < _LEAST_OF_CLASS:
        return []
    return [reading.name for reading in readings if _decides(reading, labelled, codes[labelled], len(counts))]


def _decides(reading: Reading, labelled: Array, codes: Array, n_classes: int) -> bool:
    values = reading.values.gather(labelled)
    table = polars.DataFrame({"value": values, "code": codes})
    by_value = table.group_by("value").agg(polars.col("code").n_unique().alias("classes"), polars.col("code").first())
    if (by_value["classes"] > 1).any():
        return False
    if reading.kind == "categories":
        return by_value.height <= len(codes) // _LEAST_OF_CLASS
    if values.null_count():
        return False
    in_order = by_value.sort("value")["code"].to_numpy()
    return int((in_order[1:] != in_order[:-1]).sum()) == n_classes - 1
