"""The cells of a table as the report shows them beside those of other rows."""

from collections.abc import Sequence
from typing import NamedTuple

import polars

_MAX_COLUMNS = 40
_MAX_CELLS = 400_000  # in the whole page, which bounds its size: about 10 characters each
_MAX_LENGTH = 60  # characters of a cell


class Cells(NamedTuple):
    """Cells of a table.

    Attributes:
        columns: The names of the columns.
        values: The cells of each row as text, empty where a value is missing.
        n_left_out: How many columns are not shown.
    """

    columns: Sequence[str]  # (m,)
    values: Sequence[Sequence[str]]  # (n, m)
    n_left_out: int = 0


def table_cells(frame: polars.DataFrame) -> Cells | None:
    """Return the first columns as they came, as many as a page can hold; None where that is none."""
    count = min(_MAX_COLUMNS, frame.width, _MAX_CELLS // max(1, frame.height))
    if not count:
        return None
    shown = [name for name in frame.columns if not frame.schema[name].is_nested()][:count]
    texts = [[_cell(value) for value in frame[name].to_list()] for name in shown]
    return Cells(shown, list(zip(*texts, strict=True)), frame.width - len(shown)) if shown else None


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _MAX_LENGTH else text[: _MAX_LENGTH - 1] + "…"
