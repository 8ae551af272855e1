"""The learner: what it computes, and that its process may fail."""

import time

import numpy as np
import pytest

from angpn.annotation.learner import Learner
from angpn.annotation.learning import RowLearner
from angpn.annotation.messages import Begin, Failed, Fitted, Learn, Mapped, Prepared, Suggested
from angpn.labelling.input_options import InputOptions
from angpn.labelling.input_rows import Rows


@pytest.fixture(scope="module")
def blobs():
    """Rows of three classes that are far apart, the class of each, and a learner of them."""
    generator = np.random.default_rng(0)
    truth = np.arange(90) % 3
    X = np.eye(3)[truth] * 9 + generator.normal(size=(90, 3))
    rows = Rows("array", [str(row) for row in range(90)], X, None)
    return truth, Begin(InputOptions(input="blobs"), rows)


def test_from_no_labels_on_it_chooses_rows_of_all_classes(blobs):
    truth, begin = blobs
    prepared = RowLearner(begin).prepared()
    assert {truth[one.row] for one in prepared.suggested[:6]} == {0, 1, 2}
    assert prepared.directions.shape == (90, 3)


def test_labels_of_one_class_give_rows_to_label_and_of_two_a_model(blobs):
    truth, begin = blobs
    learner = RowLearner(begin)
    assert isinstance(learner.learn(Learn({0: 7}, [], [])), Suggested)
    found = learner.learn(Learn({row: 10 + int(truth[row]) for row in range(12)}, [], [20, 21]))
    assert isinstance(found, Fitted)
    assert found.classes == [10, 11, 12]
    assert np.mean(np.array(found.classes)[found.best] == 10 + truth) > 0.95
    assert not {one.row for one in found.suggested} & {*range(12), 20, 21}
    assert found.measured is None


def test_accuracy_is_measured_on_audits_alone_and_the_only_label_of_a_class_is_an_error(blobs):
    truth, begin = blobs
    labels = {row: int(truth[row]) for row in range(30)}
    learner = RowLearner(begin)
    assert learner.learn(Learn(labels, [3, 4, 5], [])).measured.n == 3
    labels[40] = 9
    found = RowLearner(begin).learn(Learn(labels, [3, 4, 5, 40], [])).measured
    assert found.n == 4
    assert found.accuracy == 0.75
    assert found.recalls[9] == 0.0


def test_a_mistake_in_labels_is_a_suspect(blobs):
    truth, begin = blobs
    labels = {row: int(truth[row]) for row in range(45)}
    labels[7] = (labels[7] + 1) % 3
    assert (7, int(truth[7])) in RowLearner(begin).learn(Learn(labels, [], [])).suspects


def test_rows_that_were_put_aside_are_not_suggested_and_cover_nothing(blobs):
    truth, begin = blobs
    learner = RowLearner(begin)
    first = learner.prepared().suggested[0].row
    aside = np.flatnonzero(truth == truth[first])[:-1].tolist()  # all but one row of a class
    (left,) = set(np.flatnonzero(truth == truth[first]).tolist()) - {*aside}
    found = [one.row for one in learner.learn(Learn({}, [], aside)).suggested]
    assert not set(aside) & set(found)
    assert left in found[:6]
    labels = {row: int(truth[row]) for row in range(12)}
    assert not set(aside) & {one.row for one in learner.learn(Learn(labels, [], aside)).suggested}


def test_map_and_clusters(blobs):
    _, begin = blobs
    mapped = RowLearner(begin).mapped()
    assert mapped.positions.min() == 0
    assert mapped.positions.max() == 1
    assert sorted(row for one in mapped.clusters for row in one.rows) == list(range(90))


def test_rows_that_are_all_alike_have_no_clusters():
    rows = Rows("array", [str(row) for row in range(8)], np.ones((8, 3)), None)
    learner = RowLearner(Begin(InputOptions(input="ones"), rows))
    assert len(learner.mapped().positions) == 8


class Inbox:
    """Messages of a learner, as they come."""

    def __init__(self):
        self.messages = []

    def wait_for(self, kind, count=1, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = [message for message in self.messages if isinstance(message, kind)]
            if len(found) >= count:
                return found[-1]
            time.sleep(0.05)
        raise AssertionError(f"no {kind.__name__} came, but {[type(one).__name__ for one in self.messages]}")


@pytest.mark.slow
def test_the_process_learns_and_is_started_again_after_it_was_killed(blobs):
    truth, begin = blobs
    inbox = Inbox()
    learner = Learner(begin, inbox.messages.append)
    try:
        learner.start()
        inbox.wait_for(Prepared)
        inbox.wait_for(Mapped)
        labels = Learn({row: int(truth[row]) for row in range(12)}, [], [])
        learner.learn(labels)
        inbox.wait_for(Fitted)
        learner._process.kill()
        failed = inbox.wait_for(Failed)
        assert failed.error == "the process that learns ended with code -9; it is started again with the next labels"
        learner.learn(labels)
        inbox.wait_for(Fitted, count=2)
    finally:
        learner.close()
    assert learner._process.poll() is not None


@pytest.mark.slow
def test_rows_that_cannot_be_encoded_are_told_as_an_error():
    rows = Rows("array", ["0", "1", "2", "3"], np.array([[0.0, 1.0], [1.0, np.nan], [2.0, 0.0], [3.0, 1.0]]), None)
    inbox = Inbox()
    learner = Learner(Begin(InputOptions(input="missing"), rows), inbox.messages.append)
    try:
        learner.start()
        assert inbox.wait_for(Failed).error
        time.sleep(0.3)
        assert len(inbox.messages) == 1
    finally:
        learner.close()
