"""Labels of some rows, from a CSV file of their own, and how these rows were chosen."""

import csv
import io
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from angpn.labelling.input_rows import check_unique
from angpn.labelling.text_table import find_separator
from angpn.utils.text_encoding import decode_text
from angpn.utils.typing import Array

RANDOM, SUGGESTED = "random", "suggested"  # sources of a label: how its row was chosen
_ZIP = b"PK\x03\x04"
_SAMPLE = 2**16  # characters that show how cells are separated
DRAWN_AT_RANDOM = "drawn at random"  # the reason of such a suggestion
_OF_PREDICTIONS = {"given", "predicted", "empty"}  # what the column source of predictions.csv says


class RowLabels(NamedTuple):
    """The labels of rows, from a file, a column or clusters.

    Attributes:
        labels: The label, None where there is none.
        sources: How the labelled row was chosen, "" where that is not said; None where nothing says so.
    """

    labels: list[str | None]
    sources: Sequence[str | None] | None


def read_labels(path: str | os.PathLike[str], ids: Sequence[str]) -> RowLabels:
    """Read a CSV file with the header ``id,label``, ``id,label,source`` or that of suggestions.

    An empty label is none. Rows that were suggested are no random sample, unless their reason says so.

    Args:
        path: The file.
        ids: The ids of the input, in the order of the result.

    Returns:
        The label of each id, and its source.

    Raises:
        ValueError: If the file cannot be read, lacks the header, repeats an id or names one that is not in ``ids``.
    """
    path = Path(path)
    known = set(ids)
    lines = read_csv_lines(path, "labels", ("id", "label"), "label a few rows", known)
    written = [line["id"] or "" for line in lines]
    named = [name if name in known else name.strip() for name in written]
    check_unique(named, str(path))
    check_known(named, ids, path, "correct these ids")
    labels = dict(zip(named, ((line["label"] or "").strip() or None for line in lines), strict=True))
    has_sources = "source" in lines[0] or "suggestion" in lines[0]
    sources = dict(zip(named, map(_source, lines), strict=True))
    return RowLabels(
        [labels.get(name) for name in ids], [sources.get(name, "") for name in ids] if has_sources else None
    )


def _source(line: Mapping[str, str | None]) -> str:
    """Return how the row of a line was chosen."""
    if "suggestion" in line:
        return RANDOM if line.get("reason") == DRAWN_AT_RANDOM else SUGGESTED
    return (line.get("source") or "").strip()


def read_label_files(paths: Sequence[str | os.PathLike[str]], ids: Sequence[str]) -> RowLabels:
    """Read several files of labels; where two have a label of one row, that of the later one counts.

    Args:
        paths: The files.
        ids: The ids of the input, in the order of the result.

    Returns:
        The label of each id, and its source.

    Raises:
        ValueError: If a file cannot be used, see :func:`read_labels`.
    """
    labels: list[str | None] = [None] * len(ids)
    sources, named = [""] * len(ids), False
    for path in paths:
        found = read_labels(path, ids)
        named = named or found.sources is not None
        for row, label in enumerate(found.labels):
            if label is not None:
                labels[row], sources[row] = label, (found.sources[row] or "") if found.sources is not None else ""
    return RowLabels(labels, sources if named else None)


def read_csv_lines(
    path: Path, content: str, header: Sequence[str], remedy: str, known: Collection[str] = ()
) -> list[dict[str, str | None]]:
    """Read the lines of a CSV file that has some columns, with any usual separator and encoding.

    Bytes that are not UTF-8 are kept as they are where they are part of an id, as in the name of a file.

    Args:
        path: The file.
        content: What it holds, for an error.
        header: The columns that it must have.
        remedy: What to do about a file without lines.
        known: The ids of the input.

    Returns:
        Each line by the names of its columns.

    Raises:
        ValueError: If the file cannot be read, has no lines or lacks a column.
    """
    try:
        packed = path.read_bytes()
        if packed.startswith(_ZIP):
            raise ValueError(f"{path} must be a CSV file, got a packed one, such as an Excel workbook; save it as CSV")
        lines = parse_csv(packed.decode("utf-8-sig", errors="surrogateescape"))
        decoded = decode_text(packed)
        if decoded.encoding != "UTF-8" and not any(_has_bytes(line.get(header[0]), known) for line in lines):
            lines = parse_csv(decoded.text)
    except OSError as error:
        raise ValueError(f"{path} must be a file of {content} that can be read, got {error.strerror}") from None
    except csv.Error as error:
        raise ValueError(f"{path} must be a CSV file, got {error}; save it as that") from None
    columns = ",".join(header)
    if not lines:
        raise ValueError(f"{path} must hold a header {columns} and a line for each {header[-1]}, got no line; {remedy}")
    if not set(header) <= lines[0].keys():
        found = ",".join(str(name) for name in lines[0])
        raise ValueError(f"{path} must begin with the header {columns}, got {found}; correct it")
    return lines


def parse_csv(text: str) -> list[dict[str, str | None]]:
    """Return the lines of a text with any usual separator, each by the names of its columns."""
    separator = find_separator(text[:_SAMPLE], ",")
    return list(csv.DictReader(io.StringIO(text, newline=""), delimiter=separator))


def _has_bytes(name: str | None, known: Collection[str]) -> bool:
    """Tell whether this is an id of the input with bytes that are not UTF-8, which surrogates stand for."""
    return name is not None and name in known and any("\udc80" <= character <= "\udcff" for character in name)


def check_known(named: Sequence[str], ids: Sequence[str], path: Path, remedy: str) -> None:
    """Raise ValueError if a file names an id that the input does not have."""
    known = set(ids)
    unknown = [name for name in named if name not in known]
    if unknown:
        others = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        raise ValueError(
            f"{path} must name ids of the input, such as {ids[0]!r}, got {unknown[0]!r}{others} that it does not have; "
            f"{remedy}"
        )


def drawn_at_random(labels: Sequence[str | None], sources: Sequence[str | None] | None) -> Array | None:  # (n,) bool
    """Tell which labelled rows were drawn at random by the sources of their labels; None where these do not say.

    Any word but ``random`` is another source, and so is none. A file of predictions says instead which labels were
    given: if it serves as a file of labels, nothing is known of how rows were chosen.
    """
    if sources is None:
        return None
    pairs = zip(labels, sources, strict=True)
    words = ["" if label is None or source is None else source.strip().casefold() for label, source in pairs]
    named = set(words) - {""}
    return None if named and named <= _OF_PREDICTIONS else np.array([word == RANDOM for word in words], dtype=bool)
