"""Features of tables: standardised numbers and parts of dates, and a feature for each category."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError

from angpn.features.column_checks import column_remarks
from angpn.features.column_encoding import encode_column, filling, fit_column
from angpn.features.column_reading import Problem, Reading, read_columns
from angpn.features.column_state import ColumnState, TableState
from angpn.features.date_text import PARTS
from angpn.features.fitted_columns import read_as_fitted
from angpn.features.number_text import Decimal
from angpn.features.table_input import as_frame
from angpn.utils.array_checks import check_arrays
from angpn.utils.checks import warn
from angpn.utils.inputs import LARGEST
from angpn.utils.typing import Array

_MOST_NAMED = 20  # columns in one message


class FeatureColumn(NamedTuple):
    """What a feature stands for: a column of numbers, one of its categories, or a part of its dates."""

    name: str
    category: str | None = None
    part: str | None = None


class Imputed(NamedTuple):
    """Missing cells of a column that were filled: how many, the row of the first, and with what."""

    column: str
    n_cells: int
    first_row: int
    value: str

    def __str__(self) -> str:
        cells = f"{self.n_cells:,} cell{'' if self.n_cells == 1 else 's'}"
        return f"{self.column}: {cells} with {self.value}, the first in row {self.first_row}"


class TextReading(NamedTuple):
    """A cell whose text was read as something else, as an example of how its column was read."""

    column: str
    text: str
    value: str

    def __str__(self) -> str:
        return f"{self.column}: {self.text!r} is {self.value}"


def table_features(
    table: Any,  # (n, columns)
    *,
    impute: bool = False,
    categorical: Sequence[str] = (),
) -> Array:  # (n, d) float32
    """Compute a row of features for each row of a table; see :class:`TableEncoder` for details and for new rows.

    Args:
        table: A frame of polars or pandas, columns by name, or a matrix.
        impute: Fill missing values by the median, or by a category of their own, instead of refusing them.
        categorical: Columns that are categories whatever they hold.

    Returns:
        One row for each row.

    Raises:
        ValueError: If columns cannot be used as they are; the message names each and what helps.
    """
    return TableEncoder(impute=impute, categorical=categorical).fit_transform(table)


class TableEncoder(TransformerMixin, BaseEstimator):
    """Features of tables as they come, fitted on some rows and applied to others.

    Each column is read as what most of its cells are. Numbers are standardised; they may be written with thousands
    separators, decimal commas, and signs of currency and percent. Dates become year, month, weekday, hour and age in
    days before the newest of the fit, each standardised; times of day become hours. Words for true and false are two
    categories. Other texts with few different values (at most 50, or a tenth of the rows) are categories too. Each
    category becomes a feature, standardised as well: with labels to weigh it, a rare one may be telling.
    Empty cells, and texts such as NA, n/a, null, ? or - among numbers and dates, are missing. Rows without any value
    need no ``impute``.

    ``angpn label`` encodes tables by this class, so errors name its options: ``--impute`` and ``--categorical`` are
    the parameters below, ``--drop`` means a table without that column.

    Args:
        impute: Fill missing values by the median, or by a category of their own, instead of refusing them.
        categorical: Columns that are categories whatever they hold.
        scale_categories: Standardise the features of categories. Without labels they are better left 0 and 1, as
            ``angpn cluster`` does, or rare categories would be far from all others.
        decimal: The decimal sign of columns that can be read with either, such as 1.234, where no other column tells;
            None is a point.

    Attributes:
        imputed_: What the last fit or transform filled, see :class:`Imputed`.
        readings_: For each column of text that was read as something else, an example.
        empty_rows_: Positions of rows without any value in the last fit or transform.
        remarks_: Warnings of the fit: constant columns, ids, columns that alone decide the label, ambiguous dates.

    >>> table = {"price": ["1.200,50 €", "99,00 €", "5,25 €"], "sold": ["ja", "nein", "ja"]}
    >>> encoder = TableEncoder().fit(table)
    >>> [str(reading) for reading in encoder.readings_]
    ["price: '1.200,50 €' is 1200.5", "sold: 'ja' is true"]
    >>> encoder.get_feature_names_out().tolist()
    ['price', 'sold=false', 'sold=true']
    >>> encoder.transform({"price": ["99,00 €"], "sold": ["nein"]}).shape
    (1, 3)
    """

    imputed_: list[Imputed]
    readings_: list[TextReading]
    empty_rows_: Array
    remarks_: list[str]
    _columns: list[ColumnState]

    def __init__(
        self,
        *,
        impute: bool = False,
        categorical: Sequence[str] = (),
        scale_categories: bool = True,
        decimal: Decimal | None = None,
    ) -> None:
        self.impute, self.categorical = impute, categorical
        self.scale_categories, self.decimal = scale_categories, decimal

    def fit(
        self,
        X: Any,  # (n, columns)
        y: Any = None,  # (n,)
    ) -> Self:
        """Determine the type and statistics of each column.

        Args:
            X: A frame of polars or pandas, columns by name, or a matrix.
            y: Labels, by which columns are found that alone decide them; -1, None or NaN where a row has none.

        Returns:
            The fitted encoder.

        Raises:
            ValueError: If columns cannot be used as they are; the message names each and what helps.
        """
        self.fit_transform(X, y)
        return self

    def fit_transform(
        self,
        X: Any,  # (n, columns)
        y: Any = None,  # (n,)
    ) -> Array:  # (n, d) float32
        """Determine the type and statistics of each column, and return the features; see :meth:`fit`."""
        frame = as_frame(X)
        declared = list(self.categorical)
        for name in declared:
            if name not in frame.columns:
                raise ValueError(f"--categorical must name columns of the table, got {name!r}; correct the name")
        readings = read_columns(frame, declared, self.decimal)
        problems = [reading.problem for reading in readings if reading.problem is not None]
        readable = [reading for reading in readings if reading.problem is None]
        empty = _empty_rows(readable) if len(readable) == len(readings) else np.zeros(frame.height, dtype=bool)
        if empty.all():
            raise ValueError(f"a table must have values, got {frame.height} rows without any; check the file")
        problems += [problem for reading in readable for problem in self._value_problems(reading, empty)]
        _check_no_problems(problems, frame.columns)
        self._columns = [fit_column(found, empty, scale_categories=self.scale_categories) for found in readings]
        self.readings_ = [TextReading(found.name, *found.example) for found in readings if found.example is not None]
        self.remarks_ = column_remarks(readings, declared, y)
        for remark in self.remarks_:
            warn(remark)
        return self._encode(readings, empty)

    def transform(
        self,
        X: Any,  # (n, columns)
    ) -> Array:  # (n, d) float32
        """Return the features of rows with the same columns; further columns are left out.

        Args:
            X: A frame of polars or pandas, columns by name, or a matrix.

        Returns:
            One row for each row.

        Raises:
            ValueError: If a column is missing or cells are not as in the fit; the message names row and value.
        """
        if "_columns" not in self.__dict__:
            raise NotFittedError("TableEncoder must be fitted before transform, got no fit; call fit")
        frame = as_frame(X)
        absent = [column.name for column in self._columns if column.name not in frame.columns]
        if absent:
            more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
            raise ValueError(f"the table must have the columns it was fitted with, got no {absent[0]!r}{more}; add it")
        readings = [read_as_fitted(frame[column.name], column) for column in self._columns]
        problems = [reading.problem for reading in readings if reading.problem is not None]
        empty = np.zeros(frame.height, dtype=bool) if problems else _empty_rows(readings)
        if not self.impute and not problems:
            problems = [problem for found in readings for problem in _missing_problems(found, empty, is_fit=False)]
        _check_no_problems(problems, [column.name for column in self._columns])
        return self._encode(readings, empty)

    def get_feature_names_out(self, input_features: Any = None) -> Array:  # (d,) object
        """Return a name for each feature: that of its column, with the category or the part of a date.

        Args:
            input_features: Ignored; columns have names.

        Returns:
            The names.
        """
        names = [
            f"{found.name}={found.category}" if found.category is not None else f"{found.name} {found.part or ''}"
            for found in self.feature_columns
        ]
        return np.array([name.rstrip() for name in names], dtype=object)

    @property
    def n_features(self) -> int:
        """How many features a row has."""
        return len(self.feature_columns)

    @property
    def feature_columns(self) -> list[FeatureColumn]:
        """What each feature stands for."""
        found = []
        for column in self._columns:
            if column.values is not None:
                found += [FeatureColumn(column.name, value) for value in column.values]
            else:
                parts = PARTS if column.date is not None else (None,)
                found += [FeatureColumn(column.name, part=part) for part in parts]
        return found

    def describe(self) -> dict[str, list[str]]:
        """Return the names of the columns by what they hold: "numbers", "categories", "booleans" or "dates".

        Returns:
            The names; kinds that no column has are left out.
        """
        names: dict[str, list[str]] = {}
        for kind in ("numbers", "categories", "booleans", "dates"):
            if found := [column.name for column in self._columns if column.kind == kind]:
                names[kind] = found
        return names

    def to_state(self) -> tuple[TableState, dict[str, Array]]:
        """Return plain values, and arrays.

        Returns:
            What :meth:`from_state` restores the fitted encoder from.
        """
        return TableState(impute=self.impute, categorical=list(self.categorical), columns=self._columns), {}

    @classmethod
    def from_state(cls, state: TableState, arrays: Mapping[str, Array]) -> Self:
        """Restore a fitted encoder.

        Args:
            state: What :meth:`to_state` returned.
            arrays: Its arrays, of which there are none.

        Returns:
            The encoder.
        """
        check_arrays(arrays, {})
        encoder = cls(impute=state.impute, categorical=state.categorical)
        encoder._columns, encoder.readings_, encoder.remarks_ = state.columns, [], []
        return encoder

    def _value_problems(self, reading: Reading, empty: Array) -> list[Problem]:
        """Find missing, infinite and huge numbers."""
        found = [] if self.impute else _missing_problems(reading, empty, is_fit=True)
        if reading.kind == "numbers":
            values = reading.values.drop_nulls().to_numpy()
            largest = np.abs(values).max(initial=0)
            if np.isinf(largest):
                found.append(Problem(reading.name, "holds an infinite number", "correct it"))
            elif largest > LARGEST:
                what = f"holds numbers up to {largest:.3g}, more than {LARGEST:.3g}"
                found.append(Problem(reading.name, what, "divide it by a constant"))
        return found

    def _encode(self, readings: Sequence[Reading], empty: Array) -> Array:
        """Return the features, and keep what was filled."""
        self.empty_rows_ = np.flatnonzero(empty)
        self.imputed_ = []
        for reading, column in zip(readings, self._columns, strict=True):
            gaps = reading.values.is_null().to_numpy() & ~empty
            if gaps.any():
                self.imputed_.append(Imputed(column.name, int(gaps.sum()), int(gaps.argmax()), filling(column)))
        encoded = [encode_column(found, column) for found, column in zip(readings, self._columns, strict=True)]
        return np.concatenate(encoded, axis=1)


def _empty_rows(readings: Sequence[Reading]) -> Array:  # (n,) bool
    return np.logical_and.reduce([reading.values.is_null().to_numpy() for reading in readings])


def _missing_problems(reading: Reading, empty: Array, *, is_fit: bool) -> list[Problem]:
    gaps = reading.values.is_null().to_numpy() & ~empty
    if not gaps.any():
        return []
    what = f"lacks {int(gaps.sum()):,} of {len(gaps):,} values, the first in row {int(gaps.argmax())}"
    remedy = f"--impute fills them, --drop {reading.name} leaves it out"
    return [Problem(reading.name, what, remedy if is_fit else "fill them; a model of --impute does so itself")]


def _check_no_problems(problems: Sequence[Problem], columns: Sequence[str]) -> None:
    """Raise one error about all columns that cannot be used, in the order of the table."""
    if not problems:
        return
    places = {name: place for place, name in enumerate(columns)}
    problems = sorted(problems, key=lambda problem: places[problem.column])
    n_columns = len({problem.column for problem in problems})
    more = f"; and {len(problems) - _MOST_NAMED} more" if len(problems) > _MOST_NAMED else ""
    raise ValueError(
        f"every column of a table must be usable, got {n_columns} of {len(columns)} that "
        f"{'is' if n_columns == 1 else 'are'} not: {'; '.join(map(str, problems[:_MOST_NAMED]))}{more}"
    )
