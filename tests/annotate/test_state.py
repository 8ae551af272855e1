"""The state is what the log says: replays, undo and redo, classes, several people."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from angpn.annotation.actions import (
    ActionError,
    AddClass,
    Clear,
    Confirm,
    Entry,
    Import,
    Label,
    LabelMany,
    Measured,
    MergeClass,
    Other,
    Redo,
    RenameClass,
    Settle,
    Skip,
    Undo,
)
from angpn.annotation.state import AnnotationState
from angpn.annotation.votes import OTHER

N_ROWS = 6
rows = st.integers(0, N_ROWS - 1)
names = st.sampled_from(["cat", "dog", "bird", "fish"])
actions = st.one_of(
    st.builds(Label, rows, names),
    st.builds(LabelMany, st.lists(rows, min_size=1, max_size=4), names, st.sampled_from(["grid", "map"])),
    st.builds(Other, rows),
    st.builds(Skip, rows),
    st.builds(Clear, rows),
    st.builds(AddClass, names),
    st.builds(RenameClass, names, names),
    st.builds(MergeClass, names, names),
    st.builds(Settle, rows, names),
    st.builds(Confirm, rows),
    st.just(Undo()),
    st.just(Redo()),
)
histories = st.lists(st.tuples(actions, st.sampled_from(["anna", "ben"]), st.booleans()), max_size=25)


class Recorder:
    """A state and the log that it came from."""

    def __init__(self, n_rows=N_ROWS):
        self.state, self.entries = AnnotationState(n_rows), []

    def do(self, action, user="anna", audit=False):
        action = self.state.check(action, user)
        entry = Entry(len(self.entries) + 1, "", user, "page", f"id{len(self.entries)}", action, audit)
        self.entries.append(entry)
        self.state.apply(entry)

    def try_all(self, history):
        for action, user, audit in history:
            try:
                self.do(action, user, audit and isinstance(action, Label | Other | Skip))
            except ActionError:
                continue

    def labels(self):
        names = {None: None, OTHER: "other", **{number: one.name for number, one in self.state.classes.items()}}
        return {row: names[found.label] for row, found in self.state.votes.final.items()}


@given(histories)
@settings(max_examples=150, deadline=None)
def test_a_replay_of_the_log_gives_the_same_state(history):
    recorder = Recorder()
    recorder.try_all(history)
    assert AnnotationState(N_ROWS, recorder.entries).snapshot() == recorder.state.snapshot()


@given(histories, st.integers(1, 5))
@settings(max_examples=150, deadline=None)
def test_undo_and_redo_as_often_is_the_identity(history, count):
    recorder = Recorder()
    recorder.try_all(history)
    before = recorder.state.snapshot()
    undone = 0
    for _ in range(count):
        if recorder.state.to_undo("anna") is None:
            break
        recorder.do(Undo())
        undone += 1
    for _ in range(undone):
        recorder.do(Redo())
    assert recorder.state.snapshot() == before


@given(histories)
@settings(max_examples=50, deadline=None)
def test_undo_of_everything_leaves_nothing(history):
    recorder = Recorder()
    recorder.try_all([(action, "anna", audit) for action, _, audit in history])
    while recorder.state.to_undo("anna") is not None:
        recorder.do(Undo())
    assert recorder.state.snapshot() == AnnotationState(N_ROWS).snapshot()


@given(histories)
@settings(max_examples=100, deadline=None)
def test_counts_are_those_of_the_rows(history):
    recorder = Recorder()
    recorder.try_all(history)
    votes = recorder.state.votes
    found = [decision.label for decision in votes.final.values()]
    assert {label: count for label, count in votes.counts.items() if count} == {one: found.count(one) for one in found}
    assert votes.n_audited == sum(decision.source == "random" for decision in votes.final.values())
    assert all(decision.label in (None, OTHER, *recorder.state.classes) for decision in votes.final.values())


def test_another_label_takes_the_place_of_the_first():
    recorder = Recorder()
    recorder.do(Label(0, "cat"))
    recorder.do(Label(0, "dog"))
    assert recorder.labels() == {0: "dog"}
    recorder.do(Undo())
    assert recorder.labels() == {0: "cat"}


def test_what_was_undone_does_not_come_back_after_something_else_was_done():
    recorder = Recorder()
    recorder.do(Label(0, "cat"))
    recorder.do(Undo())
    recorder.do(Label(1, "cat"))
    with pytest.raises(ActionError, match="there must be something undone, got none of anna since the last action"):
        recorder.do(Redo())


def test_each_person_undoes_own_actions():
    recorder = Recorder()
    recorder.do(Label(0, "cat"), "anna")
    recorder.do(Label(1, "dog"), "ben")
    recorder.do(Undo(), "anna")
    assert recorder.labels() == {1: "dog"}
    with pytest.raises(ActionError, match="there must be something to undo, got no action of anna that is left"):
        recorder.do(Undo(), "anna")


def test_a_class_keeps_number_and_key_when_it_is_renamed_and_frees_them_when_merged():
    recorder = Recorder()
    recorder.do(Label(0, "cat"))
    recorder.do(Label(1, "dog"))
    (cat, dog) = recorder.state.classes.values()
    assert (cat.key, dog.key) == ("1", "2")
    recorder.do(RenameClass("cat", "cats"))
    assert recorder.state.classes[cat.id] == cat._replace(name="cats")
    recorder.do(Label(2, "cat"))  # a new class, whose name was that of another
    assert recorder.labels() == {0: "cats", 1: "dog", 2: "cat"}
    recorder.do(MergeClass("cats", "dog"))
    assert recorder.labels() == {0: "dog", 1: "dog", 2: "cat"}
    assert recorder.state.class_of(cat.id) == dog
    recorder.do(AddClass("fish"))
    assert [one.key for one in recorder.state.classes.values()] == ["2", "3", "1"]


def test_people_who_disagree_leave_no_label_until_somebody_settles_it():
    recorder = Recorder()
    recorder.do(Label(0, "cat"), "anna")
    recorder.do(Label(0, "dog"), "ben")
    assert recorder.labels() == {0: None}
    assert recorder.state.votes.disputed == [0]
    recorder.do(Settle(0, "dog"), "anna")
    assert recorder.labels() == {0: "dog"}
    assert recorder.state.votes.disputed == []
    recorder.do(Settle(0, None), "anna")
    assert recorder.labels() == {0: "other"}


def test_most_people_decide():
    recorder = Recorder()
    for user, name in (("anna", "cat"), ("ben", "dog"), ("eve", "dog")):
        recorder.do(Label(0, name), user)
    assert recorder.labels() == {0: "dog"}


def test_a_merge_ends_a_disagreement_about_the_two_classes():
    recorder = Recorder()
    recorder.do(Label(0, "cat"), "anna")
    recorder.do(Label(0, "kitten"), "ben")
    recorder.do(MergeClass("kitten", "cat"))
    assert recorder.labels() == {0: "cat"}


def test_a_person_corrects_what_a_file_says():
    recorder = Recorder()
    recorder.do(Import("digest", [(0, "cat", "random"), (1, "dog", "")], [2], [3]), "(server)")
    assert recorder.labels() == {0: "cat", 1: "dog", 2: "other"}
    assert recorder.state.votes.skipped == {3}
    recorder.do(Label(0, "dog"))
    assert recorder.labels()[0] == "dog"
    assert recorder.state.votes.people(0).keys() == {"anna"}


def test_a_skipped_row_that_is_labelled_later_is_labelled():
    recorder = Recorder()
    recorder.do(Skip(0), audit=True)
    assert recorder.state.votes.skipped == {0}
    assert recorder.state.votes.n_skipped_audits == 1
    recorder.do(Label(0, "cat"))
    assert not recorder.state.votes.skipped
    assert recorder.state.votes.n_skipped_audits == 0


def test_a_confirmed_label_is_no_longer_confirmed_when_it_changes():
    recorder = Recorder()
    recorder.do(Label(0, "cat"))
    recorder.do(Confirm(0))
    assert recorder.state.confirmed == {0}
    recorder.do(Label(0, "dog"))
    assert recorder.state.confirmed == set()


def test_points_of_the_curve_are_no_actions_of_a_person():
    recorder = Recorder()
    recorder.do(Label(0, "cat"))
    recorder.do(Measured(10, 0.9, 0.8, 1.0, 5), "(server)")
    assert recorder.state.to_undo("(server)") is None
    recorder.do(Undo())
    assert len(recorder.state.curve) == 1


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (Label(9, "cat"), "a row must lie between 0 and 5, got 9; reload the page"),
        (LabelMany([], "cat"), "some rows must be chosen, got none"),
        (Label(0, " "), "the name of a class must have 1 to 200 characters, got 0"),
        (Label(0, "x" * 201), "the name of a class must have 1 to 200 characters, got 201"),
        (Label(0, "a\x00b"), "must have printable characters only"),
        (AddClass("nan"), "must not mean a missing label, got 'nan'"),
        (AddClass("cat"), "a new class must have a name of its own, got 'cat', which is there"),
        (RenameClass("cow", "ox"), "there must be a class 'cow', got none of that name"),
        (RenameClass("cat", "dog"), "the new name must be free, got 'dog', a class of its own; merge them instead"),
        (MergeClass("cat", "cat"), "a class must be merged into another one, got 'cat' twice"),
        (Confirm(5), "only a label can be confirmed, got row 5, which has none"),
    ],
)
def test_what_cannot_be_done_says_why(action, message):
    recorder = Recorder()
    recorder.do(Label(0, "cat"))
    recorder.do(Label(1, "dog"))
    with pytest.raises(ActionError, match=message):
        recorder.do(action)
    assert len(recorder.entries) == 2
