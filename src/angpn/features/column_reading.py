"""Read the cells of a column as what most of them are: numbers, truth values, dates, times or categories."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import polars

from angpn.features.boolean_text import are_booleans, parse_booleans
from angpn.features.column_state import TYPED
from angpn.features.date_text import read_dates, read_times, time_hours
from angpn.features.number_text import Decimal, is_missing, plain_numbers, read_numbers

ReadAs = Literal["numbers", "booleans", "times", "dates", "categories"]

MAX_CATEGORIES = 50
_FEW_NUMBERS = 10  # different ones, among more texts that may mean a missing one


class Problem(NamedTuple):
    """Why a column cannot be used as it is, with an example, and what helps."""

    column: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.column!r} {self.what} ({self.remedy})"


class Reading(NamedTuple):
    """The cells of a column.

    Attributes:
        name: Its name.
        kind: What the cells were read as.
        values: Float64, Datetime for dates, String for categories and booleans; null where a cell is missing.
        decimal: The decimal sign of numbers.
        format: That of dates or times.
        example: The text of a cell and what it was read as, where that is not plain.
        problem: Why it cannot be used.
        remark: What the user should know of it.
    """

    name: str
    kind: ReadAs
    values: polars.Series
    decimal: Decimal = "."
    format: str = TYPED
    example: tuple[str, str] | None = None
    problem: Problem | None = None
    remark: str | None = None


def read_columns(frame: polars.DataFrame, categorical: Sequence[str], decimal: Decimal | None) -> list[Reading]:
    """Read each column as what most of its cells are.

    Where the numbers of a column can be read with either decimal sign, as 1.234, it is that of other columns.

    Args:
        frame: The table.
        categorical: Columns to read as categories whatever they hold.
        decimal: The decimal sign where no column tells; None is a point.

    Returns:
        A reading of each column.
    """
    texts = [frame[name] for name in frame.columns if name not in categorical and frame.schema[name] == polars.String]
    if decimal == "," or any(_decimal_sign(column, ",") == "," for column in texts):
        decimal = "." if any(_decimal_sign(column, ".") == "." for column in texts) else ","
    return [read_column(frame[name], name in categorical, decimal or ".") for name in frame.columns]


def _decimal_sign(column: polars.Series, sign: Decimal) -> Decimal | None:
    """Return the decimal sign of a column of numbers in text that have this sign, where one alone reads them."""
    texts = column.filter(~is_missing(column))
    if not texts.str.contains(sign, literal=True).any():
        return None
    found = read_numbers(texts)
    by_point, by_comma = (not numbers.null_count() for numbers in found)
    if by_point == by_comma:
        return None
    return "." if by_point else ","


def read_column(column: polars.Series, is_categorical: bool, decimal: Decimal) -> Reading:
    """Read a column as what most of its cells are, numbers in text by this decimal sign first."""
    name, dtype = column.name, column.dtype
    if is_categorical:
        return read_categories(column, declared=True)
    if dtype == polars.Boolean:
        return Reading(name, "booleans", column.cast(polars.String))
    if dtype.is_numeric():
        return Reading(name, "numbers", column.cast(polars.Float64).fill_nan(None))
    if dtype in (polars.Date, polars.Datetime):
        return Reading(name, "dates", _without_zone(column))
    if dtype == polars.Time:
        return Reading(name, "times", time_hours(column))
    if dtype == polars.Duration:
        return Reading(name, "numbers", column.dt.total_seconds().cast(polars.Float64))
    if dtype not in (polars.String, polars.Categorical, polars.Null) and not isinstance(dtype, polars.Enum):
        problem = Problem(
            name, f"holds {dtype}, which is no number and no text", f"turn it into numbers or --drop {name}"
        )
        return Reading(name, "categories", polars.Series(name, [], polars.String), problem=problem)
    return _read_texts(column.cast(polars.String), decimal)


def _read_texts(column: polars.Series, decimal: Decimal) -> Reading:
    """Find what the texts of a column are."""
    name = column.name
    missing = is_missing(column)
    texts = polars.select(polars.when(~missing).then(column)).to_series().alias(name)
    n_present, n_texts = len(texts) - texts.null_count(), len(column) - column.null_count()
    if n_present == 0:
        return read_categories(column)
    if are_booleans(texts):
        values = parse_booleans(texts)
        first = texts.is_not_null().arg_max() or 0
        return Reading(name, "booleans", values, example=(texts[first], values[first]))
    numbers = plain_numbers(texts)
    is_plain = numbers.null_count() == texts.null_count()
    if not is_plain or decimal == ",":
        numbers, decimal = _numbers_by_best_sign(texts, decimal)
    n_numbers = len(numbers) - numbers.null_count()
    if n_numbers == n_present and not _are_codes(texts):
        if 2 * n_numbers <= n_texts and numbers.n_unique() <= _FEW_NUMBERS:
            return read_categories(column)  # one of which is a number
        shown = None if is_plain and numbers.equals(plain_numbers(texts)) else _number_example(texts, numbers)
        return Reading(name, "numbers", numbers.alias(name), decimal, example=shown)
    if _are_codes(texts):
        return read_categories(column)
    times = read_times(texts)
    if times is not None:
        first = texts.is_not_null().arg_max() or 0
        return Reading(
            name, "times", times[1].alias(name), format=times[0], example=(texts[first], f"{times[1][first]:g} hours")
        )
    dates = read_dates(texts)
    if dates is not None and 2 * (len(texts) - dates.moments.null_count()) > n_texts:
        return _dates(texts, dates.format, dates.moments.alias(name), dates.ambiguous_with)
    if 2 * n_numbers > n_present:
        other = texts.filter(numbers.is_null() & texts.is_not_null())[0]
        what = f"holds numbers and text, such as {shortened(other)}"
        remedy = f"correct it, leave the cell empty where a number is missing, or pass --categorical {name}"
        return Reading(name, "numbers", numbers, problem=Problem(name, what, remedy))
    return read_categories(column)


def _numbers_by_best_sign(texts: polars.Series, first: Decimal) -> tuple[polars.Series, Decimal]:
    """Return the numbers by the decimal sign that reads most texts, the first where both do, and the sign."""
    found = read_numbers(texts)
    signs: tuple[Decimal, Decimal] = (first, "," if first == "." else ".")
    best = min(signs, key=lambda sign: found.by(sign).null_count())
    return found.by(best), best


def _are_codes(texts: polars.Series) -> bool:
    """Tell whether whole numbers are codes with leading zeros, few enough to be categories."""
    codes = texts.str.strip_chars().str.contains("^0[0-9]+$").any()
    return bool(codes) and texts.n_unique() <= maxread_categories(len(texts))


def maxread_categories(n_rows: int) -> int:
    """Return how many different texts a column of categories may have."""
    return max(MAX_CATEGORIES, n_rows // 10)


def _dates(texts: polars.Series, format_: str, moments: polars.Series, ambiguous_with: str | None) -> Reading:
    name = texts.name
    first = moments.is_not_null().arg_max() or 0
    example = (texts[first], str(moments[first]).removesuffix(" 00:00:00"))
    other = texts.filter(moments.is_null() & texts.is_not_null())
    problem = remark = None
    if len(other):
        what = f"holds dates written as {format_} and others, such as {shortened(other[0])}"
        remedy = f"write all alike, leave the cell empty where a date is missing, or pass --categorical {name}"
        problem = Problem(name, what, remedy)
    if ambiguous_with is not None:
        remark = (
            f"column {name!r} was read as {format_}, and {ambiguous_with} fits as well; if that is wrong, write dates "
            "as 2024-12-31"
        )
    return Reading(name, "dates", moments, format=format_, example=example, problem=problem, remark=remark)


def read_categories(column: polars.Series, *, declared: bool = False) -> Reading:
    """Read a column as categories, of which there may be any number where it was declared to hold them."""
    name = column.name
    try:
        texts = column.cast(polars.String)
    except polars.exceptions.PolarsError:
        problem = Problem(name, f"holds {column.dtype}, which is no text", f"--drop {name} leaves it out")
        return Reading(name, "categories", polars.Series(name, [], polars.String), problem=problem)
    texts = blank_as_null(texts)
    count = texts.drop_nulls().n_unique()
    if not declared and count > maxread_categories(len(texts)):
        what = f"holds {count} different texts, such as {shortened(texts.drop_nulls()[0])}"
        as_id = f"--id-column {name} if they are ids, " if count == len(texts) else ""
        remedy = f"--text {name} labels by it, {as_id}--drop {name} leaves it out, --categorical {name} keeps it"
        return Reading(name, "categories", texts, problem=Problem(name, what, remedy))
    return Reading(name, "categories", texts)


def blank_as_null(texts: polars.Series) -> polars.Series:
    """Return texts with null in place of spaces alone."""
    return polars.select(polars.when(texts.str.strip_chars() != "").then(texts)).to_series().alias(texts.name)


def _without_zone(column: polars.Series) -> polars.Series:
    """Return dates and times as they are in UTC."""
    if isinstance(column.dtype, polars.Datetime) and column.dtype.time_zone is not None:
        column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return column.cast(polars.Datetime("us"))


def _number_example(texts: polars.Series, numbers: polars.Series) -> tuple[str, str]:
    """Return the longest text, which shows most of how numbers are written, and the number it is."""
    place = texts.str.len_chars().arg_max() or 0
    return texts[place].strip(), f"{numbers[place]:.12g}"


def shortened(text: str) -> str:
    """Return a text as it is shown in a message."""
    return repr(text if len(text) <= 40 else f"{text[:37]}...")
