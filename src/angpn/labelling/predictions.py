"""Predictions as CSV."""

import csv
import re
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any

_HEADER = ("id", "label", "confidence", "second", "source")
# What a spreadsheet takes for a formula by its first character; the last four are = + - @ of East Asian keyboards.
_FORMULA = re.compile("[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def predictions_csv(lines: Iterable[tuple[str, Any, float, Any, str]], *, excel_safe: bool = False) -> str:
    """Return CSV lines with the header ``id,label,confidence,second,source``.

    Args:
        lines: Id, label, confidence, second label and source of each row.
        excel_safe: Put an apostrophe before ids and labels that a spreadsheet would run as a formula.

    Returns:
        The lines, each with a newline.
    """
    cell = escape_formula if excel_safe else str
    cells = (
        (cell(name), cell(label), f"{confidence:.4f}", cell(second), source)
        for name, label, confidence, second, source in lines
    )
    return csv_text(_HEADER, cells)


def csv_text(header: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    """Return a header and lines as CSV, each with a newline."""
    text: list[str] = []
    # csv quotes the characters of its own line end only: with "\n", a file name with "\r" would be read as two lines.
    file = SimpleNamespace(write=lambda line: text.append(line.removesuffix("\r\n") + "\n"))
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows(lines)
    return "".join(text)


def escape_formula(value: Any) -> str:
    """Return a cell, with an apostrophe before it if a spreadsheet would run it as a formula; numbers stay."""
    text = str(value)
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def encode_csv(text: str) -> bytes:
    """Return text as UTF-8; names of files that are not valid UTF-8 become their original bytes."""
    return text.encode("utf-8", errors="surrogateescape")
