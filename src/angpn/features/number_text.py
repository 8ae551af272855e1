"""Numbers as people write them: 1,234.5 and 1.234,5, with signs of currency and percent."""

from typing import Literal, NamedTuple

import polars

Decimal = Literal[".", ","]

MISSING_TEXTS = ("", "na", "n/a", "nan", "null", "none", "?", "-", ".")  # markers of a missing value
_CURRENCY = (
    r"(?:[$€£¥₹₽₩₺₴₫₪฿]|(?i:usd|eur|gbp|jpy|chf|cny|inr|aud|cad|sek|nok|dkk|pln|czk|huf|brl|mxn|zar|try|fr\.?|kr\.?))"
)
_SPACES = r" \x{a0}\x{202f}\x{2009}'\x{2019}"  # and apostrophes, which separate thousands whatever the decimal sign
_MINUS = "\u2212"


class NumberReadings(NamedTuple):
    """What the texts of a column are as numbers, by the decimal sign; null where a text is none."""

    point: polars.Series
    comma: polars.Series

    def by(self, decimal: Decimal) -> polars.Series:
        """Return the numbers with that decimal sign."""
        return self.point if decimal == "." else self.comma


def is_missing(column: polars.Series) -> polars.Series:
    """Tell which cells of a column hold nothing: null, NaN or, in text, a marker of a missing value."""
    missing = column.is_null()
    if column.dtype == polars.String:
        return missing | column.str.strip_chars().str.to_lowercase().is_in(MISSING_TEXTS).fill_null(True)
    return missing | column.is_nan().fill_null(False) if column.dtype.is_float() else missing


def plain_numbers(texts: polars.Series) -> polars.Series:
    """Return the numbers that texts are in the notation of programs, null where one is none."""
    return texts.str.strip_chars().cast(polars.Float64, strict=False).fill_nan(None)


def read_numbers(texts: polars.Series) -> NumberReadings:
    """Read numbers with thousands separators, decimal commas, and signs of currency and percent.

    ``(5)`` is -5, as accountants write it, and ``5 %`` is 0.05.

    Args:
        texts: A column of texts.

    Returns:
        The numbers by either decimal sign.
    """
    cleaned = texts.str.strip_chars().str.replace_all(_MINUS, "-", literal=True)
    in_brackets = cleaned.str.contains(r"^\(.*\)$")
    cleaned = cleaned.str.replace(r"^\((.*)\)$", "$1")
    is_percent = cleaned.str.ends_with("%")
    cleaned = cleaned.str.strip_suffix("%").str.strip_chars()
    cleaned = cleaned.str.replace(rf"^([+-]?)\s*{_CURRENCY}\s*([+-]?)", "$1$2")
    cleaned = cleaned.str.replace(rf"\s*{_CURRENCY}$", "")
    factor = polars.select(
        polars.when(in_brackets).then(-1.0).otherwise(1.0) * polars.when(is_percent).then(0.01).otherwise(1.0)
    ).to_series()
    return NumberReadings(*(_read(cleaned, decimal) * factor for decimal in (".", ",")))


def _read(cleaned: polars.Series, decimal: Decimal) -> polars.Series:
    """Read texts of digits, of which thousands may be separated, with this decimal sign."""
    thousands = f"{',' if decimal == '.' else '.'}{_SPACES}"
    pattern = (
        rf"^[+-]?(?:[0-9]+|[1-9][0-9]{{0,2}}(?:[{thousands}][0-9]{{3}})+)?(?:[{decimal}][0-9]*)?(?:[eE][+-]?[0-9]+)?$"
    )
    fits = cleaned.str.contains(pattern)
    digits = cleaned.str.replace_all(f"[{thousands}]", "").str.replace(",", ".", literal=True)
    numbers = digits.cast(polars.Float64, strict=False)
    return polars.select(polars.when(fits).then(numbers)).to_series()
