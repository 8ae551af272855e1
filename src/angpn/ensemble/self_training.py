"""Self-training: rounds of learning the graph, propagating, fitting base learners, and pseudo-labelling.

A round is the two steps of Algorithm 1 with the ensemble's own predictions as F: the graph is learnt from the distances
and, with beta above 0, from the predicted probabilities (Eq. (8)), the features are propagated on it (Eq. (13)), and
the base learners are fitted to the given labels (Eq. (15)) and to pseudo-labels, the predictions of the round before
that were confident. With beta 0 the graph and the propagated features are the same for all models and rounds.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from angpn.ensemble.adaptive_temperature import AdaptiveTemperature
from angpn.ensemble.base_learners import BaseLearner, HyperParameters, fit_base_learners
from angpn.ensemble.calibration import Calibration, log_likelihoods
from angpn.ensemble.config import EnsembleConfig
from angpn.ensemble.folds import Fold, Labels, TrainingSet, given_labels, rows_of
from angpn.ensemble.mixture import Mixture, select_members
from angpn.ensemble.model_selection import Selection, best_of_families, is_far_behind, pick_centers
from angpn.ensemble.propagated_features import Problem, PropagatedFeatures, same_features
from angpn.ensemble.user_options import EnsembleOptions
from angpn.neighbors.partition import Partition
from angpn.utils.typing import Array


@dataclass(eq=False)
class FoldModel:
    """An ensemble in training that never sees the held-out labels of its fold."""

    fold: Fold
    probabilities: Tensor | None = None  # (n, c) calibrated, after the last round
    graph_probabilities: Tensor | None = None  # (n, c) what the last round's graph was learnt from
    learners: list[BaseLearner] = field(default_factory=list)
    mixture: Mixture | None = None  # of these
    keeps_features: bool = False
    features: PropagatedFeatures | None = None  # of the last round, where they are kept


class CalibratedRound(NamedTuple):
    """The calibration of a round, and how likely the held-out labels are under it."""

    calibration: Calibration
    adaptive_temperature: AdaptiveTemperature  # of what is shown, after the calibration
    log_likelihood: float  # the sum over all of them
    n_held_out: int

    @classmethod
    def by(cls, log_proba: Tensor, rows: Array, labels: Labels, config: EnsembleConfig) -> "CalibratedRound":
        """Calibrate by the predictions for held-out rows."""
        if not len(rows):
            without = Calibration.without_labels(labels.n_classes, config)
            return cls(without, AdaptiveTemperature(config.optimism), 0.0, 0)
        truth, weights = labels.codes[rows], rows_of(labels.weights, rows)
        calibration, mean = Calibration.fit(log_proba, truth, weights, config)
        adaptive = AdaptiveTemperature.fit(calibration(log_proba), truth, weights, config)
        return cls(calibration, adaptive, mean * len(rows), len(rows))


class SelfTraining:
    """Trains fold models side by side; their held-out labels together calibrate them all."""

    def __init__(
        self, selection: Selection, labels: Labels, models: Sequence[FoldModel], options: EnsembleOptions
    ) -> None:
        self._features, self._neighborhood = selection.rows.features, selection.rows.neighborhood
        self._labels, self._models, self._options = labels, models, options
        self._candidates = selection.reselection_candidates
        self._centers = pick_centers(labels.codes, options.seed, options.config)
        self.selected = selection.selected
        # The features on the graph of the distances alone serve all models of the first round and the reselection.
        # They take much memory, so they are released when the first graph is learnt from probabilities.
        self._first: PropagatedFeatures | None = selection.features
        if self._first is None:
            self._first = self._propagate(None, [*self._candidates, *self.selected.parameters])

    def run_round(self) -> CalibratedRound:
        """Fit all models anew, from the pseudo-labels of the round before, and calibrate them."""
        first = all(model.probabilities is None for model in self._models)
        share_graph = first or self._options.graph.beta == 0  # and so the features, with which they are fitted together
        groups = [self._models] if share_graph else self._groups(self._models)
        log_proba = [found for group in groups for found in self._fit(group)]
        calibrated = self._calibrate(log_proba)
        for model, found in zip(self._models, log_proba, strict=True):
            model.probabilities = calibrated.calibration(found)
        return calibrated

    def reselect(self) -> None:
        """Select the hyper-parameters once more, now with pseudo-labels: those for few labels may not suit many."""
        config = self._options.config
        models = [model for model in self._models if len(model.fold.held)][: config.n_reselection_folds]
        rows = np.concatenate([model.fold.held for model in models] or [np.array([], dtype=np.int64)])
        if len(rows) < config.min_reselection_labels or not self._candidates:
            return
        features = self._first
        assert features is not None  # it is there before the second round
        log_proba: dict[HyperParameters, list[Tensor]] = {candidate: [] for candidate in self._candidates}
        ranking = self._candidates
        for group in filter(None, (models[:1], models[1:])):  # what is far behind after the first is then left out
            problems = [Problem(features, self._training_set(m, config.max_reselection_pseudo_labels)) for m in group]
            for model, learners in zip(group, self._fit_learners(ranking, problems), strict=True):
                for learner in learners:
                    log_proba[learner.parameters].append(learner.log_proba_of(features, model.fold.held))
            ranking = self._close_to_best({each: torch.cat(log_proba[each]) for each in ranking}, rows)
        held = {each: torch.cat(log_proba[each]) for each in ranking if len(log_proba[each]) == len(models)}
        truth, weights = self._labels.codes[rows], rows_of(self._labels.weights, rows)
        few, of_table = self._labels.are_few(config), self._options.of_table
        self.selected = select_members(held, truth, weights, config, of_table=of_table, few=few)

    def _close_to_best(self, log_proba: Mapping[HyperParameters, Tensor], rows: Array) -> list[HyperParameters]:
        """Rank hyper-parameters by the held-out rows so far; leave out what is far behind and will not be selected."""
        config, n_held = self._options.config, len(next(iter(log_proba.values())))
        truth, weights = self._labels.codes[rows[:n_held]], rows_of(self._labels.weights, rows[:n_held])
        tasks = [partial(log_likelihoods, found, truth, weights, config) for found in log_proba.values()]
        found = dict(zip(log_proba, self._options.parallel_map(tasks), strict=True))
        ranking = sorted(found, key=lambda candidate: float(found[candidate].mean()), reverse=True)
        first = set(best_of_families(ranking, 1))
        return [each for each in ranking if each in first or not is_far_behind(found[each], found[ranking[0]], config)]

    def _fit(self, models: Sequence[FoldModel]) -> list[Tensor]:  # (n, c) each
        """Fit the base learners of some models anew; return the logarithm of their mean probabilities."""
        for model in models:
            model.graph_probabilities = model.probabilities if self._options.graph.beta > 0 else None
        problems = [
            Problem(
                self._features_with(model.graph_probabilities),
                self._training_set(model, self._options.config.max_pseudo_labels),
            )
            for model in models
        ]
        fitted = self._fit_learners(self.selected.parameters, problems)
        for model, (features, _), learners in zip(models, problems, fitted, strict=True):
            model.learners = learners
            model.features = features if model.keeps_features else None
            model.mixture = self.selected.mixture
        found: dict[int, Tensor] = {}
        for places in same_features(problems):
            same = [fitted[place] for place in places]
            mixed = self.selected.mixture.of_models(same, problems[places[0]].features)
            found.update(zip(places, mixed, strict=True))
        return [found[place] for place in range(len(models))]

    def _fit_learners(
        self,
        candidates: Sequence[HyperParameters],
        problems: Sequence[Problem],
    ) -> list[list[BaseLearner]]:
        return fit_base_learners(
            candidates,
            problems,
            centers=self._centers,
            n_classes=self._labels.n_classes,
            config=self._options.config,
            parallel_map=self._options.parallel_map,
        )

    def _calibrate(self, log_proba: Sequence[Tensor]) -> CalibratedRound:
        """Calibrate by the held-out labels; one of a class that a model was not trained on does not count."""
        codes, config = self._labels.codes, self._options.config
        found, held = [], []
        for model, of_model in zip(self._models, log_proba, strict=True):
            rows = model.fold.held[np.isin(codes[model.fold.held], codes[model.fold.training])]
            found.append(self._neighborhood.partition.gather_rows(of_model, rows))
            held.append(rows)
        calibrate = partial(CalibratedRound.by, torch.cat(found), np.concatenate(held), self._labels, config)
        return self._options.parallel_map([calibrate])[0]  # by one process, for all

    def _groups(self, models: Sequence[FoldModel]) -> Iterator[Sequence[FoldModel]]:
        """Yield as many models at a time as there are processes, so that each process has heads to fit."""
        size = self._neighborhood.partition.n_processes
        return (models[start : start + size] for start in range(0, len(models), size))

    def _propagate(self, probabilities: Tensor | None, candidates: Sequence[HyperParameters]) -> PropagatedFeatures:
        hops = [candidate.hops for candidate in candidates if candidate.hops is not None]
        return PropagatedFeatures(self._features, self._neighborhood, self._options.graph, hops, probabilities)

    def _features_with(self, probabilities: Tensor | None) -> PropagatedFeatures:
        """Return the features on the graph that is learnt from these probabilities."""
        if probabilities is None:
            assert self._first is not None
            return self._first
        self._first = None
        return self._propagate(probabilities, self.selected.parameters)

    def _training_set(self, model: FoldModel, max_pseudo_labels: int) -> TrainingSet:
        training, partition = model.fold.training, self._neighborhood.partition
        if model.probabilities is None:
            return given_labels(self._labels, training)
        return training_set(self._labels, training, model.probabilities, max_pseudo_labels, partition, self._options)


def training_set(
    labels: Labels,
    rows: Array,  # of the data, labelled
    probabilities: Tensor,  # (n, c) of the rows of this process
    max_pseudo_labels: int,
    partition: Partition,
    options: EnsembleOptions,
) -> TrainingSet:
    """Return the given labels of some rows, and as pseudo-labels about so many confident predictions at most."""
    given = given_labels(labels, rows)
    confidence, classes = probabilities.max(dim=1)
    chosen = confidence >= options.config.pseudo_label_threshold
    chosen[partition.local_index(rows)[0]] = False
    count = float(partition.all_reduce_sum(chosen.sum()))
    confident = partition.global_ids(chosen.nonzero().squeeze(1))
    if count > max_pseudo_labels:
        confident = confident[uniform_hash(confident.numpy(), options.seed) < max_pseudo_labels / count]
    others = np.sort(partition.all_gather(confident).numpy())
    pseudo_labels = partition.gather_rows(classes, others).numpy()
    weights = None if given.weights is None else np.concatenate([given.weights, np.ones(len(others))])
    codes = np.concatenate([given.codes, pseudo_labels])
    return TrainingSet(np.concatenate([given.rows, others]), codes, weights, len(given.rows))


def uniform_hash(rows: Array, seed: int) -> Array:
    """Return for each row a number in [0, 1) that depends on the row and the seed alone (SplitMix64's mixing).

    So every process draws the same sample, however the rows are distributed.
    """
    mixed = (rows.astype(np.uint64) + np.uint64(seed)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return (mixed ^ (mixed >> np.uint64(31))) / 2.0**64
