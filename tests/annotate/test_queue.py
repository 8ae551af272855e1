"""The queue: audits among suggestions, leases, and nothing twice."""

import numpy as np
import pytest

from angpn.annotation.queue import FIRST, LEASE_SECONDS, Queue, Wanted
from angpn.annotation.votes import Votes

N_ROWS = 300


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def make_queue(audit=0.2, seed=0, clock=None):
    queue = Queue(N_ROWS, audit, seed, clock or Clock())
    queue.suggested = [Wanted(row, "typical") for row in range(100)]
    return queue


def label_next(queue, votes, count):
    """Label one row after another, and return whether each was an audit."""
    audits = []
    for _ in range(count):
        (wanted,) = queue.next(votes, "page", 1)
        audits.append(wanted.row in queue.pending_audits(votes))
        votes.give(wanted.row, "anna", 0, "suggested", audit=audits[-1])
    return audits


@pytest.mark.parametrize(("audit", "expected"), [(0.2, 20), (0.5, 50), (0.0, 0)])
def test_the_share_of_audits_is_as_asked_after_the_first_rows(audit, expected):
    assert sum(label_next(make_queue(audit), Votes(), FIRST + 100)) == expected


def test_rows_asked_for_together_have_as_many_audits_as_one_by_one():
    queue, votes = make_queue(), Votes()
    label_next(queue, votes, FIRST)
    wanted = queue.next(votes, "page", 20)
    assert [one.reason.startswith("audit") for one in wanted] == [False, False, False, False, True] * 4


def test_other_rows_come_in_the_order_of_the_model():
    queue, votes = make_queue(), Votes()
    hidden = set(queue.pending_audits(votes))
    chosen = [one.row for one in queue.next(votes, "page", 20) if one.row not in hidden]
    assert chosen == [row for row in range(100) if row not in hidden][: len(chosen)]


def test_audits_are_a_random_sample_whatever_the_model_wants():
    audited = []
    for seed in range(40):
        queue, votes = make_queue(seed=seed), Votes()
        label_next(queue, votes, FIRST + 50)
        audited += [row for row, found in votes.final.items() if found.source == "random"]
    assert len(audited) == 400
    assert abs(np.mean(audited) - (N_ROWS - 1) / 2) < 4 * N_ROWS / np.sqrt(12 * len(audited)) + 10
    assert np.mean(np.array(audited) >= 100) > 0.6  # two thirds of the rows are no suggestions


def test_rows_that_come_before_the_learner_suggests_any_are_no_audits():
    queue, votes = make_queue(), Votes()
    queue.suggested = []
    assert sum(label_next(queue, votes, FIRST)) == votes.n_audited == 0
    assert sum(label_next(queue, votes, 50)) == votes.n_audited == 10
    queue.suggested = [Wanted(row, "typical") for row in range(100)]
    assert sum(label_next(queue, votes, 50)) == 10
    assert votes.n_audited == 20


def test_after_a_restart_the_same_rows_come():
    votes = Votes()
    label_next(make_queue(), votes, 33)
    assert make_queue().next(votes, "page", 20) == make_queue().next(votes, "other page", 20)


def test_a_lease_ends_with_time_and_with_the_label(clock):
    queue, votes = make_queue(clock=clock), Votes()
    first = [one.row for one in queue.next(votes, "one", 10)]
    assert not set(first) & {one.row for one in queue.next(votes, "two", 10)}
    clock.now = LEASE_SECONDS + 1
    assert [one.row for one in queue.next(votes, "three", 10)] == first


def test_what_was_labelled_skipped_or_cannot_be_read_does_not_come():
    queue, votes = make_queue(), Votes()
    votes.give(0, "anna", 0, "suggested")
    votes.skip(1)
    queue.unreadable = {2}
    rows = [one.row for one in queue.next(votes, "page", N_ROWS)]
    assert sorted(rows) == list(range(3, N_ROWS))


def test_when_suggestions_are_used_up_the_other_rows_come():
    queue, votes = make_queue(), Votes()
    label_next(queue, votes, N_ROWS)
    assert sorted(votes.final) == list(range(N_ROWS))
    assert queue.next(votes, "page", 5) == []


def test_a_share_that_is_none_is_refused():
    with pytest.raises(ValueError, match=r"--audit must lie between 0 and 1, got 1.5; 0.2 makes one row in five an"):
        make_queue(audit=1.5)
