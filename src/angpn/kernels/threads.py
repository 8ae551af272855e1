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

import ctypes
import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

try:
    import resource
except ImportError:  # on Windows
    resource = None  # type: ignore[assignment]

# Below this many rows starting a thread takes longer than its work.
_MIN_ROWS = 256
# Below this many rows an epoch is as fast on one thread (1500 rows: 3.4 ms against 3.7 on two), and two such fits at a
# time do not wait for each other's spinning threads, which made them twenty times slower.
_SMALL = 2000

_Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def over_rows(
    kernel: Callable[..., Any], n_rows: int, *arguments: Any, at_least: int = _MIN_ROWS, multiple: int = 1
) -> None:
    """Call ``kernel(start, stop, *arguments)`` for ranges that cover all rows.

    A range has ``at_least`` so many rows, and starts at a multiple of ``multiple``.
    """
    parts = max(1, min(torch.get_num_threads(), n_rows // at_least))
    if parts == 1:
        kernel(0, n_rows, *arguments)
        return
    bounds = [*(n_rows * part // parts // multiple * multiple for part in range(parts)), n_rows]

    def run(part: int) -> None:
        kernel(bounds[part], bounds[part + 1], *arguments)

    _team(run, parts)


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


def _python_team(run: Callable[[int], None], parts: int) -> None:
    """Call ``run(0)`` to ``run(parts - 1)`` on Python threads, the calling thread included."""
    global _pool, _pool_size
    if _pool is None or _pool_size < parts - 1:
        _pool, _pool_size = ThreadPoolExecutor(parts - 1, thread_name_prefix="angpn"), parts - 1
    pending = [_pool.submit(run, part) for part in range(1, parts)]
    run(0)
    for future in pending:
        future.result()


_pool: ThreadPoolExecutor | None = None
_pool_size = 0


def _openmp_team(run: Callable[[int], None], parts: int) -> None:
    """Do the same on torch's OpenMP threads; a thread has the same part each time, whose rows its caches hold."""
    errors: list[BaseException] = []
    done: list[int] = []

    def member() -> None:
        # The team may be smaller than asked for: inside another parallel region it is one thread.
        for part in range(_openmp.omp_get_thread_num(), parts, _openmp.omp_get_num_threads()):
            try:
                run(part)
                done.append(part)
            except BaseException as error:  # an exception must not cross into C
                errors.append(error)

    key = next(_keys)
    _members[key] = member
    try:
        _gomp_parallel(_call_member, key, parts, 0)
    finally:
        del _members[key]
    if errors:
        raise errors[0]
    if len(done) < parts:  # Ctrl-C between two lines of ``member``, where ctypes drops what is raised
        raise KeyboardInterrupt


_members: dict[int, Callable[[], None]] = {}
_keys = itertools.count(1)  # 0 would come as None
_call_member = _Callback(lambda key: _members[key]())  # one for all teams, since one is slow to make and to free


def _find_openmp() -> Any:
    """Return the OpenMP library that torch is linked to, or None where there is none."""
    try:
        # Its functions are called with the interpreter locked: they return at once.
        library = ctypes.PyDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        assert library.omp_get_thread_num() == 0
        assert library.omp_get_num_threads() == 1
        parallel = ctypes.CFUNCTYPE(None, _Callback, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
        return library, parallel(("GOMP_parallel", library))
    except (OSError, AttributeError):
        return None, None


_openmp, _gomp_parallel = _find_openmp()
_team = _openmp_team if _gomp_parallel else _python_team


def _after_fork() -> None:
    """Let a child use one thread: it has neither OpenMP's threads nor those of the pool of its parent.

    torch's own operations would wait for such threads for ever; torch's data loaders do the same for their workers.
    """
    global _pool, _team
    _pool, _team = None, _python_team
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
