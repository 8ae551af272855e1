"""Read a matrix from an .npy or .npz file, dense or sparse, after a look at its header."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from angpn.utils.array_files import ArrayArchive, ArrayHeader, read_header
from angpn.utils.memory import check_fits

ARRAYS = (".npy", ".npz")
_MATRIX_NAMES = ("X", "features", "embeddings", "data")
_SPARSE = {"csr": scipy.sparse.csr_array, "csc": scipy.sparse.csc_array, "bsr": scipy.sparse.bsr_array}
_SPARSE_PARTS = ("data", "indices", "indptr")
_COLUMN_BYTES = 32  # of sums and means over the columns


def read_array(path: Path) -> Any:  # (n, d) dense or CSR
    """Read the matrix of an .npy or .npz file: mapped, or the one that is wanted of several, if it fits into memory.

    Raises:
        ValueError: If there is no matrix of numbers.
        MemoryError: If it does not fit.
    """
    try:
        with path.open("rb") as file:
            if path.suffix.lower() == ".npy":
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
    if shape.dtype.kind not in "iu" or shape.shape != (2,):
        raise ValueError(
            f"{path} must hold the shape of a matrix, got {shape.dtype} of shape {shape.shape}; save it anew"
        )
    parts = archive.read(_SPARSE_PARTS, copies=1 if name == "csr" else 2)  # others are converted
    matrix = _SPARSE[name](tuple(parts), shape=tuple(shape.tolist()))
    matrix.check_format(full_check=True)  # compiled code will trust its indices
    _check_matrix(ArrayHeader(matrix.shape, matrix.dtype), path)
    check_fits(_COLUMN_BYTES * matrix.shape[1], path, f"leave out empty ones of the {matrix.shape[1]} columns")
    return scipy.sparse.csr_array(matrix)
