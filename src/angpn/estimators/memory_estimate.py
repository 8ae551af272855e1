"""How much memory a fit will take, before it takes it."""

import sys

import numpy as np
import scipy.sparse

from angpn.ensemble.fit import ROWS_COMPARED
from angpn.ensemble.scaling import max_width
from angpn.ensemble.selection import MEMBERS, REACHES
from angpn.estimators.candidate_search import n_candidates
from angpn.estimators.task import Task
from angpn.neighbors.approximate import EXACT_ROWS
from angpn.neighbors.exact import BLOCK_BYTES
from angpn.utils.inputs import as_widths
from angpn.utils.memory import available_bytes, resident_bytes

_LIBRARIES = 4.3e8
_BLOCKS = 6  # of distances that a search holds, at most
_WORTH_TELLING = 1e9
_STUDENTS = 6


def check_memory(task: Task) -> None:
    """Refuse what will not fit, before any work is done; tell how much it will be where that is much."""
    needed, free = needed_bytes(task), available_bytes()
    if free is not None and needed - (resident_bytes() or 0) > free:
        raise MemoryError(
            f"a fit of {task.X.shape[0]} rows needs about {needed / 1e9:.1f} GB, got {free / 1e9:.1f} GB free; lower "
            f"n_candidates (now {n_candidates(task)}), pass float32 or fewer columns, or distribute the rows "
            "(distributed=True, with torchrun)"
        )
    if task.model.verbose and needed > _WORTH_TELLING and task.is_main_process:
        left = "" if free is None else f" of {free / 1e9:.1f} GB free"
        print(f"this takes about {needed / 1e9:.1f} GB{left}", file=sys.stderr)


def needed_bytes(task: Task) -> int:
    """The peak of the process, about; meant to be a little above it."""
    X, n, m, k = task.X, task.X.shape[0], n_candidates(task), task.n_neighbors
    item, classes = X.dtype.itemsize, len(task.labels.classes)
    m = min(m, n - 1)
    sparse = scipy.sparse.issparse(X)
    rows = X.nnz * (item + 4) if sparse else X.size * item
    lists = n * m * (4 + item)
    index = 4 * n * min(X.shape[1], 256 if sparse else X.shape[1]) if n > EXACT_ROWS else 0
    blocks = _BLOCKS * min(BLOCK_BYTES, 8 * n * n)
    both_ways = 8 * n * 3 * k  # the entries of S + S^T
    if task.model.hidden_layer_sizes is None:
        features = 4 * n * min(X.shape[1], max_width(n))
        propagated = (len(REACHES) + 1) * features
        beliefs = 4 * n * classes * (2 * MEMBERS + 2 * _STUDENTS)
        parts = task.n_processes if n > ROWS_COMPARED else 1
        training = propagated + 4 * both_ways + beliefs
        total = 3 * rows + lists + max(index / parts + blocks, training / parts)
    else:
        widths = as_widths(task.model.hidden_layer_sizes)
        steps = task.model.num_steps or 10
        graphs = (len(widths) - 1) * steps * (lists + both_ways) + lists
        working = lists + graphs + 6 * n * item * int(np.sum(widths))
        parts = task.n_processes
        total = 3 * rows + max((index + lists) / parts + blocks, working / parts)
    return int(_LIBRARIES + total)
