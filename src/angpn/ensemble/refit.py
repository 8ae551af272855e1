"""A few more labels of the same rows: heads and calibration are updated, all else is kept.

A person who labels ten rows and asks again should not wait for a search. What it found (scaling, neighbours, graph,
propagated features, hyper-parameters) hardly depends on ten labels. But it must not be kept for ever:
:meth:`Refit.needs_search` tells when to search again.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from angpn.ensemble.base_learners import fit_base_learners
from angpn.ensemble.config import EnsembleConfig
from angpn.ensemble.fit import Round, make_round
from angpn.ensemble.folds import Fold, Labels, given_labels
from angpn.ensemble.model_selection import pick_centers
from angpn.ensemble.propagated_features import Problem, PropagatedFeatures
from angpn.ensemble.self_training import CalibratedRound, FoldModel, training_set
from angpn.ensemble.user_options import EnsembleOptions
from angpn.utils.labels import UNLABELLED
from angpn.utils.typing import Array

_ROUNDING = 1e-6  # of a sum of log-likelihoods


@dataclass(frozen=True)
class Refit:
    """What a fit leaves for the next one on the same rows."""

    last: Round  # of the last fit
    codes: Array  # (n,) its labels
    searched: Labels  # those of the last search
    surprise: float = 0.0  # how likely the labels since then were, less how likely their predictions made them
    variance: float = 0.0  # of that sum of log-likelihoods, were the predictions true

    def needs_search(self, labels: Labels, config: EnsembleConfig) -> bool:
        """Tell whether these labels may want another scaling or other hyper-parameters.

        That is so where labels have grown or changed by half, a class is new or has no label left, they are few no
        longer or now suffice to select again with pseudo-labels, or the predictions for new ones were much worse than
        they claimed to be.
        """
        now, then = labels.codes, self.searched.codes
        if 2 * np.count_nonzero(now != then) >= np.count_nonzero(then != UNLABELLED):
            return True
        if not np.array_equal(np.unique(now), np.unique(then)):
            return True
        if labels.are_few(config) != self.searched.are_few(config):
            return True
        if labels.can_reselect(config) != self.searched.can_reselect(config):
            return True
        surprise, variance = self._surprise(labels)
        return surprise < -config.far_behind * max(variance, _ROUNDING) ** 0.5

    def _new_rows(self, labels: Labels) -> Array:
        """Return the rows that were unlabelled; of one whose label was corrected the model had learnt the old one."""
        return np.flatnonzero((labels.codes != UNLABELLED) & (self.codes == UNLABELLED))

    def _surprise(self, labels: Labels) -> tuple[float, float]:
        """Return ``surprise`` and ``variance`` with the labels that are new."""
        rows = self._new_rows(labels)
        probabilities = self.last.ensemble.adaptive_temperature(self._of(self.last.calibrated, rows))
        log_proba = probabilities.double().clamp(min=1e-12).log()
        expected = (log_proba.exp() * log_proba).sum(dim=1)
        variances = (log_proba.exp() * log_proba.square()).sum(dim=1) - expected.square()
        surprises = log_proba[np.arange(len(rows)), labels.codes[rows]] - expected
        return self.surprise + float(surprises.sum()), self.variance + float(variances.sum())

    def __call__(self, labels: Labels, options: EnsembleOptions) -> "Refit":
        """Learn these labels: fit the base learners again, and calibrate."""
        last, config = self.last, options.config
        ensemble, rows = last.ensemble, last.rows
        parameters = [learner.parameters for learner in ensemble.learners]
        features = last.features
        if features is None:
            hops = [each.hops for each in parameters if each.hops is not None]
            probabilities = ensemble.graph_probabilities
            features = PropagatedFeatures(rows.features, rows.neighborhood, options.graph, hops, probabilities)
        labelled = np.flatnonzero(labels.codes != UNLABELLED)
        partition = rows.neighborhood.partition
        training = given_labels(labels, labelled)
        if last.number > 0:  # else held-out labels said that pseudo-labels mislead
            training = training_set(labels, labelled, last.calibrated, config.max_pseudo_labels, partition, options)
        ((*learners,),) = fit_base_learners(
            parameters,
            [Problem(features, training)],
            centers=pick_centers(self.searched.codes, options.seed, config),
            n_classes=labels.n_classes,
            config=config,
            parallel_map=options.parallel_map,
        )
        (log_proba,) = ensemble.mixture.of_models([learners], features)
        held, calibrated = self._calibrate(labels, config)
        final = FoldModel(
            Fold(labelled, labelled[:0]),
            calibrated.calibration(log_proba),
            ensemble.graph_probabilities,
            learners,
            ensemble.mixture,
            options.keep_features,
            features if options.keep_features else None,
        )
        found = make_round(calibrated, rows, final, held, labels, options, last.number)
        return Refit(found, labels.codes, self.searched, *self._surprise(labels))

    def _calibrate(self, labels: Labels, config: EnsembleConfig) -> tuple[list[tuple[Array, Tensor]], CalibratedRound]:
        """Calibrate by the rows held out so far, and by what was predicted for the new ones while unlabelled."""
        calibration = self.last.ensemble.calibration
        new = self._new_rows(labels)
        several = [(new, calibration.inverse(self._of(self.last.calibrated, new)))]
        for rows, probabilities in self.last.held_out:
            kept = labels.codes[rows] == self.codes[rows]
            several.append((rows[kept], calibration.inverse(probabilities[kept])))
        rows, log_proba = np.concatenate([rows for rows, _ in several]), torch.cat([found for _, found in several])
        calibrated = CalibratedRound.by(log_proba, rows, labels, config)
        return [(rows, calibrated.calibration(log_proba))] if len(rows) else [], calibrated

    def _of(self, values: Tensor, rows: Array) -> Tensor:
        return self.last.neighborhood.partition.gather_rows(values, rows)
