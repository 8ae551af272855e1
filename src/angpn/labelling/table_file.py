"""Read a table from a file: CSV, JSON lines, Excel, Parquet or Arrow, after a look at how much it unpacks to."""

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars
import polars.selectors

from angpn.features.number_text import Decimal
from angpn.labelling.text_table import TextTable, read_json_lines, read_separated
from angpn.utils.arrow_footer import unpacked_arrow_bytes
from angpn.utils.memory import available_bytes, check_fits
from angpn.utils.optional import require
from angpn.utils.parquet_footer import unpacked_bytes
from angpn.utils.unpacking import SUFFIXES as PACKED
from angpn.utils.unpacking import read_unpacked
from angpn.utils.workbook_size import workbook_bytes

_SEPARATED = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_JSON_LINES = (".jsonl", ".ndjson")
_ARROW = (".arrow", ".feather", ".ipc")
_EXCEL = (".xlsx", ".xlsm")
TABLES = (*_SEPARATED, *_JSON_LINES, *_EXCEL, ".parquet", *_ARROW)
_REMEDY = "take fewer columns or rows"


class Table(NamedTuple):
    """A table as it was read.

    Attributes:
        frame: Its cells; those of text files as texts.
        notes: What is said of how the file was read, beside what its name says.
        decimal: The decimal sign that its separator suggests, for numbers that can be read with either.
    """

    frame: polars.DataFrame
    notes: tuple[str, ...] = ()
    decimal: Decimal | None = None


def table_suffix(path: Path) -> str | None:
    """Return the suffix that tells the kind of a table, without that of packed text; None where it is no table."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if str(path) == "-":
        return ".csv"
    if len(suffixes) > 1 and suffixes[-1] in PACKED and suffixes[-2] in (*_SEPARATED, *_JSON_LINES):
        return suffixes[-2]
    return suffixes[-1] if suffixes and suffixes[-1] in TABLES else None


def read_table(path: Path, suffix: str, as_text: Sequence[str]) -> Table:
    """Read a table.

    Args:
        path: The file; ``-`` is standard input.
        suffix: Its kind, see :func:`table_suffix`.
        as_text: Columns to read as texts.

    Returns:
        The table.

    Raises:
        ValueError: If it cannot be read; the message names the remedy.
        FileNotFoundError: If there is no such file.
        MemoryError: If it does not fit into memory.
    """
    if str(path) != "-" and not path.exists():
        raise FileNotFoundError(f"{path} must be a file, got none there; check the name")
    try:
        table = _read(path, suffix)
        frame = table.frame.with_columns(polars.selectors.float().fill_nan(None))
        texts = [polars.col(name).cast(polars.String) for name in as_text if name in frame.columns]
        return table._replace(frame=frame.with_columns(texts))
    except polars.exceptions.NoDataError:
        raise ValueError(f"{path} must hold a header and rows, got an empty file; name another file") from None
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError, ValueError) as error:
        if str(error).startswith(f"{path} must"):
            raise
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ValueError(f"{path} must be a {suffix[1:]} file that can be read, got {reason}; repair it") from None


def _read(path: Path, suffix: str) -> Table:
    if suffix == ".parquet":
        check_fits(unpacked_bytes(path), path, _REMEDY)
        return Table(polars.read_parquet(path))
    if suffix in _ARROW:
        check_fits(unpacked_arrow_bytes(path), path, _REMEDY)
        return Table(polars.read_ipc(path))
    if suffix in _EXCEL:
        return _read_workbook(path)
    found, notes = _read_text(path, suffix)
    frame, n_empty = _without_empty_end(found.frame)
    if n_empty:
        found.notes.append(f"without {n_empty:,} empty line{'' if n_empty == 1 else 's'} at the end")
    return Table(frame, (*notes, *found.notes), "," if found.separator == ";" else None)


def _without_empty_end(frame: polars.DataFrame) -> tuple[polars.DataFrame, int]:
    """Leave out rows at the end that have separators alone, as spreadsheets write them; return how many these were."""
    if frame.width < 2 or not frame.height:
        return frame, 0
    filled = frame.select(polars.any_horizontal(polars.all().is_not_null())).to_series().arg_true()
    n_rows = int(filled[-1]) + 1 if len(filled) else frame.height
    return frame.head(n_rows), frame.height - n_rows


def _read_text(path: Path, suffix: str) -> tuple[TextTable, list[str]]:
    if str(path) == "-":
        unpacked = read_unpacked(io.BytesIO(sys.stdin.buffer.read()), path)
    else:
        with path.open("rb") as file:
            unpacked = read_unpacked(file, path)
    notes = [] if unpacked.packed_by is None else [f"packed by {unpacked.packed_by}"]
    if suffix in _JSON_LINES:
        return read_json_lines(unpacked.content, path), notes
    return read_separated(unpacked.content, path, _SEPARATED[suffix]), notes


def _read_workbook(path: Path) -> Table:
    """Read the first sheet that has rows."""
    remedy = f'pip install "angpn[excel]" to read {path}, or save its sheet as CSV'
    fastexcel = require("fastexcel", remedy)
    check_fits(workbook_bytes(path, available_bytes()), path, "save the sheet as CSV")
    try:
        names: list[str] = fastexcel.read_excel(str(path)).sheet_names
        sheets = ((name, _read_sheet(path, name)) for name in names)
        name, frame = next(((name, frame) for name, frame in sheets if frame.height), (None, None))
    except fastexcel.FastExcelError as error:
        raise ValueError(str(error)) from None
    if name is None or frame is None:
        raise ValueError(f"{path} must hold a sheet with a header and rows, got none; name another file")
    return Table(frame, (f"sheet {name!r}" + (f", one of {len(names)}" if len(names) > 1 else ""),))


def _read_sheet(path: Path, name: str) -> polars.DataFrame:
    options: Any = {"raise_if_empty": False, "infer_schema_length": None}
    return polars.read_excel(path, sheet_name=name, engine="calamine", **options)
