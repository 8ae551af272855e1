"""Predictions as CSV."""

import csv
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

_HEADER = ("id", "label", "confidence", "second", "source")


def predictions_csv(lines: Iterable[tuple[str, Any, float, Any, str]]) -> str:
    """Return CSV lines with the header ``id,label,confidence,second,source``.

    Args:
        lines: Id, label, confidence, second label and source of each row.

    Returns:
        The lines, each with a newline.
    """
    text: list[str] = []
    # csv quotes the characters of its own line end only: with "\n", a file name with "\r" would be read as two lines.
    file = SimpleNamespace(write=lambda line: text.append(line.removesuffix("\r\n") + "\n"))
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(_HEADER)
    writer.writerows(
        (name, label, f"{confidence:.4f}", second, source) for name, label, confidence, second, source in lines
    )
    return "".join(text)


def encode_csv(text: str) -> bytes:
    """Return text as UTF-8; names of files that are not valid UTF-8 become their original bytes."""
    return text.encode("utf-8", errors="surrogateescape")
