"""A compiled loop over rows, run on all the threads torch may use.

Each thread has its own range of rows and writes to no other, so nothing is locked and the result does not depend on how
many threads there are.

The threads are torch's own where torch runs on OpenMP. Between two of its operations those threads spin, waiting for
the next, so a second pool beside them (numba's, or Python's) has to share the cores with threads that do nothing:
measured on two cores, it took as long as one thread alone. Elsewhere, and in a child after a fork, where OpenMP's
threads are gone, plain Python threads do.
"""

import ctypes
import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

# Below this many rows starting a thread takes longer than its work.
_MIN_ROWS = 256
# Below this many rows an epoch is as fast on one thread (1500 rows: 3.4 ms against 3.7 on two), and two such fits at a
# time do not wait for each other's spinning threads, which made them twenty times slower.
_SMALL = 2000

_Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def over_rows(
    kernel: Callable[..., Any], n_rows: int, *arguments: Any, at_least: int = _MIN_ROWS, multiple: int = 1
) -> list[Any]:
    """Call ``kernel(start, stop, *arguments)`` for ranges that cover all rows; return what each returned.

    A range has ``at_least`` so many rows, and starts at a multiple of ``multiple``.
    """
    parts = max(1, min(torch.get_num_threads(), n_rows // at_least))
    if parts == 1:
        return [kernel(0, n_rows, *arguments)]
    bounds = [*(n_rows * part // parts // multiple * multiple for part in range(parts)), n_rows]

    def run(part: int) -> Any:
        return kernel(bounds[part], bounds[part + 1], *arguments)

    return _team(run, parts)


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread for torch, its linear algebra included, and the loops here."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def threads_for(n_rows: int) -> Iterator[None]:
    """Use one thread for torch and the loops here while few rows are worked on."""
    with nullcontext() if n_rows >= _SMALL else one_thread():
        yield


def _python_team(run: Callable[[int], Any], parts: int) -> list[Any]:
    """Call ``run(0)`` to ``run(parts - 1)`` on Python threads, the calling thread included."""
    global _pool, _pool_size
    if _pool is None or _pool_size < parts - 1:
        _pool, _pool_size = ThreadPoolExecutor(parts - 1, thread_name_prefix="angpn"), parts - 1
    pending = [_pool.submit(run, part) for part in range(1, parts)]
    return [run(0), *(future.result() for future in pending)]


_pool: ThreadPoolExecutor | None = None
_pool_size = 0


def _openmp_team(run: Callable[[int], Any], parts: int) -> list[Any]:
    """Do the same on torch's OpenMP threads."""
    results: list[Any] = [None] * parts
    errors: list[BaseException] = []
    numbers = itertools.count()  # next() on it is atomic, and tells the threads apart

    def member(_: Any) -> None:
        # The team may be smaller than asked for (inside another parallel region it is one thread): take what is left.
        for part in numbers:
            if part >= parts:
                return
            try:
                results[part] = run(part)
            except BaseException as error:  # an exception must not cross into C
                errors.append(error)

    _gomp_parallel(_Callback(member), None, parts, 0)
    if errors:
        raise errors[0]
    return results


def _find_openmp() -> Any:
    """Return the entry point of the OpenMP library that torch is linked to, or None where there is none."""
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        function = library.GOMP_parallel
    except (OSError, AttributeError):
        return None
    function.argtypes = [_Callback, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    function.restype = None
    return function


_gomp_parallel = _find_openmp()
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
