"""Which rows are suggested for labelling, from no labels on."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, make_blobs

from angpn import ANGPNClassifier, suggest
from angpn.estimators.eligible_rows import eligible_rows
from angpn.estimators.suggest import find_suggestions
from angpn.estimators.suggestion import choose, explained_share, pool_with_model, pool_without_model

STRATEGIES = ("herding", "typiclust", "probcover", "random")


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)


@pytest.fixture(scope="module")
def blobs():
    centers = np.random.default_rng(0).normal(size=(8, 40)) * 4
    return make_blobs(400, centers=centers, random_state=0)


def test_without_labels_each_cluster_gets_one_before_any_gets_two(blobs):
    X, truth = blobs
    for strategy, least in (("herding", 8), ("typiclust", 8), ("probcover", 6)):  # whose balls take the densest first
        first = suggest(X, 8, strategy=strategy, random_state=0)
        assert len(np.unique(truth[first])) >= least, strategy


def test_rows_of_unit_length_keep_the_weights_of_their_columns():
    truth = np.arange(120) % 6
    noise = np.random.default_rng(0).normal(size=(120, 200)) * np.logspace(-5, -2, 200)
    X = np.hstack([np.eye(6)[truth], noise])

    def share_of_neighbors_of_the_same_class(scaling):
        features = pool_without_model(X, np.full(120, -1), 0, scaling).features
        nearest = (features @ features.T - 9 * np.eye(120)).argmax(axis=1)
        return np.mean(truth[nearest] == truth)

    assert share_of_neighbors_of_the_same_class("unit") == 1
    assert share_of_neighbors_of_the_same_class("auto") < 0.8  # a table, whose columns of noise count as much
    found = find_suggestions(X, 6, random_state=0, scaling="unit")
    assert {truth[one.row] for one in found} == set(range(6))


def test_clusters_with_labels_come_last(blobs):
    X, truth = blobs
    y = np.full(400, -1)
    for label in range(5):
        y[np.flatnonzero(truth == label)[:2]] = label
    for strategy in ("herding", "typiclust", "probcover"):
        assert set(truth[suggest(X, 3, y, strategy=strategy, random_state=0)]) == {5, 6, 7}, strategy


@pytest.mark.parametrize("form", [scipy.sparse.csr_array, pd.DataFrame, torch.from_numpy, np.float32])
def test_every_form_of_rows_is_taken(blobs, form):
    X, truth = blobs
    assert len(np.unique(truth[suggest(form(X), 8, random_state=0)])) == 8


def test_chosen_rows_beat_random_ones(digits):
    X, truth = digits

    def accuracy(rows):
        y = np.full(len(truth), -1)
        y[rows] = truth[rows]
        return ANGPNClassifier(random_state=0).fit(X, y).score(X, truth)

    chosen = accuracy(suggest(X, 20, random_state=0))
    drawn = np.mean([accuracy(suggest(X, 20, strategy="random", random_state=seed)) for seed in range(2)])
    assert chosen > drawn + 0.05


def test_the_same_seed_gives_the_same_rows(digits):
    X, truth = digits
    y = np.where(np.arange(len(truth)) < 60, truth, -1)
    for strategy in (*STRATEGIES, "margin"):
        labels = y if strategy == "margin" else None
        first, second = (
            suggest(X[:500], 7, None if labels is None else labels[:500], strategy=strategy, random_state=1)
            for _ in range(2)
        )
        assert_array_equal(first, second)
        assert len(np.unique(first)) == 7


@pytest.fixture
def repeated(blobs):
    """Rows 10 to 14 are empty, 20 to 29 equal each other, and 30 to 34 equal row 0."""
    dense = np.maximum(blobs[0][:60], 0)
    dense[10:15] = 0
    dense[20:30] = dense[20]
    dense[30:35] = dense[0]
    return scipy.sparse.csr_array(dense)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_empty_and_labelled_rows_are_never_suggested_and_equal_ones_once(repeated, strategy):
    y = np.full(60, -1)
    y[0], y[40] = 0, 0
    found = suggest(repeated, 60, y, strategy=strategy, random_state=0)
    assert not np.isin(found, [0, 40, *range(10, 15)]).any()
    assert np.isin(found, np.arange(20, 30)).sum() == 1
    assert len(found) == len(set(found)) == 60 - 2 - 5 - 9 - 4
    assert found[-1] == 30  # which equals a labelled row: after all others
    y[30] = 0  # agrees with row 0
    found = suggest(repeated, 60, y, strategy=strategy, random_state=0)
    assert not np.isin(found, np.arange(30, 35)).any()


def test_labels_of_equal_rows_are_asked_for_until_one_is_two_ahead(repeated):
    y = np.arange(60) % 2  # all others are labelled
    y[[*range(10, 15), *range(21, 30), *range(31, 35)]] = -1
    y[[0, 20, 30]] = 0, 0, 1
    model = ANGPNClassifier(random_state=0).fit(repeated, y)
    found = model.suggestions(9)
    assert {each.row for each in found} == {21, 31}
    assert {each.row: each.stands_for for each in found} == {21: 9, 31: 4}
    y[21] = 0  # two agree
    y[31] = 0  # two against one
    assert suggest(repeated, 9, y, random_state=0).tolist() == [32]
    y[32] = 0  # three against one
    assert suggest(repeated, 9, y, random_state=0).tolist() == []


def test_a_frequent_kind_of_rows_gets_a_second_label_before_a_rare_one_its_first():
    kinds = np.repeat(np.eye(4), [30, 30, 30, 1], axis=0)
    y = np.full(91, -1)
    y[[0, 30, 60]] = 0, 1, 1
    found = eligible_rows(kinds, np.zeros(0, dtype=np.int64), y, np.ones(91, dtype=bool))
    assert found.of_few_kinds
    assert np.flatnonzero(found.first).tolist() == [1, 31, 61, 90]
    assert found.labels[[0, 1, 90]].tolist() == [1, 1, 0]

    def first(knowledge):
        eligible = eligible_rows(kinds, np.zeros(0, dtype=np.int64), y, np.ones(91, dtype=bool))
        pool = pool_with_model(kinds, eligible, y, np.full((91, 2), 0.5), np.zeros(0, dtype=np.int64), knowledge)
        return choose(pool, 1, "herding", 0)[0].row

    assert first(0.9) in (1, 31, 61)
    assert first(0.999) == 90  # nothing is left to doubt about the others
    y[[1, 31, 61]] = 0, 1, 1
    assert first(0.9) == 90


def test_copies_are_no_kinds():
    """Few of many rows that equal others are copies, which are not labelled twice."""
    X = np.vstack([np.random.default_rng(0).normal(size=(30, 3)), np.ones((15, 3))])
    y = np.where(np.arange(45) < 31, np.arange(45) % 2, -1)
    found = eligible_rows(X, np.zeros(0, dtype=np.int64), y, np.ones(45, dtype=bool))
    assert not found.of_few_kinds
    assert not found.first.any()
    assert np.flatnonzero(found.again).tolist() == [31]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_only_candidates_are_suggested_and_they_cover_what_the_others_would(blobs, strategy):
    X, truth = blobs
    candidates = np.random.default_rng(0).random(400) < 0.5
    found = suggest(X, 8, strategy=strategy, candidates=candidates, random_state=0)
    assert candidates[found].all()
    if strategy != "random":
        assert len(np.unique(truth[found])) >= 6
    if strategy == "herding":  # by leaving out suggestions that are no candidates, some clusters had none
        assert len(np.unique(truth[found])) == 8
    y = np.where(np.arange(400) < 40, truth, -1)
    model = ANGPNClassifier(random_state=0).fit(X, y)
    assert candidates[[one.row for one in model.suggestions(9, strategy=strategy, candidates=candidates)]].all()
    assert candidates[model.uncertain(9, candidates=candidates)].all()


def test_of_equal_rows_the_candidate_is_suggested(repeated):
    candidates = np.ones(60, dtype=bool)
    candidates[20:27] = False
    found = suggest(repeated, 60, candidates=candidates, random_state=0)
    assert found[np.isin(found, np.arange(20, 30))].tolist() == [27]


def test_with_a_model_uncertain_rows_count_more_and_reasons_are_given(digits):
    X, truth = digits
    labelled = suggest(X, 60, random_state=0)
    y = np.full(len(truth), -1)
    y[labelled] = truth[labelled]
    model = ANGPNClassifier(random_state=0).fit(X, y)
    found = model.suggestions(20)
    confidence = model.label_distributions_.max(axis=1)
    assert np.mean([each.confidence for each in found]) < confidence.mean()
    assert all(each.confidence == confidence[each.row] for each in found)
    assert found[0].stands_for >= found[-1].stands_for > 0
    assert_array_equal(model.uncertain(20), [each.row for each in found])
    assert_array_equal(suggest(X, 20, y, random_state=0), model.uncertain(20))
    margins = model.suggestions(20, strategy="margin")
    assert margins[0].confidence < np.median(confidence)


def test_a_model_knows_what_it_predicts_better_than_the_base_rate():
    codes = np.array([0, 0, 0, 1])
    # each class has one label more than among the three others
    base_rate = np.array([[3, 1 + 1], [3, 1 + 1], [3, 1 + 1], [3 + 1, 1]]) / 5
    assert_allclose(explained_share(base_rate, codes, codes), 0, atol=1e-12)
    assert explained_share(np.eye(2)[codes], codes, codes) == 1
    assert explained_share(np.eye(2)[1 - codes], codes, codes) == 0
    root = np.sqrt(base_rate)  # half the log-loss; what is left of a row does not count
    assert_allclose(explained_share(root, codes, codes), 0.5)
    assert explained_share(None, codes, codes) == explained_share(base_rate[:0], codes[:0], codes) == 0


def test_rows_count_alike_where_the_model_knows_nothing(digits):
    X, truth = digits[0][:600], digits[1][:600]
    y = np.where(np.arange(600) < 60, truth, -1)
    model = ANGPNClassifier(random_state=0).fit(X, y)
    nothing = np.zeros(0, dtype=np.int64)
    eligible = pool_without_model(X, y, 0).eligible

    def rows(probabilities, knowledge):
        pool = pool_with_model(model.embedding_, eligible, y, probabilities, nothing, knowledge)
        return [one.row for one in choose(pool, 10, "herding", 0)]

    ignorant = np.full((600, 10), 0.1)
    assert rows(model.label_distributions_, 0.0) == rows(ignorant, 1.0)
    assert rows(model.label_distributions_, 1.0) != rows(ignorant, 1.0)


def test_many_rows_are_sampled():
    X = np.random.default_rng(0).normal(size=(9000, 6))
    assert len(np.unique(suggest(X, 30, random_state=0))) == 30


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n must be a whole number >= 1, got 0; it is how many rows you want"),
        ({"n": 2.5}, "n must be a whole number >= 1, got 2.5"),
        (
            {"strategy": "best"},
            "strategy must be one of 'herding', 'typiclust', 'probcover', 'margin', 'random', got 'best'",
        ),
        ({"strategy": "margin"}, "strategy='margin' needs labels of two classes, got fewer; use strategy='herding'"),
        (
            {"candidates": [0, 1]},
            r"candidates must be one bool a row, got shape \(2,\) of int64; mark rows that can be",
        ),
        ({"candidates": [True]}, "candidates must have one row for each row of X, expected 30, got 1"),
        ({"y": [1, 2]}, "y must have one row for each row of X, expected 30, got 2"),
        ({"X": np.full((10, 2), np.nan)}, "contains NaN"),
        ({"X": np.ones((1, 2))}, "minimum of 3 is required"),
    ],
)
def test_bad_input_gets_a_clear_error(arguments, message):
    options = {"X": np.random.default_rng(0).normal(size=(30, 3)), "n": 3, **arguments}
    with pytest.raises(ValueError, match=message):
        suggest(options.pop("X"), options.pop("n"), options.pop("y", None), **options)


def test_rows_that_are_all_alike_are_one_suggestion():
    assert len(suggest(np.ones((20, 3)), 5, random_state=0)) == 1
