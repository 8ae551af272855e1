"""Tables in text: CSV with any usual separator and encoding, and JSON lines."""

import csv
import io
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import msgspec
import polars

from angpn.utils.memory import check_fits
from angpn.utils.text_encoding import decode_text

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_SAMPLE = 2**16  # characters that show how lines are separated
_SAMPLE_LINES = 50
_CELL_BYTES = 16  # of an empty one, in a frame


class TextTable(NamedTuple):
    """A table, and what is said of how it was read."""

    frame: polars.DataFrame
    notes: list[str]
    separator: str | None = None


def read_separated(content: bytes, path: Path, usual: str) -> TextTable:
    """Read text with a separator between cells, all of them as texts.

    Args:
        content: The text.
        path: Its name, for errors.
        usual: The separator where the first lines do not show another.

    Returns:
        The table; its notes name separator and encoding where they are not the usual ones.
    """
    text, encoding = decode_text(content)
    separator = find_separator(text[:_SAMPLE], usual)
    n_columns = text[:_SAMPLE].partition("\n")[0].count(separator) + 1
    check_fits(_CELL_BYTES * n_columns * (text.count("\n") + 1), path, "take fewer columns or rows")
    notes = [] if separator == usual else [f"separated by {SEPARATORS[separator]}"]
    notes += [] if encoding == "UTF-8" else [f"encoded in {encoding}"]
    if encoding != "UTF-8":
        content = text.encode("utf-8", errors="replace")
    return TextTable(polars.read_csv(io.BytesIO(content), separator=separator, infer_schema=False), notes, separator)


def find_separator(sample: str, usual: str) -> str:
    """Return what separates the cells of the first lines: what divides the header into most cells, and others alike.

    Args:
        sample: The first lines.
        usual: What it is where nothing divides them better.

    Returns:
        One of :data:`SEPARATORS`.
    """
    best, most = usual, 1
    for separator in (usual, *(other for other in SEPARATORS if other != usual)):
        try:
            lines = [line for line in csv.reader(io.StringIO(sample, newline=""), delimiter=separator) if line]
        except csv.Error:
            continue
        lines = lines[:_SAMPLE_LINES]
        if not lines:
            continue
        usual_count, n_alike = Counter(map(len, lines)).most_common(1)[0]
        if len(lines[0]) > most and usual_count == len(lines[0]) and 2 * n_alike > len(lines):
            best, most = separator, len(lines[0])
    return best


def read_json_lines(content: bytes, path: Path) -> TextTable:
    """Read one JSON object a line, as a row each; a name that a line lacks is a missing value.

    Args:
        content: The text.
        path: Its name, for errors.

    Returns:
        The table.

    Raises:
        ValueError: If a line is no JSON object.
    """
    text, encoding = decode_text(content)
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    names: dict[str, None] = {}
    for number, line in lines:
        try:
            found = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ValueError(
                f"{path} must hold one JSON object a line, got {error} in line {number}; repair it"
            ) from None
        if not isinstance(found, dict):
            raise ValueError(
                f"{path} must hold one JSON object a line, got {type(found).__name__} in line {number}; repair it"
            )
        names.update(dict.fromkeys(found))
    check_fits(_CELL_BYTES * len(names) * len(lines), path, "take fewer columns or rows")
    content = "\n".join(line for _, line in lines).encode()
    frame = polars.read_ndjson(io.BytesIO(content), infer_schema_length=None) if lines else polars.DataFrame()
    return TextTable(frame, [] if encoding == "UTF-8" else [f"encoded in {encoding}"])
