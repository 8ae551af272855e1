"""Means, ranks and significance tests of the results."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy.stats

from angpn.experiments.results import Record

Condition = tuple[str, int]  # data set, and label rate or number of labels


class Cell(NamedTuple):
    """Accuracy of a method under one condition, over the splits, in per cent."""

    mean: float
    std: float  # sample standard deviation; 0 where there is one split
    accuracies: dict[int, float]  # by split


Grid = Mapping[str, Mapping[Condition, Cell]]  # by method


def cells(records: Iterable[Record], measure: str = "test_accuracy") -> dict[str, dict[Condition, Cell]]:
    """Return the accuracies, or another measure, by method and condition, without failed runs."""
    accuracies: dict[str, dict[Condition, dict[int, float]]] = {}
    for record in records:
        if record["error"] is None:
            by_condition = accuracies.setdefault(record["method"], {})
            by_condition.setdefault((record["dataset"], record["rate"]), {})[record["split"]] = record[measure]
    return {
        method: {condition: _cell(by_split) for condition, by_split in by_condition.items()}
        for method, by_condition in accuracies.items()
    }


def _cell(accuracies: dict[int, float]) -> Cell:
    values = np.array(list(accuracies.values()))
    return Cell(float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0, accuracies)


def average_ranks(grid: Grid, methods: Sequence[str]) -> dict[str, float]:
    """Return the mean rank of each method over the conditions that all of them have; 1 is best, ties share a rank."""
    conditions = common_conditions(grid, methods)
    if not conditions:
        return {}
    means = np.array([[grid[method][condition].mean for method in methods] for condition in conditions])
    return dict(zip(methods, scipy.stats.rankdata(-means, axis=1).mean(axis=0).tolist(), strict=True))


def common_conditions(grid: Grid, methods: Sequence[str]) -> list[Condition]:
    """Return the conditions under which all these methods have a result."""
    return [condition for condition in grid[methods[0]] if all(condition in grid[method] for method in methods)]


def wilcoxon_over_conditions(
    first: Mapping[Condition, Cell], second: Mapping[Condition, Cell]
) -> float | None:  # None below six conditions: no p could be small
    """Return the two-sided p of Wilcoxon's signed-rank test on the means of two methods (Demsar 2006)."""
    conditions = [condition for condition in first if condition in second]
    differences = [first[condition].mean - second[condition].mean for condition in conditions]
    if len(conditions) < 6 or not any(differences):
        return None
    return float(scipy.stats.wilcoxon(differences).pvalue)


def corrected_t(first: Cell, second: Cell, rate: int) -> float | None:
    """Return the two-sided p of the corrected resampled t-test on shared splits (Nadeau, Bengio 2003).

    The variance of the mean difference is that of one split times 1/J + n_test/n_training, not times 1/J, because the
    splits draw from the same rows. With few labels the test is conservative.
    """
    splits = [split for split in first.accuracies if split in second.accuracies]
    differences = np.array([first.accuracies[split] - second.accuracies[split] for split in splits])
    if len(differences) < 2 or differences.std() == 0:
        return None
    test = 100 - rate - 5
    standard_error = np.sqrt((1 / len(differences) + test / rate) * differences.var(ddof=1))
    return float(2 * scipy.stats.t.sf(abs(differences.mean() / standard_error), len(differences) - 1))
