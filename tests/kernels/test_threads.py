"""Loops shared out among threads, and fewer of them beside other processes."""

from functools import partial

import numpy as np
import pytest
import torch
from numba import njit
from threadpoolctl import threadpool_info

from angpn.kernels import threads
from angpn.kernels.threads import fair_threads_for, over_rows


@pytest.fixture(autouse=True)
def four_threads(monkeypatch):
    monkeypatch.setattr(threads, "_contention", threads._Contention())
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def preempted(monkeypatch):
    """A clock, and how often our threads were preempted until now."""
    state = {"now": 100.0, "preemptions": 0}
    monkeypatch.setattr(threads, "_preemptions", lambda: state["preemptions"])
    monkeypatch.setattr(threads.time, "perf_counter", lambda: state["now"])
    epoch(state, 0)  # the first does not count
    return state


def epoch(state, preemptions, seconds=0.01):
    """Run an epoch that long; return its number of threads."""
    with fair_threads_for(5000):
        state["now"] += seconds
        state["preemptions"] += preemptions
        return torch.get_num_threads()


@njit(nogil=True)
def count_rows(start, stop, count, starts):
    for row in range(start, stop):
        count[row] += 1
        starts[row] = start


@pytest.mark.parametrize("openmp", [True, False])
@pytest.mark.parametrize(("n_rows", "multiple"), [(1000, 1), (1000, 24), (1001, 24), (3, 24), (0, 24)])
def test_ranges_cover_all_rows_and_start_at_multiples(n_rows, multiple, openmp, monkeypatch):
    if not openmp:
        monkeypatch.setattr(threads, "_has_openmp", False)  # as on a system without it
    count, starts = np.zeros(n_rows, np.int64), np.zeros(n_rows, np.int64)
    over_rows(count_rows, n_rows, count, starts, at_least=50, multiple=multiple)
    assert (count == 1).all()
    assert (starts % multiple == 0).all()
    assert len(np.unique(starts)) == min(4, max(1, n_rows // 50), n_rows)


def test_all_threads_work_while_none_is_preempted(preempted):
    assert [epoch(preempted, 0) for _ in range(5)] == [4] * 5
    assert epoch(preempted, 40, seconds=1.0) == 4  # as often as on a quiet machine
    assert epoch(preempted, 0) == 4


def test_a_single_epoch_proves_nothing(preempted):
    assert epoch(preempted, 5) == 4
    assert [epoch(preempted, 0) for _ in range(30)] == [4] * 30


def test_half_as_many_work_beside_a_busy_process(preempted):
    assert epoch(preempted, 100, seconds=0.12) == 4
    assert [epoch(preempted, 100, seconds=0.05) for _ in range(2)] == [2, 2]  # a trial, which is faster
    assert epoch(preempted, 100, seconds=0.12) == 4
    assert [epoch(preempted, 100, seconds=0.055) for _ in range(3)] == [2, 2, 1]
    assert torch.get_num_threads() == 4  # as the user had it


def test_epochs_after_idle_time_do_not_count(preempted):
    """Threads are cold then, and the process that worked meanwhile may still be at it."""
    for _ in range(5):
        preempted["now"] += 1.0
        assert epoch(preempted, 100, seconds=0.12) == 4
    assert epoch(preempted, 100, seconds=0.12) == 4  # the first that counts
    assert epoch(preempted, 100, seconds=0.12) == 2


def test_one_slow_epoch_does_not_make_fewer_threads_seem_faster(preempted):
    assert [epoch(preempted, preemptions=30, seconds=s) for s in (0.065, 0.015, 0.015, 0.015)] == [4] * 4
    assert epoch(preempted, 0, seconds=0.02) == 2  # slower than most of those with all threads
    while threads._contention.allowed(4) < 4:
        epoch(preempted, 0, seconds=0.02)
    assert epoch(preempted, 100, seconds=0.12) == 4
    assert epoch(preempted, 100, seconds=0.12) == 4  # preemptions are not believed for a while


def pause(state, seconds):
    """Let epochs of all threads be preempted; return how long it is until all are used again."""
    assert epoch(state, 100, seconds=0.12) == 4
    start = state["now"]
    while threads._contention.allowed(4) < 4:
        epoch(state, 0, seconds)
    return state["now"] - start


def test_all_threads_are_tried_again_after_longer_and_longer_pauses_while_fewer_are_faster(preempted):
    pauses = [pause(preempted, seconds=0.01) for _ in range(8)]
    assert pauses == sorted(pauses)
    assert 0.06 <= pauses[0] < 0.08
    assert 8.0 < pauses[-1] < 8.1
    epoch(preempted, 0, seconds=0.12)  # the other process has ended
    assert pause(preempted, seconds=0.01) < 0.08


def test_where_fewer_threads_are_slower_preemptions_are_not_believed_for_longer_and_longer(preempted):
    """A quiet machine may preempt threads often, too."""
    trusts = []
    for _ in range(6):
        assert pause(preempted, seconds=0.2) < 0.5
        start = preempted["now"]
        while epoch(preempted, 100, seconds=0.12) == 4 and threads._contention.allowed(4) == 4:
            pass
        trusts.append(preempted["now"] - start)
        while threads._contention.allowed(4) < 4:
            epoch(preempted, 0, seconds=0.2)
    assert trusts == sorted(trusts)
    assert 59 < trusts[-1] < 61


def test_few_rows_have_one_thread():
    with fair_threads_for(500):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 4


def test_an_error_leaves_the_threads_as_they_were():
    with pytest.raises(ValueError, match="loss"), fair_threads_for(5000):
        raise ValueError("loss")
    assert torch.get_num_threads() == 4


# Tasks


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_tasks_are_answered_in_their_order_and_each_runs_on_one_thread(n_threads):
    before = torch.get_num_threads()
    with threads.one_thread():
        found = threads.map_threads(n_threads, [partial(lambda k: (k, torch.get_num_threads()), k) for k in range(20)])
    assert found == [(k, 1) for k in range(20)]
    assert threads.map_threads(n_threads, []) == []
    assert torch.get_num_threads() == before


def test_an_error_of_a_task_is_raised():
    with pytest.raises(ZeroDivisionError):
        threads.map_threads(2, [lambda: 1, lambda: 1 // 0, lambda: 2])


def counts(api=None):
    return {library["num_threads"] for library in threadpool_info() if api in (None, library["user_api"])}


@pytest.mark.skipif(not [one for one in threadpool_info() if one["user_api"] == "blas"], reason="no BLAS with threads")
def test_libraries_have_one_thread_and_then_as_many_as_before():
    before = counts("blas"), counts()
    for _ in range(2):  # the second time libraries are not looked for again
        with threads.one_library_thread("blas"):
            assert counts("blas") == {1}
        with threads.one_library_thread():
            assert counts() == {1}
        assert (counts("blas"), counts()) == before
