"""Read an input: a folder of images, a table, a text column of a table, or an array of features."""

import io
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import polars
import polars.selectors

from angpn.features import image_files, read_texts
from angpn.labelling.array_input import ARRAYS, read_array
from angpn.utils.memory import check_fits
from angpn.utils.parquet_footer import unpacked_bytes

Kind = Literal["images", "text", "table", "array"]

TABLES = (".csv", ".tsv", ".parquet")
_PACKED = {"gzip": (b"\x1f\x8b",), "zlib": (b"\x78\x01", b"\x78\x9c", b"\x78\xda"), "zstd": (b"\x28\xb5\x2f\xfd",)}
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
    """

    kind: Kind
    ids: list[str]
    content: Any
    labels: list[str | None] | None
    thumbnails: list[str] | None = None
    sources: list[str | None] | None = None

    def take_images(self, kept: Sequence[int]) -> "Rows":
        """Return some of the rows of a folder of images."""
        return self._replace(ids=[self.ids[row] for row in kept], content=[self.content[row] for row in kept])


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
) -> Rows:
    """Read the rows of a folder of images or of a file, whose kind follows from its suffix.

    The id of an image is its path below the folder. The id of any other row is its value in ``id_column``, or its
    number from 0.

    Args:
        path: A folder of images, a .csv, .tsv or .parquet table, a .npy or .npz array, or a .txt file with one text a
            line; ``-`` reads CSV from standard input.
        text: Column of the table that holds texts; the rows are then texts.
        label_column: Column of the table that holds the labels.
        source_column: Column of the table that says how the labelled rows were chosen.
        id_column: Column of the table that holds the ids.
        drop: Columns of the table to leave out.
        categorical: Columns of the table to read as text, so that codes such as 007 keep their zeros.
        ignore: Columns to leave out where the table has them.

    Returns:
        The rows.

    Raises:
        ValueError: If the input cannot be read or lacks a column; the message names the remedy.
        FileNotFoundError: If there is no such file or folder.
    """
    path = Path(path)
    columns = {
        "--text": text,
        "--label-column": label_column,
        "--source-column": source_column,
        "--id-column": id_column,
        "--drop": drop or None,
    }
    suffix = ".csv" if str(path) == "-" else path.suffix.lower()
    if str(path) == "-" or (suffix in TABLES and not path.is_dir()):
        as_text = [name for name in (text, label_column, source_column, id_column, *categorical) if name is not None]
        frame = _read_table(path, suffix, as_text)
        frame = frame.drop(name for name in ignore if name in frame.columns)
        return _table_rows(frame, path, text, label_column, source_column, id_column, drop)
    for option, value in columns.items():
        if value is not None:
            raise ValueError(f"{option} names a column of a table, got {path}, which is none; leave it out")
    if path.is_dir():
        files = image_files(path)
        return Rows("images", [file.relative_to(path).as_posix() for file in files], files, None)
    if not path.exists():
        raise FileNotFoundError(f"{path} must be a file or folder, got none there; check the name")
    if suffix in ARRAYS:
        matrix = read_array(path)
        return Rows("array", _row_numbers(matrix.shape[0]), matrix, None)
    if suffix == ".txt":
        texts = read_texts(path)
        return Rows("text", _row_numbers(len(texts)), texts, None)
    known = ", ".join((*TABLES, *ARRAYS, ".txt"))
    raise ValueError(
        f"{path} must be a folder of images or a file named {known}, got {suffix or 'no'} suffix; rename it"
    )


def _table_rows(
    frame: polars.DataFrame,
    path: Path,
    text: str | None,
    label_column: str | None,
    source_column: str | None,
    id_column: str | None,
    drop: Sequence[str],
) -> Rows:
    if frame.height == 0 or frame.width == 0:
        raise ValueError(f"{path} must hold at least one row below its header, got none; name another file")
    for name in (text, label_column, source_column, id_column, *drop):
        if name is not None and name not in frame.columns:
            raise ValueError(f"{path} must have a column {name!r}, got {', '.join(map(repr, frame.columns))}")
    ids = _row_numbers(frame.height) if id_column is None else _ids(frame[id_column], path, id_column)
    labels = None if label_column is None else [_strip_label(label) for label in _strings(frame[label_column], path)]
    sources = None if source_column is None else _strings(frame[source_column], path)
    if text is not None:
        texts = ["" if value is None else value for value in _strings(frame[text], path)]
        return Rows("text", ids, texts, labels, sources=sources)
    rest = [name for name in frame.columns if name not in (label_column, source_column, id_column, *drop)]
    if not rest:
        raise ValueError(f"{path} must have a column of features, got none beside those named; drop fewer")
    if len(rest) == 1 and isinstance(frame.schema[rest[0]], polars.List | polars.Array):
        return Rows("array", ids, _vectors(frame[rest[0]], path), labels, sources=sources)
    return Rows("table", ids, frame.select(rest), labels, sources=sources)


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


def _read_table(path: Path, suffix: str, as_text: Sequence[str]) -> polars.DataFrame:
    """Read a table, the columns ``as_text`` as strings."""
    if str(path) == "-":
        source: Any = io.BytesIO(sys.stdin.buffer.read())
    elif not path.exists():
        raise FileNotFoundError(f"{path} must be a file, got none there; check the name")
    else:
        source = path
    _check_not_packed(source, path, suffix)
    try:
        if suffix == ".parquet":
            check_fits(unpacked_bytes(path), path, "take fewer columns or rows")
            frame = polars.read_parquet(source).with_columns(polars.selectors.float().fill_nan(None))
            return frame.with_columns(polars.col(name).cast(polars.String) for name in as_text if name in frame.columns)
        separator = "\t" if suffix == ".tsv" else ","
        return polars.read_csv(
            source,
            separator=separator,
            infer_schema_length=None,
            schema_overrides={name: polars.String for name in as_text},
        )
    except polars.exceptions.NoDataError:
        raise ValueError(f"{path} must hold a header and rows, got an empty file; name another file") from None
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ValueError(f"{path} must be a {suffix[1:]} file that can be read, got {reason}; repair it") from None


def _check_not_packed(source: Any, path: Path, suffix: str) -> None:
    """Refuse packed text, which polars would unpack whatever its size."""
    if suffix == ".parquet":
        return
    if isinstance(source, Path):
        with path.open("rb") as file:
            head = file.read(4)
    else:
        head = source.getvalue()[:4]
    for kind, marks in _PACKED.items():
        if head.startswith(marks):
            raise ValueError(f"{path} must be plain text, got text packed by {kind}; unpack it")


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
