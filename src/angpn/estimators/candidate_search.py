"""Each row's candidates, by the way that suits the rows: given, exact, by an index, or by several processes."""

import time
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch

from angpn.estimators.task import Task
from angpn.neighbors.approximate import (
    EXACT_ROWS,
    SAMPLE,
    DistributedSearch,
    Found,
    approximate_candidates,
    has_index,
    warn_low_recall,
)
from angpn.neighbors.distributed import distribute_rows, distributed_map
from angpn.neighbors.exact import Metric, nearest_candidates, neighbors_from_graph
from angpn.neighbors.neighborhood import Neighborhood
from angpn.utils.checks import check_same_rows
from angpn.utils.inputs import check_not_negative
from angpn.utils.progress import count_bar

CANDIDATES_PER_NEIGHBOR = 4


class Neighbors(NamedTuple):
    """What a search has found."""

    neighborhood: Neighborhood
    recall: float  # share of the nearest rows that are on the lists, on a sample
    seconds: float


def n_candidates(task: Task) -> int:
    """How many candidates a row has, where there are so many rows."""
    return int(task.model.n_candidates or CANDIDATES_PER_NEIGHBOR * task.n_neighbors)


def find_neighbors(rows: Any, metric: Metric, task: Task, seed: int) -> Neighbors:
    """Candidates of rows as a view or a network has them."""
    start = time.perf_counter()
    found = _find(rows, metric, task, seed)
    return Neighbors(*found, time.perf_counter() - start)


def _find(rows: Any, metric: Metric, task: Task, seed: int) -> Found:
    n, distances, model = rows.shape[0], task.distances, task.model
    if distances is not None:
        check_same_rows(distances.shape[0], task.X.shape[0], "distances", "X")
    if scipy.sparse.issparse(distances):
        return Found(neighbors_from_graph(distances, task.n_neighbors, model.n_candidates, random_state=seed), 1.0)
    count = min(n_candidates(task), n - 1)
    if distances is not None:
        check_not_negative(distances)
        return Found(nearest_candidates(distances, count, "precomputed", random_state=seed), 1.0)
    with count_bar("neighbours", n, enabled=bool(model.verbose) and task.is_main_process) as advance:
        if n <= EXACT_ROWS or model.recall == 1 or not has_index(n):
            return Found(nearest_candidates(rows, count, metric, random_state=seed, on_rows=advance), 1.0)
        return approximate_candidates(rows, count, metric, recall=model.recall, random_state=seed, on_rows=advance)


def find_together(rows: Any, metric: Metric, task: Task, seed: int) -> Neighbors:
    """The same of rows few enough to compare every pair, each process for some of them; all have all in the end."""
    start, n = time.perf_counter(), rows.shape[0]
    count = min(n_candidates(task), n - 1)
    search = DistributedSearch(rows, count, metric, recall=1, random_state=seed)
    parts = torch.arange(n).chunk(task.n_processes)
    found = distributed_map([partial(search, part, search.groups(part, 1)) for part in parts])
    neighborhood = Neighborhood(*(torch.cat(some) for some in zip(*found, strict=True)))
    return Neighbors(neighborhood, 1.0, time.perf_counter() - start)


def find_shard(rows: Any, metric: Metric, task: Task, seed: int) -> Neighbors:
    """The same by all processes of a job together; each has the lists of its own rows in the end."""
    if task.distances is not None:
        raise ValueError(
            "several processes share rows whose distances they compute, got distances; run one process, or pass X alone"
        )
    start = time.perf_counter()
    count = min(n_candidates(task), rows.shape[0] - 1)
    search = DistributedSearch(rows, count, metric, recall=task.model.recall, random_state=seed)
    shard = distribute_rows(rows.shape[0], count, search, seed)
    recall = search.recall(
        shard.partition.local_rows(np.arange(rows.shape[0])), shard.distances.numpy(), SAMPLE // task.n_processes
    )
    found = float(shard.partition.mean(torch.full((shard.n_rows,), recall, dtype=torch.float64)))
    if task.is_main_process:
        warn_low_recall(found, task.model.recall, scipy.sparse.issparse(rows))
    return Neighbors(shard, found, time.perf_counter() - start)
