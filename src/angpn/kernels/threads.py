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
_MIN_ROWS = 128
# Below this many rows an epoch is as fast on one thread (1500 rows: 3.4 ms against 3.7 on two), and two such fits at a
# time do not wait for each other's spinning threads, which made them twenty times slower.
_SMALL = 2000


def over_rows(
    kernel: Callable[..., Any], n_rows: int, *arguments: Any, at_least: int = _MIN_ROWS, multiple: int = 1
) -> None:
    """Call ``kernel(start, stop, *arguments)``, which numba compiled, for ranges that cover all rows.

    A range has ``at_least`` so many rows, and starts at a multiple of ``multiple``.
    """
    parts = max(1, min(torch.get_num_threads(), n_rows // at_least))
    if parts == 1:
        kernel(0, n_rows, *arguments)
    elif _openmp is None:
        _run_in_python(kernel, parts, n_rows, multiple, *arguments)
    else:
        from angpn.kernels.team import run_in_team  # loads numba, which the other functions here do not need

        run_in_team(_openmp, kernel, parts, n_rows, multiple, *arguments)


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
    threads = 1 if n_rows < _SMALL else _contention.allowed(torch.get_num_threads())
    with _threads(threads):
        preempted, start = _preemptions(), time.perf_counter()
        yield
        if threads > 1:
            _contention.observe(threads, _preemptions() - preempted, time.perf_counter() - start)


class _Contention:
    """How many threads to use beside other processes: half as many for a while, whenever ours were preempted often."""

    # A thread alone on its core is preempted every now and then; one that shares it, at the end of each time slice.
    seconds_a_preemption = 0.02
    first_pause, longest_pause = 0.25, 8.0

    def __init__(self) -> None:
        self._limit, self._until, self._pause = 0, -float("inf"), self.first_pause

    def allowed(self, threads: int) -> int:
        return threads if time.perf_counter() > self._until else min(threads, self._limit)

    def observe(self, threads: int, preemptions: int, seconds: float) -> None:
        if preemptions <= 1 + seconds / self.seconds_a_preemption:
            self._pause = self.first_pause
            return
        self._limit, self._until = threads // 2, time.perf_counter() + self._pause
        self._pause = min(2 * self._pause, self.longest_pause)


_contention = _Contention()


def _preemptions() -> int:
    """Return how often another process took the core of one of our threads; 0 where the system does not tell."""
    return 0 if resource is None else resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _run_in_python(kernel: Callable[..., Any], parts: int, n_rows: int, multiple: int, *arguments: Any) -> None:
    """Do the same as :func:`angpn.kernels.team.run_in_team` on Python threads, the calling thread included."""
    global _pool, _pool_size
    if _pool is None or _pool_size < parts - 1:
        _pool, _pool_size = ThreadPoolExecutor(parts - 1, thread_name_prefix="angpn"), parts - 1
    bounds = [*(n_rows * part // parts // multiple * multiple for part in range(parts)), n_rows]
    pending = [_pool.submit(kernel, *limits, *arguments) for limits in itertools.pairwise(bounds[1:])]
    kernel(*bounds[:2], *arguments)
    for future in pending:
        future.result()


_pool: ThreadPoolExecutor | None = None
_pool_size = 0


def _find_openmp() -> int | None:
    """Return the address of the entry point of the OpenMP library that torch is linked to, None where there is none."""
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        return ctypes.cast(library.GOMP_parallel, ctypes.c_void_p).value
    except (OSError, AttributeError):
        return None


_openmp = _find_openmp()


def _after_fork() -> None:
    """Let a child use one thread: it has neither OpenMP's threads nor those of the pool of its parent.

    torch's own operations would wait for such threads for ever; torch's data loaders do the same for their workers.
    """
    global _pool, _openmp
    _pool, _openmp = None, None
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
