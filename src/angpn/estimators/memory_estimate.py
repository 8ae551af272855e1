"""How much memory a fit or a prediction will take, before it takes it."""

import sys
from typing import Any, get_args

import numpy as np
import scipy.sparse

from angpn.ensemble.config import Family
from angpn.ensemble.scaling import feature_width
from angpn.estimators.fitted_models import Fitted
from angpn.estimators.neighbor_search import n_candidates
from angpn.estimators.new_rows import batch_rows
from angpn.estimators.task import Task
from angpn.neighbors.approximate import EXACT_PAIRS, EXACT_ROWS
from angpn.neighbors.exact import BLOCK_BYTES
from angpn.network.masking import MASKED_SHARE, ZEROS_PER_MASKED
from angpn.utils.inputs import as_widths
from angpn.utils.memory import available_bytes, resident_bytes

_LIBRARIES = 4.3e8
_BLOCKS = 6  # of distances that a search holds, at most
_WORTH_SAYING = 1e9


def check_memory(task: Task, needed: int) -> None:
    """Refuse what will not fit, before any work is done; say how much it will be where that is much."""
    free = available_bytes()
    if free is not None and needed - (resident_bytes() or 0) > free:
        raise MemoryError(
            f"a fit of {task.X.shape[0]} rows needs about {needed / 1e9:.1f} GB, got {free / 1e9:.1f} GB free; lower "
            f"n_candidates (now {n_candidates(task)}), pass float32 or fewer columns, or share the rows out among "
            "machines with torchrun and distributed=True"
        )
    if task.model.verbose and needed > _WORTH_SAYING and task.is_main_process:
        left = "" if free is None else f" of {free / 1e9:.1f} GB free"
        print(f"this takes about {needed / 1e9:.1f} GB{left}", file=sys.stderr)


def ensemble_bytes(task: Task) -> int:
    """Estimate the peak of a process that fits an ensemble; meant to be a little above it."""
    config, n = task.model._config, task.X.shape[0]
    rows, lists, index, blocks, both_ways = _shared_parts(task)
    features = 4 * n * min(task.X.shape[1], feature_width(n, config))
    probabilities = (
        4
        * n
        * len(task.labels.classes)
        * (2 * config.n_of_family * len(get_args(Family)) + 2 * (config.max_fold_models + 1))
    )
    training = (len(config.hops) + 1) * features + 4 * both_ways + probabilities
    processes = task.n_processes if n > config.max_rows_compared else 1
    return int(_LIBRARIES + 3 * rows + lists + max(index / processes + blocks, training / processes))


def network_bytes(task: Task) -> int:
    """Estimate the peak of a process that trains a network; meant to be a little above it."""
    rows, lists, index, blocks, both_ways = _shared_parts(task)
    widths = as_widths(task.model.hidden_layer_sizes)
    graphs = (len(widths) - 1) * (task.model.num_steps or 10) * (lists + both_ways) + lists
    training = lists + graphs + 6 * task.X.shape[0] * task.X.dtype.itemsize * int(np.sum(widths))
    if task.model.self_supervised > 0:
        training += _denoising_bytes(task.X, rows, widths[-1])
    processes = task.n_processes
    return int(_LIBRARIES + 3 * rows + max((index + lists) / processes + blocks, training / processes))


def _denoising_bytes(X: Any, rows: float, width: int) -> float:
    """Return the bytes of masked rows and of what restores them: a decoder with its moments, and sorted entries."""
    sparse = scipy.sparse.issparse(X)
    entries = MASKED_SHARE * (X.nnz * (1 + ZEROS_PER_MASKED) if sparse else X.size)
    places = 24 * X.nnz if sparse else 5 * X.size
    return 4 * rows + places + 64 * entries + 6 * X.shape[1] * (width + 1) * X.dtype.itemsize


def _shared_parts(task: Task) -> tuple[float, ...]:
    """Return the bytes of the rows, of their lists, of an index, of blocks of distances, and of S + S^T."""
    X, n, item = task.X, task.X.shape[0], task.X.dtype.itemsize
    sparse = scipy.sparse.issparse(X)
    rows = X.nnz * (item + 4) if sparse else X.size * item
    lists = n * min(n_candidates(task), n - 1) * (4 + item)
    index = 4 * n * min(X.shape[1], 256 if sparse else X.shape[1]) if n > EXACT_ROWS else 0
    return rows, lists, index, _BLOCKS * min(BLOCK_BYTES, 8 * n * n), 8 * n * 3 * task.n_neighbors


def check_memory_for_new(fitted: Fitted, X: Any, width: int, *, recall: float) -> None:
    """Refuse to predict what will not fit, before any work is done."""
    free, needed = available_bytes(), new_rows_bytes(fitted, X, width, recall)
    if free is not None and needed > free:
        raise MemoryError(
            f"a prediction of {X.shape[0]} rows needs about {needed / 1e9:.1f} GB beside them, got {free / 1e9:.1f} GB "
            f"free; pass fewer rows at a time, or fit on fewer than {fitted.rows.shape[0]}"
        )


def new_rows_bytes(
    fitted: Fitted,
    X: Any,  # (r, d)
    width: int,  # of the result
    recall: float,
) -> int:
    """Estimate what a prediction takes beside the new rows; meant to be a little above it."""
    (r, d), n = X.shape, fitted.rows.shape[0]
    sparse = scipy.sparse.issparse(fitted.rows)
    size = batch_rows(fitted, n if fitted.metric == "precomputed" else d)
    batch = 8 * size * (6 * (fitted.width if sparse else d) + 12 * fitted.neighborhood.n_candidates)
    stored = 12 * fitted.rows.nnz if sparse else 8 * fitted.rows.size
    if fitted.metric == "precomputed":
        search = _BLOCKS * 8 * size * n
    elif r * n > EXACT_PAIRS and recall < 1:
        search = 0 if fitted.searches else 4 * n * min(d, 256 if sparse else d)
    else:
        search = (0 if fitted.exact_searches else 2 * stored) + _BLOCKS * min(BLOCK_BYTES, 8 * size * n)
    return int(8 * r * width + batch + search + fitted.kept_bytes())
