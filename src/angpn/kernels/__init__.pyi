from . import linear_map, logistic_regression, rows, selection, sparse, threads

__all__ = ["linear_map", "logistic_regression", "rows", "selection", "sparse", "threads"]
