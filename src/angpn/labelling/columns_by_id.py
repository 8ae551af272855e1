"""Columns of a table that belong to rows of another kind: those beside texts, or those of images, by their id."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import polars

from angpn.features.number_text import Decimal
from angpn.labelling.table_file import TABLES, read_table, table_suffix

ID = "id"  # the column of ids where none is named


class Columns(NamedTuple):
    """Feature columns of rows of another kind.

    Attributes:
        frame: A row for each.
        decimal: The decimal sign that the file suggests.
        notes: What is said of how the file was read.
    """

    frame: polars.DataFrame
    decimal: Decimal | None
    notes: tuple[str, ...]


def read_columns_by_id(
    path: str | os.PathLike[str],
    ids: Sequence[str],
    *,
    id_column: str | None = None,
    columns: Sequence[str] = (),
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
) -> Columns:
    """Read the columns of a table for rows that are named by its ids.

    Args:
        path: The table.
        ids: The ids of the rows; other rows of the table are left out.
        id_column: Its column of ids, ``id`` where that is None.
        columns: Which of the other columns to take, none for all.
        drop: Columns to leave out.
        categorical: Columns to read as text.

    Returns:
        The columns, in the order of the ids.

    Raises:
        ValueError: If the file is no table, lacks a column or a row, or names a row twice.
        FileNotFoundError: If there is no such file.
    """
    path = Path(path)
    suffix = table_suffix(path)
    if suffix is None:
        raise ValueError(f"--table must be a table named {', '.join(TABLES)}, got {path}; rename it")
    name = ID if id_column is None else id_column
    table = read_table(path, suffix, [name, *categorical])
    frame = table.frame
    if name not in frame.columns:
        raise ValueError(f"{path} must have a column {name!r} with the ids of the images, got none; pass --id-column")
    places: dict[str | None, int] = {}
    for place, value in enumerate(frame[name].to_list()):
        if places.setdefault(value, place) != place:
            raise ValueError(f"{path} must name each image once, got {value!r} twice; remove the duplicates")
    missing = [one for one in ids if one not in places]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(
            f"{path} must have a row for each image, got none for {missing[0]!r}{more}; add them: an id is the path "
            "below the folder"
        )
    chosen = take_columns(frame.drop(name), path, columns, drop)
    unused = len(places) - len(ids)
    notes = (*table.notes, f"{unused} rows of {path.name} without an image") if unused else table.notes
    return Columns(chosen[[places[one] for one in ids]], table.decimal, notes)


def take_columns(
    frame: polars.DataFrame, path: Path, columns: Sequence[str], drop: Sequence[str] = ()
) -> polars.DataFrame:
    """Return some columns of a table, all where none is named, without those that are dropped.

    Raises:
        ValueError: If there is no such column, or none is left.
    """
    for name in (*columns, *drop):
        if name not in frame.columns:
            raise ValueError(
                f"{path} must have a column {name!r} beside those of ids, labels and texts, got none there"
            )
    left = [name for name in columns or frame.columns if name not in drop]
    if not left:
        raise ValueError(f"{path} must have a column of features, got none beside those named; drop fewer")
    return frame.select(left)
