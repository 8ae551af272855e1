"""Tables as users pass them, as a polars frame."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars


def as_frame(table: Any) -> polars.DataFrame:
    """Return a table of polars or pandas, columns by name, or a matrix as a polars frame.

    Args:
        table: The table; a matrix has columns x0, x1 and so on.

    Returns:
        The frame.

    Raises:
        ValueError: If it is none of these, or has no rows or no columns.
    """
    if isinstance(table, polars.DataFrame):
        frame = table
    elif hasattr(table, "iloc") and hasattr(table, "columns"):
        frame = polars.DataFrame([_from_pandas(str(name), table.iloc[:, i]) for i, name in enumerate(table.columns)])
    elif isinstance(table, Mapping):
        frame = polars.DataFrame([_from_values(str(name), np.asarray(values)) for name, values in table.items()])
    else:
        matrix = np.asarray(table)
        if matrix.ndim != 2:
            raise ValueError(
                f"a table must be a frame of polars or pandas, columns by name or a matrix, got "
                f"{type(table).__name__} of shape {matrix.shape}; convert it"
            )
        frame = polars.DataFrame([_from_values(f"x{place}", matrix[:, place]) for place in range(matrix.shape[1])])
    if frame.height == 0 or frame.width == 0:
        raise ValueError(f"a table must have rows and columns, got {frame.height} and {frame.width}; pass some")
    return frame


def _from_pandas(name: str, column: Any) -> polars.Series:
    if hasattr(column.dtype, "numpy_dtype") and column.dtype.kind in "iuf":  # a number or a missing one
        return _from_values(name, column.to_numpy(dtype=np.float64, na_value=np.nan))
    if getattr(column.dtype, "tz", None) is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    return _from_values(name, column.to_numpy())


def _from_values(name: str, values: Any) -> polars.Series:
    """Return a column; values of several types become texts, and what pandas holds for a missing one null."""
    if values.dtype.kind in "iufb":
        return polars.Series(name, values)
    if values.dtype.kind == "M":
        return polars.Series(name, values.astype("datetime64[us]"))
    if values.dtype.kind == "m":
        return polars.Series(name, values.astype("timedelta64[us]"))
    texts = [None if _is_nothing(value) else str(value) for value in values.tolist()]
    return polars.Series(name, texts, dtype=polars.String)


def _is_nothing(value: Any) -> bool:
    """Tell whether this is None, NaN, NaT or pandas.NA, which differ from themselves or cannot be compared."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:
        return True
