"""Encoder of tables: standardised numbers and one-hot categories."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import polars

from angpn.utils.checks import warn
from angpn.utils.inputs import LARGEST
from angpn.utils.powers_of_two import column_moments
from angpn.utils.typing import Array

State = tuple[dict[str, Any], dict[str, Array]]  # of a fitted encoder: a JSON header, and arrays

MISSING = "(missing)"
_MAX_CATEGORIES = 50
_MISSING_TEXTS = ("", "na", "n/a", "nan", "null", "none", "?", "-", ".")  # markers of a missing number


class TableEncoder:
    """Standardised numbers and one-hot categories; missing values are an error, or filled with ``impute``."""

    def __init__(self, *, impute: bool = False, categorical: Sequence[str] = ()) -> None:
        self.impute, self.categorical = impute, list(categorical)
        self._columns: list[dict[str, Any]] = []

    def fit(self, content: polars.DataFrame) -> Any:
        """Determine the type and statistics of each column, and return the features."""
        for name in self.categorical:
            if name not in content.columns:
                raise ValueError(f"--categorical must name columns of the table, got {name!r}; correct the name")
        marked = [name for name in content.columns if name not in self.categorical and _has_markers(content[name])]
        content = content.with_columns(_as_numbers(content[name]) for name in marked)
        self._check_missing(content)
        self._columns = [self._fit_column(content[name]) for name in content.columns]
        return self.transform(content)

    def transform(self, content: polars.DataFrame) -> Any:  # (n, d) float32
        """Return the features of rows with the same columns."""
        absent = [column["name"] for column in self._columns if column["name"] not in content.columns]
        if absent:
            raise ValueError(f"the table must have the columns it was fitted with, got no {absent[0]!r}; add it")
        known = content.select([column["name"] for column in self._columns])
        numbers = [column["name"] for column in self._columns if "values" not in column]
        known = known.with_columns(_as_numbers(known[name]) for name in numbers)
        self._check_missing(known)
        return np.concatenate([self._encode_column(known[column["name"]], column) for column in self._columns], axis=1)

    def to_state(self) -> State:
        """Return a JSON header and arrays."""
        return {"impute": self.impute, "categorical": self.categorical, "columns": self._columns}, {}

    @classmethod
    def from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Restore a fitted encoder."""
        encoder = cls(impute=header["impute"], categorical=header["categorical"])
        encoder._columns = header["columns"]
        return encoder

    def describe(self) -> dict[str, list[str]]:
        """Return the names of the columns by their type, "numbers" or "categories"."""
        names: dict[str, list[str]] = {"numbers": [], "categories": []}
        for column in self._columns:
            names["categories" if "values" in column else "numbers"].append(column["name"])
        return names

    def _check_missing(self, content: polars.DataFrame) -> None:
        if self.impute:
            return
        missing = {name: _missing(content[name]) for name in content.columns}
        missing = {name: mask for name, mask in missing.items() if mask.any()}
        if missing:
            name, mask = next(iter(missing.items()))
            total = sum(int(mask.sum()) for mask in missing.values())
            raise ValueError(
                f"a table must have a value in every cell, got {total} missing in {len(missing)} columns, the first in "
                f"{name!r}, row {int(mask.argmax())}; fill them, pass --drop {name}, or pass --impute"
            )

    def _fit_column(self, column: polars.Series) -> dict[str, Any]:
        name = column.name
        if name not in self.categorical and (column.dtype.is_numeric() or column.dtype == polars.Boolean):
            values = column.cast(polars.Float64).to_numpy()
            present = values[np.isfinite(values)]
            if np.isinf(values).any():
                raise ValueError(f"column {name!r} must hold finite numbers, got an infinite one; correct it")
            largest = np.abs(present).max(initial=0)
            if largest > LARGEST:
                raise ValueError(
                    f"column {name!r} must hold numbers up to {LARGEST:.3g}, got {largest:.3g}; divide it by a constant"
                )
            median = float(np.median(present)) if len(present) else 0.0
            filled = np.where(np.isnan(values), median, values)
            if np.ptp(filled) == 0:  # exactly, since of its mean and std rounding may leave something
                return {"name": name, "mean": float(filled[0]), "std": 0.0, "median": median}
            mean, std = (float(found[0]) for found in column_moments(filled[:, None]))
            return {"name": name, "mean": mean, "std": std, "median": median}
        if name not in self.categorical:
            self._check_is_category(column)
        texts = _texts(column)
        categories = sorted(set(texts) - {None})
        if None in texts:
            categories.append(MISSING)
        return {"name": name, "values": categories}

    def _check_is_category(self, column: polars.Series) -> None:
        name = column.name
        if column.dtype not in (polars.String, polars.Categorical) and not isinstance(column.dtype, polars.Enum):
            raise ValueError(
                f"column {name!r} must hold numbers or categories, got {column.dtype}; turn it into numbers or pass "
                f"--drop {name}"
            )
        texts = column.cast(polars.String).drop_nulls()
        numbers = texts.cast(polars.Float64, strict=False)
        if 0 < numbers.null_count() < 0.5 * len(texts):
            example = texts.filter(numbers.is_null())[0]
            raise ValueError(
                f"column {name!r} must hold numbers or text, got both, such as {example!r}; write missing numbers as "
                f"empty cells, or pass --categorical {name}"
            )
        if texts.n_unique() > max(_MAX_CATEGORIES, len(texts) // 10):
            raise ValueError(
                f"column {name!r} must hold categories, got {texts.n_unique()} different texts; pass --text {name} to "
                f"label by it, --drop {name} to leave it out, or --categorical {name}"
            )

    def _encode_column(self, column: polars.Series, fitted: Mapping[str, Any]) -> Array:  # (n, columns of it) float32
        if "values" in fitted:
            values = [MISSING if value is None else value for value in _texts(column)]
            known = fitted["values"]
            unknown = len(set(values) - set(known))
            if unknown:
                warn(
                    f"column {fitted['name']!r} has {unknown} categories that the fit did not have; they count as none"
                )
            return (np.array(values, dtype=object)[:, None] == np.array(known, dtype=object)).astype(np.float32)
        numbers = column.to_numpy()
        filled = np.where(np.isnan(numbers), fitted["median"], numbers)
        with np.errstate(over="ignore"):
            encoded = ((filled - fitted["mean"]) / (fitted["std"] or 1.0)).astype(np.float32)[:, None]
        if not np.isfinite(encoded).all():
            raise ValueError(
                f"column {fitted['name']!r} must hold numbers of about the size that they had in the fit, got "
                f"{numbers[~np.isfinite(encoded[:, 0])][0]:.3g}; check its units"
            )
        return encoded


def _has_markers(column: polars.Series) -> bool:
    """Return whether a text column holds numbers in most cells, and markers of missing numbers in all others."""
    if column.dtype != polars.String:
        return False
    texts = column.str.strip_chars().drop_nulls()
    numbers = texts.cast(polars.Float64, strict=False).is_not_null()
    markers = texts.str.to_lowercase().is_in(_MISSING_TEXTS)
    return bool(markers.any() and (numbers | markers).all() and 2 * numbers.sum() > len(texts))


def _as_numbers(column: polars.Series) -> polars.Series:
    """Return the column as Float64, null where it holds a marker of a missing number."""
    if column.dtype == polars.String:
        texts = column.str.strip_chars()
        column = texts.set(texts.str.to_lowercase().is_in(_MISSING_TEXTS).fill_null(False), None)
    try:
        return column.cast(polars.Float64)
    except polars.exceptions.PolarsError:
        raise ValueError(
            f"column {column.name!r} must hold numbers as it did in the fit, got {column.dtype}; correct it"
        ) from None


def _missing(column: polars.Series) -> Array:  # (n,) bool
    missing = column.is_null()
    if column.dtype.is_float():
        missing = missing | column.is_nan().fill_null(False)
    return missing.to_numpy()


def _texts(column: polars.Series) -> list[Any]:
    try:
        return column.cast(polars.String).to_list()
    except polars.exceptions.PolarsError:
        raise ValueError(
            f"column {column.name!r} must hold numbers or categories, got {column.dtype}; pass --drop {column.name}"
        ) from None
