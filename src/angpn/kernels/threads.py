"""A compiled loop over rows, run on all the threads torch may use.

Each thread has its own range of rows and writes to no other, so nothing is locked and the result does not depend on how
many threads there are.

The threads are torch's own where torch runs on OpenMP. Between two of its operations those threads spin, waiting for
the next, so a second pool beside them (numba's, or Python's) has to share the cores with threads that do nothing:
measured on two cores, it took as long as one thread alone. Elsewhere, and in a child after a fork, where OpenMP's
threads are gone, plain Python threads do.

Threads that spin for each other are bad neighbours. Where other processes are busy on the same cores, a thread waits
for the end of their time slices at each loop: at a load of 3 on two cores an epoch of 5,000 rows took 212 ms, not 8.
:func:`fair_threads_for` notices this, and goes on with fewer threads.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np
import torch
from threadpoolctl import ThreadpoolController

from angpn.kernels.openmp import ADDRESSES

try:
    import resource
except ImportError:  # on Windows
    resource = None  # type: ignore[assignment]

# Below this many rows starting a thread takes longer than its work.
_MIN_ROWS = 256
# Below this many rows an epoch is as fast on one thread (1500 rows: 3.4 ms against 3.7 on two), and two such fits at a
# time do not wait for each other's spinning threads, which made them twenty times slower.
_SMALL = 2000


def over_rows(
    loop: Callable[..., Any], n_rows: int, *arguments: Any, at_least: int = _MIN_ROWS, multiple: int = 1
) -> None:
    """Call the compiled ``loop(start, stop, *arguments)`` for ranges that cover all rows.

    A range has ``at_least`` so many rows, and starts at a multiple of ``multiple``.
    """
    from angpn.kernels.team import in_ranges

    parts = max(1, min(torch.get_num_threads(), n_rows // at_least))
    bounds = np.array([*(n_rows * part // parts // multiple * multiple for part in range(parts)), n_rows])
    run = in_ranges(loop)
    if parts == 1 or _has_openmp:
        failed = run(bounds, arguments)
    else:
        failed = any(_on_python_threads([partial(run, bounds[part : part + 2], arguments) for part in range(parts)]))
    if failed:
        raise MemoryError(f"a compiled loop over {n_rows} rows found no memory to work in")


def map_threads(n_threads: int, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run tasks on so many threads and return their results; each has a thread to itself, so results are the same.

    Python's threads sleep where OpenMP's spin: two such fits at a time do not wait for each other.
    """
    if n_threads == 1 or len(tasks) < 2:
        return [task() for task in tasks]
    with ThreadPoolExecutor(min(n_threads, len(tasks)), "angpn", torch.set_num_threads, (1,)) as pool:
        return list(pool.map(_call, tasks))


def _call(task: Callable[[], Any]) -> Any:
    return task()


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Use so many threads for torch, its linear algebra included, and the loops here."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def one_thread() -> AbstractContextManager[None]:
    """Use one thread for torch, its linear algebra included, and the loops here."""
    return _threads(1)


def one_library_thread(user_api: Literal["blas"] | None = None) -> AbstractContextManager[Any]:
    """Use one thread in all libraries of linear algebra, or by default in all that have threads of their own."""
    limited: AbstractContextManager[Any] = _libraries(len(sys.modules)).limit(limits=1, user_api=user_api)
    return limited


@lru_cache(maxsize=1)
def _libraries(n_modules: int) -> ThreadpoolController:  # what is imported later may bring another
    """Find the loaded libraries that have threads, which takes 5 ms: a tenth of a fit of a small table."""
    return ThreadpoolController()


@contextmanager
def threads_for(n_rows: int) -> Iterator[None]:
    """Use one thread for torch and the loops here while few rows are worked on."""
    with nullcontext() if n_rows >= _SMALL else one_thread():
        yield


@contextmanager
def fair_threads_for(n_rows: int) -> Iterator[None]:
    """Do the same, and while other processes want the cores use fewer threads for many rows, too.

    For work whose result does not depend on the number of threads, and that is done again and again.
    """
    most = torch.get_num_threads()
    threads = 1 if n_rows < _SMALL else _contention.allowed(most)
    with _threads(threads):
        preempted, start = _preemptions(), time.perf_counter()
        yield
        if n_rows >= _SMALL and most > 1:
            _contention.observe(threads < most, threads, _preemptions() - preempted, start)


class _Contention:
    """How many threads to use beside other processes: half as many for a while, whenever ours were preempted often.

    That is a suspicion: even a quiet machine may preempt them often. What counts is whether half as many are faster.
    Where they are not, the suspicion was wrong, and for longer and longer it is not followed again.
    """

    # A quiet machine preempts our threads 30 times a second, mostly, a busy loop on one of two cores 140 times; what
    # single epochs see of it varies much.
    most_a_second, seconds_observed = 80.0, 0.1
    first_pause, longest_pause = 0.0625, 8.0  # the first is a trial: it costs little where the suspicion is wrong
    first_trust, longest_trust = 1.0, 60.0

    def __init__(self) -> None:
        self._limit, self._pause_end, self._pause = 0, -float("inf"), self.first_pause
        self._trust_end, self._trust = -float("inf"), self.first_trust
        self._seconds_before = 0.0  # that a call took before the pause
        self._last_end = -float("inf")
        self._forget_calls()

    def allowed(self, threads: int) -> int:
        return threads if time.perf_counter() > self._pause_end else min(threads, self._limit)

    def observe(self, paused: bool, threads: int, preemptions: int, start: float) -> None:
        now = time.perf_counter()
        was_idle, self._last_end = start - self._last_end > now - start, now
        if not was_idle:  # else threads and caches are cold, and who worked meanwhile may still be at it
            self._seconds.append(now - start)
            self._preemptions += preemptions
        pause_ended = paused and now > self._pause_end
        if not self._seconds or (not pause_ended and sum(self._seconds) < self.seconds_observed):
            return
        often = self._preemptions > self.most_a_second * sum(self._seconds)
        typical = statistics.median(self._seconds)
        if pause_ended:
            if typical < self._seconds_before:
                self._pause, self._trust = min(2 * self._pause, self.longest_pause), self.first_trust
            else:
                self._pause, self._trust = self.first_pause, min(4 * self._trust, self.longest_trust)
                self._trust_end = now + self._trust
        elif often and threads > 1 and now > self._trust_end:
            self._limit, self._pause_end = threads // 2, now + self._pause
            self._seconds_before = self._seconds_before if paused else typical
        elif paused:
            return  # all calls of the pause count
        elif not often:
            self._pause = self.first_pause
        self._forget_calls()

    def _forget_calls(self) -> None:
        self._preemptions, self._seconds = 0, list[float]()


_contention = _Contention()


def _preemptions() -> int:
    """Return how often another process took the core of one of our threads; 0 where the system does not tell."""
    return 0 if resource is None else resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _on_python_threads(tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run each task on a thread of its own, the first on the calling thread, and return their results."""
    global _pool, _pool_size
    if _pool is None or _pool_size < len(tasks) - 1:
        _pool, _pool_size = ThreadPoolExecutor(len(tasks) - 1, thread_name_prefix="angpn"), len(tasks) - 1
    pending = [_pool.submit(task) for task in tasks[1:]]
    return [tasks[0](), *(future.result() for future in pending)]


_pool: ThreadPoolExecutor | None = None
_pool_size = 0
_has_openmp = bool(ADDRESSES)


def _after_fork() -> None:
    """Let a child use one thread: it has neither OpenMP's threads nor those of the pool of its parent.

    torch's own operations would wait for such threads for ever; torch's data loaders do the same for their workers.
    """
    global _pool, _has_openmp
    _pool, _has_openmp = None, False
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
