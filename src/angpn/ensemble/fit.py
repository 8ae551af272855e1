"""From rows and a few labels to an ensemble."""

import itertools
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from angpn.ensemble.config import EnsembleConfig
from angpn.ensemble.ensemble import Ensemble
from angpn.ensemble.folds import Fold, Labels
from angpn.ensemble.model_selection import ScaledRows, Scorer, Selection, select, select_so_far
from angpn.ensemble.propagated_features import PropagatedFeatures
from angpn.ensemble.self_training import CalibratedRound, FoldModel, SelfTraining
from angpn.ensemble.user_options import EnsembleOptions
from angpn.kernels.startup import start_compiler
from angpn.neighbors.neighborhood import Neighborhood
from angpn.utils.labels import UNLABELLED
from angpn.utils.typing import Array


class Round(NamedTuple):
    """The ensemble after a round of self-training, and how well it does."""

    ensemble: Ensemble
    rows: ScaledRows  # that it was trained on
    calibrated: Tensor  # (n, c) probabilities of the rows that the lists are of, before the adaptive temperature
    held_out: list[tuple[Array, Tensor]]  # rows that were held out, and their probabilities then
    accuracy: float  # on held-out labels, NaN where there are none
    log_likelihood: float  # of them all
    n_held_out: int
    loss: float  # of the labels it was trained on
    number: int  # from 0; the first is trained on given labels alone
    features: PropagatedFeatures | None = None  # of the ensemble, where they are kept

    @property
    def probabilities(self) -> Tensor:  # (n, c)
        """The predictions for the rows it was trained on."""
        return self.ensemble.adaptive_temperature(self.calibrated)

    @property
    def neighborhood(self) -> Neighborhood:
        """The neighbours of the rows it was trained on."""
        return self.rows.neighborhood


def fit(X: Any, labels: Labels, options: EnsembleOptions, stages: list[list[Scorer]] | None = None) -> Generator[Round]:
    """Scale, find neighbours and select hyper-parameters; then train, a round for each turn.

    ``stages`` gets what :func:`fit_so_far` needs where this is interrupted before the first round is done.
    """
    start_compiler()
    yield from train(select(X, labels, options, stages), labels, options)


def fit_so_far(X: Any, labels: Labels, options: EnsembleOptions, stages: Sequence[Sequence[Scorer]]) -> Round:
    """Train the first round with the best that the stages of an interrupted :func:`fit` found."""
    rounds = train(select_so_far(X, labels, options, stages), labels, options)
    first = next(rounds)
    rounds.close()
    return first


def train(selection: Selection, labels: Labels, options: EnsembleOptions) -> Generator[Round]:
    """Self-train and calibrate, a round for each turn.

    With a validation mask the one model that never sees those labels is the ensemble. Else the ensemble is trained on
    all labels, beside fold models that each leave a fold out and so show how confident it may be.
    """
    labelled = np.flatnonzero(labels.codes != UNLABELLED)
    fold_models = [FoldModel(fold) for fold in labels.folds[: options.config.max_fold_models + labels.masked]]
    final = fold_models[0] if labels.masked else FoldModel(Fold(labelled, labelled[:0]))
    final.keeps_features = options.keep_features
    training = SelfTraining(selection, labels, fold_models if labels.masked else [*fold_models, final], options)
    validated = fold_models[:1] if labels.masked else fold_models
    partition = selection.rows.neighborhood.partition
    for number in itertools.count():
        if number == 1:
            training.reselect()
        calibrated = training.run_round()
        held_out = [
            (model.fold.held, partition.gather_rows(model.probabilities, model.fold.held))
            for model in validated
            if model.probabilities is not None
        ]
        yield make_round(calibrated, selection.rows, final, held_out, labels, options, number)


def best_round(rounds: Sequence[Round], config: EnsembleConfig) -> int:
    """Return which round to keep: the last where nothing was held out, else the one with the most likely labels.

    Self-training may confirm its own errors, so rounds are compared; but a difference of a few units is chance.
    """
    n_held_out = rounds[-1].n_held_out
    if not n_held_out:
        return len(rounds) - 1
    bonus = config.round_bonus if n_held_out >= config.min_reselection_labels else -config.round_penalty
    return int(np.argmax([round.log_likelihood + bonus * number for number, round in enumerate(rounds)]))


def make_round(
    calibrated: CalibratedRound,
    rows: ScaledRows,
    final: FoldModel,
    held_out: list[tuple[Array, Tensor]],
    labels: Labels,
    options: EnsembleOptions,
    number: int,
) -> Round:
    """Return the ensemble that a trained and calibrated model is, and how well it does."""
    codes, training = labels.codes, final.fold.training
    assert final.probabilities is not None
    assert final.mixture is not None
    ensemble = Ensemble(
        rows.scaling,
        options.graph,
        final.learners,
        final.mixture,
        calibrated.calibration,
        calibrated.adaptive_temperature,
        final.graph_probabilities,
    )
    right = [found.argmax(dim=1).numpy() == codes[held] for held, found in held_out]
    of_training = ensemble.adaptive_temperature(rows.neighborhood.partition.gather_rows(final.probabilities, training))
    of_truth = of_training[np.arange(len(training)), codes[training]]
    return Round(
        ensemble,
        rows,
        final.probabilities,
        held_out,
        float(np.concatenate(right).mean()) if right else float("nan"),
        calibrated.log_likelihood,
        calibrated.n_held_out,
        -float(of_truth.clamp(min=1e-12).log().mean()),
        number,
        final.features,
    )
