from . import extra_trees, linear_map, logistic_regression, rows, selection, sparse, temperature, threads

__all__ = ["extra_trees", "linear_map", "logistic_regression", "rows", "selection", "sparse", "temperature", "threads"]
