"""The fit of the automatic estimator: an ensemble, its progress and what is kept of it."""

from collections.abc import Callable, Generator
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch

from angpn.ensemble.config import EnsembleConfig
from angpn.ensemble.fit import Round, best_round, fit, fit_so_far
from angpn.ensemble.folds import Labels, make_folds
from angpn.ensemble.model_selection import Scorer
from angpn.ensemble.refit import Refit
from angpn.ensemble.scaling import ScalingName, is_table
from angpn.ensemble.user_options import EnsembleOptions, GraphOptions
from angpn.estimators.fitted_models import FittedEnsemble
from angpn.estimators.neighbor_search import Neighbors, find_neighbors, find_shard, find_together
from angpn.estimators.task import Fit, Task, finish, interrupts, is_inside_outer_loop
from angpn.kernels.threads import map_threads, one_library_thread, one_thread
from angpn.neighbors.distributed import distributed_map
from angpn.neighbors.exact import Metric
from angpn.neighbors.inverted_index import IndexState
from angpn.neighbors.locality import in_local_order
from angpn.neighbors.neighborhood import Neighborhood
from angpn.utils.callbacks import EpochCallbacks
from angpn.utils.checks import warn
from angpn.utils.fingerprint import fingerprint
from angpn.utils.inputs import plain, prepared_rows
from angpn.utils.labels import UNLABELLED
from angpn.utils.progress import count_bar
from angpn.utils.validation import check_task, checked_mask, checked_weights

# The metric that suits a scaling, where the user names the scaling alone.
_METRICS: dict[ScalingName, Metric] = {
    "unit": "chord",
    "idf": "chord",
    "unit_standard": "chord",
    "pca": "euclidean",
    "standard_pca": "euclidean",
    "standard": "euclidean",
    "none": "euclidean",
}


class Search(NamedTuple):
    """What is kept of a search; not the lists, which training may need in another order."""

    recall: float
    index_state: IndexState | None
    seconds: float


def fit_ensemble(task: Task) -> Fit:
    """Fit an ensemble."""
    # Many small products: threads of BLAS and OpenMP that wait for each other cost more than they give. torch has its
    # own BLAS, whose sums depend on the number of threads.
    many, n_threads = task.X.shape[0] > task.model._config.max_rows_compared, torch.get_num_threads()
    with nullcontext() if many else one_thread(), one_library_thread("blas" if many else None):
        return _fit(task, 1 if many else n_threads)


def _fit(task: Task, n_threads: int) -> Fit:
    """Fit an ensemble; of few rows, tasks that do not depend on each other run on so many threads."""
    seed, config = task.draw_seed(), task.model._config
    X = prepared_rows(task.X, False)
    labels = _labels(task, seed, config)
    searches: list[Search] = []
    options = _options(task, seed, config, searches, n_threads)
    warm = _warm_start(task, labels, config)
    if warm is not None:
        refit = warm.refit(labels, options)
        return _fit_of(task, X, [refit.last], warm.search, seed, warm._replace(refit=refit))
    stages: list[list[Scorer]] = []
    history = _run(task, fit(X, labels, options, stages), config)
    searched = bool(history)
    if not searched:
        history = [fit_so_far(X, labels, options, stages)]
    search = searches[-1]  # the last search is that of all rows
    if X.shape[0] <= config.max_rows_compared:
        search = search._replace(index_state=None)  # several scalings were compared, all rows by each
    can_refit = task.model.warm_start and not labels.masked and task.distances is None and not task.distributed
    can_refit = can_refit and searched  # what an interrupted search found is not for later fits

    def last_step() -> Fit:
        best = history[best_round(history, config)]
        kept = WarmState(Refit(best, labels.codes, labels), search, _inputs(task)) if can_refit else None
        return _fit_of(task, X, history, search, seed, kept)

    return finish(task, last_step)


def _fit_of(task: Task, X: Any, history: list[Round], search: Search, seed: int, warm: "WarmState | None") -> Fit:
    """Return what is kept of these rounds."""
    codes, best = task.labels.codes, best_round(history, task.model._config)
    kept = history[best]
    validation, held = np.zeros(len(codes), dtype=bool), np.zeros((len(codes), len(task.labels.classes)), dtype=X.dtype)
    for rows, probabilities in kept.held_out:
        validation[rows], held[rows] = True, probabilities.numpy()
    partition, scaling = kept.neighborhood.partition, kept.ensemble.scaling
    distributions = partition.gather_in_data_order(kept.probabilities).numpy().astype(X.dtype)
    return Fit(
        FittedEnsemble(
            kept.ensemble.in_data_order(partition),
            scaling.transform(X),
            kept.neighborhood.in_data_order(),
            scaling.metric if task.distances is None else "precomputed",
            distributions,
            search.index_state,
        ),
        seed,
        distributions,
        losses=[round.loss for round in history],
        scores=[round.accuracy for round in history] if validation.any() else None,
        best_iter=best + 1,
        best_score=kept.accuracy if validation.any() else None,
        validation_mask=validation,
        held_distributions=held[validation],
        recall=search.recall,
        neighbor_seconds=search.seconds,
        warm_state=warm,
    )


class WarmState(NamedTuple):
    """What a fit with ``warm_start`` keeps for the next."""

    refit: Refit
    search: Search
    inputs: str  # digest of X, classes and parameters: with others there is nothing to keep


def _inputs(task: Task) -> str:
    passing = {"verbose", "warm_start", "random_state"}  # which change nothing that is kept
    parameters = {name: value for name, value in task.model.get_params(deep=False).items() if name not in passing}
    return fingerprint({"X": task.X, "classes": task.labels.classes.tolist(), "parameters": sorted(parameters.items())})


def _warm_start(task: Task, labels: Labels, config: EnsembleConfig) -> WarmState | None:
    """Return the state of the last fit, where it serves this one."""
    state: WarmState | None = None if task.previous is None else task.previous.get("_warm_state")
    if state is None or labels.masked or task.distances is not None or task.distributed:
        return None
    return state if state.inputs == _inputs(task) and not state.refit.needs_search(labels, config) else None


def _labels(task: Task, seed: int, config: EnsembleConfig) -> Labels:
    """Check labels, mask and weights, and make the folds."""
    codes, known = task.labels.codes, torch.from_numpy(task.labels.codes)
    masked = torch.zeros(len(codes), dtype=torch.bool) if task.mask is None else checked_mask(task.mask, known)
    mask = None if task.mask is None else masked.numpy()
    weights = task.row_weights(mask)
    check_task(known, masked, checked_weights(weights, known, torch.float64), task.labels.classes.tolist())
    counting = codes if weights is None else np.where(weights > 0, codes, UNLABELLED)
    return Labels(codes, weights, make_folds(counting, mask, seed, config), bool(masked.any()))


def _options(task: Task, seed: int, config: EnsembleConfig, searches: list[Search], n_threads: int) -> EnsembleOptions:
    model = task.model
    many = task.X.shape[0] > config.max_rows_compared
    shared = many and task.distances is None and task.distributed  # of fewer rows each process does all

    def search(find: Callable[..., Neighbors], rows: Any, metric: Metric) -> Neighborhood:
        found = find(rows, metric, task, seed)
        searches.append(Search(found.recall, found.index_state, found.seconds))
        return found.neighborhood

    find = partial(search, find_together if shared else find_neighbors)

    def find_for_training(rows: Any, metric: Metric) -> Neighborhood:
        if shared:
            return search(find_shard, rows, metric)
        return in_local_order(find(rows, metric)) if many else find(rows, metric)

    scalings = candidate_scalings(model.scaling, model.metric, sparse=scipy.sparse.issparse(task.X))
    # The user may have fixed that no column has a scale of its own.
    by_direction = len(scalings) == 1 and scalings[0][0] in ("unit", "pca")
    of_table = task.distances is None and not by_direction and is_table(task.X, config)
    n_components = config.components_per_class * len(task.labels.classes) + 2
    is_wide = task.X.shape[1] > (config.max_columns_of_table if of_table else n_components)
    if len(scalings) > 1 and is_wide and _may_use_pca(task, config):
        scalings.append(("standard_pca" if of_table else "pca", "euclidean"))
    return EnsembleOptions(
        scalings=scalings,
        alpha=None if model.alpha == "auto" else float(model.alpha),
        graph=GraphOptions(
            task.n_neighbors, *(plain(getattr(model, name)) for name in ("beta", "gamma", "rule", "direction"))
        ),
        find_neighbors=find,
        find_training_neighbors=find_for_training,
        distances_given=task.distances is not None,
        keep_features=bool(model.warm_start) and not many,  # of many rows they are much memory
        progress_bar=lambda what, total: count_bar(what, total, enabled=bool(model.verbose) and task.is_main_process),
        seed=seed,
        config=config,
        of_table=of_table,
        n_components=n_components,
        parallel_map=distributed_map if shared else partial(map_threads, n_threads),
    )


def _may_use_pca(task: Task, config: EnsembleConfig) -> bool:
    """Tell whether labels are so few that the noise of weak columns may hide more than these columns tell."""
    n_labels = int(np.count_nonzero(task.labels.codes != UNLABELLED))
    return task.distances is None and n_labels <= config.max_labels_per_class_of_pca * len(task.labels.classes)


def candidate_scalings(name: Any, metric: Any, *, sparse: bool) -> list[tuple[ScalingName, Metric]]:
    """Return the scalings among which the labels select, for these parameters of the estimator."""
    if name == "idf" and not sparse:
        raise ValueError("scaling='idf' weights words and needs a sparse X, got a dense one; choose another scaling")
    if name in ("standard", "unit_standard", "standard_pca") and sparse:
        raise ValueError(
            f"scaling={name!r} would fill a sparse X and needs a dense one, got a sparse one; choose 'unit' or 'idf', "
            "or call toarray()"
        )
    scalings: list[tuple[ScalingName, Metric]]
    if metric == "precomputed":  # rows of distances are a table of n columns
        scalings = [("standard" if name == "auto" else name, "euclidean")]
    elif name != "auto":
        scalings = [(name, _METRICS[name] if metric == "auto" else metric)]
    elif metric != "auto":
        scalings = [("unit", metric)]
    elif sparse:  # standardising would fill it
        scalings = [("unit", "chord"), ("idf", "chord")]
    else:
        scalings = [("unit", "chord"), ("standard", "euclidean"), ("unit_standard", "chord")]
    return scalings


def _run(task: Task, rounds: Generator[Round], config: EnsembleConfig) -> list[Round]:
    """Run self-training and notify progress bar and callbacks; return the rounds, none where Ctrl-C came before one."""
    model = task.model
    most = 1 + (config.max_rounds_to_convergence if model.max_rounds is None else int(model.max_rounds))
    callbacks = EpochCallbacks(model, most, task.X, task.y)
    history: list[Round] = []
    try:
        with count_bar("rounds", most, enabled=bool(model.verbose) and task.is_main_process) as advance, interrupts():
            for round in rounds:
                history.append(round)
                advance(1)
                stop = torch.tensor(float(callbacks.stop_after_epoch()))
                stop = round.neighborhood.partition.all_reduce_max(stop)  # all processes stop where one has to
                if stop or len(history) == most or (model.max_rounds is None and _converged(history)):
                    break
    except KeyboardInterrupt:
        if is_inside_outer_loop() or task.distributed:
            raise
        if history:
            warn(f"training was interrupted after round {len(history)} and keeps what that one learnt; fit again")
        else:
            warn(
                "the search for hyper-parameters was interrupted: one round is trained with the best found so far; "
                "press Ctrl-C again to end the fit without a result, or fit again to search further"
            )
    rounds.close()  # and with it the features, which are much memory
    callbacks.end()
    return history


def _converged(history: list[Round]) -> bool:
    """Tell whether the last round changed no prediction."""
    if len(history) < 2:
        return False
    before, now = (round.calibrated.argmax(dim=1) for round in history[-2:])
    return not history[-1].neighborhood.partition.all_reduce_sum((before != now).sum())
