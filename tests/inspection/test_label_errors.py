"""Which given labels are taken for wrong."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_blobs

from angpn import ANGPNClassifier
from angpn.inspection.label_errors import Suspect, find_suspects
from angpn.labelling.job import LabellingOptions, read_task, run_task
from label_inputs import write_labels

NOBODY = np.full((5, 2), -1), np.zeros((5, 2))  # no row influences another


def unlabelled_rest(*given):
    """Five rows, the first of them labelled; the rest are predicted to be of class 0, 1, 0 ..."""
    rest = np.arange(5 - len(given)) % 2
    codes = np.concatenate([given, rest])
    return np.eye(3)[codes], codes, np.arange(5) < len(given)


def test_another_class_must_be_more_than_three_times_as_probable():
    held_out = np.arange(5) < 3
    then = np.array([[0.25, 0.75, 0], [0.2, 0.8, 0], [0.4, 0.35, 0.25]])
    found = find_suspects(*unlabelled_rest(0, 0, 0), held_out, then, *NOBODY)
    assert found == [Suspect(1, 1, 0.8)]


def test_where_few_labels_are_contradicted_more_must_speak_against_one():
    """Of 50 labels one or ten are contradicted: odds of 50 / 2 or 41 / 11, a ratio of 8.3 or 3."""
    codes, given = np.arange(100) % 2, np.arange(100) < 50
    influences = np.full((100, 1), -1), np.zeros((100, 1))
    for n_contradicted, of_label, n_listed in [
        (1, 0.1, 1),
        (1, 0.11, 0),
        (10, 0.11, 10),
        (10, 0.24, 10),
        (10, 0.26, 0),
    ]:
        of_labels = np.where(np.arange(50) < n_contradicted, of_label, 0.99)[:, None]
        then = np.where(np.eye(2, dtype=bool)[codes[:50]], of_labels, 1 - of_labels)
        assert len(find_suspects(np.eye(2)[codes], codes, given, given, then, *influences)) == n_listed


def test_the_least_probable_label_comes_first_and_none_is_left_out():
    n = 200
    codes, given = np.arange(n) % 2, np.arange(n) < 100
    of_label = np.random.default_rng(0).permutation(np.linspace(0, 0.2, 100))
    then = np.where(np.eye(2, dtype=bool)[codes[:100]], of_label[:, None], 1 - of_label[:, None])
    influences = np.full((n, 1), -1), np.zeros((n, 1))
    found = find_suspects(np.eye(2)[codes], codes, given, given, then, *influences)
    assert [suspect.row for suspect in found] == np.argsort(of_label).tolist()
    assert all(suspect.suggested != codes[suspect.row] for suspect in found)


def test_a_label_that_was_never_held_out_is_judged_by_the_influence_on_its_row():
    """Of row 0, 0.1 of 0.5 comes from a row whose label agrees, the rest from one that is of class 1 by 0.95."""
    probabilities, codes, given = unlabelled_rest(0, 0)
    probabilities[3] = 0.05, 0.95, 0
    influences, weights = np.array([[3, 1], [-1, -1]] + [[0, 1]] * 3), np.array([[0.4, 0.1], [0, 0]] + [[1, 1]] * 3)
    nothing = np.zeros(5, dtype=bool), np.empty((0, 3))
    (found,) = find_suspects(probabilities, codes, given, *nothing, influences, weights)
    assert found[:2] == (0, 1)
    assert found.share == pytest.approx(0.76)
    weights[0] = 0.3, 0.2
    assert find_suspects(probabilities, codes, given, *nothing, influences, weights) == []


def test_probabilities_while_a_label_was_held_out_come_before_influences():
    probabilities, codes, given = unlabelled_rest(0, 0)
    influences, weights = np.full((5, 1), 3), np.ones((5, 1))  # of class 1
    held_out, then = np.arange(5) < 1, np.array([[0.9, 0.1, 0]])
    found = find_suspects(probabilities, codes, given, held_out, then, influences, weights)
    assert [suspect.row for suspect in found] == [1]


@pytest.mark.parametrize("held", [True, False])
def test_labels_of_a_class_that_is_never_predicted_are_not_suspected(held):
    """All else is against the labels of rows 0 and 1, but no row is predicted to be of class 2."""
    codes, given = np.array([2, 1, 0, 0, 1]), np.array([True, True, False, False, False])
    probabilities = np.eye(3)[[0, 0, 0, 0, 1]]
    influences, weights = np.array([[2, 3]] * 5), np.full((5, 2), 0.5)
    held_out, then = given & held, np.array([[0.9, 0.1, 0]] * 2)[: 2 * held]
    arguments = held_out, then, influences, weights
    assert [suspect.row for suspect in find_suspects(probabilities, codes, given, *arguments)] == [1]
    codes[4] = 2
    assert [suspect.row for suspect in find_suspects(probabilities, codes, given, *arguments)] == [0]


@pytest.mark.parametrize("model", ["auto", "network"])
def test_a_job_lists_the_labels_that_were_flipped(tmp_path, model):
    """Most labels of the network are never held out."""
    X, truth = make_blobs(300, n_features=4, centers=6 * np.eye(3, 4), random_state=0)
    np.save(tmp_path / "rows.npy", X.astype(np.float32))
    names = truth[:60].copy()
    flipped = [int(np.flatnonzero(names == code)[0]) for code in range(3)]  # of three classes, to three others
    names[flipped] = (names[flipped] + 1) % 3
    labels = write_labels(tmp_path / "labels.csv", map(str, range(60)), names.astype(str))
    result = run_task(read_task(LabellingOptions(input=tmp_path / "rows.npy", labels=labels, model=model)))
    assert sorted(suspect.row for suspect in result.labelled.suspects) == sorted(flipped)
    assert all(suspect.suggested == truth[suspect.row] for suspect in result.labelled.suspects)


def f1(found, wrong):
    return 2 * len(np.intersect1d(found, wrong)) / (len(found) + len(wrong))


def test_the_list_is_at_least_as_good_as_cleanlabs():
    cleanlab = pytest.importorskip("cleanlab.filter", reason="the reference implementation is not installed")
    X, truth = load_digits(return_X_y=True)
    generator = np.random.default_rng(0)
    rows = generator.permutation(len(X))[:360]
    wrong = rows[:36]
    y = np.full(len(X), -1)
    y[rows] = truth[rows]
    y[wrong] = (truth[wrong] + generator.integers(1, 10, 36)) % 10
    model = ANGPNClassifier(random_state=0).fit(X, y)
    held, then, codes = model.validation_mask_, model.validation_distributions_, np.where(y < 0, model.transduction_, y)
    found = find_suspects(model.label_distributions_, codes, y >= 0, held, then, *model.influences(8))
    theirs = np.flatnonzero(held)[cleanlab.find_label_issues(y[held], then, n_jobs=1)]
    assert f1([suspect.row for suspect in found], wrong) >= f1(theirs, wrong) > 0.5
