"""The fit of the network's estimator: warm starts, checkpoints, progress, and what is kept of it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse
import torch
from sklearn.exceptions import ConvergenceWarning

from angpn.estimators.fitted_models import FittedNetwork
from angpn.estimators.neighbor_search import Neighbors, find_neighbors, find_shard, n_candidates
from angpn.estimators.task import Fit, Task, finish, interrupts, is_inside_outer_loop
from angpn.kernels.startup import start_compiler
from angpn.neighbors.exact import Metric
from angpn.neighbors.neighborhood import Neighborhood
from angpn.network.checkpoint import Checkpoint
from angpn.network.coverage import Coverage, candidate_coverage
from angpn.network.epoch_bar import EpochBar
from angpn.network.model import ANGPN
from angpn.network.training import check_self_supervised, train
from angpn.network.training_loop import Epoch, Training
from angpn.utils.array_checks import MAX_WEIGHT
from angpn.utils.callbacks import EpochCallbacks
from angpn.utils.checks import warn
from angpn.utils.inputs import (
    as_widths,
    check_scales,
    equal_rows,
    find_device,
    on_device,
    plain,
    plain_seed,
    prepared_rows,
)
from angpn.utils.labels import UNLABELLED
from angpn.utils.typing import Array
from angpn.utils.validation import hold_out

_PAIRS_SAMPLED = 2 * 10**7  # that are compared to see what the lists leave out; a few times as many numbers are held
# What the result depends on beside the data; how long a fit runs may be changed when it is resumed.
_OPTIONS = (
    "normalize_hidden",
    "dropout",
    "alpha",
    "beta",
    "gamma",
    "rule",
    "num_steps",
    "direction",
    "graph_gradient",
)
_PROBLEM = (
    *_OPTIONS,
    "n_neighbors",
    "n_candidates",
    "recall",
    "metric",
    "normalize",
    "learning_rate",
    "weight_decay",
    "validation_fraction",
    "class_weight",
)


def fit_network(task: Task) -> Fit:
    """Train, from the weights of the last fit where that is asked for, or from a checkpoint."""
    start_compiler()
    model, labels, mask, previous = task.model, task.labels, task.mask, task.previous
    check_scales(task.X)
    check_self_supervised(model.self_supervised, task.n_processes)
    features = prepared_rows(task.X, model.normalize)
    device = find_device(model.device, scipy.sparse.issparse(features))
    checkpoint = Checkpoint(model.checkpoint, resume=model.resume, problem=_problem(task, features, previous))
    seed = task.draw_seed() if checkpoint.seed is None else checkpoint.seed
    metric: Metric = model.metric
    same_rows = previous if previous is not None and equal_rows(previous["_fitted"].rows, features) else None
    if same_rows is not None and task.distances is None and _serves(same_rows, metric, n_candidates(task)):
        found = Neighbors(same_rows["neighborhood_"], same_rows["recall_"], same_rows["_fitted"].index, 0.0)
    else:
        found = (find_shard if task.distributed else find_neighbors)(features, metric, task, seed)
    if mask is None:
        mask = _held_out(task, seed, same_rows)
    network = _network(task, features, seed, previous).to(device)
    training = train(
        network,
        on_device(features, device),
        found.neighborhood,
        labels.codes,
        validation_mask=mask,
        sample_weight=task.row_weights(mask),
        learning_rate=model.learning_rate,
        weight_decay=model.weight_decay,
        self_supervised=plain(model.self_supervised),
        max_epochs=model.max_iter,
        patience=model.n_iter_no_change,
        tol=model.tol,
        warm_start=previous is not None,
        class_names=labels.classes.tolist(),
        random_state=seed,
    )
    epochs = _run(task, training, checkpoint, seed, found.neighborhood)
    _check_weights(network)
    fitted, distributions = finish(task, lambda: _fitted(task, network, features, found, seed))
    scores = [epoch.validation_accuracy for epoch in epochs if epoch.validation_accuracy is not None]
    best = [epoch for epoch in epochs if epoch.is_best]
    return Fit(
        fitted,
        seed,
        distributions,
        losses=[epoch.loss for epoch in epochs],
        scores=scores or None,
        best_iter=best[-1].number if best else len(epochs),
        best_score=best[-1].validation_accuracy if best else None,
        validation_mask=mask,
        held_distributions=distributions[mask],
        recall=found.recall,
        neighbor_seconds=found.seconds,
    )


def _check_weights(network: ANGPN) -> None:
    """Refuse weights that no saved model may have; a loss can be finite on the way to infinity."""
    largest = max(float(weight.detach().abs().max()) for weight in network.parameters())
    if largest > MAX_WEIGHT:
        raise ValueError(
            f"weights must stay below {MAX_WEIGHT:g}, got {largest:.3g} after training; lower learning_rate, or "
            "standardise X"
        )


def _fitted(task: Task, network: ANGPN, features: Any, found: Neighbors, seed: int) -> tuple[FittedNetwork, Array]:
    """Return the model of all rows, and its probabilities, whichever processes trained it."""
    neighborhood = found.neighborhood
    partition, device = neighborhood.partition, network.perceptron.weight.device
    found_by: Metric = task.model.metric if task.distances is None else "precomputed"
    lists = neighborhood.in_data_order().to("cpu")
    fitted = FittedNetwork(network, features, lists, found_by, bool(task.model.normalize), index=found.index_state)
    if partition.n_processes == 1:
        return replace(fitted, coverage=_coverage(fitted, task, seed)), fitted.distributions()
    with torch.no_grad():
        own = on_device(partition.local_rows(features), device)
        probabilities = network.probabilities(own, neighborhood.to(device)).cpu()
    return fitted, partition.gather_in_data_order(probabilities).numpy()


def _problem(task: Task, features: Any, previous: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return all that a fit is known by when it is resumed."""
    model = task.model
    problem = {name: getattr(model, name) for name in _PROBLEM}
    problem |= {
        "hidden_layer_sizes": as_widths(model.hidden_layer_sizes),
        "random_state": plain_seed(model.random_state),
        "X": features,
        "y": task.labels.codes,
        "mask": task.mask,
        "weights": task.weights,
        "distances": task.distances,
    }
    if model.self_supervised > 0:  # absent otherwise, so that checkpoints from before there was this option are resumed
        problem["self_supervised"] = model.self_supervised
    if previous is not None:  # a warm start begins, and holds out, as the fit before it left things
        problem |= {"known": previous["_codes"], "held": previous["validation_mask_"]}
    return problem


def _network(task: Task, features: Any, seed: int, previous: Mapping[str, Any] | None) -> ANGPN:
    """Return the network; its weights are drawn once, by :func:`train` or here for a warm start."""
    model, classes = task.model, task.labels.classes
    with torch.device("meta"):  # shapes alone
        network = ANGPN(
            features.shape[1],
            as_widths(model.hidden_layer_sizes),
            len(classes),
            n_neighbors=task.n_neighbors,
            **{name: plain(getattr(model, name)) for name in _OPTIONS},
        ).to(getattr(torch, features.dtype.name))
    network.to_empty(device="cpu")
    if previous is not None:
        network.reset_parameters(torch.Generator().manual_seed(seed))
        _take_over(network, classes, previous["module_"], previous["classes_"])
    return network


def _run(task: Task, training: Training, checkpoint: Checkpoint, seed: int, neighborhood: Neighborhood) -> list[Epoch]:
    """Run the epochs, after those of a checkpoint, and notify progress bar and callbacks."""
    model = task.model
    callbacks = EpochCallbacks(model, model.max_iter, task.X, task.y)
    epochs = checkpoint.restore(training)
    try:
        with EpochBar(training, enabled=bool(model.verbose) and task.is_main_process) as bar, interrupts():
            for epoch in training:
                epochs.append(epoch)
                bar.update(epoch)
                if task.is_main_process:
                    checkpoint.save(training, epochs, seed)
                stop = torch.tensor(float(callbacks.stop_after_epoch()))
                if neighborhood.partition.all_reduce_max(stop):  # all processes stop where one has to
                    break
    except KeyboardInterrupt:
        if not epochs or is_inside_outer_loop() or neighborhood.partition.n_processes > 1:
            raise
        warn(
            f"training was interrupted after epoch {len(epochs)} and keeps the best weights so far; fit again, "
            "with resume=True where there is a checkpoint, to go on"
        )
        # The checkpoint of a moment ago is of a whole epoch; what is in hand now may not be.
    else:
        if task.is_main_process:
            checkpoint.save(training, epochs, seed, now=True, finished=True)
        if len(epochs) == training.last_epoch == model.max_iter and epochs[-1].validation_loss is not None:
            warn(
                f"training did not settle within max_iter={model.max_iter} epochs; raise max_iter, or learning_rate",
                ConvergenceWarning,
            )
    callbacks.end()
    return epochs


def _held_out(task: Task, seed: int, previous: Mapping[str, Any] | None) -> Array:  # (n,) bool
    """Return the rows to validate on; after a warm start none that was trained on before, nor the reverse."""
    codes, fraction = task.labels.codes, task.model.validation_fraction
    if not 0 <= fraction < 1:
        raise ValueError(f"validation_fraction must lie in [0, 1), got {fraction}; 0 trains on every label")
    free = codes if task.weights is None else np.where(task.weights > 0, codes, UNLABELLED)
    kept = np.zeros(len(codes), dtype=bool)
    if previous is not None:
        free = np.where(previous["_codes"] == UNLABELLED, free, UNLABELLED)
        kept = previous["validation_mask_"] & (codes != UNLABELLED)
    generator = torch.Generator().manual_seed(seed)
    return kept | hold_out(torch.from_numpy(free), fraction, generator).numpy()


def _coverage(fitted: FittedNetwork, task: Task, seed: int) -> Coverage | None:
    neighborhood = fitted.neighborhood
    if scipy.sparse.issparse(task.distances) or neighborhood.n_candidates == neighborhood.n_rows - 1:
        return None
    n_sample = min(200, max(50, _PAIRS_SAMPLED // neighborhood.n_rows))
    options = {"distances": task.distances, "n_sample": n_sample, "random_state": seed}
    return candidate_coverage(fitted.module, fitted.rows, neighborhood, fitted.metric, **options)


def _serves(previous: Mapping[str, Any], metric: Metric, count: int) -> bool:
    """Tell whether the neighbours of the last fit are those of this one."""
    return previous["_fitted"].metric == metric and previous["neighborhood_"].n_candidates == count


def _take_over(network: ANGPN, classes: Array, previous: ANGPN, previous_classes: Array) -> None:
    """Start from the weights of the last fit; a class that it did not know starts afresh."""
    if network.config | {"out_channels": 0} != previous.config | {"out_channels": 0}:
        raise ValueError(
            "warm_start needs the features and the network of the last fit, got others; fit with warm_start=False"
        )
    with torch.no_grad():
        network.convs.load_state_dict(previous.convs.state_dict())
        for place, name in enumerate(classes):
            known = np.flatnonzero(previous_classes == name)
            if len(known):
                network.perceptron.weight[place] = previous.perceptron.weight[known[0]]
