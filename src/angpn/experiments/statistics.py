"""What the results say: means, ranks, and whether a difference is more than chance."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.stats

from angpn.experiments.results import Record

Place = tuple[str, int]  # data set and rate


class Cell(NamedTuple):
    """The accuracy of a method in one place, over the splits, in per cent."""

    mean: float
    std: float  # of a sample; 0 where there is one split
    accuracies: dict[int, float]  # by split


def cells(records: Iterable[Record]) -> dict[str, dict[Place, Cell]]:
    """The accuracies by method and place. Failed runs are not in it."""
    found: dict[str, dict[Place, dict[int, float]]] = {}
    for record in records:
        if record["error"] is None:
            places = found.setdefault(record["method"], {})
            places.setdefault((record["dataset"], record["rate"]), {})[record["split"]] = record["test_accuracy"]
    return {
        method: {place: _cell(accuracies) for place, accuracies in places.items()} for method, places in found.items()
    }


def _cell(accuracies: dict[int, float]) -> Cell:
    values = np.array(list(accuracies.values()))
    return Cell(float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0, accuracies)


def average_ranks(found: Mapping[str, Mapping[Place, Any]], methods: Sequence[str]) -> dict[str, float]:
    """The mean rank of each of ``methods`` over the places that all of them have; 1 is the best, ties share."""
    places = common_places(found, methods)
    if not places:
        return {}
    means = np.array([[found[method][place].mean for method in methods] for place in places])
    return dict(zip(methods, scipy.stats.rankdata(-means, axis=1).mean(axis=0).tolist(), strict=True))


def common_places(found: Mapping[str, Mapping[Place, Any]], methods: Sequence[str]) -> list[Place]:
    """The places that all of these methods have a result in."""
    return [place for place in found[methods[0]] if all(place in found[method] for method in methods)]


def wilcoxon_over_places(
    first: Mapping[Place, Cell], second: Mapping[Place, Cell]
) -> float | None:  # None below six places: no p could be small
    """Two-sided p of Wilcoxon's signed-rank test on the means of two methods over places (Demsar 2006)."""
    places = [place for place in first if place in second]
    differences = [first[place].mean - second[place].mean for place in places]
    if len(places) < 6 or not any(differences):
        return None
    return float(scipy.stats.wilcoxon(differences).pvalue)


def corrected_t(first: Cell, second: Cell, rate: int) -> float | None:
    """Two-sided p of the t-test on the splits two methods share, for splits that overlap (Nadeau, Bengio 2003).

    The variance of the mean difference is that of one split times 1/J + n_test/n_training, not times 1/J: the splits
    draw from the same rows. With few labels that is cautious.
    """
    splits = [split for split in first.accuracies if split in second.accuracies]
    differences = np.array([first.accuracies[split] - second.accuracies[split] for split in splits])
    if len(differences) < 2 or differences.std() == 0:
        return None
    test = 100 - rate - 5
    spread = np.sqrt((1 / len(differences) + test / rate) * differences.var(ddof=1))
    return float(2 * scipy.stats.t.sf(abs(differences.mean() / spread), len(differences) - 1))
