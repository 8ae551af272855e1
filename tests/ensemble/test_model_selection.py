"""Which scaling and hyper-parameters held-out labels select."""

import itertools
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from torch.testing import assert_close

from angpn import nearest_candidates
from angpn.ensemble.calibration import fit_temperature
from angpn.ensemble.config import EnsembleConfig
from angpn.ensemble.extra_trees import TreesParameters
from angpn.ensemble.folds import Fold, Labels, make_folds
from angpn.ensemble.heads import HeadParameters
from angpn.ensemble.label_spreading import SpreadingParameters
from angpn.ensemble.mixture import Members, select_members
from angpn.ensemble.model_selection import (
    ScaledRows,
    Scorer,
    best_of_families,
    few_label_candidates,
    first_candidates,
    is_far_behind,
    pick_centers,
    refined_candidates,
    reselection_candidates,
    score_all,
    select,
)
from angpn.ensemble.propagated_features import PropagatedFeatures
from angpn.ensemble.scaling import Scaling
from angpn.ensemble.user_options import GraphOptions
from angpn.neighbors.distributed import serial_map
from ensemble_problems import SPREADING, STANDARD, TREES, UNIT, ensemble_options, first_labels, linked, links_to

CONFIG = EnsembleConfig()
QUICK = replace(CONFIG, hops=((0.0, 0), (0.5, 2)))  # a search that does not take long
STILL, FAR = HeadParameters(0.0, 0, None, 10.0), HeadParameters(0.8, 3, None, 10.0)
OPTIONS = ensemble_options()
ALL_FOLDS = ensemble_options(config=replace(CONFIG, far_behind=np.inf))  # nobody is ever far behind


# Scores


@pytest.fixture(scope="module")
def noisy():
    """Two classes of 50 rows that a linear head of few labels barely tells apart."""
    truth = np.arange(100) % 2
    features = torch.from_numpy(np.random.default_rng(0).normal(size=(100, 12)) + np.eye(12)[truth]).float()
    return features, truth


CODES = np.where(np.arange(100) < 20, np.arange(100) % 2, -1)


def scorer_of(features, links, codes=CODES, folds=None, weights=None):
    """A scorer on the graph that links each row to these."""
    links = np.asarray(links)
    options = ensemble_options(graph=GraphOptions(links.shape[1], 0.0, 1.0, "knn", "directed"))
    labels = Labels(codes, weights, make_folds(codes, None, 0, CONFIG) if folds is None else folds, False)
    return Scorer(ScaledRows(Scaling("none", "euclidean"), linked(links), features), labels, options)


def test_propagation_wins_where_neighbours_are_of_one_class(noisy):
    features, truth = noisy
    scorer = scorer_of(features, links_to(truth, truth, 49))
    score_all([scorer], [STILL, FAR, SPREADING], OPTIONS)
    assert scorer.ranking()[2] == STILL


def test_no_propagation_wins_where_neighbours_mislead(noisy):
    _, truth = noisy
    generator = np.random.default_rng(0)
    features = torch.from_numpy(4 * np.eye(5)[truth] + generator.normal(size=(100, 5))).float()
    scorer = scorer_of(features, links_to(truth, truth[generator.permutation(100)], 49))
    score_all([scorer], [FAR, SPREADING, STILL], OPTIONS)
    assert scorer.ranking()[0] == STILL


def watched(calls, options):
    """Options that note which candidates are scored together, and on which folds."""

    def parallel_map(tasks):
        calls.append([task.args for task in tasks])
        return serial_map(tasks)

    return options._replace(parallel_map=parallel_map)


def test_the_best_come_first_and_each_is_scored_once(noisy):
    features, truth = noisy
    scorer, calls = scorer_of(features, links_to(truth, truth, 49)), []
    for candidates in ([STILL, FAR], [STILL, FAR, SPREADING], [STILL, FAR, SPREADING]):
        score_all([scorer], candidates, watched(calls, ALL_FOLDS))
    assert [len(tasks) for tasks in calls] == [2, 2, 1, 1, 0, 0]
    for candidate in (STILL, FAR, SPREADING):
        log_proba = torch.cat(scorer.cross_validate([candidate], slice(None)))
        held = np.concatenate([fold.held for fold in scorer.labels.folds])
        _, expected = fit_temperature(log_proba, CODES[held], None, CONFIG)
        assert scorer.scores[candidate] == pytest.approx(expected, rel=1e-6)
    bonus = {each: each.bonus(CONFIG, of_table=False) / 20 for each in scorer.scores}  # 20 are held out
    best_first = sorted(scorer.scores, key=lambda each: scorer.scores[each] + bonus[each], reverse=True)
    assert scorer.ranking() == best_first


def test_expensive_candidates_are_scheduled_first_and_label_spreading_together(noisy):
    features, truth = noisy
    scorers, calls = [scorer_of(features, links_to(truth, truth, 49)) for _ in range(2)], []
    kernel, further = replace(STILL, width=1.0), SpreadingParameters(0.5)
    score_all(scorers, [STILL, kernel, FAR, SPREADING, further], watched(calls, ALL_FOLDS))
    groups = [[kernel]] * 2 + [[SPREADING, further]] * 2 + [[STILL]] * 2 + [[FAR]] * 2
    assert calls == [[(group, slice(0, 1)) for group in groups], [(group, slice(1, None)) for group in groups]]


def test_what_is_far_behind_after_the_first_fold_is_fitted_on_no_other(noisy):
    """Without propagation a head of few labels guesses; on the graph, of one class each, it knows."""
    features, truth = noisy
    codes = np.where(np.arange(100) < 60, truth, -1)
    scorer, calls = scorer_of(features, links_to(truth, truth, 49), codes), []
    strict = OPTIONS._replace(config=replace(CONFIG, far_behind=1.0, min_far_behind=12))
    score_all([scorer], [FAR, STILL, SPREADING], watched(calls, strict))
    assert scorer.far_behind == {STILL}
    assert [group for group, _ in calls[1]] == [[SPREADING], [FAR]]
    assert scorer.ranking()[2] == STILL
    (fold, *_) = scorer.labels.folds
    (alone,) = scorer.cross_validate([STILL], slice(0, 1))
    assert scorer.scores[STILL] == pytest.approx(fit_temperature(alone, codes[fold.held], None, CONFIG)[1], rel=1e-6)


def test_a_scaling_that_is_far_behind_another_is_given_up_too(noisy):
    features, truth = noisy
    codes = np.where(np.arange(100) < 60, truth, -1)
    misled = links_to(truth, truth[np.random.default_rng(0).permutation(100)], 49)
    scorers, calls = [scorer_of(features, links, codes) for links in (misled, links_to(truth, truth, 49))], []
    strict = OPTIONS._replace(config=replace(CONFIG, min_far_behind=12))
    score_all(scorers, [FAR], watched(calls, strict))
    assert [scorer.far_behind for scorer in scorers] == [{FAR}, set()]
    assert [len(tasks) for tasks in calls] == [2, 1]


def test_far_behind_is_more_than_chance_allows():
    best, chance = np.zeros(100), np.random.default_rng(0).normal(size=100)
    error = chance.std() / 10
    assert not is_far_behind(best, best, CONFIG)
    for behind, expected in ((CONFIG.far_behind - 0.1, False), (CONFIG.far_behind + 0.1, True)):
        assert is_far_behind(chance - chance.mean() - behind * error, best, CONFIG) == expected
    assert not is_far_behind(chance - chance.mean() + 5 * error, best, CONFIG)


def test_nobody_is_far_behind_in_a_fold_of_few_labels():
    behind = -1 - np.linspace(0, 0.1, 30)
    assert is_far_behind(behind, np.zeros(30), CONFIG)
    assert not is_far_behind(behind[:29], np.zeros(29), CONFIG)


def test_more_hops_are_preferred_while_few_labels_are_held_out(noisy):
    features, truth = noisy
    near, far = replace(FAR, n_hops=1), replace(FAR, n_hops=15)
    for repeats, best in ((1, far), (10, near)):
        codes = np.tile(CODES, repeats)
        truths = np.tile(truth, repeats)
        scorer = scorer_of(features.repeat(repeats, 1), links_to(truths, truths, 3), codes)
        scorer.scores.update({near: -0.50, far: -0.52})
        # Three doublings are worth 1.5 units of log-likelihood: of 20 labels 0.075 each, of 200 only 0.0075.
        assert scorer.ranking()[0] == best


def test_a_score_is_that_of_base_learners_that_never_saw_the_held_out_labels(noisy):
    """Other labels there change the score, not the predictions."""
    features, truth = noisy
    (fold, *_) = make_folds(CODES, None, 0, CONFIG)
    wrong = np.where(np.isin(np.arange(100), fold.held), 1 - truth, CODES)
    right_scorer, wrong_scorer = (
        scorer_of(features, links_to(truth, truth, 49), codes, [fold]) for codes in (CODES, wrong)
    )
    graph = GraphOptions(49, 0.0, 1.0, "knn", "directed")
    propagated = PropagatedFeatures(features, linked(links_to(truth, truth, 49)), graph, [FAR.hops])
    for scorer in (right_scorer, wrong_scorer):
        score_all([scorer], [FAR, SPREADING], OPTIONS)
    for candidate in (FAR, SPREADING):
        assert right_scorer.scores[candidate] > -0.3
        assert wrong_scorer.scores[candidate] < -0.6
        one, other = (
            candidate.learner.cross_validate(
                [candidate], propagated, Labels(codes, None, [fold], False), slice(None), config=CONFIG
            )[0]
            for codes in (CODES, wrong)
        )
        assert_close(one, other, rtol=1e-6, atol=1e-6)


def test_a_label_of_weight_zero_counts_for_nothing(noisy):
    features, truth = noisy
    generator = np.random.default_rng(0)
    likely = np.where(truth[:, None] == truth, 2.0, 1.0) * (1 - np.eye(100))  # neighbours, of which some mislead
    links = np.stack([generator.choice(100, 8, replace=False, p=row / row.sum()) for row in likely])
    weights = np.where(np.arange(100) == 7, 0.0, 1.0)
    flipped = np.where(np.arange(100) == 7, 1 - truth, CODES)
    folds = make_folds(np.where(weights > 0, CODES, -1), None, 0, CONFIG)
    with_it = [Fold(np.append(fold.training, 7), fold.held) for fold in folds]
    scores = []
    for codes in (CODES, flipped):
        scorer = scorer_of(features, links, codes, with_it, weights)
        score_all([scorer], [STILL, FAR, SPREADING], OPTIONS)
        scores.append([scorer.scores[candidate] for candidate in (STILL, FAR, SPREADING)])
    assert scores[0] == pytest.approx(scores[1], rel=1e-5)


# Candidates


def test_the_first_candidates_are_every_hops_with_two_heads_label_spreading_and_trees():
    found = first_candidates(CONFIG.hops, CONFIG.spreading_alphas, CONFIG)
    heads = {HeadParameters(*hops, *head) for hops, head in itertools.product(CONFIG.hops, CONFIG.first_heads)}
    others = {*map(SpreadingParameters, CONFIG.spreading_alphas), *(TreesParameters(*each) for each in CONFIG.trees)}
    assert set(found) == heads | others
    assert len(found) == len(set(found))


def test_more_heads_are_tried_with_the_best_hops_of_each_family_only(noisy):
    features, truth = noisy
    hops = [(0.0, 0), (0.2, 1), (0.5, 2), (0.5, 5), (0.8, 5), (0.9, 10)]
    scorer = scorer_of(features, links_to(truth, truth, 49))
    score_all([scorer], first_candidates(hops, CONFIG.spreading_alphas, CONFIG), OPTIONS)
    ranking = scorer.ranking()
    linear, kernel = CONFIG.first_heads
    expected = set()
    for first, of_family in itertools.product((linear, kernel), (hops[:3], hops[3:])):  # near ones, and far ones
        place = {each: ranking.index(HeadParameters(*each, *first)) for each in of_family}
        kept = sorted(of_family, key=place.__getitem__)[: CONFIG.n_hops_refined]
        assert len(kept) == 2 < len(of_family)
        alike = [head for head in CONFIG.more_heads if (head[0] is None) == (first is linear)]
        expected |= {HeadParameters(*each, *head) for each, head in itertools.product(kept, alike)}
    found = refined_candidates(ranking, CONFIG)
    assert set(found) == expected
    assert len(found) == len(expected)


def test_linear_heads_at_their_best_hops_are_whitened_once_there_are_pseudo_labels():
    kernel, far = replace(STILL, width=1.0), replace(FAR, n_hops=9)
    ranking = [SPREADING, kernel, FAR, far, STILL, replace(STILL, C=1.0)]
    found = reselection_candidates(ranking, options())
    assert found[:6] == best_of_families(ranking, CONFIG.n_reselection_candidates) == ranking
    expected = {HeadParameters(*best.hops, None, C, CONFIG.whitening) for best in (FAR, far) for C in CONFIG.whitened_C}
    assert set(found[6:]) == expected
    assert {each.family for each in expected} == {"near whitened", "far whitened"}
    for changes in ({"of_table": True}, {"config": replace(CONFIG, whitening=0.0)}):
        assert reselection_candidates(ranking, options(**changes)) == ranking
    assert reselection_candidates(ranking, options(config=replace(CONFIG, n_reselection_candidates=0))) == []


def test_the_best_of_each_family_come_in_their_order():
    near, kernel, far = STILL, replace(STILL, width=1.0), replace(FAR, n_hops=9)
    ranking = [near, SPREADING, FAR, kernel, replace(near, C=1.0), far, replace(near, C=2.0)]
    assert best_of_families(ranking, 1) == [near, SPREADING, kernel, far]
    assert best_of_families(ranking, 2) == [near, SPREADING, FAR, kernel, far]
    assert best_of_families(ranking, 9) == ranking


def test_members_are_selected_by_all_held_out_labels_of_those_that_are_not_far_behind(noisy):
    features, truth = noisy
    weights = np.linspace(0.5, 2, 100)
    scorer = scorer_of(features, links_to(truth, truth, 49), weights=weights)
    score_all([scorer], [STILL, FAR, SPREADING], ALL_FOLDS)
    held = np.concatenate([fold.held for fold in scorer.labels.folds])
    log_proba = {each: scorer.cross_validate([each], slice(None))[0] for each in (STILL, FAR, SPREADING)}
    expected = select_members(log_proba, CODES[held], weights[held], CONFIG, of_table=False)
    found = scorer.members()
    assert found.parameters == expected.parameters
    for one, other in zip(found.mixture, expected.mixture, strict=True):
        assert one == pytest.approx(other, rel=1e-4)
    scorer.far_behind.add(found.parameters[0])
    assert found.parameters[0] not in scorer.members().parameters


def test_trees_are_scored_where_rows_have_columns_alone(noisy):
    features, truth = noisy
    scorer = scorer_of(features, links_to(truth, truth, 49))
    score_all([scorer], [STILL, TREES], OPTIONS)
    assert set(scorer.scores) == {STILL, TREES}
    turned = Scaling("standard", "euclidean", basis=np.eye(12))
    for scaling in (Scaling("unit", "chord"), turned):
        scorer = scorer_of(features, links_to(truth, truth, 49))
        scorer.rows = scorer.rows._replace(scaling=scaling)
        score_all([scorer], [STILL, TREES], OPTIONS)
        assert set(scorer.scores) == {STILL}


def test_few_labels_have_fixed_hyper_parameters():
    assert few_label_candidates(None, False, CONFIG) == [SpreadingParameters(0.97), SpreadingParameters(0.99)]
    assert few_label_candidates(None, True, CONFIG) == [
        SpreadingParameters(0.97),
        HeadParameters(0.9, 20, None, 10.0),
    ]
    assert few_label_candidates(0.3, True, CONFIG) == [SpreadingParameters(0.3)]


def some_codes(*counts, unlabelled):
    codes = np.concatenate([np.repeat(np.arange(len(counts)), counts), np.full(unlabelled, -1)])
    return np.random.default_rng(0).permutation(codes)


def test_centers_are_bounded_distinct_and_hold_the_few_labelled_rows():
    codes = some_codes(20, 30, unlabelled=2000)
    centers = pick_centers(codes, 0, CONFIG)
    assert len(np.unique(centers)) == CONFIG.n_centers == len(centers)
    assert np.isin(np.flatnonzero(codes != -1), centers).all()
    assert_array_equal(centers, pick_centers(codes, 0, CONFIG))
    assert_array_equal(pick_centers(codes[:40], 0, CONFIG), np.arange(40))


def test_where_labels_are_many_centers_are_unlabelled_rows_too():
    codes = some_codes(1000, 1000, unlabelled=2000)
    kinds = codes[pick_centers(codes, 0, CONFIG)] == -1
    assert 0 < kinds.sum() < CONFIG.n_centers


# The whole selection

TRUTH = np.arange(120) % 3
VALIDATION = np.arange(120) < 18


def directions(noise=0.25):
    """Only the direction of a row tells its class."""
    generator = np.random.default_rng(0)
    rows = np.eye(3)[TRUTH] + noise * generator.normal(size=(120, 3))
    return rows * generator.choice([0.02, 50.0], size=(120, 1))


def table(noise=0.5):
    """A column that says nothing drowns the others."""
    generator = np.random.default_rng(0)
    return np.column_stack(
        [2 * np.eye(3)[TRUTH] + noise * generator.normal(size=(120, 3)), 1000 * generator.normal(size=120)]
    )


def masked_labels(weights=None):
    labels = first_labels(TRUTH, 36, weights, masked=True)
    return labels._replace(folds=make_folds(labels.codes, VALIDATION, 0, CONFIG))


def unmasked_labels(count):
    labels = first_labels(TRUTH, count)
    return labels._replace(folds=make_folds(labels.codes, None, 0, CONFIG))


def options(**changes):
    return ensemble_options(**{"config": QUICK} | changes)


def scaling_of(selection):
    return selection.rows.scaling.name, selection.rows.scaling.metric


@pytest.mark.parametrize("of_table", [False, True])
@pytest.mark.parametrize(("make", "scaling"), [(directions, UNIT), (table, STANDARD)])
def test_the_scaling_is_the_one_under_which_held_out_labels_are_most_likely(make, scaling, of_table):
    impartial = options(config=replace(QUICK, scaling_bonus=0.0, scaling_bonus_of_table=0.0), of_table=of_table)
    assert scaling_of(select(make(), masked_labels(), impartial)) == scaling


@pytest.mark.parametrize(("X", "better"), [(directions(0.4), UNIT), (table(1.0), STANDARD)])
@pytest.mark.parametrize(
    ("of_table", "expected", "name"), [(False, UNIT, "scaling_bonus"), (True, STANDARD, "scaling_bonus_of_table")]
)
def test_another_scaling_than_the_expected_one_must_be_better_by_the_bonus(X, better, of_table, expected, name):
    for bonus, scaling in ((5.0, better), (12.0, expected)):  # it is better by 6 to 10 units of log-likelihood
        biased = options(config=replace(QUICK, **{name: bonus}), of_table=of_table)
        assert scaling_of(select(X, masked_labels(), biased)) == scaling


def test_of_many_rows_a_sample_compares_the_scalings_and_all_are_then_scaled():
    sizes = []

    def find_neighbors(rows, metric):
        sizes.append(len(rows))
        return nearest_candidates(rows, 12, metric)

    found = select(
        table(),
        masked_labels(),
        options(
            find_neighbors=find_neighbors,
            find_training_neighbors=find_neighbors,
            config=replace(QUICK, max_rows_compared=60, max_rows_of_scalings=50),
            of_table=True,
        ),
    )
    assert scaling_of(found) == STANDARD
    assert sizes == [50, 50, 60, 120]
    assert found.rows.neighborhood.n_rows == len(found.rows.features) == 120
    assert found.features is None  # those of the sample are of no use
    assert found.selected.parameters


def test_few_rows_are_searched_once_for_each_scaling_and_their_features_serve_training():
    sizes = []

    def find_neighbors(rows, metric):
        sizes.append(len(rows))
        return nearest_candidates(rows, 12, metric)

    found = select(table(), masked_labels(), options(find_neighbors=find_neighbors))
    assert sizes == [120, 120]
    assert found.features.by_hops.keys() == set(QUICK.hops)
    assert_close(found.features.by_hops[0.0, 0], found.rows.features)


def test_with_given_distances_all_rows_compare_the_scalings():
    sizes = []

    def find_neighbors(rows, metric):
        sizes.append(len(rows))
        return nearest_candidates(rows, 12, metric)

    few = replace(QUICK, max_rows_compared=60)
    finders = {"find_neighbors": find_neighbors, "find_training_neighbors": find_neighbors}
    select(table(), masked_labels(), options(distances_given=True, config=few, **finders))
    assert sizes == [120, 120, 120]


@pytest.mark.parametrize(("name", "of_table"), [("standard", True), ("unit", False)])
def test_where_nothing_can_be_held_out_columns_of_a_table_are_standardised(name, of_table):
    found = select(table(), first_labels(TRUTH, 3), options(of_table=of_table))
    assert found.rows.scaling.name == name
    assert found.selected == Members.equal(few_label_candidates(None, of_table, QUICK))
    assert found.reselection_candidates == []


def alphas_of_spreading(selection):
    return {each.alpha for each in selection.reselection_candidates if isinstance(each, SpreadingParameters)}


def test_few_labels_select_among_the_same_learners_as_enough():
    """One more label must not change what can be selected: accuracy would have a step there."""
    few, enough = (select(directions(), unmasked_labels(n), options(scalings=[UNIT])) for n in (15, 18))
    assert alphas_of_spreading(few) == alphas_of_spreading(enough) == set(QUICK.spreading_alphas)
    assert {each.family for each in few.selected.parameters} > {"label spreading"}  # they select among learners too


def weak_columns():
    """Rows of three classes that differ a little in each of 200 columns, of which no few tell them apart."""
    generator = np.random.default_rng(0)
    means = generator.normal(size=(3, 200))
    return 0.3 * means[TRUTH] + generator.normal(size=(len(TRUTH), 200)) + 0.5


def test_few_labels_find_neighbours_in_the_main_directions_where_that_may_be():
    several = [UNIT, ("unit_standard", "chord"), ("pca", "euclidean")]
    found = select(weak_columns(), unmasked_labels(15), options(scalings=several, n_components=8))
    assert scaling_of(found) == ("pca", "euclidean")
    pure, whole = (
        (TRUTH[each.neighborhood.indices.numpy()[:, :10]] == TRUTH[:, None]).mean()
        for each in (found.rows, select(weak_columns(), unmasked_labels(15), options(scalings=[UNIT])).rows)
    )
    assert pure > whole + 0.1
    assert found.rows.features.shape == (len(TRUTH), 200)  # and all columns are propagated


def test_few_labels_of_a_wide_table_tell_whether_main_directions_serve_it():
    several = [UNIT, STANDARD, ("standard_pca", "euclidean")]
    stages = []
    select(weak_columns(), unmasked_labels(15), options(scalings=several, n_components=8, of_table=True), stages)
    assert [scorer.rows.scaling.name for scorer in stages[0]] == ["standard", "standard_pca"]
    stages.clear()
    select(weak_columns(), unmasked_labels(60), options(scalings=several, n_components=8, of_table=True), stages)
    assert [scorer.rows.scaling.name for scorer in stages[0]] == ["unit", "standard", "standard_pca"]


def test_main_directions_that_hold_all_of_the_rows_are_not_compared_beside_the_rows():
    several = [UNIT, STANDARD, ("pca", "euclidean"), ("standard_pca", "euclidean")]
    stages = []
    select(directions(), unmasked_labels(60), options(scalings=several, n_components=8), stages)
    assert [scorer.rows.scaling.name for scorer in stages[0]] == ["unit", "standard"]


def test_few_labels_of_a_table_select_among_all_but_scalings():
    sizes = []

    def find_neighbors(rows, metric):
        sizes.append((len(rows), metric))
        return nearest_candidates(rows, 12, metric)

    found = select(table(), unmasked_labels(15), options(find_neighbors=find_neighbors, of_table=True))
    assert sizes == [(120, "euclidean")]
    assert scaling_of(found) == STANDARD
    assert {each.family for each in found.reselection_candidates} > {"near linear", "near kernel", "label spreading"}
    assert "trees" in {each.family for each in found.selected.parameters}


def test_the_best_of_each_family_are_selected_and_some_more_compared_again():
    found = select(directions(), masked_labels(), options(scalings=[UNIT]))
    candidates = found.reselection_candidates
    counts = Counter(each.family for each in candidates)
    # Of no more than two hops, without columns.
    assert set(counts) == {"near linear", "near kernel", "near whitened", "label spreading"}
    assert counts["near linear"] == counts["near kernel"] == QUICK.n_reselection_candidates
    assert len(candidates) == len(set(candidates))
    assert len(found.selected.parameters) == len(set(found.selected.parameters))
    weights = {}
    for each, weight in zip(found.selected.parameters, found.selected.mixture.weights, strict=True):
        weights.setdefault(each.family, []).append(weight)
    assert len(weights) > 1
    assert max(map(len, weights.values())) == QUICK.n_of_family
    totals = [sum(of_family) for of_family in weights.values()]
    assert sum(totals) == pytest.approx(1)
    assert totals == sorted(totals, reverse=True)  # the heaviest family first
    assert totals[-1] >= QUICK.min_weight


@pytest.mark.parametrize("labels", [masked_labels(), first_labels(TRUTH, 3)], ids=["some held out", "none held out"])
def test_a_given_alpha_is_the_only_one(labels):
    found = select(directions(), labels, options(scalings=[UNIT], alpha=0.3))
    assert {candidate.alpha for candidate in [*found.selected.parameters, *found.reselection_candidates]} == {0.3}


def test_weights_have_a_say_in_what_is_selected():
    """Held-out labels for which some columns are best, and others for which other columns are."""
    X = np.column_stack([table(), directions()])
    rows = np.arange(120)
    X[rows % 2 == 0, 4:] = np.random.default_rng(1).normal(size=(60, 3))
    X[rows % 2 == 1, :3] = np.random.default_rng(2).normal(size=(60, 3))
    rankings = []
    for part in (0, 1):
        weights = np.where(rows % 2 == part, 1.0, 1e-6)
        rankings.append(select(X, masked_labels(weights), options(scalings=[STANDARD])).reselection_candidates)
    assert rankings[0] != rankings[1]


def test_the_progress_bar_counts_the_two_searches():
    seen = []

    @contextmanager
    def progress_bar(what, total):
        seen.append((what, total))
        yield seen.append

    select(directions(), masked_labels(), options(scalings=[UNIT], progress_bar=progress_bar))
    assert seen == [("hyper-parameters", 2), 1, 1]
