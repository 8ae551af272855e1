"""A compiled loop over rows, run on all the threads torch may use.

Each thread has its own range of rows and writes to no other, so nothing is locked and the result does not depend on how
many threads there are. Plain Python threads do: compiled code lets go of the interpreter. numba's own threads are left
alone, since their layers are unsafe after a fork (OpenMP) or when two threads call at once (work queue).
"""

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

_pool: ThreadPoolExecutor | None = None
_pool_size = 0

# Below this many rows a thread would wait longer for its turn than it works.
_MIN_ROWS = 256


def over_rows(kernel: Callable[..., Any], n_rows: int, *arguments: Any) -> list[Any]:
    """``kernel(start, stop, *arguments)`` for ranges that cover all rows; what each returned."""
    parts = max(1, min(torch.get_num_threads(), n_rows // _MIN_ROWS))
    bounds = [n_rows * part // parts for part in range(parts + 1)]
    ranges = list(itertools.pairwise(bounds))
    if parts == 1:
        return [kernel(0, n_rows, *arguments)]
    pool = _threads(parts - 1)
    pending = [pool.submit(kernel, start, stop, *arguments) for start, stop in ranges[1:]]
    first = kernel(*ranges[0], *arguments)  # the calling thread takes its share
    return [first, *(future.result() for future in pending)]


def _threads(count: int) -> ThreadPoolExecutor:
    global _pool, _pool_size
    if _pool is None or _pool_size < count:
        _pool, _pool_size = ThreadPoolExecutor(count, thread_name_prefix="angpn"), count
    return _pool


def _forget() -> None:
    """After a fork the child has the pool's object but none of its threads."""
    global _pool
    _pool = None


os.register_at_fork(after_in_child=_forget)
