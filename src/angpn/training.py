"""Training: the loss of Eq. (15), Adam, early stopping on held-out labels."""

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from angpn.checks import as_float_tensor, as_sparse_rows, as_tensor, check_finite, check_same_rows
from angpn.kernels.sparse import PropagatedSparse
from angpn.neighborhood import DenseNeighborhood, Neighborhood, as_neighborhood
from angpn.network import ANGPN

UNLABELLED = -1
EPOCHS_WITHOUT_VALIDATION = 200


class Epoch(NamedTuple):
    """One pass of :func:`train`; the figures are those of the weights before its update."""

    number: int  # from 1
    loss: float
    validation_loss: float | None  # None where no label could be held out
    validation_accuracy: float | None
    is_best: bool  # the lowest validation loss so far: these weights are kept


def semi_supervised_loss(
    logits: Tensor,  # (n, c)
    labels: Tensor,  # (n,) int64
    mask: Tensor,  # (n,) bool: the labelled rows L
) -> Tensor:  # ()
    r"""Eq. (15) as a mean over the labelled rows, so that its scale does not depend on how many there are.

    .. math:: - \tfrac{1}{|L|} \sum_{i \in L} \sum_j Y_{ij} \ln Z_{ij}
    """
    return torch.nn.functional.cross_entropy(logits[mask], labels[mask])


def hold_out(
    labels: Tensor,  # (n,) int64, -1 where unlabelled
    fraction: float,
    generator: torch.Generator,
) -> Tensor:  # (n,) bool
    """A random ``fraction`` of the labelled rows of each class, at least one; none of a class with one label."""
    held = torch.zeros_like(labels, dtype=torch.bool)
    if fraction == 0:
        return held
    for label in labels[labels != UNLABELLED].unique():
        rows = (labels == label).nonzero().squeeze(1)
        count = min(max(1, round(fraction * len(rows))), len(rows) - 1)
        held[rows[torch.randperm(len(rows), generator=generator)[:count]]] = True
    return held


def train(
    network: ANGPN,
    features: Any,  # (n, d), dense or sparse
    distances: Tensor | Neighborhood | DenseNeighborhood,
    labels: Any,  # (n,) integers from 0, -1 where unlabelled
    *,
    validation_mask: Any = None,  # (n,) bool
    validation_fraction: float = 0.05,
    learning_rate: float = 0.005,
    weight_decay: float = 0.0,
    max_epochs: int = 10_000,
    patience: int = 100,
    tol: float = 1e-4,
    random_state: int = 0,
) -> Iterator[Epoch]:
    """Train ``network`` in place, an epoch for each turn of the loop over what this returns.

    The call itself checks the input and gives the network fresh weights; no epoch runs before the first turn. Whenever
    the caller has control (after each epoch, at the end, after an error or a break) the network holds the weights of
    the lowest validation loss so far: those of the last epoch with ``is_best``.

    Rows that ``validation_mask`` marks serve stopping only: training never sees their labels. Without a mask,
    ``validation_fraction`` of the labelled rows of each class is held out, rounded but at least one, where a class has
    more than one. Training ends when the validation loss has not improved by ``tol`` for ``patience`` epochs (where all
    held-out labels are right it falls for ever, by less and less); where nothing is held out, after 200 epochs, or
    ``max_epochs`` if that is fewer, with a warning.

    The same ``random_state`` gives the same result.
    """
    dtype = network.perceptron.weight.dtype
    sparse = as_sparse_rows(features, dtype)
    if sparse is None:
        features = as_float_tensor(features, "features").to(dtype)
        check_finite(features, "features")
    else:
        features = sparse
    hood = as_neighborhood(distances)
    check_same_rows(features.shape[0], hood.n_rows, "features", "distances")
    labels = _checked_labels(labels, features.shape[0], network.perceptron.out_features)
    if max_epochs < 1 or patience < 1:
        raise ValueError(
            f"max_epochs and patience must be at least 1, got {max_epochs} and {patience}; "
            "the defaults are 10000 and 100"
        )
    generator = torch.Generator().manual_seed(int(random_state))
    if validation_mask is None:
        if not 0 <= validation_fraction < 1:
            raise ValueError(
                f"validation_fraction must lie in [0, 1), got {validation_fraction}; 0 trains on every label"
            )
        validation = hold_out(labels, validation_fraction, generator)
    else:
        validation = _checked_mask(validation_mask, labels)
    training = (labels != UNLABELLED) & ~validation
    _check_training_labels(labels[training], network.perceptron.out_features)
    if not validation.any():
        max_epochs = min(max_epochs, EPOCHS_WITHOUT_VALIDATION)
        warnings.warn(
            f"no label is held out for validation, so training runs for {max_epochs} epochs without early stopping; "
            "label two rows or more of some class and let validation_fraction be > 0, or pass validation_mask",
            stacklevel=2,
        )
    with torch.no_grad():
        propagated = network.propagate_input(features, hood)
    if isinstance(hood, Neighborhood):
        order = hood.locality_order()
        hood, propagated = hood.reordered(order), propagated[order]
        labels, training, validation = labels[order], training[order], validation[order]
    network.reset_parameters(generator)
    optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate, weight_decay=weight_decay, fused=True)
    rows = (training | validation).nonzero().squeeze(1)
    task = _Task(propagated, hood, rows, labels[rows], training[rows], validation[rows])
    return _epochs(network, optimizer, task, max_epochs, patience, tol)


class _Task(NamedTuple):
    """What an epoch works on: the loss sees labelled rows only, so only their logits are computed."""

    propagated: Tensor | PropagatedSparse  # (n, d) P(D, X) of the first layer
    hood: Neighborhood | DenseNeighborhood
    rows: Tensor  # (r,) the labelled rows; what follows is for these
    labels: Tensor
    training: Tensor  # bool
    validation: Tensor  # bool


def _epochs(
    network: ANGPN, optimizer: torch.optim.Optimizer, task: _Task, max_epochs: int, patience: int, tol: float
) -> Iterator[Epoch]:
    weights = list(network.parameters())
    live = [weight.data for weight in weights]
    best = live  # what the network shows between epochs
    best_loss = float("inf")
    last_loss, last_number = float("inf"), 0  # of the last improvement that counts
    try:
        for number in range(1, max_epochs + 1):
            _show(weights, live)
            logits = network.classify(task.propagated, task.hood, task.rows)
            loss = semi_supervised_loss(logits, task.labels, task.training)
            if not torch.isfinite(loss):
                raise ValueError(
                    f"the loss became {loss.item()} in epoch {number}, it must be finite; lower learning_rate, pass "
                    "features of unit length, or use normalize_hidden=True and rule='simplex'"
                )
            validation_loss = validation_accuracy = None
            is_best = False
            if task.validation.any():
                # The figures of the weights that made these logits: nothing is computed a second time.
                seen = logits.detach()
                validation_loss = float(semi_supervised_loss(seen, task.labels, task.validation))
                hits = seen[task.validation].argmax(dim=1) == task.labels[task.validation]
                validation_accuracy = float(hits.double().mean())
                is_best = validation_loss < best_loss
                if is_best:
                    best_loss = validation_loss
                    best = [weight.clone() for weight in live]  # a copy: the live ones change in place
                if best_loss < last_loss - tol:
                    last_loss, last_number = best_loss, number
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            _show(weights, best)
            yield Epoch(number, loss.item(), validation_loss, validation_accuracy, is_best)
            if validation_loss is not None and number - last_number >= patience:
                break
    except GeneratorExit:
        raise  # the best weights are in place whenever the caller has control
    except BaseException:
        _show(weights, best)
        raise


def _show(weights: list[torch.nn.Parameter], values: list[Tensor]) -> None:
    """Let the network's weights be these tensors."""
    for weight, value in zip(weights, values, strict=True):
        weight.data = value


def _checked_labels(labels: Any, n_rows: int, n_classes: int) -> Tensor:
    remedy = "number the classes from 0 and write -1 where a row is unlabelled"
    labels = as_tensor(labels, "labels", remedy)
    if labels.ndim != 1 or labels.is_floating_point() or labels.dtype == torch.bool:
        raise ValueError(
            f"labels must be one integer a row, got shape {tuple(labels.shape)} of {labels.dtype}; {remedy}"
        )
    check_same_rows(len(labels), n_rows, "labels", "features")
    labels = labels.to(torch.int64)
    if labels.min() < UNLABELLED or labels.max() >= n_classes:
        raise ValueError(
            f"labels must lie between -1 (unlabelled) and out_channels - 1 = {n_classes - 1}, got "
            f"{int(labels.min())} to {int(labels.max())}; number the classes from 0 or raise out_channels"
        )
    if (labels != UNLABELLED).all():
        warnings.warn("every row is labelled, so there is nothing to label; mark unlabelled rows by -1", stacklevel=3)
    return labels


def _checked_mask(mask: Any, labels: Tensor) -> Tensor:
    mask = as_tensor(mask, "validation_mask")
    if mask.dtype != torch.bool or mask.ndim != 1:
        raise ValueError(
            f"validation_mask must be one bool a row, got shape {tuple(mask.shape)} of {mask.dtype}; "
            "mark validation rows True"
        )
    check_same_rows(len(mask), len(labels), "validation_mask", "labels")
    unlabelled = int((mask & (labels == UNLABELLED)).sum())
    if unlabelled:
        raise ValueError(
            f"validation_mask must mark labelled rows only, got {unlabelled} unlabelled one(s); "
            "give those rows a label or unmark them"
        )
    return mask


def _check_training_labels(labels: Tensor, n_classes: int) -> None:
    if len(labels) == 0:
        raise ValueError(
            "training needs labelled rows, got none outside the validation set; label a few rows, or unmark some"
        )
    if len(labels.unique()) < 2:
        raise ValueError(
            f"training needs at least 2 classes among its labelled rows, got only class {int(labels[0])}; "
            "label a row of another class"
        )
    missing = sorted(set(range(n_classes)) - set(labels.tolist()))
    if missing:
        warnings.warn(
            f"no training label for class {', '.join(map(str, missing))}, so nothing will be predicted as it; label a "
            "row of each class, or lower out_channels",
            stacklevel=3,
        )
