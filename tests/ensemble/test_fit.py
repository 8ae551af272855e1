"""From rows and labels to an ensemble: which models are trained on which labels, and which round is kept."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from torch.testing import assert_close

from angpn.ensemble.config import EnsembleConfig
from angpn.ensemble.fit import Round, best_round, fit
from angpn.ensemble.folds import Fold, make_folds
from angpn.ensemble.heads import HeadParameters
from angpn.ensemble.inductive import InductiveEnsemble
from angpn.ensemble.mixture import Members
from angpn.ensemble.model_selection import Selection, scale_for_training
from angpn.ensemble.propagated_features import PropagatedFeatures
from angpn.ensemble.self_training import FoldModel, SelfTraining
from ensemble_problems import (
    LINEAR,
    SPREADING,
    UNIT,
    clusters,
    ensemble_options,
    first_labels,
    log_proba,
    train_selected,
)

CONFIG = EnsembleConfig()
KERNEL = HeadParameters(0.0, 0, 1.0, 100.0)
SELECTED = [LINEAR, KERNEL, SPREADING]
TRUTH = np.arange(120) % 3
LABELLED = np.arange(120) < 36
VALIDATION = np.arange(120) < 18


def labels(validation=None):
    found = first_labels(TRUTH, 36, masked=validation is not None)
    return found._replace(folds=make_folds(found.codes, validation, 0, CONFIG))


def options(**changes):
    return ensemble_options(**{"scalings": [UNIT]} | changes)


def rounds(validation=None, selected=SELECTED, **changes):
    return train_selected(clusters(TRUTH), labels(validation), selected, options(**changes))


def scaled():
    return scale_for_training(clusters(TRUTH), UNIT, options())


def trained(models, validation=None):
    """These models after a round of self-training by itself."""
    SelfTraining(Selection(scaled(), Members.equal(SELECTED), []), labels(validation), models, options()).run_round()


# Who is trained on what


def test_the_ensemble_is_trained_on_all_labels_beside_fold_models_that_leave_some_out(recorder):
    found = next(rounds(selected=[*SELECTED, recorder.parameters]))
    *of_folds, of_all = [training.rows for _, training in recorder.problems]
    assert_array_equal(of_all, np.flatnonzero(LABELLED))
    assert len(of_folds) == len(found.held_out) == CONFIG.max_fold_models
    for rows, (held, _) in zip(of_folds, found.held_out, strict=True):
        assert_array_equal(np.sort(np.concatenate([rows, held])), np.flatnonzero(LABELLED))
    assert_array_equal(np.sort(np.concatenate([rows for rows, _ in found.held_out])), np.flatnonzero(LABELLED))


def test_no_more_fold_models_are_trained_than_asked_for(recorder):
    config = replace(CONFIG, max_fold_models=2)
    found = next(rounds(selected=[recorder.parameters], config=config))
    assert len(recorder.problems) == 3
    assert len(found.held_out) == 2


def test_a_round_has_the_predictions_of_the_final_model_and_of_fold_models_for_their_held_out_rows():
    found = next(rounds())
    fold_models, final = [FoldModel(fold) for fold in labels().folds], FoldModel(Fold(np.arange(36), np.arange(0)))
    trained([*fold_models, final])
    assert_close(found.calibrated, final.probabilities, rtol=1e-4, atol=1e-5)
    for model, (rows, probabilities) in zip(fold_models, found.held_out, strict=True):
        assert_array_equal(rows, model.fold.held)
        assert_close(probabilities, model.probabilities[rows], rtol=1e-4, atol=1e-5)


def test_with_validation_rows_the_model_that_never_saw_their_labels_is_the_ensemble(recorder):
    found = next(rounds(VALIDATION, selected=[*SELECTED, recorder.parameters]))
    ((_, training),) = recorder.problems
    assert_array_equal(training.rows, np.flatnonzero(LABELLED & ~VALIDATION))
    ((rows, probabilities),) = found.held_out
    assert_array_equal(rows, np.flatnonzero(VALIDATION))
    assert_close(found.ensemble.adaptive_temperature(probabilities), found.probabilities[rows])
    assert found.accuracy == np.mean(probabilities.argmax(dim=1).numpy() == TRUTH[rows])
    assert found.n_held_out == 18


def test_the_predictions_of_a_round_are_those_of_its_ensemble():
    found = next(rounds(VALIDATION))
    features = PropagatedFeatures(scaled().features, found.neighborhood, options().graph, [LINEAR.hops, KERNEL.hops])
    mixed = found.ensemble.mixture(log_proba(learner, features) for learner in found.ensemble.learners)
    assert_close(found.probabilities, found.ensemble.calibrate(mixed), rtol=1e-4, atol=1e-5)
    assert [learner.parameters for learner in found.ensemble.learners] == SELECTED


def test_fold_models_beside_validation_rows_are_trained_on_fewer_labels_and_never_on_theirs(recorder):
    apart = VALIDATION & (np.cumsum(VALIDATION) <= 6)
    found = next(rounds(apart, selected=[recorder.parameters]))
    of_all, *of_folds = [training.rows for _, training in recorder.problems]
    assert of_folds
    assert_array_equal(of_all, np.flatnonzero(LABELLED & ~apart))
    for rows in of_folds:
        assert set(rows) < set(of_all)
    ((rows, _),) = found.held_out  # only the validation rows are reported,
    assert_array_equal(rows, np.flatnonzero(apart))
    assert found.n_held_out > len(rows)  # but all held-out labels calibrate


def test_where_nothing_can_be_held_out_there_is_no_accuracy():
    found = next(train_selected(clusters(TRUTH), first_labels(TRUTH, 3), SELECTED, options()))
    assert np.isnan(found.accuracy)
    assert (found.n_held_out, found.held_out) == (0, [])


def test_the_loss_is_that_of_the_labels_that_were_trained_on():
    found = next(rounds(VALIDATION))
    training = np.flatnonzero(LABELLED & ~VALIDATION)
    assert found.loss == pytest.approx(-float(found.probabilities[training, TRUTH[training]].log().mean()), rel=1e-5)


# Rounds


def new_answers(found, features):
    neighborhood = found.neighborhood
    inductive = InductiveEnsemble(found.ensemble, features, neighborhood)
    return inductive.predict_new(features, neighborhood.indices.long(), neighborhood.distances)


def test_a_round_stays_what_it_was_while_training_goes_on():
    running = rounds(VALIDATION)
    features = scaled().features
    first = next(running)
    probabilities, held_out, answers = (
        part.clone() for part in (first.probabilities, first.held_out[0][1], new_answers(first, features))
    )
    *_, last = itertools.islice(running, 2)
    assert first.ensemble.graph_probabilities is None
    assert_close(first.probabilities, probabilities, rtol=0, atol=0)
    assert_close(first.held_out[0][1], held_out, rtol=0, atol=0)
    assert_close(new_answers(first, features), answers, rtol=1e-5, atol=1e-6)
    assert (last.probabilities - probabilities).abs().max() > 1e-3


def test_the_graph_of_a_round_is_learnt_from_the_predictions_of_the_one_before():
    first, second = itertools.islice(rounds(VALIDATION), 2)
    assert_close(second.ensemble.graph_probabilities, first.calibrated)
    assert len(second.ensemble.learners) == 3


def test_hyper_parameters_are_selected_again_before_the_second_round_only():
    config = replace(CONFIG, hops=((0.0, 0), (0.5, 2)), min_reselection_labels=1)
    counts = []

    def parallel_map(tasks):
        counts.append(len(tasks))
        return [task() for task in tasks]

    running = fit(clusters(TRUTH), labels(VALIDATION), options(config=config, parallel_map=parallel_map))
    selected, asked = [], []
    for found in itertools.islice(running, 3):
        selected.append([learner.parameters for learner in found.ensemble.learners])
        asked.append(max(counts))
        counts.clear()
    assert selected[1] == selected[2]
    assert asked[1] > max(2, asked[2])  # all candidates are fitted before the second round, then two heads at a time


def test_weights_reach_the_base_learners(recorder):
    weights = np.linspace(0.5, 2, 120)
    given = labels()._replace(weights=weights)
    next(train_selected(clusters(TRUTH), given, [recorder.parameters], options()))
    for _, training in recorder.problems:
        assert_array_equal(training.weights, weights[training.rows])


# Which round is kept


def after(*log_likelihoods, n_held_out):
    return [
        Round(None, None, torch.empty(0), [], 0.5, each, n_held_out, 0.0, number)
        for number, each in enumerate(log_likelihoods)
    ]


def test_while_few_labels_are_held_out_a_further_round_must_make_them_clearly_likelier():
    assert best_round(after(-30.0, -29.0, -28.5, n_held_out=20), CONFIG) == 0
    assert best_round(after(-30.0, -20.0, -19.0, n_held_out=20), CONFIG) == 1
    assert best_round(after(-30.0, -20.0, -10.0, n_held_out=20), CONFIG) == 2


def test_where_many_labels_are_held_out_a_further_round_is_kept_unless_it_makes_them_clearly_less_likely():
    assert best_round(after(-30.0, -31.0, -32.0, n_held_out=500), CONFIG) == 2
    assert best_round(after(-30.0, -31.0, -39.0, n_held_out=500), CONFIG) == 1
    assert best_round(after(-30.0, -40.0, -50.0, n_held_out=500), CONFIG) == 0


def test_where_no_label_is_held_out_the_last_round_is_kept():
    assert best_round(after(0.0, 0.0, n_held_out=0), CONFIG) == 1


def test_what_a_round_is_worth_can_be_changed():
    few = after(-30.0, -29.0, n_held_out=20)
    assert best_round(few, replace(CONFIG, round_penalty=0.5)) == 1
    assert best_round(few, replace(CONFIG, min_reselection_labels=20)) == 1
    assert best_round(after(-30.0, -31.0, n_held_out=500), replace(CONFIG, round_bonus=0.5)) == 0
