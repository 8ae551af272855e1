"""A committee of shallow networks: a view and settings chosen by the labels, then rounds of training."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
import torch
from threadpoolctl import threadpool_limits

from angpn.ensemble.base_learners import GraphOptions
from angpn.ensemble.ensemble import Committee
from angpn.ensemble.fit import ROWS_COMPARED, Labels, Request, State, best_round, choose, train
from angpn.ensemble.scaling import Scaling
from angpn.ensemble.selection import make_folds
from angpn.estimators.candidate_search import Neighbors, find_neighbors, find_shard, find_together
from angpn.estimators.fitted import FittedCommittee
from angpn.estimators.task import Fit, Task, is_part_of_a_whole
from angpn.neighbors.distributed import distributed_map, serial_map
from angpn.neighbors.exact import Metric
from angpn.neighbors.locality import in_local_order
from angpn.neighbors.neighborhood import Neighborhood
from angpn.utils.callbacks import EpochCallbacks
from angpn.utils.checks import warn
from angpn.utils.inputs import plain, prepared_rows
from angpn.utils.labels import UNLABELLED
from angpn.utils.progress import count_bar
from angpn.utils.validation import check_task, checked_mask, checked_weights

_MANY_ROUNDS = 20


def fit_committee(task: Task) -> Fit:
    """Choose, and train in rounds."""
    # Many small products: threads of BLAS and OpenMP that wait for each other cost more than they give.
    with threadpool_limits(1, "blas" if task.X.shape[0] > ROWS_COMPARED else None):
        return _fit(task)


def _fit(task: Task) -> Fit:
    model, codes, mask, seed = task.model, task.labels.codes, task.mask, task.drawn_seed()
    known = torch.from_numpy(codes)
    masked = torch.zeros(len(codes), dtype=torch.bool) if mask is None else checked_mask(mask, known)
    check_task(known, masked, checked_weights(task.weights, known, torch.float64), task.labels.classes.tolist())
    mask = None if mask is None else masked.numpy()
    X = prepared_rows(task.X, False)
    weights = task.row_weights(mask, np.dtype(np.float64))
    searches: list[tuple[float, float]] = []  # recall and seconds
    many = X.shape[0] > ROWS_COMPARED
    shared = many and task.distances is None and task.distributed  # with fewer, each process does the same for itself

    def searched(find: Callable[..., Neighbors], rows: Any, metric: Metric) -> Neighborhood:
        found = find(rows, metric, task, seed)
        searches.append((found.recall, found.seconds))
        return found.neighborhood

    neighbors = partial(searched, find_together if shared else find_neighbors)

    def arranged(rows: Any, metric: Metric) -> Neighborhood:
        if shared:
            return searched(find_shard, rows, metric)
        return in_local_order(neighbors(rows, metric)) if many else neighbors(rows, metric)

    previous = None if task.previous is None else task.previous.get("committee_")
    request = Request(
        views=_views(task, previous),
        alpha=None if model.alpha == "auto" else float(model.alpha),
        options=GraphOptions(
            task.n_neighbors, *(plain(getattr(model, name)) for name in ("beta", "gamma", "rule", "direction"))
        ),
        neighbors=neighbors,
        arranged=arranged,
        given_distances=task.distances is not None,
        settings=None if previous is None else previous.settings,
        bar=lambda what, total: count_bar(what, total, enabled=bool(model.verbose) and task.is_main_process),
        seed=seed,
        parallel_map=distributed_map if shared else serial_map,
    )
    counting = codes if weights is None else np.where(weights > 0, codes, UNLABELLED)
    given = Labels(codes, weights, make_folds(counting, mask, seed), bool(masked.any()))
    chosen = choose(X, given, request)
    view, neighborhood = chosen.look.view, chosen.look.neighborhood
    training = train(chosen, given, request)
    del chosen
    history = _rounds(task, training, neighborhood)
    training.close()  # and with it the features, which are much memory

    best = best_round(history)
    kept = history[best]
    held = np.full(len(codes), UNLABELLED, dtype=np.int64)
    for rows, beliefs in kept.held:
        held[rows] = beliefs.argmax(dim=1).numpy()
    validation = held != UNLABELLED
    distributions = neighborhood.partition.gather_in_data_order(kept.beliefs).numpy().astype(X.dtype)
    found_by = view.metric if task.distances is None else "precomputed"
    return Fit(
        FittedCommittee(
            kept.committee.gathered(neighborhood), view.rows(X), neighborhood.in_data_order(), found_by, distributions
        ),
        seed,
        distributions,
        losses=[state.loss for state in history],
        scores=[state.accuracy for state in history] if validation.any() else None,
        best_iter=best + 1,
        best_score=kept.accuracy if validation.any() else None,
        validation_mask=validation,
        held_codes=held[validation],
        recall=searches[-1][0],  # the last search is that of all rows
        neighbor_seconds=searches[-1][1],
        coverage=None,
    )


def _rounds(task: Task, training: Iterable[State], neighborhood: Neighborhood) -> list[State]:
    """The rounds, told to all who watch."""
    model = task.model
    most = 1 + (_MANY_ROUNDS if model.num_steps is None else int(model.num_steps))
    callbacks = EpochCallbacks(model, most, task.X, task.y)
    history: list[State] = []
    try:
        with count_bar("rounds", most, enabled=bool(model.verbose) and task.is_main_process) as advance:
            for state in training:
                history.append(state)
                advance(1)
                said = [found.beliefs.argmax(dim=1) for found in history[-2:]]
                settled = (
                    model.num_steps is None
                    and len(said) == 2
                    and not neighborhood.partition.all_reduce_sum((said[0] != said[1]).sum())
                )
                stop = neighborhood.partition.all_reduce_max(
                    torch.tensor(float(callbacks.stop_after_epoch()))
                )  # all stop where one is told to
                if stop or len(history) == most or settled:
                    break
    except KeyboardInterrupt:
        if not history or is_part_of_a_whole() or neighborhood.partition.n_processes > 1:
            raise
        warn(f"training was interrupted after round {len(history)} and keeps what that one learnt; fit again")
    callbacks.end()
    return history


def _views(task: Task, previous: Committee | None) -> list[tuple[Scaling, Metric]]:
    """The ways to look at the rows among which the labels decide, or the one that they did decide for."""
    model = task.model
    views: list[tuple[Scaling, Metric]]
    if model.metric != "auto":
        views = [("unit" if model.normalize else "none", model.metric)]
    elif scipy.sparse.issparse(task.X):  # standardising would fill it
        views = [("unit", "chord"), ("rare", "chord")]
    else:
        views = [("unit", "chord"), ("standard", "euclidean"), ("both", "chord")]
    last = None if previous is None else (previous.view.scaling, previous.view.metric)
    return [last] if last in views else views
