"""What students learn from in each round, and what held-out labels may decide."""

import numpy as np
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch.testing import assert_close

from angpn import nearest_candidates
from angpn.ensemble import self_training as rounds
from angpn.ensemble.base_learners import GraphOptions, Setting
from angpn.ensemble.calibration import Calibration
from angpn.ensemble.label_spreading import SpreadSetting
from angpn.ensemble.selection import Fold, make_folds
from angpn.ensemble.self_training import SURE, Problem, Rounds, Student

LINEAR, RADIAL, SPREAD = Setting(0.5, 2, None, 10.0), Setting(0.0, 0, 1.0, 100.0), SpreadSetting(0.9)
TRUTH = np.arange(60) % 3


@pytest.fixture(scope="module")
def problem():
    """Three clusters that touch, and four labels in each."""
    generator = np.random.default_rng(0)
    features = torch.from_numpy(1.5 * np.eye(4)[TRUTH] + 0.7 * generator.normal(size=(60, 4))).float()
    return Problem(
        features,
        nearest_candidates(features, 15, "euclidean"),
        GraphOptions(5, 0.3, "auto", "simplex", "normalized"),
        [LINEAR, RADIAL, SPREAD],
        np.where(np.arange(60) < 12, TRUTH, -1),
        None,
        np.arange(60),
        3,
        0,
    )


def students(problem, count=2):
    return [Student(fold) for fold in make_folds(problem.codes, None, 0)[:count]]


def everything(problem):
    return Student(Fold(np.flatnonzero(problem.codes != -1), np.array([], dtype=np.int64)))


def lessons(monkeypatch):
    """What readouts are taught from now on: how many rows, their classes and weights."""
    seen = []
    fit_linear = rounds.fit_linear

    def watched(inputs, codes, weights, *rest):
        seen.append((len(inputs), codes, weights))
        return fit_linear(inputs, codes, weights, *rest)

    monkeypatch.setattr(rounds, "fit_linear", watched)
    return seen


def test_held_out_labels_decide_nothing_but_the_calibration(problem, monkeypatch):
    monkeypatch.setattr(Calibration, "by", lambda *arguments: (Calibration(0.8, torch.zeros(3)), -1.0))
    beliefs = []
    for wrong in (False, True):
        (student,) = students(problem, 1)
        codes = problem.codes.copy()
        codes[student.fold.held] = (codes[student.fold.held] + wrong) % 3
        training = Rounds(problem._replace(codes=codes), [student], [])
        for _ in range(3):
            next(training)
        beliefs.append(student.beliefs)
    assert_close(*beliefs, rtol=0, atol=0)


def test_the_first_round_learns_from_labels_alone_and_the_next_from_sure_rows_too(problem, monkeypatch):
    student, seen = everything(problem), lessons(monkeypatch)
    training = Rounds(problem, [student], [])
    next(training)
    for rows, codes, _ in seen:
        assert rows == 12
        assert_array_equal(codes, problem.codes[:12])
    seen.clear()
    surest, classes = student.beliefs.max(dim=1)
    sure = np.flatnonzero(surest[12:] >= SURE) + 12
    assert 0 < len(sure) < 48  # some are, some are not
    next(training)
    for rows, codes, _ in seen:
        assert rows == 12 + len(sure)
        assert_array_equal(codes, np.concatenate([problem.codes[:12], classes[sure]]))


def test_what_is_believed_of_a_labelled_row_never_replaces_its_label(problem, monkeypatch):
    student, seen = everything(problem), lessons(monkeypatch)
    student.beliefs = torch.eye(3)[(TRUTH + 1) % 3]
    next(Rounds(problem, [student], []))
    for _, codes, _ in seen:
        assert_array_equal(codes, np.concatenate([problem.codes[:12], (TRUTH[12:] + 1) % 3]))


def test_of_very_many_sure_rows_some_teach(problem, monkeypatch):
    monkeypatch.setattr(rounds, "_TAUGHT_AT_MOST", 10)
    student, seen = everything(problem), lessons(monkeypatch)
    student.beliefs = torch.eye(3)[TRUTH]
    next(Rounds(problem, [student], []))
    assert [rows for rows, *_ in seen] == [22, 22]


def test_sure_rows_count_like_labels_of_weight_1(problem, monkeypatch):
    weights = np.where(np.arange(60) < 12, 3.0, 1.0)
    student, seen = everything(problem), lessons(monkeypatch)
    student.beliefs = torch.eye(3)[TRUTH]
    next(Rounds(problem._replace(weights=weights), [student], []))
    for *_, found in seen:
        assert_array_equal(found, weights)


def test_a_label_of_weight_zero_has_no_say(problem):
    weights = np.where(np.arange(60) == 4, 0.0, 1.0)
    beliefs = []
    for wrong in (0, 1):
        student = everything(problem)
        codes = problem.codes.copy()
        codes[4] = (codes[4] + wrong) % 3
        training = Rounds(problem._replace(codes=codes, weights=weights), [student], [])
        for _ in range(2):
            next(training)
        beliefs.append(student.beliefs)
    assert_close(*beliefs, rtol=1e-3, atol=1e-3)


def test_what_is_believed_is_the_mean_of_the_members(problem, monkeypatch):
    monkeypatch.setattr(Calibration, "unknown", lambda n_classes: Calibration(1.0, torch.zeros(n_classes)))
    found = []
    for settings in ([LINEAR, RADIAL, SPREAD], [LINEAR], [RADIAL], [SPREAD]):
        student = everything(problem)
        next(Rounds(problem._replace(settings=settings), [student], []))
        found.append(student.beliefs)
    assert_close(found[0], torch.stack(found[1:]).mean(dim=0))


def test_held_out_labels_of_all_students_together_calibrate_them_all(problem, monkeypatch):
    asked, by = [], Calibration.by
    monkeypatch.setattr(Calibration, "by", lambda *arguments: asked.append(arguments) or by(*arguments))
    both, final = students(problem), everything(problem)
    weights = np.linspace(0.5, 2, 60)
    found = next(Rounds(problem._replace(weights=weights), [*both, final], []))
    ((said, truth, counting),) = asked
    rows = np.concatenate([student.fold.held for student in both])
    assert_array_equal(truth, problem.codes[rows])
    assert_array_equal(counting, weights[rows])
    believed = torch.cat([student.beliefs[student.fold.held] for student in both])
    assert_close(believed, found[0](said))
    assert found[1] < 0
    assert_close(final.beliefs.sum(dim=1), torch.ones(60))


def test_where_nothing_is_held_out_the_calibration_is_a_fixed_one(problem):
    found = next(Rounds(problem, [everything(problem)], [LINEAR]))
    assert found[0].temperature == Calibration.unknown(3).temperature
    assert not found[0].shift.any()
    assert found[2] == 0


def graphs_learnt(monkeypatch):
    """The beliefs behind each graph that is learnt from now on."""
    seen = []
    learnt_graph = rounds.learnt_graph

    def watched(neighborhood, options, beliefs):
        seen.append(beliefs)
        return learnt_graph(neighborhood, options, beliefs)

    monkeypatch.setattr(rounds, "learnt_graph", watched)
    return seen


def test_each_round_learns_its_graph_from_what_the_round_before_believed(problem, monkeypatch):
    student, seen = everything(problem), graphs_learnt(monkeypatch)
    training = Rounds(problem, [student], [])
    next(training)
    assert seen == [None]
    assert student.graph_beliefs is None
    believed = student.beliefs
    next(training)
    assert len(seen) == 2
    assert_close(seen[1], believed)
    assert_close(student.graph_beliefs, believed)


def test_without_beta_the_first_graph_stays(problem, monkeypatch):
    student, seen = everything(problem), graphs_learnt(monkeypatch)
    training = Rounds(problem._replace(options=problem.options._replace(beta=0.0)), [student], [])
    for _ in range(3):
        next(training)
    assert seen == [None]
    assert student.graph_beliefs is None


@pytest.mark.parametrize("far", [Setting(0.8, 1, None, 10.0), SPREAD])
def test_members_are_elected_by_held_out_labels(problem, monkeypatch, far):
    """On a graph that leads to rows of other classes, members that do not propagate are elected, and the reverse."""
    monkeypatch.setattr(rounds, "ENOUGH_JUDGED", 1)
    still = Setting(0.0, 0, None, 10.0)
    leading = (TRUTH[:, None] == TRUTH) / 20
    misleading = leading[np.random.default_rng(0).permutation(60)]
    for graph, worst, best in ((leading, still, far), (misleading, far, still)):
        matrix = scipy.sparse.csr_array(graph)
        monkeypatch.setattr(rounds, "learnt_graph", lambda *arguments, matrix=matrix: matrix)
        training = Rounds(problem._replace(settings=[worst]), students(problem, 3), [worst, best])
        next(training)
        training.elect()
        assert training.settings == [best]
        next(training)


def test_without_held_out_labels_or_candidates_nobody_is_elected(problem):
    for learners, candidates in (([everything(problem)], [RADIAL]), (students(problem), [])):
        training = Rounds(problem, learners, candidates)
        next(training)
        training.elect()
        assert training.settings == problem.settings


def test_chances_are_even_and_depend_on_row_and_seed_alone():
    found = rounds.chances(np.arange(20_000), 3)
    assert found.min() >= 0
    assert found.max() < 1
    assert_allclose(np.histogram(found, bins=10, range=(0, 1))[0], 2000, rtol=0.1)
    assert abs(np.corrcoef(found[:-1], found[1:])[0, 1]) < 0.02
    assert_allclose(rounds.chances(np.array([7, 5]), 3), found[[7, 5]])
    assert abs(np.corrcoef(found, rounds.chances(np.arange(20_000), 4))[0, 1]) < 0.02


def test_of_many_sure_rows_about_as_many_teach_as_may(problem, monkeypatch):
    monkeypatch.setattr(rounds, "SURE", 0.0)  # all are
    training = Rounds(problem, [everything(problem)], [])
    next(training)
    student = training._students[0]
    assert len(training._lesson(student, 1000).rows) == 60
    taught = len(training._lesson(student, 20).rows) - 12
    assert 10 <= taught <= 30
