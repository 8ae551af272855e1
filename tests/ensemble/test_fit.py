"""From rows and labels to a committee: which view and settings are chosen, and who learns from which labels."""

from contextlib import nullcontext

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from torch.testing import assert_close

from angpn import nearest_candidates
from angpn.ensemble import fit as fitting
from angpn.ensemble.base_learners import GraphOptions, Setting
from angpn.ensemble.calibration import softened
from angpn.ensemble.fit import STUDENTS, Chosen, Labels, Look, Request, State, best_round, choose, train
from angpn.ensemble.label_spreading import SpreadSetting
from angpn.ensemble.scaling import View
from angpn.ensemble.selection import CANDIDATES, FEW_LABELS, FEW_LABELS_OF_TABLE, MEMBERS, make_folds

UNIT, STANDARD = ("unit", "chord"), ("standard", "euclidean")
OPTIONS = GraphOptions(5, 0.1, "auto", "simplex", "normalized")
TRUTH = np.arange(120) % 3
LABELLED = np.arange(120) < 36
VALIDATION = np.arange(120) < 18
CODES = np.where(LABELLED, TRUTH, -1)


@pytest.fixture(autouse=True)
def few_reaches(monkeypatch):
    """A search that does not take long."""
    monkeypatch.setattr(fitting, "REACHES", ((0.0, 0), (0.5, 2)))


def directions():
    """Only the direction of a row tells its class."""
    generator = np.random.default_rng(0)
    rows = np.eye(3)[TRUTH] + 0.25 * generator.normal(size=(120, 3))
    return rows * generator.choice([0.02, 50.0], size=(120, 1))


def table():
    """A column that says nothing drowns the others."""
    generator = np.random.default_rng(0)
    return np.column_stack(
        [2 * np.eye(3)[TRUTH] + 0.5 * generator.normal(size=(120, 3)), 1000 * generator.normal(size=120)]
    )


def request(views=(UNIT, STANDARD), alpha=None, seen=None):
    def neighbors(rows, metric):
        if seen is not None:
            seen.append(len(rows))
        return nearest_candidates(rows, 12, metric)

    def bar(what, total):
        return nullcontext(lambda count: None)

    return Request(views, alpha, OPTIONS, neighbors, neighbors, False, None, bar, 0)


def labels(validation=VALIDATION, weights=None):
    return Labels(CODES, weights, make_folds(CODES, validation, 0), validation is not None)


ONE_EACH = Labels(np.where(np.arange(120) < 3, TRUTH, -1), None, [], False)


def chosen(X, **asked):
    return choose(X, labels(), request(**asked))


@pytest.mark.parametrize(("make", "view"), [(directions, UNIT), (table, STANDARD)])
def test_the_view_is_the_one_that_labels_ask_for(make, view):
    found = chosen(make())
    assert (found.look.view.scaling, found.look.view.metric) == view


def test_of_many_rows_some_compare_the_views_and_all_are_then_seen(monkeypatch):
    monkeypatch.setattr(fitting, "ROWS_COMPARED", 60)
    seen = []
    found = chosen(table(), seen=seen)
    assert (found.look.view.scaling, found.look.view.metric) == STANDARD
    assert seen == [60, 60, 120]
    assert found.look.neighborhood.n_rows == len(found.look.features) == 120


@pytest.mark.parametrize(
    ("make", "scaling", "settings"),
    [(table, "standard", FEW_LABELS_OF_TABLE), (lambda: table()[:, :3], "unit", FEW_LABELS)],
)
def test_where_nothing_can_be_held_out_columns_of_unlike_scale_are_standardised(make, scaling, settings):
    found = choose(make(), ONE_EACH, request())
    assert found.look.view.scaling == scaling
    assert found.settings == list(settings)
    assert found.candidates == []


def test_members_are_the_best_of_all_that_were_judged():
    found = chosen(directions(), views=[UNIT])
    assert MEMBERS < len(found.candidates) == len(set(found.candidates)) <= CANDIDATES
    assert found.settings == found.candidates[:MEMBERS]


@pytest.mark.parametrize("given", [labels(), ONE_EACH], ids=["some held out", "none held out"])
def test_an_alpha_that_was_given_is_the_only_one(given):
    found = choose(directions(), given, request([UNIT], 0.3))
    assert {setting.alpha for setting in [*found.settings, *found.candidates]} == {0.3}


def test_weights_have_a_say_in_what_is_chosen():
    """Held-out labels that ask for the one view, and others that ask for the other."""
    X = np.column_stack([table(), directions()])
    rows = np.arange(120)
    X[rows % 2 == 0, 4:] = np.random.default_rng(1).normal(size=(60, 3))
    X[rows % 2 == 1, :3] = np.random.default_rng(2).normal(size=(60, 3))
    orders = []
    for part in (0, 1):
        weights = np.where(rows % 2 == part, 1.0, 1e-6)
        orders.append(choose(X, labels(weights=weights), request([STANDARD])).candidates)
    assert orders[0] != orders[1]


# Training


def ready():
    X = table()[:, :3]
    view = View.of(X, *UNIT, 0)
    rows = view.rows(X)
    settings = [Setting(0.5, 2, None, 10.0), Setting(0.0, 0, 1.0, 100.0), SpreadSetting(0.9)]
    return Chosen(Look(view, nearest_candidates(rows, 12, "chord"), view.features(rows)), settings, settings[::-1])


def begun(validation=None):
    return train(ready(), labels(validation), request())


@pytest.fixture
def learners(monkeypatch):
    """All who learn in the rounds that begin from now on; the committee is the last."""
    seen = []

    class Watched(fitting.Rounds):
        def __init__(self, problem, students, candidates):
            seen.extend(students)
            super().__init__(problem, students, candidates)

    monkeypatch.setattr(fitting, "Rounds", Watched)
    return seen


def test_the_committee_learns_from_all_labels_beside_students_that_leave_some_out(learners):
    state = next(begun())
    *students, final = learners
    assert_array_equal(final.fold.training, np.flatnonzero(LABELLED))
    assert len(students) == len(state.held) == STUDENTS
    assert_array_equal(np.sort(np.concatenate([rows for rows, _ in state.held])), np.flatnonzero(LABELLED))
    assert_close(state.beliefs, softened(final.beliefs))
    for student, (rows, beliefs) in zip(students, state.held, strict=True):
        assert_array_equal(rows, student.fold.held)
        assert_close(beliefs, student.beliefs[rows])


def test_with_validation_rows_the_one_that_never_saw_their_labels_is_the_committee(learners):
    state = next(begun(VALIDATION))
    (final,) = learners
    assert_array_equal(final.fold.training, np.flatnonzero(LABELLED & ~VALIDATION))
    assert_close(state.beliefs, softened(final.beliefs))
    assert_array_equal(state.held[0][0], np.flatnonzero(VALIDATION))


def test_students_beside_validation_rows_learn_from_fewer_labels_and_never_from_theirs(learners):
    apart = VALIDATION & (np.cumsum(VALIDATION) <= 6)
    state = next(begun(apart))
    final, *students = learners
    assert students
    assert_array_equal(final.fold.training, np.flatnonzero(LABELLED & ~apart))
    assert_close(state.beliefs, softened(final.beliefs))
    for student in students:
        assert set(student.fold.training) < set(final.fold.training)


def test_the_loss_is_that_of_the_labels_that_were_learnt_from():
    state = next(begun(VALIDATION))
    training = np.flatnonzero(LABELLED & ~VALIDATION)
    assert state.loss == pytest.approx(-float(state.beliefs[training, TRUTH[training]].log().mean()))


def test_what_a_round_left_stays_what_it_was():
    training, (_, neighborhood, features) = begun(VALIDATION), ready().look
    first = next(training)
    beliefs, held = first.beliefs.clone(), first.held[0][1].clone()
    before = first.committee.unseen(features, neighborhood, features, neighborhood.indices, neighborhood.distances)[1]
    last = [next(training) for _ in range(2)][-1]
    assert first.committee.beliefs is None
    assert_close(first.beliefs, beliefs)
    assert_close(first.held[0][1], held)
    assert_close(
        first.committee.unseen(features, neighborhood, features, neighborhood.indices, neighborhood.distances)[1],
        before,
    )
    assert not last.beliefs.equal(beliefs)


def test_a_committee_is_what_the_last_round_believed_in():
    training = begun(VALIDATION)
    first, second = next(training), next(training)
    assert_close(softened(second.committee.beliefs), first.beliefs)
    assert len(second.committee.settings) == len(second.committee.readouts) == 3


def test_few_labels_of_each_class_choose_nothing():
    codes = np.where(np.arange(120) < 15, TRUTH, -1)
    found = choose(directions(), Labels(codes, None, make_folds(codes, None, 0), False), request([UNIT]))
    assert (found.settings, found.candidates) == (list(FEW_LABELS), [])
    codes = np.where(np.arange(120) < 18, TRUTH, -1)
    assert choose(directions(), Labels(codes, None, make_folds(codes, None, 0), False), request([UNIT])).candidates


def after(*likelihoods, n_judged):
    return [State(None, 0.5, likelihood, n_judged, None, [], 0.0) for likelihood in likelihoods]


def test_while_few_labels_judge_a_further_round_must_make_them_clearly_likelier():
    assert best_round(after(-30.0, -29.0, -28.5, n_judged=20)) == 0
    assert best_round(after(-30.0, -20.0, -19.0, n_judged=20)) == 1
    assert best_round(after(-30.0, -20.0, -10.0, n_judged=20)) == 2


def test_where_many_labels_judge_a_further_round_is_kept_unless_it_makes_them_clearly_less_likely():
    assert best_round(after(-30.0, -31.0, -32.0, n_judged=500)) == 2
    assert best_round(after(-30.0, -31.0, -39.0, n_judged=500)) == 1
    assert best_round(after(-30.0, -40.0, -50.0, n_judged=500)) == 0


def test_where_no_label_judges_the_last_round_is_kept():
    assert best_round(after(0.0, 0.0, n_judged=0)) == 1
