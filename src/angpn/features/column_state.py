"""What is saved of the columns of a table, with the types and limits that a reader checks."""

from typing import Annotated, Literal

from msgspec import Meta

from angpn.features.date_text import FORMATS, PARTS, TIMES
from angpn.utils.schema import NotNegative, Saved, Share

MISSING = "(missing)"
TYPED = ""  # the format of dates and times that a file holds as such


_SMALLEST_SHARE = 1e-12  # of rows; no table has as many rows as one in less would need


class Statistics(Saved, frozen=True):
    """What to subtract from numbers, to divide them by, and to put where one is missing."""

    mean: float
    std: NotNegative
    median: float


class DateState(Saved, frozen=True):
    """A fitted column of dates: how they are written, and the statistics of what is made of them."""

    format: str
    newest: float  # day since 1970, from which ages are counted
    parts: Annotated[list[Statistics], Meta(min_length=len(PARTS), max_length=len(PARTS))]

    def __post_init__(self) -> None:
        if self.format not in FORMATS and self.format != TYPED:
            raise ValueError(f"no format of dates is named {self.format!a:.40}")


class ColumnState(Saved, omit_defaults=True, frozen=True):
    """A fitted column: of numbers, with their statistics, of categories, with their values, or of dates.

    Numbers may be written with a decimal comma or as times of day. Words for true and false are two categories. The
    share of rows that have each category is kept where its feature is standardised.
    """

    name: str
    mean: float | None = None
    std: NotNegative | None = None
    median: float | None = None
    values: Annotated[list[str], Meta(min_length=1)] | None = None
    shares: list[Share] | None = None
    decimal: Literal[".", ","] = "."
    boolean: bool = False
    time: str | None = None
    date: DateState | None = None

    def __post_init__(self) -> None:
        numbers = [number is not None for number in (self.mean, self.std, self.median)]
        if (
            any(numbers) != all(numbers)
            or [all(numbers), self.values is not None, self.date is not None].count(True) != 1
        ):
            raise ValueError("a column must have mean, std and median, or values, or a date")
        if (self.time is not None or self.decimal != ".") and not all(numbers):
            raise ValueError("decimal and time belong to a column of numbers")
        if (self.boolean or self.shares is not None) and self.values is None:
            raise ValueError("boolean and shares belong to a column of categories")
        if self.shares is not None and len(self.shares) != len(self.values or ()):
            raise ValueError("a column must have a share for each value")
        if any(0 < share < _SMALLEST_SHARE or 0 < 1 - share < _SMALLEST_SHARE for share in self.shares or ()):
            raise ValueError(f"a share of rows must be 0, 1, or at least {_SMALLEST_SHARE:g} from both")
        if self.time is not None and self.time not in TIMES and self.time != TYPED:
            raise ValueError(f"no format of times is named {self.time!a:.40}")
        if self.values is not None and len(set(self.values)) < len(self.values):
            raise ValueError("a category occurs twice")

    @property
    def statistics(self) -> list[Statistics]:
        """Those of the numbers that are made of a cell: one, or the parts of a date."""
        if self.date is not None:
            return self.date.parts
        return [Statistics(mean=self.mean or 0.0, std=self.std or 0.0, median=self.median or 0.0)]

    @property
    def kind(self) -> Literal["numbers", "categories", "booleans", "dates"]:
        """What the column holds."""
        if self.values is not None:
            return "booleans" if self.boolean else "categories"
        return "numbers" if self.date is None else "dates"


class TableState(Saved, frozen=True):
    """What a file keeps of a :class:`~angpn.features.TableEncoder`."""

    impute: bool
    categorical: list[str]
    columns: Annotated[list[ColumnState], Meta(min_length=1)]

    def __post_init__(self) -> None:
        if len({column.name for column in self.columns}) < len(self.columns):
            raise ValueError("a column occurs twice")
