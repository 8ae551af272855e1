"""Encoder of tables: standardised numbers and one-hot categories."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

import numpy as np
import polars
from msgspec import Meta

from angpn.utils.array_checks import check_arrays
from angpn.utils.checks import warn
from angpn.utils.inputs import LARGEST
from angpn.utils.powers_of_two import column_moments
from angpn.utils.schema import NotNegative, Saved
from angpn.utils.typing import Array

MISSING = "(missing)"
_MAX_CATEGORIES = 50
_MISSING_TEXTS = ("", "na", "n/a", "nan", "null", "none", "?", "-", ".")  # markers of a missing number


class ColumnState(Saved, omit_defaults=True, frozen=True):
    """A fitted column: of numbers, with their statistics, or of categories, with their values."""

    name: str
    mean: float | None = None
    std: NotNegative | None = None
    median: float | None = None
    values: Annotated[list[str], Meta(min_length=1)] | None = None

    def __post_init__(self) -> None:
        numbers = [number is not None for number in (self.mean, self.std, self.median)]
        if any(numbers) == (self.values is not None) or any(numbers) != all(numbers):
            raise ValueError("a column must have mean, std and median, or values")
        if self.values is not None and len(set(self.values)) < len(self.values):
            raise ValueError("a category occurs twice")

    @property
    def statistics(self) -> tuple[float, float, float]:
        """What to subtract from the numbers, to divide them by, and to put where one is missing."""
        return self.mean or 0.0, self.std or 1.0, self.median or 0.0


class TableState(Saved, frozen=True):
    """What a file keeps of a :class:`TableEncoder`."""

    impute: bool
    categorical: list[str]
    columns: Annotated[list[ColumnState], Meta(min_length=1)]

    def __post_init__(self) -> None:
        if len({column.name for column in self.columns}) < len(self.columns):
            raise ValueError("a column occurs twice")


class TableEncoder:
    """Standardised numbers and one-hot categories; missing values are an error, or filled with ``impute``."""

    def __init__(self, *, impute: bool = False, categorical: Sequence[str] = ()) -> None:
        self.impute, self.categorical = impute, list(categorical)
        self._columns: list[ColumnState] = []

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
        absent = [column.name for column in self._columns if column.name not in content.columns]
        if absent:
            raise ValueError(f"the table must have the columns it was fitted with, got no {absent[0]!r}; add it")
        known = content.select([column.name for column in self._columns])
        known = known.with_columns(_as_numbers(known[name]) for name in self.describe()["numbers"])
        self._check_missing(known)
        return np.concatenate([_encode_column(known[column.name], column) for column in self._columns], axis=1)

    @property
    def n_features(self) -> int:
        """How many features a row has."""
        return len(self.feature_columns)

    @property
    def feature_columns(self) -> list[tuple[str, str | None]]:
        """The name of each feature's column, and the category that it stands for, None for numbers."""
        return [(column.name, value) for column in self._columns for value in column.values or (None,)]

    def to_state(self) -> tuple[TableState, dict[str, Array]]:
        """Return plain values, and arrays."""
        return TableState(impute=self.impute, categorical=self.categorical, columns=self._columns), {}

    @classmethod
    def from_state(cls, state: TableState, arrays: Mapping[str, Array]) -> Self:
        """Restore a fitted encoder."""
        check_arrays(arrays, {})
        encoder = cls(impute=state.impute, categorical=state.categorical)
        encoder._columns = state.columns
        return encoder

    def describe(self) -> dict[str, list[str]]:
        """Return the names of the columns by their type, "numbers" or "categories"."""
        names: dict[str, list[str]] = {"numbers": [], "categories": []}
        for column in self._columns:
            names["numbers" if column.values is None else "categories"].append(column.name)
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

    def _fit_column(self, column: polars.Series) -> ColumnState:
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
                return ColumnState(name=name, mean=float(filled[0]), std=0.0, median=median)
            mean, std = (float(found[0]) for found in column_moments(filled[:, None]))
            return ColumnState(name=name, mean=mean, std=std, median=median)
        if name not in self.categorical:
            self._check_is_category(column)
        texts = _texts(column)
        categories = sorted(set(texts) - {None})
        if None in texts and MISSING not in categories:
            categories.append(MISSING)
        return ColumnState(name=name, values=categories)

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


def _encode_column(column: polars.Series, fitted: ColumnState) -> Array:  # (n, columns of it) float32
    if fitted.values is not None:
        values = [MISSING if value is None else value for value in _texts(column)]
        unknown = len(set(values) - set(fitted.values))
        if unknown:
            warn(f"column {fitted.name!r} has {unknown} categories that the fit did not have; they count as none")
        return (np.array(values, dtype=object)[:, None] == np.array(fitted.values, dtype=object)).astype(np.float32)
    mean, std, median = fitted.statistics
    numbers = column.to_numpy()
    numbers = np.where(np.isnan(numbers), median, numbers)
    with np.errstate(over="ignore"):
        scaled = ((numbers - mean) / std).astype(np.float32)
    if not np.isfinite(scaled).all():
        row = int((~np.isfinite(scaled)).argmax())
        raise ValueError(
            f"column {fitted.name!r} must hold numbers of about the size that it had in the fit, {mean:g}, got "
            f"{numbers[row]:g} in row {row}; check its units"
        )
    return scaled[:, None]


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
