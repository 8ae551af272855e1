"""Read an input: a folder of images, a table, a text column of a table, or an array of features."""

import io
import os
import sys
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import polars
import polars.selectors
import scipy.sparse

from angpn.features import image_files, read_texts
from angpn.utils.array_files import ArrayArchive, ArrayHeader, read_header
from angpn.utils.memory import available_bytes

Kind = Literal["images", "text", "table", "array"]

TABLES = (".csv", ".tsv", ".parquet")
_ARRAYS = (".npy", ".npz")
_MATRIX_NAMES = ("X", "features", "embeddings", "data")
_SPARSE = {"csr": scipy.sparse.csr_array, "csc": scipy.sparse.csc_array, "bsr": scipy.sparse.bsr_array}
_SPARSE_PARTS = ("data", "indices", "indptr")
_COLUMN_BYTES = 32  # of sums and means over the columns


class Rows(NamedTuple):
    """The rows of an input.

    Attributes:
        kind: "images", "text", "table" or "array".
        ids: The id of each row.
        content: By kind: a list of paths, a list of texts, a polars frame of feature columns, or a matrix.
        labels: The label column, None where a row is unlabelled; or None where no column was named.
        thumbnails: A small image of each row as a data URI, for the report.
    """

    kind: Kind
    ids: list[str]
    content: Any
    labels: list[str | None] | None
    thumbnails: list[str] | None = None


def read_rows(
    path: str | os.PathLike[str],
    *,
    text: str | None = None,
    label_column: str | None = None,
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
    columns = {"--text": text, "--label-column": label_column, "--id-column": id_column, "--drop": drop or None}
    suffix = ".csv" if str(path) == "-" else path.suffix.lower()
    if str(path) == "-" or (suffix in TABLES and not path.is_dir()):
        as_text = [name for name in (text, label_column, id_column, *categorical) if name is not None]
        frame = _read_table(path, suffix, as_text)
        frame = frame.drop(name for name in ignore if name in frame.columns)
        return _table_rows(frame, path, text, label_column, id_column, drop)
    for option, value in columns.items():
        if value is not None:
            raise ValueError(f"{option} names a column of a table, got {path}, which is none; leave it out")
    if path.is_dir():
        files = image_files(path)
        return Rows("images", [file.relative_to(path).as_posix() for file in files], files, None)
    if not path.exists():
        raise FileNotFoundError(f"{path} must be a file or folder, got none there; check the name")
    if suffix in _ARRAYS:
        matrix = _read_array(path, suffix)
        return Rows("array", _row_numbers(matrix.shape[0]), matrix, None)
    if suffix == ".txt":
        texts = read_texts(path)
        return Rows("text", _row_numbers(len(texts)), texts, None)
    known = ", ".join((*TABLES, *_ARRAYS, ".txt"))
    raise ValueError(
        f"{path} must be a folder of images or a file named {known}, got {suffix or 'no'} suffix; rename it"
    )


def _table_rows(
    frame: polars.DataFrame,
    path: Path,
    text: str | None,
    label_column: str | None,
    id_column: str | None,
    drop: Sequence[str],
) -> Rows:
    if frame.height == 0 or frame.width == 0:
        raise ValueError(f"{path} must hold at least one row below its header, got none; name another file")
    for name in (text, label_column, id_column, *drop):
        if name is not None and name not in frame.columns:
            raise ValueError(f"{path} must have a column {name!r}, got {', '.join(map(repr, frame.columns))}")
    ids = _row_numbers(frame.height) if id_column is None else _ids(frame[id_column], path, id_column)
    labels = None if label_column is None else [_strip_label(label) for label in frame[label_column].to_list()]
    if text is not None:
        texts = ["" if value is None else value for value in frame[text].to_list()]
        return Rows("text", ids, texts, labels)
    rest = [name for name in frame.columns if name not in (label_column, id_column, *drop)]
    if not rest:
        raise ValueError(f"{path} must have a column of features, got none beside those named; drop fewer")
    if len(rest) == 1 and isinstance(frame.schema[rest[0]], polars.List | polars.Array):
        return Rows("array", ids, _vectors(frame[rest[0]], path), labels)
    return Rows("table", ids, frame.select(rest), labels)


def _vectors(column: polars.Series, path: Path) -> Any:  # (n, d)
    """Return a column of vectors, as embeddings are often stored, as a matrix."""
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
    try:
        if suffix == ".parquet":
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
    except (polars.exceptions.PolarsError, OSError, UnicodeDecodeError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ValueError(f"{path} must be a {suffix[1:]} file that can be read, got {reason}; repair it") from None


def _read_array(path: Path, suffix: str) -> Any:  # (n, d) dense or CSR
    try:
        with path.open("rb") as file:
            if suffix == ".npy":
                _check_matrix(read_header(file), path)
                return np.lib.format.open_memmap(path, mode="r")
            archive = ArrayArchive(file, path)
            if "indptr" in archive.headers:
                return _sparse_matrix(archive, path)
            (matrix,) = archive.read([_matrix_name(archive, path)])
            return matrix
    except (ValueError, OSError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        if str(error).startswith(f"{path} must"):
            raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{path} must be an array that numpy can read without pickle, got {reason}") from None


def _matrix_name(archive: ArrayArchive, path: Path) -> str:
    """Return the name of the only matrix of an .npz file, or of the one with a usual name among several."""
    matrices = [name for name, header in archive.headers.items() if len(header.shape) == 2]
    named = [name for name in _MATRIX_NAMES if name in matrices]
    if len(matrices) != 1 and not named:
        raise ValueError(
            f"{path} must hold one matrix, or one named {', '.join(_MATRIX_NAMES)}, got arrays "
            f"{', '.join(sorted(archive.headers)) or 'of no name'}; save the matrix alone"
        )
    name = named[0] if named else matrices[0]
    _check_matrix(archive.headers[name], path)
    return name


def _check_matrix(header: ArrayHeader, path: Path) -> None:
    if header.dtype.hasobject:
        raise ValueError(f"{path} must be an array that numpy can read without pickle, got objects; save numbers")
    if len(header.shape) != 2 or 0 in header.shape:
        raise ValueError(f"{path} must hold a matrix, rows by features, got shape {header.shape}; reshape it")
    if header.dtype.kind not in "fiub":
        raise ValueError(f"{path} must hold numbers, got {header.dtype}; save it as float32")


def _sparse_matrix(archive: ArrayArchive, path: Path) -> scipy.sparse.csr_array:
    """Return the matrix that ``scipy.sparse.save_npz`` wrote."""
    kind, shape = archive.read(["format", "shape"])
    name = kind.item().decode() if kind.dtype.kind == "S" else str(kind)
    if name not in _SPARSE:
        raise ValueError(f"{path} must hold a matrix as {', '.join(_SPARSE)}, got {name!r}; convert it by tocsr()")
    parts = archive.read(_SPARSE_PARTS, copies=1 if name == "csr" else 2)  # others are converted
    matrix = _SPARSE[name](tuple(parts), shape=tuple(shape.tolist()))
    matrix.check_format(full_check=True)  # compiled code will trust its indices
    _check_matrix(ArrayHeader(matrix.shape, matrix.dtype), path)
    needed, free = _COLUMN_BYTES * matrix.shape[1], available_bytes()
    if free is not None and needed > free:
        raise MemoryError(
            f"{path} must have columns of which one number each fits into memory, got {matrix.shape[1]}, which need "
            f"{needed / 1e9:.1f} GB where {free / 1e9:.1f} GB are free; leave out the empty ones"
        )
    return scipy.sparse.csr_array(matrix)


def _ids(column: polars.Series, path: Path, name: str) -> list[str]:
    ids = column.to_list()
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
