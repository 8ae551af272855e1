"""Base learners mixed: weights and temperatures under which held-out labels are likely."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from angpn.ensemble.base_learners import BaseLearner, HyperParameters
from angpn.ensemble.calibration import fit_temperature
from angpn.ensemble.config import EnsembleConfig, Family
from angpn.ensemble.propagated_features import PropagatedFeatures
from angpn.ensemble.softmax import add_softmax_
from angpn.utils.typing import Array

_EM_STEPS = 200
_SMALLEST_LIKELIHOOD = 1e-12


class Mixture(NamedTuple):
    """How the predictions of base learners are put together."""

    weights: tuple[float, ...]  # of their probabilities
    temperatures: tuple[float, ...]  # by which log-probabilities are divided first: kinds differ in how sure they are

    @classmethod
    def equal(cls, count: int) -> "Mixture":
        """Return the mixture in which all count alike, as they are."""
        return cls((1 / count,) * count, (1.0,) * count)

    def __call__(self, several: Iterable[Tensor]) -> Tensor:  # (n, c)
        """Return the logarithm of the weighted mean probability."""
        (mixed,) = self._mix([found] for found in several)
        return mixed

    def of_models(
        self, models: Sequence[Sequence[BaseLearner]], features: PropagatedFeatures
    ) -> list[Tensor]:  # (n, c) each
        """Return the same for the rows of this process by the base learners of several models on these features."""
        by_learner = zip(*models, strict=True)
        return self._mix(learners[0].parameters.learner.log_proba(learners, features) for learners in by_learner)

    def _mix(self, by_learner: Iterable[Sequence[Tensor]]) -> list[Tensor]:
        """Return the logarithm of the weighted mean probability in each model."""
        mixed: list[Tensor] = []
        for weight, temperature, of_models in zip(*self, by_learner, strict=True):
            mixed = mixed or [torch.zeros(found.shape, dtype=found.dtype) for found in of_models]
            for total, found in zip(mixed, of_models, strict=True):
                add_softmax_(total, found, temperature, weight)
        return [found.clamp_(min=torch.finfo(found.dtype).tiny).log_() for found in mixed]


class Members(NamedTuple):
    """The base learners of an ensemble, by their hyper-parameters."""

    parameters: list[HyperParameters]  # the heaviest family first
    mixture: Mixture

    @classmethod
    def equal(cls, parameters: Sequence[HyperParameters]) -> "Members":
        """Return members that count alike."""
        return cls(list(parameters), Mixture.equal(len(parameters)))


def select_members(
    log_proba: Mapping[HyperParameters, Tensor],  # (h, c) each, of held-out rows
    truth: Array,  # (h,)
    weights: Array | None,  # (h,)
    config: EnsembleConfig,
    *,
    of_table: bool,
    few: bool = False,
) -> Members:
    """Return the best candidates of each family, weighted so that held-out labels are likely under the mixture.

    Families err on different rows, so that their mean is better than that of the best family alone; within a family the
    best few count alike, since which is best is chance. The weights are those of a mixture model, most probable under a
    Dirichlet prior: while labels are few, all families count, and outside tables label spreading most.
    """
    shares = np.ones(len(truth)) if weights is None else weights / weights.mean()
    # Labels that were held out to select by are too few to trust each learner's temperature.
    shrinking = len(truth) / (len(truth) + config.labels_of_temperature)
    families: dict[Family, list[_Scored]] = {}
    for each, found in log_proba.items():
        temperature = fit_temperature(found, truth, weights, config, smoothing=1 / (1 + len(truth)))[0] ** shrinking
        of_truth = torch.log_softmax(found.double() / temperature, dim=1).numpy()[np.arange(len(truth)), truth]
        score = float(of_truth @ shares) + each.bonus(config, of_table=of_table)
        families.setdefault(each.family, []).append(_Scored(score, each, temperature, of_truth))
    best = [sorted(family, key=lambda each: -each.score)[: config.n_of_family] for family in families.values()]
    few_classes = next(iter(log_proba.values())).shape[1] if few else 0
    prior = np.array([config.family_prior(each, of_table=of_table, few_classes=few_classes) for each in families])
    likelihoods = np.array([np.exp([each.log_likelihoods for each in family]).mean(axis=0) for family in best])
    found_weights = fit_mixture(likelihoods, shares, prior).tolist()
    by_weight = sorted(zip(found_weights, best, strict=True), key=lambda pair: -pair[0])
    kept = [pair for pair in by_weight if pair[0] >= config.min_weight] or by_weight[:1]
    total = sum(weight for weight, _ in kept)
    members = [(weight / total / len(family), each) for weight, family in kept for each in family]
    mixture = Mixture(tuple(weight for weight, _ in members), tuple(each.temperature for _, each in members))
    return Members([each.parameters for _, each in members], mixture)


class _Scored(NamedTuple):
    """A candidate, its score, and the log-likelihood of each held-out label at its temperature."""

    score: float
    parameters: HyperParameters
    temperature: float
    log_likelihoods: Array  # (h,)


def fit_mixture(likelihoods: Array, shares: Array, prior: Array) -> Array:  # (k,)
    """Return the weights under which the mixture of ``likelihoods`` (k, h), and they themselves, are most probable.

    ``prior`` has the labels that each is given beforehand. By expectation and maximisation: the objective is concave. A
    label that is impossible for all, since no label of its class was trained on, says nothing.
    """
    weights, likelihoods = prior / prior.sum(), np.maximum(likelihoods, _SMALLEST_LIKELIHOOD)
    for _ in range(_EM_STEPS):
        parts = weights[:, None] * likelihoods
        found = prior + (parts / parts.sum(axis=0)) @ shares
        weights = found / found.sum()
    return weights
