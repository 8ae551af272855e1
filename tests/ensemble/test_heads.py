"""Classifier heads against logistic regression on the features that they are trained on."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from angpn import nearest_candidates
from angpn.ensemble.config import EnsembleConfig
from angpn.ensemble.folds import TrainingSet, make_folds
from angpn.ensemble.heads import HeadParameters, PropagatedHead
from angpn.ensemble.logistic import fit_logistic
from angpn.ensemble.nystroem import GaussianKernel
from angpn.ensemble.propagated_features import Problem, PropagatedFeatures
from angpn.ensemble.user_options import GraphOptions
from angpn.neighbors.distributed import serial_map
from angpn.neighbors.neighborhood import Neighborhood
from angpn.neighbors.partition import Reordered
from ensemble_problems import KERNEL, LINEAR, clusters, first_labels

CONFIG = EnsembleConfig()
TRUTH = np.arange(60) % 3
ROWS = np.arange(24)
CENTERS = np.arange(5, 45)
GRAPH = GraphOptions(5, 0.3, "auto", "simplex", "normalized")
STILL = HeadParameters(0.0, 0, None, 1.0)
TRAINING = TrainingSet(ROWS, TRUTH[ROWS], None)


def features_of(rows=None, scale=5.0):
    """Clusters that touch, not of length 1 on average; or these rows."""
    rows = torch.from_numpy(scale * clusters(TRUTH)).float() if rows is None else rows
    neighborhood = nearest_candidates(rows, 15, "euclidean")
    return PropagatedFeatures(rows, neighborhood, GRAPH, [LINEAR.hops, KERNEL.hops, STILL.hops])


def fit(candidates, problems, parallel_map=serial_map):
    return PropagatedHead.fit(
        candidates, problems, centers=CENTERS, n_classes=3, config=CONFIG, parallel_map=parallel_map
    )


def by_hand(candidate, features, training, rows, centers=CENTERS):
    """Log-probabilities of some rows, each step written out."""
    propagated = features.by_hops[candidate.hops]
    scaled = propagated / propagated.norm(dim=1).mean()
    if candidate.width is not None:
        scaled = GaussianKernel.fit(scaled[centers], candidate.width).features(scaled)
    weight, bias = fit_logistic(
        scaled[training.rows], training.codes, training.weights, candidate.C, 3, tol=1e-3, max_iter=100
    )
    return torch.log_softmax(scaled[rows] @ weight + bias, dim=1)


@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2, 24)])
def test_a_head_is_logistic_regression_on_propagated_features_of_length_1_on_average(weights):
    features, training = features_of(), TRAINING._replace(weights=weights)
    everything = np.arange(60)
    heads = fit([LINEAR, KERNEL, STILL], [Problem(features, training)])[0]
    assert [head.parameters for head in heads] == [LINEAR, KERNEL, STILL]
    for head in heads:
        expected = by_hand(head.parameters, features, training, everything)
        assert_close(head.log_proba(features), expected, rtol=1e-3, atol=1e-3)
        assert_close(head.log_proba(features).exp().sum(dim=1), torch.ones(60))
        assert_close(head.log_proba_of(features, ROWS[::-1].copy()), head.log_proba(features)[ROWS[::-1].copy()])


def test_the_length_of_the_rows_plays_no_part():
    found = []
    for scale in (1.0, 64.0):
        features = features_of(scale=scale)
        found.append([head.log_proba(features) for head in fit([LINEAR, KERNEL], [Problem(features, TRAINING)])[0]])
    for one, other in zip(*found, strict=True):
        assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("candidate", [LINEAR, KERNEL])
def test_many_rows_are_predicted_in_parts(candidate):
    features = features_of()
    ((head,),) = fit([candidate], [Problem(features, TRAINING)])
    times = 2**12 // 60 + 2  # more rows than are taken at once
    features.by_hops[candidate.hops] = features.by_hops[candidate.hops].repeat(times, 1)
    features.kernel_features.clear()
    found = head.log_proba(features)
    assert len(found) == 60 * times > 2**12
    expected = by_hand(candidate, features_of(), TRAINING, np.arange(60)).repeat(times, 1)
    assert_close(found, expected, rtol=1e-3, atol=1e-3)


def test_several_problems_are_each_as_if_alone_and_share_kernels_only_with_their_own_features():
    one, other = features_of(), features_of(torch.from_numpy(clusters(TRUTH, seed=1)).float())
    fewer = TrainingSet(ROWS[:15], TRUTH[:15], None)
    problems = [Problem(one, TRAINING), Problem(one, fewer), Problem(other, TRAINING)]
    together = fit([LINEAR, KERNEL], problems)
    for heads, (features, training, _) in zip(together, problems, strict=True):
        for head in heads:
            expected = by_hand(head.parameters, features, training, np.arange(60))
            assert_close(head.log_proba(features), expected, rtol=1e-3, atol=1e-3)
    assert together[0][1].kernel is together[1][1].kernel
    assert together[0][1].kernel is not together[2][1].kernel


def test_expensive_fits_are_scheduled_first_and_heads_stay_in_order():
    sizes = []

    def watched(tasks):
        found = serial_map(tasks)
        sizes.extend(len(result[0]) for result in found if isinstance(result, tuple))
        return found

    candidates = [LINEAR, KERNEL, STILL, replace(KERNEL, C=1.0)]
    heads = fit(candidates, [Problem(features_of(), TRAINING)], watched)[0]
    assert [head.parameters for head in heads] == candidates
    assert min(sizes[:2]) > max(sizes[2:]) == 4  # a kernel has more columns than the features
    assert [candidate.is_expensive for candidate in candidates] == [False, True, False, True]


@pytest.mark.parametrize("candidate", [LINEAR, KERNEL])
def test_a_head_may_begin_with_that_of_an_earlier_round(candidate):
    features, fewer = features_of(), TrainingSet(ROWS[:15], TRUTH[:15], None)
    ((alone,),) = fit([candidate], [Problem(features, TRAINING)])
    ((earlier,),) = fit([candidate], [Problem(features, fewer)])
    ((found,),) = fit([candidate], [Problem(features, TRAINING, {candidate: earlier})])
    ((again,),) = fit([candidate], [Problem(features, TRAINING, {candidate: alone})])
    # Both are within the tolerance of one minimum; from a result the next is at most one step away.
    assert_close(found.log_proba(features).exp(), alone.log_proba(features).exp(), rtol=0, atol=0.1)
    assert_close(again.log_proba(features).exp(), alone.log_proba(features).exp(), rtol=0, atol=0.01)


@pytest.mark.parametrize("candidate", [LINEAR, KERNEL])
def test_cross_validation_fits_a_head_to_each_fold(candidate):
    labels = first_labels(TRUTH, 24, weights=np.linspace(0.5, 2, 60))
    labels = labels._replace(folds=make_folds(labels.codes, None, 0, CONFIG))
    features = features_of()
    expected = [
        by_hand(candidate, features, TrainingSet(rows, TRUTH[rows], labels.weights[rows]), held, centers=ROWS)
        for rows, held in labels.folds
    ]
    (found,) = PropagatedHead.cross_validate([candidate], features, labels, config=CONFIG)
    assert_close(found, torch.cat(expected), rtol=1e-2, atol=1e-2)  # the root of the ridge, times the weights


def test_cross_validation_of_many_labels_has_no_more_centers_than_asked_for():
    labels = first_labels(TRUTH, 24)
    labels = labels._replace(folds=make_folds(labels.codes, None, 0, CONFIG))
    features = features_of()
    expected = [
        by_hand(KERNEL, features, TrainingSet(rows, TRUTH[rows], None), held, centers=ROWS[::3])
        for rows, held in labels.folds
    ]
    (found,) = PropagatedHead.cross_validate([KERNEL], features, labels, config=replace(CONFIG, n_centers=10))
    assert_close(found, torch.cat(expected), rtol=1e-3, atol=1e-3)


def test_the_log_probabilities_of_new_rows_are_those_of_their_propagated_features():
    class New:
        def propagated(self, hops):
            return features.by_hops[hops][[5, 3]]

    features = features_of()
    for head in fit([LINEAR, KERNEL], [Problem(features, TRAINING)])[0]:
        assert_close(head.log_proba_new(New()), head.log_proba(features)[[5, 3]], rtol=1e-4, atol=1e-5)


def test_rows_may_be_held_in_another_order():
    rows = torch.from_numpy(clusters(TRUTH)).float()
    order = torch.from_numpy(np.random.default_rng(0).permutation(60))
    neighborhood = nearest_candidates(rows[order], 15, "euclidean")
    reordered = Neighborhood(neighborhood.indices, neighborhood.distances, partition=Reordered(order))
    features = PropagatedFeatures(rows[order], reordered, GRAPH, [LINEAR.hops, KERNEL.hops])
    straight = features_of(rows)
    for head, expected in zip(
        fit([LINEAR, KERNEL], [Problem(features, TRAINING)])[0],
        fit([LINEAR, KERNEL], [Problem(straight, TRAINING)])[0],
        strict=True,
    ):
        assert head.in_data_order(features.partition) is head
        assert_close(head.log_proba(features), expected.log_proba(straight)[order], rtol=1e-3, atol=1e-3)
        assert_close(head.log_proba_of(features, ROWS), expected.log_proba_of(straight, ROWS), rtol=1e-3, atol=1e-3)


def test_the_hyper_parameters_tell_hops_family_and_what_reaching_far_is_worth():
    assert KERNEL.hops == KERNEL.influence_hops == (0.8, 3)
    assert KERNEL.bonus(CONFIG, of_table=False) == 2 * CONFIG.hops_bonus  # of 1 + 3 hops, two doublings
    assert KERNEL.bonus(CONFIG, of_table=True) == STILL.bonus(CONFIG, of_table=False) == 0
    heads = [replace(head, n_hops=n_hops) for n_hops in (4, 5) for head in (LINEAR, KERNEL)]
    assert [head.family for head in heads] == ["near linear", "near kernel", "far linear", "far kernel"]
    assert KERNEL.learner is PropagatedHead
