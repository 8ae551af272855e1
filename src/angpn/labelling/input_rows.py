"""Read an input: a folder of images, a table, a text column of a table, or an array of features."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import polars

from angpn.features.image_source import image_names
from angpn.features.number_text import Decimal
from angpn.features.text_files import read_texts
from angpn.labelling.array_input import ARRAYS, read_array
from angpn.labelling.columns_by_id import read_columns_by_id, take_columns
from angpn.labelling.table_file import TABLES, Table, read_table, table_suffix
from angpn.utils.memory import check_fits
from angpn.utils.text_encoding import decode_text

Kind = Literal["images", "text", "table", "array"]
COLUMNS = "columns"  # the part of the content that is columns beside texts or images

_OTHERS = {  # files that are not read, and what to do with them
    ".xls": "save it as .xlsx or .csv",
    ".ods": "save it as .xlsx or .csv",
    ".json": "write one object a line, as .jsonl",
}
_MOST_LISTED = 30  # columns in a message
_STRING_BYTES, _NUMBER_BYTES = 64, 40  # of a Python string beside its characters, and of a number in a list


class Rows(NamedTuple):
    """The rows of an input.

    Attributes:
        kind: "images", "text", "table" or "array".
        ids: The id of each row.
        content: By kind: a list of paths, a list of texts, a polars frame of feature columns, or a matrix.
        labels: The label column, None where a row is unlabelled; or None where no column was named.
        thumbnails: A small image of each row as a data URI, for the report.
        sources: The column of sources of the labels, or None where no column was named.
        notes: What is said of how the file was read, beside what its name says.
        decimal: The decimal sign that the file suggests, for numbers that can be read with either.
        columns: Feature columns of the same rows beside texts or images, a polars frame.
    """

    kind: Kind
    ids: list[str]
    content: Any
    labels: list[str | None] | None
    thumbnails: list[str] | None = None
    sources: list[str | None] | None = None
    notes: tuple[str, ...] = ()
    decimal: Decimal | None = None
    columns: Any = None

    @property
    def encoded_content(self) -> Any:
        """What an encoder makes features of: the content, or all parts of it by name."""
        return self.content if self.columns is None else {self.kind: self.content, COLUMNS: self.columns}

    def take_images(self, kept: Sequence[int]) -> "Rows":
        """Return some of the rows of a folder of images."""
        columns = None if self.columns is None else self.columns[kept]
        return self._replace(
            ids=[self.ids[row] for row in kept], content=[self.content[row] for row in kept], columns=columns
        )

    def take(self, kept: Sequence[int]) -> "Rows":
        """Return some of the rows, of any kind, without labels and thumbnails."""
        if self.kind in ("images", "text"):
            content: Any = [self.content[row] for row in kept]
        else:
            content = self.content[kept]
        columns = None if self.columns is None else self.columns[kept]
        return Rows(self.kind, [self.ids[row] for row in kept], content, None, decimal=self.decimal, columns=columns)


def read_rows(
    path: str | os.PathLike[str],
    *,
    text: str | None = None,
    label_column: str | None = None,
    source_column: str | None = None,
    id_column: str | None = None,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    ignore: Sequence[str] = (),
    columns: Sequence[str] = (),
    table: str | os.PathLike[str] | None = None,
) -> Rows:
    """Read the rows of a folder of images or of a file, whose kind follows from its suffix.

    The id of an image is its path below the folder. The id of any other row is its value in ``id_column``, or its
    number from 0.

    Args:
        path: A folder of images, a table (.csv, .tsv, .jsonl, .xlsx, .parquet, .arrow or .feather; text may be packed,
            as .csv.gz), a .npy or .npz array, or a .txt file with one text a line; ``-`` reads CSV from standard input.
        text: Column of the table that holds texts; the rows are then texts.
        label_column: Column of the table that holds the labels.
        source_column: Column of the table that says how the labelled rows were chosen.
        id_column: Column of the table that holds the ids.
        drop: Columns of the table to leave out.
        categorical: Columns of the table to read as text, so that codes such as 007 keep their zeros.
        ignore: Columns to leave out where the table has them.
        columns: Columns to take beside the texts, or of ``table``.
        table: Table with columns of the images of a folder, by their id.

    Returns:
        The rows.

    Raises:
        ValueError: If the input cannot be read or lacks a column; the message names the remedy.
        FileNotFoundError: If there is no such file or folder.
    """
    path = Path(path)
    named = {
        "--text": text,
        "--label-column": label_column,
        "--source-column": source_column,
        "--id-column": id_column,
        "--drop": drop or None,
        "--columns": columns or None,
    }
    suffix = table_suffix(path)
    if table is not None:
        if not path.is_dir():
            raise ValueError(f"--table is for columns of a folder of images, got {path}, which is none; leave it out")
        for option in ("--text", "--label-column", "--source-column"):
            if named[option] is not None:
                raise ValueError(
                    f"{option} must name a column of the input, got a folder of images; pass --labels FILE"
                )
        names = image_names(path)
        dropped = [*drop, *ignore]
        found = read_columns_by_id(
            table, names, id_column=id_column, columns=columns, drop=dropped, categorical=categorical
        )
        images = [path / name for name in names]
        return Rows("images", names, images, None, notes=found.notes, decimal=found.decimal, columns=found.frame)
    if columns and text is None and not path.is_dir():
        raise ValueError(
            "--columns is for columns beside --text, got no --text; leave it out, or drop others by --drop"
        )
    if suffix is not None and not path.is_dir():
        as_text = [name for name in (text, label_column, source_column, id_column, *categorical) if name is not None]
        read = read_table(path, suffix, as_text)
        read = read._replace(frame=read.frame.drop(name for name in ignore if name in read.frame.columns))
        return _table_rows(read, path, text, label_column, source_column, id_column, drop, columns)
    for option, value in named.items():
        if value is not None:
            raise ValueError(f"{option} names a column of a table, got {path}, which is none; leave it out")
    if path.is_dir():
        names = image_names(path)
        return Rows("images", names, [path / name for name in names], None)
    if not path.exists():
        raise FileNotFoundError(f"{path} must be a file or folder, got none there; check the name")
    suffix = path.suffix.lower()
    if suffix in ARRAYS:
        matrix = read_array(path)
        return Rows("array", _row_numbers(matrix.shape[0]), matrix, None)
    if suffix == ".txt":
        texts = read_texts(path, encoding=None)
        encoding = decode_text(path.read_bytes()).encoding
        notes = () if encoding == "UTF-8" else (f"encoded in {encoding}",)
        return Rows("text", _row_numbers(len(texts)), texts, None, notes=notes)
    known = ", ".join((*TABLES, *ARRAYS, ".txt"))
    raise ValueError(
        f"{path} must be a folder of images or a file named {known}, got {suffix or 'no'} suffix; "
        + _OTHERS.get(suffix, "rename it")
    )


def _table_rows(
    table: Table,
    path: Path,
    text: str | None,
    label_column: str | None,
    source_column: str | None,
    id_column: str | None,
    drop: Sequence[str],
    columns: Sequence[str],
) -> Rows:
    frame = table.frame
    if frame.height == 0 or frame.width == 0:
        raise ValueError(f"{path} must hold at least one row below its header, got none; name another file")
    for name in (text, label_column, source_column, id_column, *drop):
        if name is not None and name not in frame.columns:
            raise ValueError(f"{path} must have a column {name!r}, got {_listed(frame.columns)}{_as_read(table)}")
    ids = _row_numbers(frame.height) if id_column is None else _ids(frame[id_column], path, id_column)
    labels = None if label_column is None else [_strip_label(label) for label in _strings(frame[label_column], path)]
    sources = None if source_column is None else _strings(frame[source_column], path)
    if text is not None:
        texts = ["" if value is None else value for value in _strings(frame[text], path)]
        others = [name for name in (text, label_column, source_column, id_column) if name is not None]
        beside = take_columns(frame.drop(others), path, columns) if columns else None
        decimal = table.decimal if columns else None
        return Rows("text", ids, texts, labels, sources=sources, notes=table.notes, decimal=decimal, columns=beside)
    rest = [name for name in frame.columns if name not in (label_column, source_column, id_column, *drop)]
    if not rest:
        raise ValueError(f"{path} must have a column of features, got none beside those named; drop fewer")
    if len(rest) == 1 and isinstance(frame.schema[rest[0]], polars.List | polars.Array):
        return Rows("array", ids, _vectors(frame[rest[0]], path), labels, sources=sources, notes=table.notes)
    content = frame.select(rest)
    return Rows("table", ids, content, labels, sources=sources, notes=table.notes, decimal=table.decimal)


def _listed(columns: Sequence[str]) -> str:
    more = f" and {len(columns) - _MOST_LISTED} more" if len(columns) > _MOST_LISTED else ""
    return ", ".join(map(repr, columns[:_MOST_LISTED])) + more


def _as_read(table: Table) -> str:
    """Return how the file was read, for an error about its columns."""
    return f"; it was read as {', '.join(table.notes)}" if table.notes else "; correct the name"


def _vectors(column: polars.Series, path: Path) -> Any:  # (n, d)
    """Return a column of vectors, as embeddings are often stored, as a matrix."""
    check_fits(_NUMBER_BYTES * len(column.explode()), path, "save the vectors as a matrix, .npy")
    vectors = [vector or [] for vector in column.to_list()]
    lengths = {len(vector) for vector in vectors}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(
            f"{path} must hold vectors of one length in {column.name!r}, got {min(lengths)} to {max(lengths)} numbers"
        )
    try:
        return np.array(vectors, dtype=np.float32)
    except (TypeError, ValueError):
        raise ValueError(f"{path} must hold vectors of numbers in {column.name!r}, got {column.dtype}") from None


def _strings(column: polars.Series, path: Path) -> list[Any]:
    """Return a column of texts, which may be packed as one text and how often it comes."""
    length = column.str.len_bytes().sum() or 0
    check_fits(int(length) + _STRING_BYTES * len(column), path, f"shorten the texts of {column.name!r}")
    return column.to_list()


def _ids(column: polars.Series, path: Path, name: str) -> list[str]:
    ids = _strings(column, path)
    if None in ids:
        raise ValueError(f"{path} must have an id in every row of {name!r}, got none in row {ids.index(None)}; fill it")
    check_unique(ids, f"column {name!r} of {path}")
    return ids


def check_unique(ids: Sequence[str], where: str) -> None:
    """Raise ValueError if an id occurs twice."""
    duplicates = [value for value, count in Counter(ids).items() if count > 1]
    if duplicates:
        more = f" and {len(duplicates) - 1} more" if len(duplicates) > 1 else ""
        raise ValueError(f"{where} must name each row once, got {duplicates[0]!r}{more} twice; remove the duplicates")


def _strip_label(label: str | None) -> str | None:
    label = "" if label is None else label.strip()
    return label or None


def _row_numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]
