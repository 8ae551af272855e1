"""Training of the network: its checks and set-up; the loop itself is :mod:`angpn.network.training_loop`."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from angpn.neighbors.locality import in_local_order
from angpn.neighbors.neighborhood import DenseNeighborhood, Neighborhood, as_neighborhood
from angpn.neighbors.partition import ALL_ROWS
from angpn.network.denoising import Denoising
from angpn.network.model import ANGPN
from angpn.network.training_loop import Training, TrainingTask
from angpn.utils.checks import (
    as_float_tensor,
    as_sparse_rows,
    as_tensor,
    check_finite,
    check_number,
    check_same_rows,
    warn,
)
from angpn.utils.labels import UNLABELLED
from angpn.utils.validation import check_task, checked_mask, checked_weights, hold_out

EPOCHS_WITHOUT_VALIDATION = 200


def train(
    network: ANGPN,
    features: Any,  # (n, d), dense or sparse
    distances: Tensor | Neighborhood | DenseNeighborhood,
    labels: Any,  # (n,) integers from 0, -1 where unlabelled
    *,
    validation_mask: Any = None,  # (n,) bool
    validation_fraction: float = 0.05,
    sample_weight: Any = None,  # (n,) how much each labelled row counts in the losses
    learning_rate: float = 0.005,
    weight_decay: float = 0.0,
    self_supervised: float = 0.0,
    max_epochs: int = 10_000,
    patience: int = 100,
    tol: float = 1e-4,
    warm_start: bool = False,
    class_names: Sequence[Any] | None = None,  # for messages
    random_state: int = 0,
) -> Training:
    """Train ``network`` in place, an epoch for each turn of the loop over what this returns.

    The call itself checks the input and gives the network fresh weights (unless ``warm_start``); no epoch runs before
    the first turn. Whenever the caller has control (after each epoch, at the end, after an error or a break) the
    network is ready for use with the weights of the lowest validation loss so far: those of the last epoch with
    ``is_best``.

    Training ends when the validation loss has not improved by ``tol`` for ``patience`` epochs (where all held-out
    labels are right it decreases for ever, by less and less); where nothing is held out, after 200 epochs, or
    ``max_epochs`` if that is fewer, with a warning.

    Args:
        network: gets the weights.
        features: X, dense or sparse.
        distances: an (n, n) matrix, or a neighbourhood. With that of a
            :class:`~angpn.neighbors.shard.Shard`, every process of a job makes the same call, with all rows and labels;
            each then works on its own rows, and all have the same weights after every epoch.
        labels: integers from 0, -1 where unlabelled.
        validation_mask: labelled rows whose labels serve early stopping only; they are never trained on.
        validation_fraction: without a mask, this share of the labelled rows of each class is held out, rounded but at
            least one, where a class has more than one.
        sample_weight: weight of each labelled row in the losses.
        learning_rate: of Adam.
        weight_decay: of Adam.
        self_supervised: weight of the denoising loss beside that of the labels. In each epoch a fifth of the entries of
            X is masked, and a linear decoder restores them from the last hidden layer of the masked rows: for a dense X
            their values (squared loss in standard deviations of the columns), for a sparse one whether they are 0
            (logistic loss). So every row trains the layers and their graphs. The decoder is dropped after training.
            0 trains on labels alone.
        max_epochs: epochs at most.
        patience: epochs without improvement after which training ends.
        tol: by how much the validation loss must decrease to count as improved.
        warm_start: keep the weights of the network to start from.
        class_names: names of the classes for messages.
        random_state: seed of the initial weights, the held-out rows, dropout and masks; one seed gives one result.

    Returns:
        An iterator over the epochs, which can also be saved and resumed.

    Raises:
        ValueError: if the input is wrong; during the loop, if the loss becomes infinite or NaN.
    """
    features, neighborhood, labels, weights = _checked_rows(network, features, distances, labels, sample_weight)
    _check_numbers(learning_rate, weight_decay, max_epochs, patience, validation_fraction)
    check_self_supervised(self_supervised, neighborhood.partition.n_processes)
    generator = torch.Generator().manual_seed(int(random_state))
    if validation_mask is None:
        validation = hold_out(labels, validation_fraction, generator)
    else:
        validation = checked_mask(validation_mask, labels)
    names = range(network.perceptron.out_features) if class_names is None else class_names
    check_task(labels, validation, weights, list(names))
    if not validation.any():
        max_epochs = min(max_epochs, EPOCHS_WITHOUT_VALIDATION)
        warn(
            f"no label is held out for validation, so training runs for {max_epochs} epochs without early stopping; "
            "label two rows or more of some class and let validation_fraction be > 0, or pass validation_mask"
        )
    task = _task(network, features, neighborhood, labels, validation, weights)
    if not warm_start:
        network.reset_parameters(generator)
    optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate, weight_decay=weight_decay, fused=True)
    denoising = None
    if self_supervised > 0:
        rows = task.neighborhood.partition.local_rows(features)
        denoising = Denoising(network, rows, task.neighborhood, generator, weight=self_supervised)
        # Without decay: the loss is a mean over all masked entries, so the gradient of a weight of the decoder, which
        # sees those of one column, would be small beside it.
        optimizer.add_param_group({"params": list(denoising.parameters()), "weight_decay": 0.0})
    return Training(network, optimizer, task, generator, denoising, max_epochs=max_epochs, patience=patience, tol=tol)


def _task(
    network: ANGPN,
    features: Any,
    neighborhood: Neighborhood | DenseNeighborhood,
    labels: Tensor,
    validation: Tensor,
    weights: Tensor | None,
) -> TrainingTask:
    """Return the rows of this process in an order that suits caches, with the input propagated once for all epochs."""
    device = network.perceptron.weight.device
    if isinstance(neighborhood, Neighborhood):
        if neighborhood.partition is ALL_ROWS and device.type == "cpu":
            neighborhood = in_local_order(neighborhood)
        neighborhood.forget_halos()
    local_rows = neighborhood.partition.local_rows
    with torch.no_grad():
        propagated = network.propagate_input(local_rows(features), neighborhood)
    rows = local_rows(labels != UNLABELLED).nonzero().squeeze(1)

    def labelled(values: Tensor) -> Tensor:
        return local_rows(values)[rows].to(device)

    return TrainingTask(
        propagated,
        neighborhood,
        rows.to(device),
        labelled(labels),
        labelled(~validation),
        labelled(validation),
        None if weights is None else labelled(weights),
    )


def _checked_rows(
    network: ANGPN, features: Any, distances: Any, labels: Any, sample_weight: Any
) -> tuple[Any, Neighborhood | DenseNeighborhood, Tensor, Tensor | None]:
    """Return features, neighbourhood, labels and weights as the network takes them."""
    dtype, device = network.perceptron.weight.dtype, network.perceptron.weight.device
    sparse = as_sparse_rows(features, dtype)
    if sparse is None:
        features = as_float_tensor(features, "features").to(device, dtype)
        check_finite(features, "features")
    else:
        features = sparse
    neighborhood = as_neighborhood(distances).to(device)
    check_same_rows(features.shape[0], neighborhood.total_rows, "features", "distances")
    labels = _checked_labels(labels, features.shape[0], network.perceptron.out_features)
    return features, neighborhood, labels, checked_weights(sample_weight, labels, dtype)


def _checked_labels(labels: Any, n_rows: int, n_classes: int) -> Tensor:
    remedy = "number the classes from 0 and write -1 where a row is unlabelled"
    labels = as_tensor(labels, "labels", remedy)
    if labels.ndim != 1 or labels.is_floating_point() or labels.dtype == torch.bool:
        raise ValueError(
            f"labels must be one integer a row, got shape {tuple(labels.shape)} of {labels.dtype}; {remedy}"
        )
    check_same_rows(len(labels), n_rows, "labels", "features")
    labels = labels.cpu().to(torch.int64)
    if labels.min() < UNLABELLED or labels.max() >= n_classes:
        raise ValueError(
            f"labels must lie between -1 (unlabelled) and out_channels - 1 = {n_classes - 1}, got "
            f"{int(labels.min())} to {int(labels.max())}; number the classes from 0 or raise out_channels"
        )
    return labels


def check_self_supervised(weight: Any, n_processes: int) -> None:
    """A weight of the denoising loss, in one process."""
    check_number(weight, "self_supervised")
    if not 0 <= weight < float("inf"):
        raise ValueError(f"self_supervised must be finite and >= 0, got {weight}; 0 trains on labels alone")
    if weight > 0 and n_processes > 1:
        raise ValueError(
            f"self_supervised must be 0 where several processes share the rows, got {weight} with {n_processes} "
            "processes; fit in one process, or set self_supervised=0"
        )


def _check_numbers(
    learning_rate: float, weight_decay: float, max_epochs: int, patience: int, validation_fraction: float
) -> None:
    if max_epochs < 1 or patience < 1:
        raise ValueError(
            f"max_epochs and patience must be at least 1, got {max_epochs} and {patience}; "
            "the defaults are 10000 and 100"
        )
    if not 0 <= validation_fraction < 1:
        raise ValueError(f"validation_fraction must lie in [0, 1), got {validation_fraction}; 0 trains on every label")
    if not learning_rate > 0:
        raise ValueError(f"learning_rate must be > 0, got {learning_rate}; the default is 0.005")
    if not weight_decay >= 0:
        raise ValueError(f"weight_decay must be >= 0, got {weight_decay}; 0 is none")
