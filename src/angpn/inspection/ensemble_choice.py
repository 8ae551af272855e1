"""What held-out labels selected for an ensemble, in words, and how far its confidence can be trusted."""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from angpn.ensemble.base_learners import HyperParameters
from angpn.ensemble.extra_trees import TreesParameters
from angpn.ensemble.heads import HeadParameters
from angpn.ensemble.label_spreading import SpreadingParameters
from angpn.ensemble.model_selection import few_label_candidates
from angpn.utils.labels import UNLABELLED
from angpn.utils.typing import Array

_SCALINGS = {
    "unit": "rows scaled to unit length",
    "idf": "columns weighted by inverse document frequency, rows scaled to unit length",
    "unit_standard": "columns standardised, rows scaled to unit length",
    "standard": "columns standardised",
    "pca": "rows scaled to unit length, neighbours in their main directions",
    "standard_pca": "columns standardised, neighbours in the main directions of the rows",
    "none": "features as they came",
}
_BOUNDS = (0.0, 0.5, 0.7, 0.9, 0.97, 1.0)  # of confidence


class ConfidenceBin(NamedTuple):
    """Held-out labels whose predictions were about as confident.

    Attributes:
        low: Lowest confidence.
        high: Highest confidence.
        n_labels: The number of these labels.
        confidence: Mean confidence of their predictions.
        accuracy: Share of their predictions that are right.
    """

    low: float
    high: float
    n_labels: int
    confidence: float
    accuracy: float


class Choice(NamedTuple):
    """What was selected for an ensemble.

    Attributes:
        scaling: How rows are scaled, in words.
        members: Its base learners in words, and their weights, the heaviest first.
        n_labels: How many labels selected them, 0 where they were too few and the choice is fixed.
        n_rounds: Rounds of training, of which the first has no pseudo-labels.
        best: The round that was kept, from 1.
        reliability: Accuracy of held-out labels by confidence.
    """

    scaling: str
    members: Sequence[tuple[str, float]]
    n_labels: int
    n_rounds: int
    best: int
    reliability: Sequence[ConfidenceBin]


def describe_choice(model: Any) -> Choice:
    """Return what was selected for a fitted :class:`angpn.ANGPNClassifier`."""
    ensemble = model.ensemble_
    parameters = [learner.parameters for learner in ensemble.learners]
    fixed = [few_label_candidates(None, of_table, model._config) for of_table in (False, True)]
    held, distributions = model.validation_mask_, model.validation_distributions_
    members: dict[str, float] = {}
    for each, weight in zip(parameters, ensemble.mixture.weights, strict=True):
        members[_words(each)] = members.get(_words(each), 0.0) + weight
    return Choice(
        _SCALINGS[ensemble.scaling.name] if model.metric != "precomputed" else "distances as they came",
        sorted(members.items(), key=lambda member: -member[1]),
        0 if parameters in fixed else int(held.sum()),
        model.n_iter_,
        model.best_iter_,
        [] if distributions is None else reliability_bins(distributions, model._codes[held]),
    )


def reliability_bins(
    distributions: Array,  # (h, c)
    truth: Array,  # (h,) class numbers
) -> list[ConfidenceBin]:
    """Return the accuracy of predictions by their confidence; bins without any are left out."""
    known = truth != UNLABELLED
    confidence, right = distributions[known].max(axis=1), (distributions.argmax(axis=1) == truth)[known]
    place = np.clip(np.searchsorted(_BOUNDS, confidence, side="right") - 1, 0, len(_BOUNDS) - 2)
    bins = []
    for number, (low, high) in enumerate(itertools.pairwise(_BOUNDS)):
        inside = place == number
        if inside.any():
            mean, accuracy = float(confidence[inside].mean()), float(right[inside].mean())
            bins.append(ConfidenceBin(low, high, int(inside.sum()), mean, accuracy))
    return bins


def _words(parameters: HyperParameters) -> str:
    """Name a base learner; those that differ in their penalty alone have one name."""
    if isinstance(parameters, SpreadingParameters):
        return "label spreading on the graph"
    if isinstance(parameters, TreesParameters):
        return "extremely randomised trees"
    assert isinstance(parameters, HeadParameters)
    kind = "linear classifier" if parameters.width is None else "kernel classifier"
    if not parameters.n_hops:
        return f"{kind}, features of the row alone"
    return f"{kind}, features propagated over {parameters.n_hops} hop{'' if parameters.n_hops == 1 else 's'}"
