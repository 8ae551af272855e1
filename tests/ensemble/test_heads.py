"""Classifier heads against logistic regression on the features that they are trained on."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
import torch
from torch.testing import assert_close

from angpn import nearest_candidates
from angpn.ensemble.config import EnsembleConfig
from angpn.ensemble.folds import TrainingSet, make_folds
from angpn.ensemble.heads import HeadParameters, HeadState, PropagatedHead
from angpn.ensemble.logistic import Regression, fit_logistic
from angpn.ensemble.principal_features import PrincipalFeatures
from angpn.ensemble.propagated_features import Problem, PropagatedFeatures
from angpn.ensemble.user_options import GraphOptions
from angpn.neighbors.distributed import serial_map
from angpn.neighbors.neighborhood import Neighborhood
from angpn.neighbors.partition import Reordered
from ensemble_problems import KERNEL, LINEAR, clusters, first_labels, log_proba

CONFIG = EnsembleConfig()
TRUTH = np.arange(60) % 3
ROWS = np.arange(24)
CENTERS = np.arange(5, 45)
GRAPH = GraphOptions(5, 0.3, "auto", "simplex", "normalized")
STILL = HeadParameters(0.0, 0, None, 1.0)
WHITENED = replace(LINEAR, whitening=0.25)
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


def by_hand(candidate, features, training, rows, centers=CENTERS, sample=slice(None)):
    """Log-probabilities of some rows, each step written out; principal directions are those of a sample."""
    propagated = features.by_hops[candidate.hops]
    scaled = propagated / propagated.norm(dim=1).mean()
    mapped = PrincipalFeatures.fit(scaled[sample if candidate.width is None else centers], candidate.width)
    columns, regression = mapped(scaled), Regression(*training[:3], candidate.C, candidate.whitening)
    ((weight, bias),) = fit_logistic(columns, mapped.variances, [regression], 3, tol=1e-3, max_iter=100)
    return torch.log_softmax(columns[rows] @ weight + bias, dim=1)


@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2, 24)])
def test_a_head_is_logistic_regression_on_propagated_features_of_length_1_on_average(weights):
    features, training = features_of(), TRAINING._replace(weights=weights)
    everything = np.arange(60)
    heads = fit([LINEAR, KERNEL, STILL, WHITENED], [Problem(features, training)])[0]
    assert [head.parameters for head in heads] == [LINEAR, KERNEL, STILL, WHITENED]
    for head in heads:
        expected = by_hand(head.parameters, features, training, everything)
        assert_close(log_proba(head, features), expected, rtol=1e-3, atol=1e-3)
        assert_close(log_proba(head, features).exp().sum(dim=1), torch.ones(60))
        assert_close(head.log_proba_of(features, ROWS[::-1].copy()), log_proba(head, features)[ROWS[::-1].copy()])


def test_a_whitened_head_is_saved_and_restored_and_an_old_file_has_none():
    features = features_of()
    for candidate in (WHITENED, LINEAR):
        ((head,),) = fit([candidate], [Problem(features, TRAINING)])
        state, arrays = head.state()
        read = msgspec.json.decode(msgspec.json.encode(state), type=HeadState)
        assert ("whitening" in msgspec.to_builtins(state)) == (candidate is WHITENED)
        loaded = PropagatedHead.from_state(read, arrays, width=4, n_classes=3)
        assert loaded.parameters == candidate
        assert_close(log_proba(loaded, features), log_proba(head, features), rtol=1e-4, atol=1e-5)


def test_the_length_of_the_rows_plays_no_part():
    found = []
    for scale in (1.0, 64.0):
        features = features_of(scale=scale)
        found.append([log_proba(head, features) for head in fit([LINEAR, KERNEL], [Problem(features, TRAINING)])[0]])
    for one, other in zip(*found, strict=True):
        assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("candidate", [LINEAR, KERNEL])
def test_many_rows_are_predicted_in_parts(candidate):
    features = features_of()
    ((head,),) = fit([candidate], [Problem(features, TRAINING)])
    times = 2**12 // 60 + 2  # more rows than are taken at once
    features.by_hops[candidate.hops] = features.by_hops[candidate.hops].repeat(times, 1)
    features.columns_of_all.clear()
    found = log_proba(head, features)
    assert len(found) == 60 * times > 2**12
    expected = by_hand(candidate, features_of(), TRAINING, np.arange(60)).repeat(times, 1)
    assert_close(found, expected, rtol=1e-3, atol=1e-3)


def test_several_problems_are_each_as_if_alone_and_share_kernels_only_with_their_own_features():
    one, other = features_of(), features_of(torch.from_numpy(clusters(TRUTH, seed=1)).float())
    fewer = TrainingSet(ROWS[:15], TRUTH[:15], None)
    problems = [Problem(one, TRAINING), Problem(one, fewer), Problem(other, TRAINING)]
    together = fit([LINEAR, KERNEL], problems)
    for heads, (features, training) in zip(together, problems, strict=True):
        for head in heads:
            expected = by_hand(head.parameters, features, training, np.arange(60))
            assert_close(log_proba(head, features), expected, rtol=1e-3, atol=1e-3)
    assert together[0][1].kernel is together[1][1].kernel
    assert together[0][1].kernel is not together[2][1].kernel


def test_heads_on_the_same_inputs_are_one_task_and_expensive_ones_come_first():
    tasks_of_calls = []

    def watched(tasks):
        found = serial_map(tasks)
        tasks_of_calls.append(found)
        return found

    candidates = [LINEAR, KERNEL, STILL, replace(KERNEL, C=1.0)]
    problems = [Problem(features, TRAINING) for features in [features_of()] * 2]
    several = fit(candidates, problems, watched)
    assert [[head.parameters for head in heads] for heads in several] == [candidates] * 2
    _maps, heads = tasks_of_calls
    assert [len(linear) for linear in heads] == [4, 2, 2]  # of two problems, and two penalties of the kernel
    assert len(heads[0][0][0]) == len(CENTERS) > len(heads[1][0][0]) == 4
    assert [candidate.is_expensive for candidate in candidates] == [False, True, False, True]


def test_maps_to_inputs_are_found_on_a_sample_of_many_rows():
    rows = torch.randn(9000, 4, generator=torch.Generator().manual_seed(0))
    lists = Neighborhood(
        (torch.arange(9000)[:, None] + torch.arange(1, 7)) % 9000, torch.linspace(0.1, 1, 6).expand(9000, 6)
    )
    features = PropagatedFeatures(rows, lists, GRAPH, [STILL.hops])
    assert len(features.sample) <= 4096
    ((head,),) = fit([STILL], [Problem(features, TRAINING)])
    assert not features.columns_of_all  # they would be much memory
    expected = by_hand(STILL, features, TRAINING, ROWS, sample=features.sample)
    assert_close(head.log_proba_of(features, ROWS), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("candidate", [LINEAR, KERNEL, WHITENED])
def test_cross_validation_fits_a_head_to_each_fold(candidate):
    labels = first_labels(TRUTH, 24, weights=np.linspace(0.5, 2, 60))
    labels = labels._replace(folds=make_folds(labels.codes, None, 0, CONFIG))
    features = features_of()
    expected = [
        by_hand(candidate, features, TrainingSet(rows, TRUTH[rows], labels.weights[rows]), held, ROWS, ROWS)
        for rows, held in labels.folds
    ]
    (found,) = PropagatedHead.cross_validate([candidate], features, labels, slice(None), config=CONFIG)
    assert_close(found, torch.cat(expected), rtol=1e-2, atol=1e-2)  # rounding by the root of the eigenvalues


def test_cross_validation_of_many_labels_has_no_more_centers_than_asked_for():
    labels = first_labels(TRUTH, 24)
    labels = labels._replace(folds=make_folds(labels.codes, None, 0, CONFIG))
    features = features_of()
    expected = [
        by_hand(KERNEL, features, TrainingSet(rows, TRUTH[rows], None), held, centers=ROWS[::3])
        for rows, held in labels.folds
    ]
    (found,) = PropagatedHead.cross_validate(
        [KERNEL], features, labels, slice(None), config=replace(CONFIG, n_centers=10)
    )
    assert_close(found, torch.cat(expected), rtol=1e-2, atol=1e-2)


def test_the_log_probabilities_of_new_rows_are_those_of_their_propagated_features():
    class New:
        def propagated(self, hops):
            return features.by_hops[hops][[5, 3]]

    features = features_of()
    for head in fit([LINEAR, KERNEL], [Problem(features, TRAINING)])[0]:
        assert_close(head.log_proba_new(New()), log_proba(head, features)[[5, 3]], rtol=1e-4, atol=1e-5)


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
        assert_close(log_proba(head, features), log_proba(expected, straight)[order], rtol=1e-3, atol=1e-3)
        assert_close(head.log_proba_of(features, ROWS), expected.log_proba_of(straight, ROWS), rtol=1e-3, atol=1e-3)


def test_the_hyper_parameters_tell_hops_family_and_what_reaching_far_is_worth():
    assert KERNEL.hops == KERNEL.influence_hops == (0.8, 3)
    assert KERNEL.bonus(CONFIG, of_table=False) == 2 * CONFIG.hops_bonus  # of 1 + 3 hops, two doublings
    assert KERNEL.bonus(CONFIG, of_table=True) == STILL.bonus(CONFIG, of_table=False) == 0
    heads = [replace(head, n_hops=n_hops) for n_hops in (4, 5) for head in (LINEAR, KERNEL)]
    assert [head.family for head in heads] == ["near linear", "near kernel", "far linear", "far kernel"]
    heads = [replace(WHITENED, n_hops=n_hops) for n_hops in (4, 5)]
    assert [head.family for head in heads] == ["near whitened", "far whitened"]
    assert WHITENED.inputs == LINEAR.inputs  # they are fitted side by side
    assert KERNEL.learner is PropagatedHead
