"""Labels as files: CSV as ``angpn label`` reads it, Label Studio's JSON, JSON lines, and Parquet."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars

from angpn.labelling.input_rows import Rows
from angpn.labelling.predictions import csv_text, encode_csv
from angpn.utils.files import replacing

LABELS_CSV, LABELS_JSON, LABELS_JSONL, LABELS_PARQUET = (f"labels.{end}" for end in ("csv", "json", "jsonl", "parquet"))
SOURCE_OTHER = "other"  # the source of a line without a label: the row belongs to none of the classes


class RowLabel(NamedTuple):
    """What a person said of a row.

    Attributes:
        row: Its number.
        label: The name of its class, or None where it belongs to none.
        source: How it was chosen.
        user: Who labelled it, where it was one person.
    """

    row: int
    label: str | None
    source: str
    user: str


def write_labels(labels: Sequence[RowLabel], rows: Rows, folder: Path) -> list[str]:
    """Write the labels in all formats, each file as a whole.

    Args:
        labels: The labels.
        rows: The rows.
        folder: Where to.

    Returns:
        The names of the files.
    """
    writers: dict[str, Callable[[Path], object]] = {
        LABELS_CSV: lambda path: path.write_bytes(encode_csv(_csv(labels, rows))),
        LABELS_JSON: lambda path: path.write_text(json.dumps([_task(one, rows) for one in labels], indent=1)),
        LABELS_JSONL: lambda path: path.write_text("".join(json.dumps(_line(one, rows)) + "\n" for one in labels)),
        LABELS_PARQUET: lambda path: _frame(labels, rows).write_parquet(path),
    }
    for name, write in writers.items():
        with replacing(folder / name) as temporary:
            write(temporary)
    return [*writers]


def _csv(labels: Sequence[RowLabel], rows: Rows) -> str:
    return csv_text(
        ("id", "label", "source"),
        ((rows.ids[one.row], one.label or "", _source(one)) for one in labels),
    )


def _source(one: RowLabel) -> str:
    return SOURCE_OTHER if one.label is None else one.source


def _task(one: RowLabel, rows: Rows) -> dict[str, Any]:
    """Return a task of Label Studio with a choice; none is chosen for a row that belongs to no class."""
    choice = {"from_name": "label", "to_name": "row", "type": "choices"}
    result = [] if one.label is None else [{**choice, "value": {"choices": [one.label]}}]
    return {
        "id": one.row + 1,
        "data": {"id": rows.ids[one.row], **_content(one.row, rows)},
        "annotations": [{"completed_by": {"email": one.user}, "was_cancelled": False, "result": result}],
        "meta": {"source": _source(one)},
    }


def _line(one: RowLabel, rows: Rows) -> dict[str, Any]:
    """Return a line as Prodigy writes it for a choice among classes."""
    return {
        "id": rows.ids[one.row],
        **_content(one.row, rows),
        "accept": [] if one.label is None else [one.label],
        "answer": "accept",
        "meta": {"source": _source(one), "user": one.user},
    }


def _content(row: int, rows: Rows) -> dict[str, Any]:
    if rows.kind == "images":
        return {"image": rows.ids[row]}
    if rows.kind == "text":
        return {"text": rows.content[row]}
    if rows.kind == "table":
        return {name: value if isinstance(value, int | str) else str(value) for name, value in _cells(row, rows)}
    return {}


def _cells(row: int, rows: Rows) -> list[tuple[str, Any]]:
    cells = zip(rows.content.columns, rows.content.row(row), strict=True)
    return [(name, value) for name, value in cells if value is not None and name != "id"]


def _frame(labels: Sequence[RowLabel], rows: Rows) -> polars.DataFrame:
    names = [rows.ids[one.row].encode("utf-8", "surrogateescape").decode("utf-8", "replace") for one in labels]
    return polars.DataFrame(
        {"id": names, "label": [one.label for one in labels], "source": [_source(one) for one in labels]},
        schema={"id": polars.String, "label": polars.String, "source": polars.String},
    )
