"""Dates and times as people write them, and the numbers that are made of them."""

from typing import NamedTuple

import numpy as np
import polars

from angpn.utils.typing import Array

_TIME = r"[0-9]{1,2}:[0-9]{2}"
_ISO, _YEAR, _TWO = r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}", r"[0-9]{4}", r"[0-9]{1,2}"
_DAYS = {  # of a year, a month and a day: the pattern of the text, and the format that reads it
    "year-month-day": (_ISO, "%Y-%m-%d"),
    "year/month/day": (rf"{_YEAR}/{_TWO}/{_TWO}", "%Y/%m/%d"),
    "year.month.day": (rf"{_YEAR}\.{_TWO}\.{_TWO}", "%Y.%m.%d"),
    "day.month.year": (rf"{_TWO}\.{_TWO}\.{_YEAR}", "%d.%m.%Y"),
    "day.month.yy": (rf"{_TWO}\.{_TWO}\.[0-9]{{2}}", "%d.%m.%y"),
    "month/day/year": (rf"{_TWO}/{_TWO}/{_YEAR}", "%m/%d/%Y"),
    "day/month/year": (rf"{_TWO}/{_TWO}/{_YEAR}", "%d/%m/%Y"),
    "month/day/yy": (rf"{_TWO}/{_TWO}/[0-9]{{2}}", "%m/%d/%y"),
    "day/month/yy": (rf"{_TWO}/{_TWO}/[0-9]{{2}}", "%d/%m/%y"),
    "day-month-year": (rf"{_TWO}-{_TWO}-{_YEAR}", "%d-%m-%Y"),
    "day Mon year": (rf"{_TWO}[ -][A-Za-z]{{3}}[ -]{_YEAR}", "%d %b %Y"),
    "day Month year": (rf"{_TWO} [A-Za-z]+ {_YEAR}", "%d %B %Y"),
    "Mon day, year": (rf"[A-Za-z]{{3}} {_TWO}, {_YEAR}", "%b %d, %Y"),
    "Month day, year": (rf"[A-Za-z]+ {_TWO}, {_YEAR}", "%B %d, %Y"),
}
_HOURS = {  # what may follow the day
    "": ("", ""),
    " hour:minute": (rf"[ T]{_TIME}", " %H:%M"),
    " hour:minute:second": (rf"[ T]{_TIME}:[0-9]{{2}}(?:[.,][0-9]+)?", " %H:%M:%S%.f"),
    " hour:minute AM": (rf" {_TIME} ?[AaPp][Mm]", " %I:%M %p"),
}
FORMATS = {
    f"{day}{hour}": (f"^{day_text}{hour_text}$", f"{day_format}{hour_format}")
    for day, (day_text, day_format) in _DAYS.items()
    for hour, (hour_text, hour_format) in _HOURS.items()
}
ZONED = "year-month-day hour:minute:second zone"
FORMATS[ZONED] = (
    rf"^{_ISO}[ T]{_TIME}:[0-9]{{2}}(?:\.[0-9]+)?(?:Z|[+-][0-9]{{2}}:?[0-9]{{2}})$",
    "%Y-%m-%d %H:%M:%S%.f%#z",
)
TIMES = {"hour:minute": (f"^{_TIME}$", "%H:%M"), "hour:minute:second": (rf"^{_TIME}:[0-9]{{2}}$", "%H:%M:%S")}
_ISO_NAMES = [name for name in FORMATS if name.startswith("year-month-day")]
_DAY_SECONDS = 86400.0
_LOOKED_AT = 200  # texts, to see which formats a column may have
PARTS = ("year", "month", "weekday", "hour", "age in days")  # what becomes of a date


class DateReading(NamedTuple):
    """The format of most texts of a column, what they are in it, and another format that fits as well."""

    format: str
    moments: polars.Series  # Datetime, null where a text has another format
    ambiguous_with: str | None = None


def read_dates(texts: polars.Series, formats: list[str] | None = None) -> DateReading | None:
    """Find the format of dates in which most texts are written, or return None where fewer than half are dates.

    Args:
        texts: A column of texts, null where a value is missing.
        formats: Names of the formats to try, all where None.

    Returns:
        The format that most texts have, the first of several.
    """
    texts = texts.str.strip_chars()
    first = texts.drop_nulls()[:_LOOKED_AT]
    best: DateReading | None = None
    most = max(1, (len(texts) - texts.null_count() + 1) // 2) - 1
    for name in FORMATS if formats is None else formats:
        if first.str.contains(FORMATS[name][0]).any():
            moments = parse_dates(texts, name)
            count = moments.len() - moments.null_count()
            if count > most:
                best, most = DateReading(name, moments), count
            elif best is not None and count == most and not moments.equals(best.moments):
                best = best._replace(ambiguous_with=name)
    return best


def parse_dates(texts: polars.Series, name: str) -> polars.Series:
    """Return the moments that texts of this format name, null for others; in UTC where a zone is given."""
    pattern, format_ = FORMATS[name]
    texts = texts.str.strip_chars()
    fits = texts.str.contains(pattern)
    plain = texts.str.replace(r"^([0-9-]{8,10})T", "$1 ").str.replace(r"^([0-9]{1,2})-([A-Za-z]{3})-", "$1 $2 ")
    moments = plain.str.to_datetime(format_, strict=False, time_unit="us")
    if name == ZONED:
        moments = moments.dt.replace_time_zone(None)
    return polars.select(polars.when(fits).then(moments)).to_series()


def iso_formats() -> list[str]:
    """Return the formats that begin with the year and have hyphens: in what columns of dates are written as text."""
    return _ISO_NAMES


def read_times(texts: polars.Series) -> tuple[str, polars.Series] | None:
    """Return the format of times of day, and the hours since midnight, if all texts are such times."""
    for name in TIMES:
        hours = parse_times(texts, name)
        if hours.null_count() == texts.null_count():
            return name, hours
    return None


def parse_times(texts: polars.Series, name: str) -> polars.Series:
    """Return the hours since midnight of times of this format, null for other texts."""
    pattern, format_ = TIMES[name]
    texts = texts.str.strip_chars()
    hours = time_hours(texts.str.to_time(format_, strict=False))
    return polars.select(polars.when(texts.str.contains(pattern)).then(hours)).to_series()


def time_hours(times: polars.Series) -> polars.Series:
    """Return the hours since midnight of a column of times."""
    return times.cast(polars.Int64) / 3.6e12


def date_parts(
    moments: polars.Series,  # (n,) Datetime or Date
    newest: float,
) -> Array:  # (n, 5) NaN where missing
    """Return year, month, weekday (1 is Monday), hour and age of dates.

    Args:
        moments: The dates.
        newest: The day since 1970 that ages are counted from.
    """
    moments = moments.cast(polars.Datetime("us"))
    hours = moments.dt.hour() + moments.dt.minute() / 60
    parts = (moments.dt.year(), moments.dt.month(), moments.dt.weekday(), hours, newest - days(moments))
    return np.stack([part.cast(polars.Float64).fill_null(float("nan")).to_numpy() for part in parts], axis=1)


def days(moments: polars.Series) -> polars.Series:
    """Return the days since 1970 of a column of dates."""
    return moments.cast(polars.Datetime("us")).cast(polars.Int64) / (_DAY_SECONDS * 1e6)
