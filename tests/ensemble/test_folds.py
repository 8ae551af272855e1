"""Which labels are held out, and how few of them selection needs."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from angpn.ensemble.config import EnsembleConfig
from angpn.ensemble.folds import Fold, Labels, given_labels, limit_labels, make_folds, subsample

CONFIG = EnsembleConfig()


def some_codes(*counts, unlabelled=20):
    """So many labels of each class, in no order."""
    codes = np.concatenate([np.repeat(np.arange(len(counts)), counts), np.full(unlabelled, -1)])
    return np.random.default_rng(0).permutation(codes)


def folds_of(codes, validation=None, seed=0, config=CONFIG):
    return make_folds(codes, validation, seed, config)


def labels_with(folds, codes, weights=None):
    return Labels(codes, weights, folds, False)


# Folds


@pytest.mark.parametrize("counts", [(1, 5, 9), (2, 2), (300, 200, 2)])
def test_every_fold_trains_on_every_class_and_on_all_labels_but_the_held_out_ones(counts):
    codes = some_codes(*counts)
    folds = folds_of(codes)
    assert folds
    for training, held in folds:
        assert len(held)
        assert set(codes[training]) == set(range(len(counts)))
        assert_array_equal(np.sort(np.concatenate([training, held])), np.flatnonzero(codes != -1))


@pytest.mark.parametrize("counts", [(1, 5, 9), (2, 2), (200, 150, 1)])
def test_each_label_is_held_out_once_but_never_the_only_one_of_its_class(counts):
    codes = some_codes(*counts)
    held = np.concatenate([fold.held for fold in folds_of(codes)])
    times = np.bincount(held, minlength=len(codes))
    free = (codes != -1) & ~np.isin(codes, np.flatnonzero(np.array(counts) == 1))
    assert not times[~free].any()
    assert (times[free] == 1).all()


def test_folds_hold_out_like_shares_of_each_class():
    codes = some_codes(50, 20)
    for _, held in folds_of(codes):
        assert_array_equal(np.bincount(codes[held]), [10, 4])


def test_very_many_labels_are_held_out_in_one_fold():
    codes = some_codes(1000, 900)
    (fold,) = folds_of(codes)
    assert 300 <= len(fold.held) <= 500
    assert len(fold.training) == 1900 - len(fold.held)
    assert len(folds_of(codes, config=replace(CONFIG, min_held_out=700))) == 3


def test_where_few_others_are_left_validation_rows_are_the_one_fold_and_are_not_trained_on():
    codes = some_codes(5, 5, 1)
    validation = codes != -1
    validation[np.flatnonzero(codes != -1)[::3]] = False
    (fold,) = folds_of(codes, validation)
    assert_array_equal(fold.held, np.flatnonzero(validation))
    assert_array_equal(fold.training, np.flatnonzero((codes != -1) & ~validation))


def some_masked(codes, count):
    mask = np.zeros(len(codes), dtype=bool)
    mask[np.flatnonzero(codes != -1)[:count]] = True
    return mask


def test_beside_few_validation_rows_the_other_labels_are_held_out_in_turn():
    codes = some_codes(80, 60, 1)
    mask = some_masked(codes, 30)
    first, *others = folds_of(codes, mask)
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
def test_validation_rows_are_the_one_fold_where_they_are_enough_or_no_fewer_than_the_others(masked, left, alone):
    codes = some_codes(100, masked + left - 100)
    assert (len(folds_of(codes, some_masked(codes, masked))) == 1) == alone


def test_an_empty_validation_mask_is_as_none():
    codes = some_codes(10, 10)
    for found, expected in zip(folds_of(codes, np.zeros(40, dtype=bool)), folds_of(codes), strict=True):
        assert_array_equal(found.held, expected.held)


def test_nothing_is_held_out_where_every_class_has_one_label():
    assert folds_of(some_codes(1, 1, 1)) == []


def test_folds_follow_the_seed():
    codes = some_codes(10, 10)
    one, same, other = ([fold.held.tolist() for fold in folds_of(codes, seed=seed)] for seed in (0, 0, 1))
    assert one == same
    assert one != other


# Labels


def test_labels_are_few_up_to_a_number_for_each_class_or_where_none_can_be_held_out():
    for counts, few in (((5, 5), True), ((9, 1), True), ((5, 6), False)):
        codes = some_codes(*counts)
        assert labels_with(folds_of(codes), codes).are_few(CONFIG) == few
    codes = some_codes(5, 6)
    assert labels_with([], codes).are_few(CONFIG)
    assert not labels_with(folds_of(codes), codes).are_few(replace(CONFIG, few_labels_per_class=1))


def test_the_training_set_of_given_labels_has_their_codes_and_weights():
    codes, rows = some_codes(5, 5), np.array([3, 1])
    assert labels_with([], codes).n_classes == 2
    found = given_labels(labels_with([], codes), rows)
    assert_array_equal(found.rows, rows)
    assert_array_equal(found.codes, codes[rows])
    assert found.weights is None
    weights = np.arange(30.0)
    assert_array_equal(given_labels(labels_with([], codes, weights), rows).weights, [3, 1])


# Fewer labels, and fewer rows


def test_selection_trains_and_validates_on_a_bounded_number_of_labels():
    folds = [Fold(np.arange(5000), np.arange(5000, 9000)), Fold(np.arange(10), np.arange(20, 30))]
    labels = labels_with(folds, np.zeros(9000, dtype=np.int64))
    first, second = limit_labels(labels, 0, CONFIG).folds
    assert len(np.unique(first.training)) == len(np.unique(first.held)) == CONFIG.max_selection_labels == 2000
    assert np.isin(first.training, folds[0].training).all()
    assert np.isin(first.held, folds[0].held).all()
    for found, given in zip(second, folds[1], strict=True):
        assert_array_equal(found, given)
    for found, again in zip(first, limit_labels(labels, 0, CONFIG).folds[0], strict=True):
        assert_array_equal(found, again)


def test_with_fewer_labels_too_a_class_that_is_validated_on_is_trained_on():
    codes = np.where(np.arange(5000) < 4994, 0, 1)
    fold = Fold(np.delete(np.arange(5000), [0, 1, 4999]), np.array([0, 1, 4999]))
    for seed in range(10):
        (fewer,) = limit_labels(labels_with([fold], codes), seed, CONFIG).folds
        assert set(codes[fewer.training]) == {0, 1}


def test_a_sample_of_the_rows_has_all_of_the_folds_and_the_same_labels():
    codes = some_codes(20, 30, unlabelled=950)
    labels = Labels(codes, np.arange(1000.0), folds_of(codes), True)
    kept, sampled = subsample(1000, labels, 0, 200)
    assert len(kept) == len(np.unique(kept)) == 200
    assert_array_equal(sampled.codes, codes[kept])
    assert_array_equal(sampled.weights, kept)
    assert sampled.masked
    for found, given in zip(sampled.folds, labels.folds, strict=True):
        for rows, expected in zip(found, given, strict=True):
            assert_array_equal(kept[rows], expected)
    again, _ = subsample(1000, labels, 0, 200)
    assert_array_equal(kept, again)
    few, _ = subsample(1000, labels, 0, 10)
    assert_array_equal(few, np.flatnonzero(codes != -1))  # all labelled rows, though they are more than asked for
