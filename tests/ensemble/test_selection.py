"""How labels are held out, and what they then ask for."""

import itertools

import numpy as np
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_array_equal

from angpn.ensemble.base_learners import PropagationMatrix, Setting, propagated
from angpn.ensemble.label_spreading import SpreadSetting
from angpn.ensemble.selection import (
    FIRST_READOUTS,
    MORE_READOUTS,
    N_CENTERS,
    REACHES_KEPT,
    SPREADS,
    Fold,
    Judge,
    fewer_labels,
    first_settings,
    make_folds,
    more_settings,
    pick_centers,
    score_all,
)


def some_codes(*counts, unlabelled=20):
    """So many labels of each class, in no order."""
    codes = np.concatenate([np.repeat(np.arange(len(counts)), counts), np.full(unlabelled, -1)])
    return np.random.default_rng(0).permutation(codes)


# Folds


@pytest.mark.parametrize("counts", [(1, 5, 9), (2, 2), (300, 200, 2)])
def test_every_fold_learns_from_every_class_and_from_all_labels_but_the_held_ones(counts):
    codes = some_codes(*counts)
    folds = make_folds(codes, None, 0)
    assert folds
    for training, held in folds:
        assert len(held)
        assert set(codes[training]) == set(range(len(counts)))
        assert_array_equal(np.sort(np.concatenate([training, held])), np.flatnonzero(codes != -1))


@pytest.mark.parametrize("counts", [(1, 5, 9), (2, 2), (200, 150, 1)])
def test_each_label_is_held_out_once_but_never_the_only_one_of_its_class(counts):
    codes = some_codes(*counts)
    held = np.concatenate([fold.held for fold in make_folds(codes, None, 0)])
    times = np.bincount(held, minlength=len(codes))
    free = (codes != -1) & ~np.isin(codes, np.flatnonzero(np.array(counts) == 1))
    assert not times[~free].any()
    assert (times[free] == 1).all()


def test_folds_hold_out_like_shares_of_each_class():
    codes = some_codes(50, 20)
    for _, held in make_folds(codes, None, 0):
        assert_array_equal(np.bincount(codes[held]), [10, 4])


def test_very_many_labels_are_held_out_once():
    codes = some_codes(1000, 900)
    (fold,) = make_folds(codes, None, 0)
    assert 300 <= len(fold.held) <= 500
    assert len(fold.training) == 1900 - len(fold.held)


def test_where_few_others_are_left_validation_rows_are_the_one_fold_and_are_not_learnt_from():
    codes = some_codes(5, 5, 1)
    validation = codes != -1
    validation[np.flatnonzero(codes != -1)[::3]] = False
    (fold,) = make_folds(codes, validation, 0)
    assert_array_equal(fold.held, np.flatnonzero(validation))
    assert_array_equal(fold.training, np.flatnonzero((codes != -1) & ~validation))


def some_masked(codes, count):
    mask = np.zeros(len(codes), dtype=bool)
    mask[np.flatnonzero(codes != -1)[:count]] = True
    return mask


def test_beside_few_validation_rows_the_other_labels_are_held_out_in_turn():
    codes = some_codes(80, 60, 1)
    mask = some_masked(codes, 30)
    first, *others = make_folds(codes, mask, 0)
    assert_array_equal(first.held, np.flatnonzero(mask))
    assert_array_equal(first.training, np.flatnonzero((codes != -1) & ~mask))
    assert not mask[np.concatenate([rows for fold in others for rows in fold])].any()
    for training, held in others:
        assert_array_equal(np.sort(np.concatenate([training, held])), first.training)
    held = np.concatenate([fold.held for fold in others])
    assert_array_equal(np.sort(held), first.training[codes[first.training] != 2])


@pytest.mark.parametrize(
    ("masked", "left", "alone"), [(399, 500, False), (400, 500, True), (99, 100, False), (100, 100, True)]
)
def test_validation_rows_judge_alone_where_they_are_enough_or_no_fewer_than_the_others(masked, left, alone):
    codes = some_codes(100, masked + left - 100)
    assert (len(make_folds(codes, some_masked(codes, masked), 0)) == 1) == alone


def test_nothing_is_held_out_where_every_class_has_one_label():
    assert make_folds(some_codes(1, 1, 1), None, 0) == []


def test_folds_follow_the_seed():
    codes = some_codes(10, 10)
    one, same, other = ([fold.held.tolist() for fold in make_folds(codes, None, seed)] for seed in (0, 0, 1))
    assert one == same
    assert one != other


# Fewer labels, and centres


def test_a_search_learns_from_and_judges_by_a_bounded_number_of_labels():
    folds = [Fold(np.arange(5000), np.arange(5000, 9000)), Fold(np.arange(10), np.arange(20, 30))]
    first, second = fewer_labels(folds, np.zeros(9000, dtype=np.int64), 0)
    assert len(np.unique(first.training)) == len(np.unique(first.held)) == 2000
    assert np.isin(first.training, folds[0].training).all()
    assert np.isin(first.held, folds[0].held).all()
    for found, given in zip(second, folds[1], strict=True):
        assert_array_equal(found, given)
    for found, again in zip(first, fewer_labels(folds, np.zeros(9000, dtype=np.int64), 0)[0], strict=True):
        assert_array_equal(found, again)


def test_with_fewer_labels_too_a_class_that_is_judged_by_is_learnt_from():
    codes = np.where(np.arange(5000) < 4994, 0, 1)
    fold = Fold(np.delete(np.arange(5000), [0, 1, 4999]), np.array([0, 1, 4999]))
    for seed in range(10):
        (fewer,) = fewer_labels([fold], codes, seed)
        assert set(codes[fewer.training]) == {0, 1}


def test_centers_are_bounded_distinct_and_hold_the_few_labelled_rows():
    codes = some_codes(20, 30, unlabelled=2000)
    centers = pick_centers(codes, 0)
    assert len(np.unique(centers)) == N_CENTERS == len(centers)
    assert np.isin(np.flatnonzero(codes != -1), centers).all()
    assert_array_equal(centers, pick_centers(codes, 0))


def test_where_labels_are_many_centers_are_unlabelled_rows_too():
    codes = some_codes(1000, 1000, unlabelled=2000)
    kinds = codes[pick_centers(codes, 0)] == -1
    assert 0 < kinds.sum() < N_CENTERS


# Judging


@pytest.fixture(scope="module")
def noisy():
    """Two classes of 50 rows that a linear readout of few labels barely tells apart, and a graph within the classes."""
    generator = np.random.default_rng(0)
    truth = np.arange(100) % 2
    features = torch.from_numpy(generator.normal(size=(100, 12)) + np.eye(12)[truth]).float()
    return features, truth, (truth[:, None] == truth) / 50


CODES = np.where(np.arange(100) < 20, np.arange(100) % 2, -1)
STILL, FAR, SPREAD = Setting(0.0, 0, None, 10.0), Setting(0.8, 3, None, 10.0), SpreadSetting(0.9)


def judge_of(features, graph, codes, folds=None, weights=None, reaches=(STILL.reach, FAR.reach)):
    graph = scipy.sparse.csr_array(graph)
    found = propagated(features, PropagationMatrix(graph, "directed"), reaches)
    folds = make_folds(codes, None, 0) if folds is None else folds
    return Judge(PropagationMatrix(graph, "normalized"), found, folds, codes, weights, np.arange(len(codes)))


def test_propagation_wins_where_neighbours_are_of_one_class(noisy):
    features, _, graph = noisy
    judge = judge_of(features, graph, CODES)
    score_all([judge], [STILL, FAR, SPREAD])
    assert judge.best(3)[2].setting == STILL


def test_no_propagation_wins_where_neighbours_mislead(noisy):
    _, truth, graph = noisy
    generator = np.random.default_rng(0)
    features = torch.from_numpy(4 * np.eye(5)[truth] + generator.normal(size=(100, 5))).float()
    judge = judge_of(features, graph[generator.permutation(100)], CODES)
    score_all([judge], [FAR, SPREAD, STILL])
    assert judge.best(1)[0].setting == STILL


def test_the_best_come_first_and_each_is_judged_once(noisy, monkeypatch):
    features, _, graph = noisy
    judge = judge_of(features, graph, CODES)
    score_all([judge], [STILL, FAR, SPREAD])
    assert [score for _, score in judge.best(2)] == sorted(judge.scores.values(), reverse=True)[:2]
    monkeypatch.setattr(Judge, "score", lambda *arguments: pytest.fail("judged again"))
    score_all([judge], [STILL, FAR, SPREAD])


def test_a_score_is_what_a_member_that_never_saw_the_held_out_labels_reaches(noisy):
    """Other labels there change what is judged, not what is said."""
    features, truth, graph = noisy
    (fold, *_) = make_folds(CODES, None, 0)
    lied = np.where(np.isin(np.arange(100), fold.held), 1 - truth, CODES)
    honest, fooled = (judge_of(features, graph, codes, [fold]) for codes in (CODES, lied))
    for judge in (honest, fooled):
        score_all([judge], [FAR, SPREAD])
    for setting in (FAR, SPREAD):
        assert honest.scores[setting] > -0.3
        assert fooled.scores[setting] < -0.6


def test_a_label_of_weight_zero_has_no_say(noisy):
    features, truth, _ = noisy
    likely = np.where(truth[:, None] == truth, 0.1, 0.05)  # neighbours, of which some mislead
    graph = (np.random.default_rng(0).random((100, 100)) < likely) / 8
    weights = np.where(np.arange(100) == 7, 0.0, 1.0)
    flipped = np.where(np.arange(100) == 7, 1 - truth, CODES)
    folds = make_folds(np.where(weights > 0, CODES, -1), None, 0)
    with_it = [Fold(np.append(fold.training, 7), fold.held) for fold in folds]
    scores = []
    for codes in (CODES, flipped):
        judge = judge_of(features, graph, codes, with_it, weights)
        score_all([judge], [STILL, FAR, SPREAD])
        scores.append(list(judge.scores.values()))
    assert scores[0] == pytest.approx(scores[1], rel=1e-4)


def test_more_readouts_are_tried_with_the_best_reaches_only(noisy):
    features, _, graph = noisy
    reaches = [(0.0, 0), (0.2, 1), (0.5, 2), (0.5, 5), (0.8, 5), (0.9, 10)]
    judge = judge_of(features, graph, CODES, reaches=reaches)
    score_all([judge], first_settings(reaches, SPREADS))
    best_of = {reach: max(judge.scores[Setting(*reach, *readout)] for readout in FIRST_READOUTS) for reach in reaches}
    kept = sorted(reaches, key=lambda reach: -best_of[reach])[:REACHES_KEPT]
    assert set(judge.scores) >= set(SPREADS)
    assert set(more_settings(judge)) == {Setting(*a, *b) for a, b in itertools.product(kept, MORE_READOUTS)}
