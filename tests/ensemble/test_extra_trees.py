"""Trees as a base learner: what they are fitted to, what they predict, and what a file of them may hold."""

from dataclasses import astuple, replace

import msgspec
import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from torch.testing import assert_close

from angpn import kernels, nearest_candidates
from angpn.ensemble.config import EnsembleConfig
from angpn.ensemble.extra_trees import ExtraTrees, TreesParameters, TreesState
from angpn.ensemble.folds import Labels, TrainingSet, make_folds
from angpn.ensemble.propagated_features import Problem, PropagatedFeatures
from angpn.ensemble.user_options import GraphOptions
from angpn.neighbors.distributed import serial_map
from angpn.neighbors.neighborhood import Neighborhood
from angpn.neighbors.partition import Reordered
from ensemble_problems import TREES, clusters, first_labels, log_proba

CONFIG = EnsembleConfig(n_trees=20)
TRUTH = np.arange(60) % 3
ROWS = np.arange(24)
TRAINING = TrainingSet(ROWS, TRUTH[ROWS], None)
GRAPH = GraphOptions(5, 0.3, "auto", "simplex", "normalized")
PROPAGATED, SMOOTH = replace(TREES, alpha=0.5, n_hops=2), replace(TREES, min_leaf=3)
PARTS = ("column", "threshold", "left", "shares", "roots")


def features_of(rows=None, neighborhood=None):
    rows = torch.from_numpy(clusters(TRUTH, distance=1.5)).float() if rows is None else rows
    neighborhood = nearest_candidates(rows, 15, "euclidean") if neighborhood is None else neighborhood
    return PropagatedFeatures(rows, neighborhood, GRAPH, [TREES.hops, PROPAGATED.hops])


def fit(candidates, problems, config=CONFIG, n_classes=3, parallel_map=serial_map):
    return ExtraTrees.fit(candidates, problems, n_classes=n_classes, config=config, parallel_map=parallel_map)


def fit_one(candidate=TREES, training=TRAINING, features=None, **options):
    ((trees,),) = fit([candidate], [Problem(features or features_of(), training)], **options)
    return trees


def assert_same(one, other):
    assert one.parameters == other.parameters
    for name in PARTS:
        assert_array_equal(getattr(one, name), getattr(other, name))


# Fits


@pytest.mark.parametrize("candidate", [TREES, PROPAGATED, SMOOTH])
@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2, 24)])
def test_trees_are_grown_on_the_propagated_features_of_the_training_rows(candidate, weights):
    features, training = features_of(), TRAINING._replace(weights=weights)
    trees = fit_one(candidate, training, features)
    inputs = features.by_hops[candidate.hops].numpy()[ROWS]
    seeds = np.arange(20, dtype=np.uint64) * np.uint64(2**32)
    weights = np.ones(24) if weights is None else weights
    expected = kernels.extra_trees.grow_trees(inputs, TRUTH[ROWS], weights, 3, 2, candidate.min_leaf, seeds)
    assert trees.parameters == candidate
    for name, part in zip(PARTS, expected, strict=True):
        assert_array_equal(getattr(trees, name), part)
    assert len(trees.roots) == CONFIG.n_trees


def test_the_log_probabilities_are_those_of_the_trees_and_of_one_that_knows_nothing():
    features = features_of()
    trees = fit_one(features=features)
    found = log_proba(trees, features)
    assert_close(found.exp().sum(dim=1), torch.ones(60))
    # All trees separate the rows they were grown on.
    expected = (20 * torch.eye(3)[TRUTH[ROWS]] + 1 / 3) / 21
    assert_close(found[ROWS].exp(), expected)
    assert_close(trees.log_proba_of(features, ROWS[::-1].copy()), found[ROWS[::-1].copy()], rtol=0, atol=0)
    assert np.mean(found.argmax(dim=1).numpy() == TRUTH) > 0.8


def test_several_problems_are_each_as_if_alone():
    one, other = features_of(), features_of(torch.from_numpy(clusters(TRUTH, seed=1)).float())
    fewer = TrainingSet(ROWS[:15], TRUTH[:15], None)
    problems = [Problem(one, TRAINING), Problem(one, fewer), Problem(other, TRAINING)]
    candidates = [PROPAGATED, TREES, SMOOTH]
    together = fit(candidates, problems)
    assert [[trees.parameters for trees in several] for several in together] == [candidates] * 3
    for several, problem in zip(together, problems, strict=True):
        for trees in several:
            assert_same(trees, fit_one(trees.parameters, problem.training, problem.features))


def test_pseudo_labels_are_left_out():
    weights = np.linspace(0.5, 2, 24)
    with_others = TrainingSet(ROWS, np.r_[TRUTH[:15], np.zeros(9, dtype=np.int64)], weights, n_given=15)
    assert_same(fit_one(training=with_others), fit_one(training=TrainingSet(ROWS[:15], TRUTH[:15], weights[:15])))


def test_a_class_without_labels_is_improbable_but_not_impossible():
    features = features_of()
    training = TrainingSet(ROWS[TRUTH[ROWS] != 1], TRUTH[ROWS][TRUTH[ROWS] != 1], None)
    found = log_proba(fit_one(training=training, features=features), features).exp()
    assert_close(found[:, 1], torch.full((60,), 1 / 3 / 21))
    assert_close(found.sum(dim=1), torch.ones(60))
    of_one = TrainingSet(ROWS[:1], TRUTH[:1], None)
    found = log_proba(fit_one(training=of_one, features=features), features)
    assert_close(found.exp(), torch.tensor([[20 + 1 / 3, 1 / 3, 1 / 3]]).repeat(60, 1) / 21)


def test_a_label_of_weight_zero_counts_for_nothing():
    weights = np.where(np.arange(24) % 4 == 0, 0.0, 1.5)
    kept = ROWS[weights > 0]
    one = fit_one(training=TRAINING._replace(weights=weights))
    assert_same(one, fit_one(training=TrainingSet(kept, TRUTH[kept], np.full(18, 1.5))))
    wrong = np.where(weights > 0, TRUTH[ROWS], (TRUTH[ROWS] + 1) % 3)
    assert_same(one, fit_one(training=TrainingSet(ROWS, wrong, weights)))


def test_of_more_rows_than_asked_for_a_sample_is_grown_on():
    n = 500
    generator = np.random.default_rng(0)
    truth = generator.integers(3, size=n)  # of which the columns tell nothing
    rows = torch.from_numpy(generator.normal(size=(n, 4))).float()
    features = features_of(rows)
    weights = np.where(np.arange(n) < 50, 0.0, 1.0)
    training = TrainingSet(np.arange(n), truth, weights)
    whole, part, again = (
        fit_one(training=training, features=features, config=replace(CONFIG, max_rows_of_trees=most))
        for most in (450, 100, 100)
    )
    assert_same(part, again)
    for trees, count in ((whole, 450), (part, 100)):
        # A row of the sample is told as it is, and others as chance has it.
        learnt = log_proba(trees, features)[np.arange(n), truth] > np.log((20 + 1 / 3) / 21) - 1e-4
        assert learnt[50:].sum() == pytest.approx(count, abs=3)
        assert learnt[:50].sum() < 3
    in_order = fit_one(training=training, features=features, config=replace(CONFIG, max_rows_of_trees=451))
    assert_same(whole, in_order)


def test_so_many_columns_are_drawn_as_the_root_of_their_number(monkeypatch):
    drawn = []

    def grow_trees(columns, codes, weights, n_classes, n_drawn, *others):
        drawn.append(n_drawn)
        return kernel(columns, codes, weights, n_classes, n_drawn, *others)

    kernel = kernels.extra_trees.grow_trees
    monkeypatch.setattr(kernels.extra_trees, "grow_trees", grow_trees)
    for width in (1, 2, 3, 9, 30):
        rows = torch.from_numpy(np.random.default_rng(0).normal(size=(60, width))).float()
        fit_one(features=features_of(rows))
    assert drawn == [1, 1, 2, 3, 5]


@pytest.mark.parametrize("candidate", [TREES, PROPAGATED, SMOOTH])
def test_cross_validation_grows_trees_for_each_fold(candidate):
    labels = first_labels(TRUTH, 24, np.linspace(0.5, 2, 60))
    labels = labels._replace(folds=make_folds(labels.codes, None, 0, CONFIG))
    features = features_of()
    expected = []
    for rows, held in labels.folds:
        training = TrainingSet(rows, TRUTH[rows], labels.weights[rows])
        expected.append(log_proba(fit_one(candidate, training, features), features)[held])
    found = ExtraTrees.cross_validate([candidate, TREES], features, labels, slice(None), config=CONFIG)
    assert len(found) == 2
    assert_close(found[0], torch.cat(expected), rtol=1e-6, atol=1e-6)


def test_cross_validation_never_sees_the_labels_it_is_scored_by():
    labels = first_labels(TRUTH, 24)
    (fold, *_) = make_folds(labels.codes, None, 0, CONFIG)
    wrong = labels.codes.copy()
    wrong[fold.held] = (wrong[fold.held] + 1) % 3
    one, other = (
        ExtraTrees.cross_validate(
            [TREES], features_of(), Labels(codes, None, [fold], False), slice(None), config=CONFIG
        )[0]
        for codes in (labels.codes, wrong)
    )
    assert_close(one, other, rtol=0, atol=0)


def test_the_log_probabilities_of_new_rows_are_those_of_their_propagated_features():
    class New:
        def propagated(self, hops):
            return features.by_hops[hops][[5, 3]]

    features = features_of()
    for trees in fit([TREES, PROPAGATED], [Problem(features, TRAINING)])[0]:
        assert_close(trees.log_proba_new(New()), log_proba(trees, features)[[5, 3]], rtol=0, atol=0)


def test_rows_may_be_held_in_another_order():
    straight = features_of()
    order = torch.from_numpy(np.random.default_rng(0).permutation(60))
    rows = straight.by_hops[TREES.hops][order]
    neighborhood = nearest_candidates(rows, 15, "euclidean")
    reordered = Neighborhood(neighborhood.indices, neighborhood.distances, partition=Reordered(order))
    features = features_of(rows, reordered)
    trees, expected = fit_one(features=features), fit_one(features=straight)
    assert_same(trees, expected)
    assert trees.in_data_order(features.partition) is trees
    assert_close(log_proba(trees, features), log_proba(expected, straight)[order], rtol=0, atol=0)
    assert_close(trees.log_proba_of(features, ROWS), expected.log_proba_of(straight, ROWS), rtol=0, atol=0)


def test_the_result_does_not_depend_on_the_number_of_threads():
    n = 20_000  # so many that threads share them
    rows = torch.from_numpy(np.random.default_rng(0).normal(size=(n, 4))).float()
    trees = fit_one()
    before, found = torch.get_num_threads(), []
    try:
        for n_threads in (1, 2, 3):
            torch.set_num_threads(n_threads)
            found.append(trees._log_proba(rows))
            assert_same(trees, fit_one())
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert_close(found[0], other, rtol=0, atol=0)


def test_fits_may_run_in_any_order():
    def reversed_map(tasks):
        return [task() for task in tasks[::-1]][::-1]

    problems, candidates = [Problem(features_of(), TRAINING)], [TREES, PROPAGATED, SMOOTH]
    for one, other in zip(
        fit(candidates, problems)[0], fit(candidates, problems, parallel_map=reversed_map)[0], strict=True
    ):
        assert_same(one, other)


def test_the_hyper_parameters_tell_hops_and_family_and_have_no_bonus():
    assert PROPAGATED.hops == PROPAGATED.influence_hops == (0.5, 2)
    assert (TREES.family, PROPAGATED.family, SMOOTH.family) == ("trees", "trees", "smooth trees")
    assert TREES.learner is ExtraTrees
    for of_table in (False, True):
        assert TREES.bonus(CONFIG, of_table=of_table) == 0
        expected = CONFIG.prior_weight + CONFIG.trees_bonus * of_table
        assert CONFIG.family_prior("trees", of_table=of_table) == expected
        assert CONFIG.family_prior("smooth trees", of_table=of_table) == expected
        assert CONFIG.family_prior("far linear", of_table=of_table) == CONFIG.prior_weight
    assert CONFIG.family_prior("label spreading", of_table=False) > CONFIG.prior_weight
    assert CONFIG.family_prior("label spreading", of_table=True) < CONFIG.prior_weight
    assert CONFIG.family_prior("label spreading", of_table=False, few_classes=7) == 7 * CONFIG.few_spreading_prior
    assert CONFIG.family_prior("label spreading", of_table=True, few_classes=7) < CONFIG.prior_weight
    assert CONFIG.family_prior("far linear", of_table=False, few_classes=7) == CONFIG.prior_weight


# Files


def read(trees, width=4, n_classes=3, **changes):
    state, arrays = trees.state()
    return ExtraTrees.from_state(state, arrays | changes, width=width, n_classes=n_classes, n_rows=60)


@pytest.mark.parametrize("candidate", [TREES, PROPAGATED, SMOOTH])
def test_trees_are_what_their_state_describes(candidate):
    trees = fit_one(candidate)
    state, arrays = trees.state()
    loaded = ExtraTrees.from_state(
        msgspec.json.decode(msgspec.json.encode(state), type=TreesState), arrays, width=4, n_classes=3, n_rows=60
    )
    assert_same(loaded, trees)
    assert isinstance(loaded.parameters, TreesParameters)
    assert state.parameters == astuple(candidate)
    features = features_of()
    assert_close(log_proba(loaded, features), log_proba(trees, features), rtol=0, atol=0)


@pytest.mark.parametrize(
    "parameters", [(1.5, 0, 1), (-0.1, 0, 1), (0.5, -1, 1), (0.5, 10**9, 1), (0.5, 2, 0), (0.5, 2)]
)
def test_hyper_parameters_out_of_range_are_refused(parameters):
    with pytest.raises(msgspec.ValidationError, match="parameters"):
        msgspec.convert({"kind": "extra_trees", "parameters": parameters}, TreesState)


def with_entry(array, place, value):
    changed = array.copy()
    changed[place] = value
    return changed


TREES_OF_STATE = fit_one()
INNER, LEAF = (int(np.flatnonzero(found)[3]) for found in (TREES_OF_STATE.column >= 0, TREES_OF_STATE.column < 0))
N_NODES, N_LEAVES = len(TREES_OF_STATE.column), len(TREES_OF_STATE.shares)


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("left", INNER, INNER),  # a cycle of one node,
        ("left", INNER, 0),  # and of several
        ("left", INNER, INNER - 1),  # the right child is the node itself
        ("left", INNER, N_NODES),
        ("left", INNER, N_NODES - 1),  # the right child is one too many
        ("left", INNER, np.iinfo(np.int32).max),  # one more would be negative
        ("left", INNER, -1),
        ("left", LEAF, N_LEAVES),
        ("left", LEAF, -1),
        ("column", INNER, 4),
        ("column", INNER, -2),
        ("column", N_NODES - 1, 0),  # the last node has no room for children
        ("roots", 1, N_NODES),
        ("roots", 1, -1),
        ("threshold", INNER, np.nan),
        ("threshold", INNER, np.inf),
        ("shares", (2, 1), -0.1),
        ("shares", (2, 1), 1.1),
        ("shares", (2, 1), np.nan),
    ],
)
def test_a_state_whose_rows_would_never_come_to_a_leaf_or_to_a_wrong_one_is_refused(name, place, value):
    read(TREES_OF_STATE)
    with pytest.raises(ValueError, match=rf"lead to leaves|the array '{name}' has values from .* not all in"):
        read(TREES_OF_STATE, **{name: with_entry(getattr(TREES_OF_STATE, name), place, value)})


@pytest.mark.parametrize(
    "changes",
    [
        {"roots": np.empty(0, np.int32)},
        {"column": np.empty(0, np.int32), "left": np.empty(0, np.int32), "threshold": np.empty(0, np.float32)},
        {"shares": np.empty((0, 3), np.float32)},
        {"column": TREES_OF_STATE.column[:-1]},
        {"threshold": TREES_OF_STATE.threshold.astype(np.float64)},
        {"left": TREES_OF_STATE.left.astype(np.float32)},
        {"shares": TREES_OF_STATE.shares[:, :2].copy()},
        {"more": np.zeros(3, np.float32)},
    ],
    ids=["no tree", "no node", "no leaf", "nodes of two numbers", "doubles", "floats", "classes", "one more array"],
)
def test_arrays_of_other_sizes_types_or_names_are_refused(changes):
    with pytest.raises(ValueError, match=r"lead to leaves|must|array"):
        read(TREES_OF_STATE, **changes)


def test_a_state_without_one_of_its_arrays_is_refused():
    state, arrays = TREES_OF_STATE.state()
    for name in PARTS:
        fewer = {key: array for key, array in arrays.items() if key != name}
        with pytest.raises(ValueError, match=name):
            ExtraTrees.from_state(state, fewer, width=4, n_classes=3, n_rows=60)
