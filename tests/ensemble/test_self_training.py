"""What fold models are trained on in each round, and what held-out labels may decide."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch.testing import assert_close

from angpn import nearest_candidates
from angpn.ensemble.adaptive_temperature import AdaptiveTemperature
from angpn.ensemble.calibration import Calibration
from angpn.ensemble.config import EnsembleConfig
from angpn.ensemble.folds import Fold, make_folds
from angpn.ensemble.heads import HeadParameters
from angpn.ensemble.mixture import Members, Mixture
from angpn.ensemble.model_selection import ScaledRows, Selection
from angpn.ensemble.propagated_features import Adjacency, PropagatedFeatures
from angpn.ensemble.scaling import Scaling
from angpn.ensemble.self_training import FoldModel, SelfTraining, uniform_hash
from angpn.ensemble.user_options import GraphOptions
from ensemble_problems import LINEAR, SPREADING, clusters, ensemble_options, first_labels, linked, links_to, log_proba

CONFIG = EnsembleConfig()
KERNEL = HeadParameters(0.0, 0, 1.0, 100.0)
SELECTED = [LINEAR, KERNEL, SPREADING]
TRUTH = np.arange(60) % 3
LABELS = first_labels(TRUTH, 12)
FOLDS = make_folds(LABELS.codes, None, 0, CONFIG)
GRAPH = GraphOptions(5, 0.3, "auto", "simplex", "normalized")


@pytest.fixture(scope="module")
def rows():
    """Three clusters that touch."""
    features = torch.from_numpy(clusters(TRUTH, distance=1.5)).float()
    return ScaledRows(Scaling("none", "euclidean"), nearest_candidates(features, 15, "euclidean"), features)


def self_training(rows, models, *, selected=SELECTED, candidates=(), labels=LABELS, graph=GRAPH, config=CONFIG):
    options = ensemble_options(graph=graph, config=config)
    return SelfTraining(Selection(rows, Members.equal(selected), list(candidates)), labels, models, options)


def fold_models(count=2):
    return [FoldModel(fold) for fold in FOLDS[:count]]


def of_all_labels():
    return FoldModel(Fold(np.arange(12), np.arange(0)))


# What it is trained on


def test_held_out_labels_decide_nothing_but_the_calibration(rows):
    # No temperature but 1, and no shift worth the penalty: then they decide nothing at all.
    config = replace(CONFIG, max_log_temperature=0.0, shift_penalty=1e30)
    probabilities = []
    for wrong in (False, True):
        (model,) = fold_models(1)
        codes = LABELS.codes.copy()
        codes[model.fold.held] = (codes[model.fold.held] + wrong) % 3
        training = self_training(rows, [model], labels=LABELS._replace(codes=codes), config=config)
        calibrated = [training.run_round() for _ in range(3)]
        assert calibrated[-1].calibration.temperature == 1
        assert calibrated[-1].calibration.shift.abs().max() < 1e-20
        probabilities.append(model.probabilities)
    assert_close(*probabilities, rtol=0, atol=1e-5)


def test_the_first_round_trains_on_labels_alone_and_the_next_on_pseudo_labels_too(rows, recorder):
    model = of_all_labels()
    training = self_training(rows, [model], selected=[*SELECTED, recorder.parameters])
    training.run_round()
    ((_, first),) = recorder.problems
    assert_array_equal(first.rows, np.arange(12))
    assert_array_equal(first.codes, TRUTH[:12])
    assert first.weights is None
    confidence, classes = model.probabilities.max(dim=1)
    confident = np.flatnonzero(confidence[12:] >= CONFIG.pseudo_label_threshold) + 12
    assert 0 < len(confident) < 48  # some are, some are not
    training.run_round()
    _, (_, second) = recorder.problems
    assert_array_equal(second.rows, np.concatenate([np.arange(12), confident]))
    assert_array_equal(second.codes, np.concatenate([TRUTH[:12], classes[confident]]))


def test_the_prediction_for_a_labelled_row_never_replaces_its_label(rows, recorder):
    model = of_all_labels()
    model.probabilities = torch.eye(3)[(TRUTH + 1) % 3]
    self_training(rows, [model], selected=[recorder.parameters]).run_round()
    ((_, found),) = recorder.problems
    assert_array_equal(found.rows, np.arange(60))
    assert_array_equal(found.codes, np.concatenate([TRUTH[:12], (TRUTH[12:] + 1) % 3]))


def test_a_held_out_row_is_pseudo_labelled_like_any_other(rows, recorder):
    (model,) = fold_models(1)
    model.probabilities = torch.eye(3)[(TRUTH + 1) % 3]
    self_training(rows, [model], selected=[recorder.parameters]).run_round()
    ((_, found),) = recorder.problems
    place = np.isin(found.rows, model.fold.held)
    assert place.sum() == len(model.fold.held) > 0
    assert_array_equal(found.codes[place], (TRUTH[found.rows[place]] + 1) % 3)


def test_pseudo_labels_are_those_above_the_threshold(rows, recorder):
    model = of_all_labels()
    model.probabilities = torch.tensor([0.6, 0.3, 0.1]).repeat(60, 1)
    for threshold, count in ((0.61, 12), (0.59, 60)):
        recorder.problems.clear()
        config = replace(CONFIG, pseudo_label_threshold=threshold)
        probabilities = model.probabilities
        self_training(rows, [model], selected=[recorder.parameters], config=config).run_round()
        ((_, found),) = recorder.problems
        assert len(found.rows) == count
        model.probabilities = probabilities


@pytest.mark.parametrize("most", [10, 20, 1000])
def test_of_very_many_confident_rows_a_random_part_is_pseudo_labelled(rows, recorder, most):
    model = of_all_labels()
    model.probabilities = torch.eye(3)[TRUTH]
    config = replace(CONFIG, max_pseudo_labels=most)
    self_training(rows, [model], selected=[recorder.parameters], config=config).run_round()
    ((_, found),) = recorder.problems
    unlabelled = np.arange(12, 60)
    drawn = unlabelled[uniform_hash(unlabelled, 0) < most / 48]
    assert_array_equal(found.rows[12:], drawn)
    assert min(most, 48) / 2 <= len(drawn) <= 1.5 * most


def test_pseudo_labels_count_like_labels_of_weight_1(rows, recorder):
    weights = np.where(np.arange(60) < 12, 3.0, 1.0)
    model = of_all_labels()
    model.probabilities = torch.eye(3)[TRUTH]
    labels = LABELS._replace(weights=weights)
    self_training(rows, [model], selected=[recorder.parameters], labels=labels).run_round()
    ((_, found),) = recorder.problems
    assert_array_equal(found.weights, weights)


def test_a_label_of_weight_zero_counts_for_nothing(rows):
    weights = np.where(np.arange(60) == 4, 0.0, 1.0)
    probabilities = []
    for wrong in (0, 1):
        model, codes = of_all_labels(), LABELS.codes.copy()
        codes[4] = (codes[4] + wrong) % 3
        training = self_training(rows, [model], labels=LABELS._replace(codes=codes, weights=weights))
        for _ in range(2):
            training.run_round()
        probabilities.append(model.probabilities)
    assert_close(*probabilities, rtol=1e-5, atol=1e-5)


# What it predicts


def test_predictions_are_the_mean_of_the_base_learners(rows):
    config = replace(CONFIG, temperature_without_labels=1.0)
    found = []
    for selected in (SELECTED, *([candidate] for candidate in SELECTED)):
        model = of_all_labels()
        self_training(rows, [model], selected=selected, config=config).run_round()
        assert [learner.parameters for learner in model.learners] == list(selected)
        found.append(model.probabilities)
    assert_close(found[0], torch.stack(found[1:]).mean(dim=0), rtol=1e-4, atol=1e-5)


def test_held_out_labels_of_all_models_together_calibrate_them_all(rows):
    both, final = fold_models(), of_all_labels()
    labels = LABELS._replace(weights=np.linspace(0.5, 2, 60))
    calibrated = self_training(rows, [*both, final], labels=labels).run_round()
    features = PropagatedFeatures(rows.features, rows.neighborhood, GRAPH, [LINEAR.hops, KERNEL.hops])
    mixed = {
        id(model): Mixture.equal(3)(log_proba(learner, features) for learner in model.learners)
        for model in (*both, final)
    }
    held = np.concatenate([model.fold.held for model in both])
    predicted = torch.cat([mixed[id(model)][model.fold.held] for model in both])
    expected, mean = Calibration.fit(predicted, TRUTH[held], labels.weights[held], CONFIG)
    assert calibrated.calibration.temperature == pytest.approx(expected.temperature, rel=1e-4)
    assert_close(calibrated.calibration.shift, expected.shift, rtol=1e-4, atol=1e-4)
    weights = labels.weights[held]
    adaptive = AdaptiveTemperature.fit(expected(predicted), TRUTH[held], weights, CONFIG)
    assert calibrated.adaptive_temperature == pytest.approx(adaptive, rel=1e-3)
    assert adaptive.slope != 0
    assert calibrated.log_likelihood == pytest.approx(mean * len(held), rel=1e-4)
    assert calibrated.log_likelihood < 0
    assert calibrated.n_held_out == len(held)
    for model in (*both, final):
        assert_close(model.probabilities, calibrated.calibration(mixed[id(model)]), rtol=1e-4, atol=1e-5)
        assert_close(model.probabilities.sum(dim=1), torch.ones(60))


def test_a_held_out_label_of_a_class_that_was_not_trained_on_does_not_count(rows):
    everything = np.arange(12)
    fold = Fold(everything[TRUTH[:12] != 2][2:], np.array([0, 1, 2, 5]))  # 2 and 5 are of class 2
    assert self_training(rows, [FoldModel(fold)]).run_round().n_held_out == 2


def test_where_nothing_is_held_out_the_calibration_is_a_fixed_one(rows):
    calibrated = self_training(rows, [of_all_labels()], candidates=[LINEAR]).run_round()
    assert calibrated.calibration.temperature == CONFIG.temperature_without_labels
    assert not calibrated.calibration.shift.any()
    assert calibrated.adaptive_temperature == (CONFIG.optimism, 0, 0)
    assert (calibrated.n_held_out, calibrated.log_likelihood) == (0, 0.0)


# The graph


def dense(adjacency):
    return adjacency(torch.eye(60))


def test_each_round_learns_its_graph_from_the_predictions_of_the_round_before(rows, recorder):
    model = of_all_labels()
    training = self_training(rows, [model], selected=[*SELECTED, recorder.parameters])
    training.run_round()
    assert model.graph_probabilities is None
    predicted = model.probabilities
    training.run_round()
    assert_close(model.graph_probabilities, predicted, rtol=0, atol=0)
    graphs = [dense(features.normalized) for features, _ in recorder.problems]
    expected = [
        dense(Adjacency(GRAPH.learn_graph(rows.neighborhood, probabilities), "normalized"))
        for probabilities in (None, predicted)
    ]
    assert len(graphs) == 2
    for found, wanted in zip(graphs, expected, strict=True):
        assert_close(found, wanted)
    assert (graphs[0] - graphs[1]).abs().max() > 1e-3


def test_without_beta_the_first_graph_and_its_features_stay(rows, recorder):
    model = of_all_labels()
    training = self_training(rows, [model], selected=[recorder.parameters], graph=GRAPH._replace(beta=0.0))
    for _ in range(3):
        training.run_round()
    assert len(recorder.problems) == 3
    assert len({id(features) for features, _ in recorder.problems}) == 1
    assert model.graph_probabilities is None


def test_in_the_first_round_all_models_share_the_features(rows, recorder):
    training = self_training(rows, [*fold_models(), of_all_labels()], selected=[recorder.parameters])
    training.run_round()
    assert len(recorder.problems) == 3
    assert len({id(features) for features, _ in recorder.problems}) == 1
    training.run_round()
    assert len({id(features) for features, _ in recorder.problems[3:]}) == 3  # each has its own graph


# Reselection


@pytest.mark.parametrize("far", [HeadParameters(0.8, 1, None, 10.0), SPREADING])
def test_hyper_parameters_are_selected_again_by_held_out_labels(rows, far):
    """Where neighbours are of other classes, base learners that do not propagate are selected, and the reverse."""
    still = HeadParameters(0.0, 0, None, 10.0)
    misleading = TRUTH[np.random.default_rng(0).permutation(60)]
    for wanted, worst, best in ((TRUTH, still, far), (misleading, far, still)):
        training = self_training(
            rows._replace(neighborhood=linked(links_to(TRUTH, wanted, 19))),
            fold_models(3),
            selected=[worst],
            candidates=[worst, best],
            graph=GraphOptions(19, 0.3, 1.0, "knn", "normalized"),
            config=replace(CONFIG, min_reselection_labels=1, few_spreading_prior=CONFIG.prior_weight / 3),
        )
        training.run_round()
        training.reselect()
        assert training.selected.parameters[0] == best
        training.run_round()


def test_reselection_trains_on_a_bounded_number_of_pseudo_labels_without_some_folds(rows, recorder):
    models = [*fold_models(5), of_all_labels()]
    config = replace(
        CONFIG,
        min_reselection_labels=1,
        n_reselection_folds=2,
        max_reselection_pseudo_labels=5,
        pseudo_label_threshold=0.0,
    )
    training = self_training(rows, models, candidates=[LINEAR, recorder.parameters], config=config)
    training.run_round()
    training.reselect()
    assert len(recorder.problems) == 2
    for model, (_, found) in zip(models, recorder.problems, strict=False):
        n_given = len(model.fold.training)
        assert_array_equal(found.rows[:n_given], model.fold.training)
        assert 0 < len(found.rows) - n_given < 15


def test_with_few_held_out_labels_or_without_candidates_the_selection_stays(rows):
    one = replace(CONFIG, min_reselection_labels=1)
    cases = [
        ([of_all_labels()], [KERNEL], one),  # none held out
        (fold_models(), [], one),  # nothing to select from
        (fold_models(), [KERNEL], CONFIG),  # fewer than min_reselection_labels
    ]
    for models, candidates, config in cases:
        training = self_training(rows, models, candidates=candidates, config=config)
        training.run_round()
        training.reselect()
        assert training.selected == Members.equal(SELECTED)


# Samples


def test_hashes_are_uniform_and_depend_on_row_and_seed_alone():
    found = uniform_hash(np.arange(20_000), 3)
    assert found.min() >= 0
    assert found.max() < 1
    assert_allclose(np.histogram(found, bins=10, range=(0, 1))[0], 2000, rtol=0.1)
    assert abs(np.corrcoef(found[:-1], found[1:])[0, 1]) < 0.02
    assert_array_equal(uniform_hash(np.array([7, 5]), 3), found[[7, 5]])
    assert abs(np.corrcoef(found, uniform_hash(np.arange(20_000), 4))[0, 1]) < 0.02
