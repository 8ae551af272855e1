"""Read the cells of new rows as those of the fit were read."""

import polars

from angpn.features.boolean_text import FALSE_NAME, TRUE_NAME, parse_booleans
from angpn.features.column_reading import Problem, Reading, read_categories, read_column, shortened
from angpn.features.column_state import TYPED, ColumnState
from angpn.features.date_text import iso_formats, parse_dates, parse_times, read_dates, read_times
from angpn.features.number_text import is_missing, plain_numbers, read_numbers


def read_as_fitted(column: polars.Series, fitted: ColumnState) -> Reading:
    """Read the cells of a new column as those of the fit; a cell that cannot be so read is a problem that names it.

    Args:
        column: The column.
        fitted: What the fit found of it.

    Returns:
        The reading.
    """
    name, kind = column.name, fitted.kind
    if kind == "categories":
        reading = read_categories(column, declared=True)
        if "" in (fitted.values or ()):  # as encoders took it before blank cells were missing ones
            reading = reading._replace(values=column.cast(polars.String))
        return reading
    wanted = {"numbers": "times" if fitted.time is not None else "numbers", "booleans": "booleans", "dates": "dates"}
    if isinstance(column.dtype, polars.Enum) or column.dtype in (polars.Categorical, polars.Null):
        column = column.cast(polars.String)
    if column.dtype == polars.String:
        missing = is_missing(column)
        texts = polars.select(polars.when(~missing).then(column)).to_series().alias(name)
        values = _parse_as_fitted(texts, fitted)
        wrong = (values.is_null() & texts.is_not_null()).arg_true()
        if len(wrong):
            more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
            cell = f"{shortened(column[wrong[0]])} in row {wrong[0]}{more}"
            what = f"must hold {wanted[kind]} as it did in the fit, got {cell}"
            remedy = "correct the cell, or leave it empty if the model was fitted with --impute"
            return Reading(name, kind, values, problem=Problem(name, what, remedy))
        return Reading(name, kind, values)
    if kind == "booleans" and column.dtype.is_numeric():  # 1 and 0 are words for it, and no other number is
        column = column.cast(polars.Float64).replace_strict({1.0: True, 0.0: False}, default=None)
    elif kind == "numbers" and column.dtype == polars.Boolean:
        column = column.cast(polars.Int64)
    reading = read_column(column, False, ".")
    if reading.problem is not None or reading.kind not in (kind, wanted[kind]):
        what = f"must hold {wanted[kind]} as it did in the fit, got {column.dtype}"
        return reading._replace(problem=Problem(name, what, "correct it"))
    return reading


def _parse_as_fitted(texts: polars.Series, fitted: ColumnState) -> polars.Series:
    if fitted.boolean:
        return parse_booleans(texts)
    if fitted.date is not None:
        if fitted.date.format != TYPED:
            return parse_dates(texts, fitted.date.format)
        found = read_dates(texts, iso_formats())
        return polars.Series(texts.name, [None] * len(texts), polars.Datetime("us")) if found is None else found.moments
    if fitted.time is not None:
        found_times = read_times(texts) if fitted.time == TYPED else (fitted.time, parse_times(texts, fitted.time))
        return polars.Series(texts.name, [None] * len(texts), polars.Float64) if found_times is None else found_times[1]
    numbers = read_numbers(texts).by(fitted.decimal)
    if fitted.decimal == ".":
        plain = plain_numbers(texts)
        numbers = polars.select(polars.coalesce(plain, numbers)).to_series()
    if _were_booleans(fitted):
        words = parse_booleans(texts).replace_strict({TRUE_NAME: 1.0, FALSE_NAME: 0.0}, return_dtype=polars.Float64)
        numbers = polars.select(polars.coalesce(numbers, words)).to_series()
    return numbers.alias(texts.name)


def _were_booleans(fitted: ColumnState) -> bool:
    """Tell whether numbers are 0 and 1 alone, by their variance: so older files keep columns of true and false."""
    found = fitted.statistics[0]
    return 0 <= found.mean <= 1 and abs(found.std**2 - found.mean * (1 - found.mean)) < 1e-9
