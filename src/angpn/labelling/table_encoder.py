"""A table to features: numbers standardised, categories as a column each."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import polars

from angpn.utils.checks import warn
from angpn.utils.typing import Array

State = tuple[dict[str, Any], dict[str, Array]]  # of an encoder: what JSON can hold, and arrays

MISSING = "(missing)"
_MOST_CATEGORIES = 50
_NO_VALUE = ("", "na", "n/a", "nan", "null", "none", "?", "-", ".")  # what cells without a number say


class TableEncoder:
    """Numbers standardised, categories as a column each; what is missing is filled only where that is asked for."""

    def __init__(self, *, impute: bool = False, categorical: Sequence[str] = ()) -> None:
        self.impute, self.categorical = impute, list(categorical)
        self._columns: list[dict[str, Any]] = []

    def fit(self, content: polars.DataFrame) -> Any:
        """Learn what each column holds."""
        for name in self.categorical:
            if name not in content.columns:
                raise ValueError(f"--categorical must name columns of the table, got {name!r}; correct the name")
        holes = [name for name in content.columns if name not in self.categorical and _has_holes(content[name])]
        content = content.with_columns(_as_numbers(content[name]) for name in holes)
        self._check_missing(content)
        self._columns = [self._learnt(content[name]) for name in content.columns]
        return self.transform(content)

    def transform(self, content: polars.DataFrame) -> Any:  # (n, d) float32
        """The features of rows with the same columns."""
        absent = [column["name"] for column in self._columns if column["name"] not in content.columns]
        if absent:
            raise ValueError(f"the table must have the columns it was fitted with, got no {absent[0]!r}; add it")
        known = content.select([column["name"] for column in self._columns])
        numbers = [column["name"] for column in self._columns if "values" not in column]
        known = known.with_columns(_as_numbers(known[name]) for name in numbers)
        self._check_missing(known)
        return np.concatenate([self._encoded(known[column["name"]], column) for column in self._columns], axis=1)

    def to_state(self) -> State:
        """What a file keeps of it."""
        return {"impute": self.impute, "categorical": self.categorical, "columns": self._columns}, {}

    @classmethod
    def from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Back from such a file."""
        encoder = cls(impute=header["impute"], categorical=header["categorical"])
        encoder._columns = header["columns"]
        return encoder

    def describe(self) -> dict[str, list[str]]:
        """The columns by what they were taken for."""
        found: dict[str, list[str]] = {"numbers": [], "categories": []}
        for column in self._columns:
            found["categories" if "values" in column else "numbers"].append(column["name"])
        return found

    def _check_missing(self, content: polars.DataFrame) -> None:
        if self.impute:
            return
        missing = {name: _missing(content[name]) for name in content.columns}
        missing = {name: mask for name, mask in missing.items() if mask.any()}
        if missing:
            name, mask = next(iter(missing.items()))
            total = sum(int(found.sum()) for found in missing.values())
            raise ValueError(
                f"a table must have a value in every cell, got {total} missing in {len(missing)} columns, the first in "
                f"{name!r}, row {int(mask.argmax())}; fill them, pass --drop {name}, or pass --impute"
            )

    def _learnt(self, column: polars.Series) -> dict[str, Any]:
        name = column.name
        if name not in self.categorical and (column.dtype.is_numeric() or column.dtype == polars.Boolean):
            values = column.cast(polars.Float64).to_numpy()
            present = values[np.isfinite(values)]
            if np.isinf(values).any():
                raise ValueError(f"column {name!r} must hold finite numbers, got an infinite one; correct it")
            median = float(np.median(present)) if len(present) else 0.0
            filled = np.where(np.isnan(values), median, values)
            constant = np.ptp(filled) == 0  # its std may be a rounding error, and not 0
            std = 0.0 if constant else float(filled.std())
            return {"name": name, "mean": float(filled.mean()), "std": std, "median": median}
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
            culprit = texts.filter(numbers.is_null())[0]
            raise ValueError(
                f"column {name!r} must hold numbers or text, got both, such as {culprit!r}; write missing numbers as "
                f"empty cells, or pass --categorical {name}"
            )
        if texts.n_unique() > max(_MOST_CATEGORIES, len(texts) // 10):
            raise ValueError(
                f"column {name!r} must hold categories, got {texts.n_unique()} different texts; pass --text {name} to "
                f"label by it, --drop {name} to leave it out, or --categorical {name}"
            )

    def _encoded(self, column: polars.Series, learnt: Mapping[str, Any]) -> Array:  # (n, columns of it) float32
        if "values" in learnt:
            values = [MISSING if value is None else value for value in _texts(column)]
            known = learnt["values"]
            strange = len(set(values) - set(known))
            if strange:
                warn(
                    f"column {learnt['name']!r} has {strange} categories that the fit did not know; they count as none"
                )
            return (np.array(values, dtype=object)[:, None] == np.array(known, dtype=object)).astype(np.float32)
        numbers = column.to_numpy()
        filled = np.where(np.isnan(numbers), learnt["median"], numbers)
        return ((filled - learnt["mean"]) / (learnt["std"] or 1.0)).astype(np.float32)[:, None]


def _has_holes(column: polars.Series) -> bool:
    """Whether it holds numbers, most of its cells, and texts that say that there is none, such as "NA"."""
    if column.dtype != polars.String:
        return False
    texts = column.str.strip_chars().drop_nulls()
    numbers, said = texts.cast(polars.Float64, strict=False).is_not_null(), texts.str.to_lowercase().is_in(_NO_VALUE)
    return bool(said.any() and (numbers | said).all() and 2 * numbers.sum() > len(texts))


def _as_numbers(column: polars.Series) -> polars.Series:
    """Float64, empty where a text says that there is none."""
    if column.dtype == polars.String:
        texts = column.str.strip_chars()
        column = texts.set(texts.str.to_lowercase().is_in(_NO_VALUE).fill_null(False), None)
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
