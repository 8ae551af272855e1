"""Accuracy by held-out labels, of which some were drawn at random and others were chosen."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import torch
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError

from angpn import ANGPNClassifier, ANGPNNetworkClassifier, EnsembleConfig
from angpn.inspection.accuracy_estimate import Estimate, estimate_from, wilson_interval

BRIEF = EnsembleConfig(hops=((0.5, 2),))


def easy_and_hard_rows(seed=1):
    """Two far clusters of one class each, and a third, a fifth of the rows, in which labels are coin flips.

    Labels are given for 100 rows drawn at random, and for 60 of the third cluster, as a query strategy would ask.
    """
    generator = np.random.default_rng(seed)
    cluster = generator.choice(3, 1000, p=[0.4, 0.4, 0.2])
    X = np.array([[8.0, 0], [-8, 0], [0, 8]])[cluster] + generator.normal(size=(1000, 2))
    truth = np.where(cluster == 2, generator.integers(0, 2, 1000), cluster)
    at_random = np.zeros(1000, dtype=bool)
    at_random[generator.choice(1000, 100, replace=False)] = True
    suggested = generator.choice(np.flatnonzero((cluster == 2) & ~at_random), 60, replace=False)
    y = np.where(at_random, truth, -1)
    y[suggested] = truth[suggested]
    return X, y, truth, at_random


@pytest.fixture(scope="module")
def mixed():
    X, y, truth, at_random = easy_and_hard_rows()
    model = ANGPNClassifier(config=BRIEF, scaling="standard", n_neighbors=10, random_state=0).fit(X, y)
    return model, y, at_random, np.mean((model.transduction_ == truth)[y == -1])


def test_labels_drawn_at_random_measure_the_accuracy_that_chosen_ones_hide(mixed):
    model, _, at_random, accuracy = mixed
    fair, naive = model.estimate_accuracy(labelled_at_random=at_random), model.estimate_accuracy()
    assert (fair.kind, fair.sample, fair.n_rows, fair.n_left_out) == ("cross-validation", "random", 100, 60)
    assert fair.low <= accuracy <= fair.high
    assert (naive.sample, naive.n_rows, naive.n_left_out) == ("unknown", 160, 0)
    assert naive.high < accuracy - 0.02
    assert fair.confusion.sum() == 100
    assert naive.confusion.sum() == 160


def test_the_held_out_labels_drawn_at_random_are_those_that_count(mixed):
    model, y, at_random, _ = mixed
    held = model.validation_mask_ & at_random
    right = model.validation_transduction_[at_random[model.validation_mask_]] == y[held]
    assert model.estimate_accuracy(labelled_at_random=at_random).accuracy == right.mean()
    # What the mask says of unlabelled rows does not matter.
    found = model.estimate_accuracy(labelled_at_random=at_random | (y == -1))
    assert found[:5] == model.estimate_accuracy(labelled_at_random=at_random)[:5]


def test_where_no_label_was_drawn_at_random_all_count_and_it_says_so(mixed):
    model, y, *_ = mixed
    found = model.estimate_accuracy(labelled_at_random=y == -1)
    assert (found.sample, found.n_rows, found.n_left_out) == ("not random", 160, 0)
    assert found.accuracy == model.estimate_accuracy().accuracy


def test_masks_of_any_container_count_alike_and_others_are_refused(mixed):
    model, _, at_random, _ = mixed
    wanted = model.estimate_accuracy(labelled_at_random=at_random)[:5]
    for mask in (at_random.tolist(), torch.from_numpy(at_random), pd.Series(at_random)):
        assert model.estimate_accuracy(labelled_at_random=mask)[:5] == wanted
    for mask in (at_random.astype(int), np.flatnonzero(at_random), at_random[:, None], ["random"] * 1000, True):
        with pytest.raises(
            ValueError, match=r"labelled_at_random must be one bool a row, got shape .* mark rows whose"
        ):
            model.estimate_accuracy(labelled_at_random=mask)
    with pytest.raises(ValueError, match="one row for each row of X, expected 1000, got 999"):
        model.estimate_accuracy(labelled_at_random=at_random[1:])


def test_a_saved_model_has_the_same_estimate(mixed, tmp_path):
    model, _, at_random, _ = mixed
    model.save(tmp_path / "m.angpn")
    again = ANGPNClassifier.load(tmp_path / "m.angpn").estimate_accuracy(labelled_at_random=at_random)
    wanted = model.estimate_accuracy(labelled_at_random=at_random)
    assert_array_equal(again.confusion, wanted.confusion)
    assert again._replace(confusion=None) == wanted._replace(confusion=None)


def test_the_network_measures_on_its_validation_labels():
    X, y, _, at_random = easy_and_hard_rows()
    names = np.where(y == -1, np.array(None), np.array(["left", "right"], dtype=object)[y])
    model = ANGPNNetworkClassifier(
        metric="euclidean", normalize=False, n_iter_no_change=5, n_neighbors=10, validation_fraction=0.3, random_state=0
    ).fit(X, names)
    found = model.estimate_accuracy(labelled_at_random=at_random)
    assert found.kind == "validation"
    assert found.n_rows == (model.validation_mask_ & at_random).sum()
    assert found.n_rows + found.n_left_out == model.validation_mask_.sum()
    assert model.estimate_accuracy().accuracy == model.best_validation_score_


def test_without_held_out_labels_there_is_no_estimate():
    X, _, truth, _ = easy_and_hard_rows()
    model = ANGPNClassifier(config=BRIEF, scaling="standard", max_rounds=0)
    with pytest.raises(NotFittedError):
        model.estimate_accuracy()
    y = np.full(len(X), -1)
    y[[np.flatnonzero(truth == name)[0] for name in (0, 1)]] = 0, 1
    model.fit(X, y)
    assert model.estimate_accuracy() is None
    with pytest.raises(ValueError, match="labelled_at_random must be"):
        model.estimate_accuracy(labelled_at_random=[1])


def test_the_base_rate_and_recalls_follow_from_the_confusion_matrix():
    confusion = np.array([[80, 4, 0, 0], [6, 2, 0, 0], [4, 0, 4, 0], [0, 0, 0, 0]])
    estimate = Estimate("held out", 0.86, 0.78, 0.92, 100, confusion)
    assert estimate.base_rate == 0.84
    assert estimate.recalls == [80 / 84, 0.25, 0.5, None]
    assert estimate.balanced_accuracy == pytest.approx((80 / 84 + 0.25 + 0.5) / 3)


def test_the_interval_of_held_out_labels_is_wilsons():
    truth, predicted = np.repeat([0, 1], [30, 10]), np.repeat([0, 1], [28, 12])
    wanted = scipy.stats.binomtest(38, 40).proportion_ci(0.95, method="wilson")
    found = estimate_from("held out", truth, predicted, 3)
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))
    assert_array_equal(found.confusion, [[28, 2, 0], [0, 10, 0], [0, 0, 0]])
    crossed = estimate_from("cross-validation", truth, predicted, 3)
    assert found.accuracy == crossed.accuracy == 0.95
    assert crossed.low < found.low
    assert crossed.high > found.high
    assert crossed.high == pytest.approx(wilson_interval(38 / 40, 40 / 1.5)[1])
    sure = estimate_from("cross-validation", truth, truth, 3)
    assert sure.low < sure.accuracy == sure.high == 1
