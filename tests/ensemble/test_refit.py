"""A refit with a few more labels, against training from the start with all of them."""

from itertools import islice

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from torch.testing import assert_close

from angpn.ensemble.config import EnsembleConfig
from angpn.ensemble.folds import Labels, make_folds
from angpn.ensemble.refit import Refit
from ensemble_problems import KERNEL, LINEAR, SPREADING, UNIT, clusters, ensemble_options, train_selected

CONFIG = EnsembleConfig()
TRUTH = np.arange(240) % 3
X = clusters(TRUTH, distance=1.4)
OPTIONS = ensemble_options(scalings=[UNIT], keep_features=True)
SELECTED = [LINEAR, KERNEL, SPREADING]


def labels_of(rows, truth=TRUTH):
    codes = np.full(240, -1)
    codes[rows] = truth[rows]
    return Labels(codes, None, make_folds(codes, None, 0, CONFIG), False)


FIRST = labels_of(np.arange(60))


@pytest.fixture(scope="module")
def fitted():
    *_, last = islice(train_selected(X, FIRST, SELECTED, OPTIONS), 3)
    return Refit(last, FIRST.codes, FIRST)


def accuracy(found, codes):
    return float(np.mean((found.probabilities.argmax(dim=1).numpy() == TRUTH)[codes == -1]))


def test_more_labels_are_learnt_from_the_weights_of_the_last_fit(fitted):
    more = labels_of(np.arange(75))
    found = fitted(more, OPTIONS).last
    *_, again = islice(train_selected(X, more, SELECTED, OPTIONS), 3)
    assert [learner.parameters for learner in found.ensemble.learners] == SELECTED
    assert accuracy(found, more.codes) > accuracy(again, more.codes) - 0.03
    assert_close(found.probabilities, again.probabilities, rtol=0, atol=0.3)
    assert float((found.probabilities - again.probabilities).abs().mean()) < 0.05


def test_neighbours_graph_and_features_are_kept(fitted):
    refitted = fitted(labels_of(np.arange(70)), OPTIONS)
    assert refitted.last.features is fitted.last.features
    assert refitted.last.rows is fitted.last.rows
    assert refitted.last.ensemble.graph_probabilities is fitted.last.ensemble.graph_probabilities
    assert refitted.searched is FIRST


def test_features_that_were_not_kept_are_computed_again(fitted):
    more = labels_of(np.arange(70))
    bare = Refit(fitted.last._replace(features=None), fitted.codes, fitted.searched)
    found = bare(more, OPTIONS._replace(keep_features=False)).last
    assert found.features is None
    # Kernels, too, are made again: the same up to rounding.
    assert_close(found.probabilities, fitted(more, OPTIONS).last.probabilities, rtol=0, atol=1e-3)


def test_the_same_labels_again_change_next_to_nothing(fitted):
    found = fitted(FIRST, OPTIONS).last
    assert_close(found.probabilities, fitted.last.probabilities, rtol=0, atol=0.15)
    assert_array_equal(found.probabilities.argmax(dim=1)[:60], fitted.last.probabilities.argmax(dim=1)[:60])


def test_new_labels_calibrate_by_what_was_predicted_while_they_were_unknown(fitted):
    more = labels_of(np.arange(70))
    found = fitted(more, OPTIONS).last
    ((rows, probabilities),) = found.held_out
    assert set(rows) == set(range(70))  # the folds of the first fit, and the ten new ones
    before = fitted.last.calibrated[60:70]
    order = [int(np.flatnonzero(rows == row)[0]) for row in range(60, 70)]
    calibration = found.ensemble.calibration
    assert_close(probabilities[order], calibration(fitted.last.ensemble.calibration.inverse(before)))
    assert found.n_held_out == 70


def test_a_label_that_was_corrected_calibrates_no_more(fitted):
    """What was predicted for it was learnt from the label that it had."""
    other = np.where(np.arange(240) == 7, (TRUTH + 1) % 3, TRUTH)
    corrected = labels_of(np.arange(60), other)
    ((rows, _),) = fitted(corrected, OPTIONS).last.held_out
    assert_array_equal(np.sort(rows), np.delete(np.arange(60), 7))
    assert not fitted.needs_search(corrected, CONFIG)


def test_where_self_training_was_given_up_pseudo_labels_play_no_part(recorder):
    running = train_selected(X, FIRST, [recorder.parameters], OPTIONS)
    first, second = islice(running, 2)
    more = labels_of(np.arange(70))
    for last, with_pseudo_labels in ((first, False), (second, True)):
        recorder.problems.clear()
        Refit(last, FIRST.codes, FIRST)(more, OPTIONS)
        ((_, training),) = recorder.problems
        assert (len(training.rows) > 70) == with_pseudo_labels
        assert_array_equal(training.rows[:70], np.arange(70))


def test_it_searches_again_once_labels_have_grown_by_half(fitted):
    assert not fitted.needs_search(labels_of(np.arange(89)), CONFIG)
    assert fitted.needs_search(labels_of(np.arange(90)), CONFIG)
    step = fitted(labels_of(np.arange(80)), OPTIONS)  # counted from the last search, not from the last fit
    assert not step.needs_search(labels_of(np.arange(89)), CONFIG)
    assert step.needs_search(labels_of(np.arange(90)), CONFIG)


def test_it_searches_again_once_labels_suffice_to_reselect():
    given = labels_of(np.arange(90))
    last = next(train_selected(X, given, [SPREADING], OPTIONS))
    fitted = Refit(last, given.codes, given)
    enough = CONFIG.min_reselection_labels
    assert sum(len(fold.held) for fold in given.folds) < enough
    assert not fitted.needs_search(labels_of(np.arange(enough - 1)), CONFIG)
    assert fitted.needs_search(labels_of(np.arange(enough)), CONFIG)


def test_it_searches_again_for_a_new_class_and_for_one_without_labels(fitted):
    assert fitted.needs_search(labels_of(np.arange(61), np.where(np.arange(240) == 60, 3, TRUTH)), CONFIG)
    assert fitted.needs_search(labels_of(np.flatnonzero((np.arange(240) < 60) & (TRUTH != 1))), CONFIG)


def test_it_searches_again_where_labels_are_few_no_longer():
    few = labels_of(np.arange(15))
    last = next(train_selected(X, few, [SPREADING], OPTIONS))
    state = Refit(last, few.codes, few)
    assert few.are_few(CONFIG)
    assert not state.needs_search(few, CONFIG)
    assert state.needs_search(labels_of(np.arange(16)), CONFIG)


def test_it_searches_again_where_predictions_of_new_labels_were_much_worse_than_they_claimed(fitted):
    wrong = np.where(np.arange(240) >= 60, (TRUTH + 1) % 3, TRUTH)
    assert not fitted.needs_search(labels_of(np.arange(80)), CONFIG)
    assert fitted.needs_search(labels_of(np.arange(80), wrong), CONFIG)


def test_uncertain_predictions_may_be_wrong_without_a_search(fitted):
    """Labels that a person gives where the model asks for them are no surprise to it."""
    probabilities = torch.full((240, 3), 1 / 3)
    unsure = Refit(fitted.last._replace(calibrated=probabilities), fitted.codes, fitted.searched)
    assert not unsure.needs_search(labels_of(np.arange(80), np.where(np.arange(240) >= 60, 2, TRUTH)), CONFIG)


def test_surprises_add_up_over_several_refits(fitted):
    surprise, variance = fitted(labels_of(np.arange(70)), OPTIONS), None
    variance = surprise.variance
    assert variance > 0
    further = surprise(labels_of(np.arange(80)), OPTIONS)
    assert further.variance > variance
