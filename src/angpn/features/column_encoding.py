"""Columns as features: standardised numbers and parts of dates, one-hot categories."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import polars

from angpn.features.boolean_text import FALSE_NAME, TRUE_NAME
from angpn.features.column_reading import Reading
from angpn.features.column_state import MISSING, ColumnState, DateState, Statistics
from angpn.features.date_text import date_parts, days
from angpn.utils.checks import warn
from angpn.utils.powers_of_two import column_moments
from angpn.utils.typing import Array


def fit_column(
    reading: Reading,
    empty: Array,  # (n,) bool
    *,
    scale_categories: bool,
) -> ColumnState:
    """Return the statistics or the values of a column; rows that are empty altogether have no missing value."""
    name, values = reading.name, reading.values
    if reading.kind in ("categories", "booleans"):
        is_boolean = reading.kind == "booleans"
        categories = [FALSE_NAME, TRUE_NAME] if is_boolean else sorted(set(values.drop_nulls().to_list()))
        gaps = values.is_null().to_numpy() & ~empty
        if gaps.any() and MISSING not in categories:
            categories.append(MISSING)
        counts = Counter(values.drop_nulls().to_list())
        counts[MISSING] += int(gaps.sum())
        shares = [counts[category] / len(values) for category in categories] if scale_categories else None
        return ColumnState(name=name, values=categories, shares=shares, boolean=is_boolean)
    if reading.kind == "dates":
        newest = float(days(values).max() or 0.0)  # type: ignore[arg-type]
        parts = [_statistics(part) for part in date_parts(values, newest).T]
        return ColumnState(name=name, date=DateState(format=reading.format, newest=newest, parts=parts))
    found = _statistics(values.fill_null(float("nan")).to_numpy())
    return ColumnState(
        name=name,
        mean=found.mean,
        std=found.std,
        median=found.median,
        decimal=reading.decimal,
        time=reading.format if reading.kind == "times" else None,
    )


def _statistics(values: Array) -> Statistics:
    """Return those of numbers, NaN where one is missing."""
    present = values[~np.isnan(values)]
    median = float(np.median(present)) if len(present) else 0.0
    filled = np.where(np.isnan(values), median, values)
    if np.ptp(filled) == 0:  # exactly, since of its mean and std rounding may leave something
        return Statistics(mean=float(filled[0]), std=0.0, median=median)
    mean, std = (float(found[0]) for found in column_moments(filled[:, None]))
    return Statistics(mean=mean, std=std, median=median)


def filling(column: ColumnState) -> str:
    """Return in words what is put where a value is missing."""
    if column.values is not None:
        return f"the category {MISSING}"
    return "the median of each part" if column.date is not None else f"the median {column.median:g}"


def encode_column(reading: Reading, fitted: ColumnState) -> Array:  # (n, columns of it) float32
    """Return the features of a column.

    Raises:
        ValueError: If a number is out of all proportion to those of the fit.
    """
    if fitted.values is not None:
        found = _one_hot(reading.values, fitted.name, fitted.values)
        if fitted.shares is None:
            return found
        means = np.array(fitted.shares)
        stds = np.sqrt(means * (1 - means))
        return ((found - means) / np.where(stds > 0, stds, 1)).astype(np.float32)
    if fitted.date is not None:
        numbers = date_parts(reading.values, fitted.date.newest)
    else:
        numbers = reading.values.fill_null(float("nan")).to_numpy()[:, None]
    statistics = fitted.statistics
    means, medians = (np.array([getattr(found, name) for found in statistics]) for name in ("mean", "median"))
    stds = np.array([found.std or 1.0 for found in statistics])
    filled = np.where(np.isnan(numbers), medians, numbers)
    with np.errstate(over="ignore"):
        scaled = ((filled - means) / stds).astype(np.float32)
    finite = np.isfinite(scaled).all(axis=1)
    if not finite.all():
        row = int((~finite).argmax())
        raise ValueError(
            f"column {fitted.name!r} must hold numbers of about the size that it had in the fit, {means[0]:g}, got "
            f"{numbers[row, 0]:g} in row {row}; check its units"
        )
    return scaled


def _one_hot(values: polars.Series, name: str, categories: Sequence[str]) -> Array:  # (n, c) float32
    """Return a column for each category; a missing value is that of the missing ones, if there is one."""
    values = values.fill_null(MISSING)
    different = set(values.unique().to_list())
    unknown = len(different - set(categories) - {MISSING})
    if unknown:
        warn(f"column {name!r} has {unknown} categories that the fit did not have; they count as none")
    return (np.array(values.to_list(), dtype=object)[:, None] == np.array(categories, dtype=object)).astype(np.float32)
