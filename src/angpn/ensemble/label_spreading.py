"""The base learner that reaches all rows: labels propagated by Eq. (2) to convergence, which is Eq. (3).

Where a class has one or two labels, features say little of what the classes are, but the graph still says which rows
hang together.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from angpn.ensemble.config import EnsembleConfig, Family, Hops
from angpn.ensemble.folds import Labels, TrainingSet, given_labels
from angpn.ensemble.logistic import RULED_OUT
from angpn.ensemble.propagated_features import Adjacency, Problem, PropagatedFeatures, same_features
from angpn.ensemble.softmax import log_softmax_
from angpn.neighbors.partition import Partition
from angpn.utils.array_checks import check_arrays, singles
from angpn.utils.schema import OpenShare, Saved
from angpn.utils.typing import Array

_DENSE_ROWS = 300
_INFLUENCE_HOPS = 5  # there is no last hop; from here on influence comes from everywhere


@dataclass(frozen=True)
class SpreadingParameters:
    """The hyper-parameter of :class:`LabelSpreading`."""

    alpha: float  # of Eq. (2)

    @property
    def hops(self) -> None:
        """Features play no part."""

    @property
    def inputs(self) -> None:
        """The graph alone."""

    @property
    def influence_hops(self) -> Hops:
        """The hops over which other rows influence a prediction."""
        return self.alpha, _INFLUENCE_HOPS

    @property
    def learner(self) -> "type[LabelSpreading]":
        """What has this hyper-parameter."""
        return LabelSpreading

    @property
    def is_expensive(self) -> bool:
        """Whether a fit takes many times as long as the cheapest."""
        return True

    @property
    def family(self) -> Family:
        """Those that err on much the same rows."""
        return "label spreading"

    def bonus(self, config: EnsembleConfig, *, of_table: bool) -> float:
        """Return how much likelier held-out labels would have to be under others, as a sum of logarithms."""
        return 0.0 if of_table else config.hops_bonus * config.spreading_doublings


class SpreadingState(Saved, tag_field="kind", tag="label_spreading", frozen=True):
    """What a file keeps of :class:`LabelSpreading` beside its scores."""

    parameters: tuple[OpenShare]


@dataclass(frozen=True)
class LabelSpreading:
    """Propagated labels of the fitted rows."""

    parameters: SpreadingParameters
    scores: Tensor  # (n, c) far below zero for a class without labels

    @classmethod
    def fit(
        cls,
        candidates: Sequence[SpreadingParameters],
        problems: Sequence[Problem],
        *,
        n_classes: int,
        config: EnsembleConfig,
        **_: Any,  # what other base learners need
    ) -> list[list[Self]]:
        """Fit label spreading with each alpha to each problem."""
        alphas = [candidate.alpha for candidate in candidates]
        found: dict[int, list[Tensor]] = {}
        for places in same_features(problems):
            sets = [problems[place].training for place in places]
            scores = spread_labels(problems[places[0]].features.normalized, sets, alphas, n_classes, config)
            found.update(zip(places, scores, strict=True))
        return [list(map(cls, candidates, found[place])) for place in range(len(problems))]

    @classmethod
    def cross_validate(
        cls,
        candidates: Sequence[SpreadingParameters],
        features: PropagatedFeatures,
        labels: Labels,
        folds: slice,
        *,
        config: EnsembleConfig,
    ) -> list[Tensor]:  # (h, c) each
        """Return the log-probabilities of the held-out rows of some folds, each without the labels of its own."""
        sets = [given_labels(labels, fold.training) for fold in labels.folds[folds]]
        alphas = [candidate.alpha for candidate in candidates]
        of_folds = spread_labels(features.normalized, sets, alphas, labels.n_classes, config)
        return [
            torch.cat(
                [
                    log_softmax_(scores[place][fold.held])
                    for fold, scores in zip(labels.folds[folds], of_folds, strict=True)
                ]
            )
            for place in range(len(candidates))
        ]

    @classmethod
    def log_proba(cls, learners: Sequence[Self], features: PropagatedFeatures) -> list[Tensor]:  # (n, c) each
        """Return the log-probabilities of the rows of this process by each of these."""
        return [log_softmax_(learner.scores.clone()) for learner in learners]

    def log_proba_of(self, features: PropagatedFeatures, rows: Array) -> Tensor:  # (r, c)
        """Return the log-probabilities of some rows of the data."""
        return log_softmax_(features.partition.gather_rows(self.scores, rows))

    def log_proba_new(self, new: Any) -> Tensor:  # (r, c)
        """Return the log-probabilities of :class:`~angpn.ensemble.inductive.NewRows`."""
        return log_softmax_(new.receive(self.scores))

    def in_data_order(self, partition: Partition) -> Self:
        """Return it with the scores of all rows, in the order of the data."""
        return type(self)(self.parameters, partition.gather_in_data_order(self.scores))

    def state(self) -> tuple[SpreadingState, dict[str, Array]]:
        """Return what a file keeps of it: plain values, and arrays."""
        return SpreadingState(parameters=astuple(self.parameters)), {"scores": self.scores.numpy()}

    @classmethod
    def from_state(
        cls, state: SpreadingState, arrays: Mapping[str, Array], *, n_rows: int, n_classes: int, **_: int
    ) -> Self:
        """Return the base learner that :meth:`state` described, after a check of its arrays."""
        check_arrays(arrays, {"scores": singles(n_rows, n_classes)})
        return cls(SpreadingParameters(*state.parameters), torch.from_numpy(arrays["scores"]))


def spread_labels(
    adjacency: Adjacency,  # normalized
    sets: Sequence[TrainingSet],
    alphas: Sequence[float],
    n_classes: int,
    config: EnsembleConfig,
) -> list[list[Tensor]]:  # for each set and alpha (n, c)
    """Return Eq. (3) from each set of labels for each alpha, as scores whose margin is that of an average head.

    Each class sends out as much as any other: else far from all labels every row would be of the class with the most.
    All sets share the products with A.
    """
    partition = adjacency.partition
    sources = torch.zeros(adjacency.n_rows, len(sets), n_classes)
    for number, training in enumerate(sets):
        numbers, places = partition.local_index(training.rows)
        weights = 1.0 if training.weights is None else torch.from_numpy(training.weights[places]).float()
        sources[numbers, number, training.codes[places]] = weights
    totals = partition.all_reduce_sum(sources.sum(dim=0))
    sources /= torch.where(totals > 0, totals, 1)
    found: list[list[Tensor]] = [[] for _ in sets]
    for several in closed_form(sources.flatten(1), adjacency, alphas, config):
        for number, training in enumerate(sets):
            known, scores = np.unique(training.codes), several.view(sources.shape)[:, number]
            margin = partition.mean(scores[:, known].max(dim=1).values - scores[:, known].mean(dim=1))
            scaled = torch.full_like(scores, RULED_OUT)
            scaled[:, known] = config.spreading_margin * scores[:, known] / margin.clamp(min=1e-12)
            found[number].append(scaled)
    return found


def closed_form(
    sources: Tensor, adjacency: Adjacency, alphas: Sequence[float], config: EnsembleConfig
) -> list[Tensor]:  # (n, c) each
    """Return Eq. (3) for each alpha: of few rows as a dense system, which takes less time, else as a series."""
    if adjacency.n_rows > _DENSE_ROWS or adjacency.partition.n_processes > 1:
        return closed_form_series(sources, adjacency, alphas, config)
    matrix, identity = adjacency.normalized_dense(), torch.eye(adjacency.n_rows, dtype=torch.float64)
    systems = ((identity - alpha * matrix, (1 - alpha) * sources.double()) for alpha in alphas)
    return [torch.linalg.solve(*system).float() for system in systems]


def closed_form_series(
    sources: Tensor, adjacency: Adjacency, alphas: Sequence[float], config: EnsembleConfig
) -> list[Tensor]:  # (n, c) each
    """Return Eq. (3) for each alpha, ``(1 - alpha) (I - alpha A)^-1 Y``, which is where Eq. (2) converges.

    No eigenvalue of A is beyond 1, so that the inverse is a series in Chebyshev's polynomials,

        (I - alpha A)^-1 = (I + 2 sum_k r^k T_k(A)) / sqrt(1 - alpha^2),    r = alpha / (1 + sqrt(1 - alpha^2)),

    with ``T_k+1(A) = 2 A T_k(A) - T_k-1(A)``. Its terms shrink by r and not, as the steps of Eq. (2), by alpha: for
    0.97 these are 46 products instead of several hundred. How many is known before, and all alphas share them.
    """
    if not alphas:
        return []
    rates = [alpha / (1 + math.sqrt(1 - alpha**2)) for alpha in alphas]
    shares = [(1 - alpha) / math.sqrt(1 - alpha**2) for alpha in alphas]
    counts = [_n_terms(rate, config) for rate in rates]
    before, term = sources, adjacency(sources)
    found = [torch.add(share * before, term, alpha=2 * share * rate) for share, rate in zip(shares, rates, strict=True)]
    for number in range(2, max(counts) + 1):
        product = adjacency(term)
        before, term = term, torch.lerp(before, product, 2.0, out=product)
        for scores, share, rate, count in zip(found, shares, rates, counts, strict=True):
            if number <= count:
                scores.add_(term, alpha=2 * share * rate**number)
    return found


def _n_terms(rate: float, config: EnsembleConfig) -> int:
    """Return after how many terms the rest of the series is small: ``2 (r^n+1 + r^n+2 + ...) <= tol``."""
    terms = math.ceil(math.log(config.spreading_tol * (1 - rate) / 2) / math.log(rate)) - 1
    return min(config.spreading_max_terms, max(1, terms))
