from . import (
    extra_trees,
    grouped_rows,
    linear_map,
    logistic_regression,
    rows,
    selection,
    sparse,
    startup,
    temperature,
    threads,
)

__all__ = [
    "extra_trees",
    "grouped_rows",
    "linear_map",
    "logistic_regression",
    "rows",
    "selection",
    "sparse",
    "startup",
    "temperature",
    "threads",
]
