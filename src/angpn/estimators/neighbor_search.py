"""Each row's candidates, by the way that suits the rows: given, exact, by an index, or by several processes."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import scipy.sparse
import torch
from torch import Tensor

from angpn.estimators.fitted_models import Fitted
from angpn.estimators.task import Task
from angpn.neighbors.approximate import (
    EXACT_PAIRS,
    EXACT_ROWS,
    FittedSearch,
    Found,
    approximate_candidates,
    has_index,
    warn_low_recall,
)
from angpn.neighbors.distributed import distributed_map
from angpn.neighbors.distributed_search import DistributedSearch, distribute_rows
from angpn.neighbors.exact import ExactSearch, Metric, nearest_candidates, neighbors_from_graph
from angpn.neighbors.inverted_index import IndexState
from angpn.neighbors.neighborhood import Neighborhood
from angpn.utils.checks import check_same_rows
from angpn.utils.inputs import check_not_negative
from angpn.utils.progress import count_bar

# By distance alone a row takes k neighbours on average, and of dense rows hardly one beyond the 3 k nearest. Of texts a
# tenth have more than 4 k: those that share no word with most others.
CANDIDATES_PER_NEIGHBOR, OF_FIXED_GRAPH = 4, 3
MOST_VALUES_KEPT = 2**24  # of rows prepared for exact search, for the next prediction: 200 MB
SMALLEST_GIVEN, LARGEST_GIVEN = 2.0**-100, 2.0**100  # distances that a user passes


Search = Callable[[Any], tuple[Tensor, Tensor]]  # new rows to fitted ones and their distances, (r, m) each


class Neighbors(NamedTuple):
    """What a search has found."""

    neighborhood: Neighborhood
    recall: float  # share of the nearest rows that are on the lists, on a sample
    index_state: IndexState | None  # of the index by which they were found
    seconds: float


def n_candidates(task: Task) -> int:
    """Return how many candidates a row has, where there are so many rows."""
    fixed = task.model.beta == 0 and not scipy.sparse.issparse(task.X)
    per_neighbor = OF_FIXED_GRAPH if fixed else CANDIDATES_PER_NEIGHBOR
    return int(task.model.n_candidates or per_neighbor * task.n_neighbors)


def find_neighbors(rows: Any, metric: Metric, task: Task, seed: int) -> Neighbors:
    """Find the candidates of scaled rows."""
    start = time.perf_counter()
    found = _find(rows, metric, task, seed)
    return Neighbors(*found, time.perf_counter() - start)


def _find(rows: Any, metric: Metric, task: Task, seed: int) -> Found:
    n, distances, model = rows.shape[0], task.distances, task.model
    if distances is not None:
        check_same_rows(distances.shape[0], task.X.shape[0], "distances", "X")
    count = min(n_candidates(task), n - 1)
    if distances is not None:
        if scipy.sparse.issparse(distances):
            given = neighbors_from_graph(distances, task.n_neighbors, model.n_candidates, random_state=seed)
        else:
            check_not_negative(distances)
            given = nearest_candidates(distances, count, "precomputed", random_state=seed)
        _check_given(given.distances)
        return Found(given, 1.0)
    with count_bar("neighbours", n, enabled=bool(model.verbose) and task.is_main_process) as advance:
        if n <= EXACT_ROWS or model.recall == 1 or not has_index(n):
            return Found(nearest_candidates(rows, count, metric, random_state=seed, on_rows=advance), 1.0)
        return approximate_candidates(rows, count, metric, recall=model.recall, random_state=seed, on_rows=advance)


def find_together(rows: Any, metric: Metric, task: Task, seed: int) -> Neighbors:
    """Find the candidates of few rows, each process those of some; every process gets all."""
    start, n = time.perf_counter(), rows.shape[0]
    count = min(n_candidates(task), n - 1)
    search = DistributedSearch(rows, count, metric, recall=1, random_state=seed)
    parts = torch.arange(n).chunk(task.n_processes)
    found = distributed_map([partial(search, part, search.groups(part, 1)) for part in parts])
    neighborhood = Neighborhood(*(torch.cat(some) for some in zip(*found, strict=True)))
    return Neighbors(neighborhood, 1.0, None, time.perf_counter() - start)


def find_shard(rows: Any, metric: Metric, task: Task, seed: int) -> Neighbors:
    """Find the candidates by all processes together; each gets the lists of its own rows."""
    if task.distances is not None:
        raise ValueError(
            "several processes share rows whose distances they compute, got distances; run one process, or pass X alone"
        )
    start = time.perf_counter()
    count = min(n_candidates(task), rows.shape[0] - 1)
    search = DistributedSearch(rows, count, metric, recall=task.model.recall, random_state=seed)
    shard = distribute_rows(search)
    found = search.recall(shard)
    if task.is_main_process:
        warn_low_recall(found, task.model.recall, scipy.sparse.issparse(rows))
    return Neighbors(shard, found, None, time.perf_counter() - start)


def fitted_search(fitted: Fitted, n_new: int, *, recall: float, seed: int) -> Search:
    """Return the search for the fitted rows nearest to each of so many new ones, scaled, or to given distances.

    Whether there is an index depends on how many rows come in all, so that all their batches are searched alike. It is
    kept for the next call, and so are rows that were prepared to be compared with all new ones, unless they take much
    memory: to prepare them takes longer than to compare ten rows with them.
    """
    n_fitted, count, metric = fitted.rows.shape[0], fitted.neighborhood.n_candidates, fitted.metric
    if metric == "precomputed":
        return partial(_nearest_given, ExactSearch(fitted.rows, count, metric, random_state=seed))
    many = n_new * n_fitted > EXACT_PAIRS and recall < 1
    if not many or not has_index(n_fitted):
        if seed in fitted.exact_searches:
            return _located(fitted, fitted.exact_searches[seed])
        search = ExactSearch(fitted.located_rows, count, metric, random_state=seed)
        if _values(fitted.located_rows) <= MOST_VALUES_KEPT:
            fitted.exact_searches[seed] = search
        return _located(fitted, search)
    if (recall, seed) not in fitted.searches:
        fitted.searches.clear()
        state = fitted.index if fitted.index is not None and fitted.index.recall == recall else None
        fitted.searches[recall, seed] = FittedSearch(
            fitted.located_rows, count, metric, recall=recall, random_state=seed, state=state
        )
    return _located(fitted, fitted.searches[recall, seed])


def _values(rows: Any) -> int:
    return int(rows.nnz if scipy.sparse.issparse(rows) else rows.size)


def _located(fitted: Fitted, search: Search) -> Search:
    return lambda rows: search(fitted.coordinates(rows))


def _nearest_given(search: Search, distances: Any) -> tuple[Tensor, Tensor]:  # (r, m) each
    found = search(distances)
    _check_given(found[1], smallest=0.0)
    return found


def _check_given(distances: Tensor, smallest: float = SMALLEST_GIVEN) -> None:
    """Refuse distances to candidates that float32, in which graphs are learnt, does not hold with room to spare.

    They are not rescaled: beta and gamma are in their units.
    """
    finite = distances[torch.isfinite(distances)]
    top = float(finite.max()) if len(finite) else 0.0
    if top > 0 and not smallest <= top <= LARGEST_GIVEN:
        raise ValueError(
            f"the largest distance of a row to its candidates must lie between {SMALLEST_GIVEN:.3g} and "
            f"{LARGEST_GIVEN:.3g}, got {top:.3g}; divide all distances by a constant"
        )
