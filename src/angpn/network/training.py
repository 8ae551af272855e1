"""Training: the loss of Eq. (15), Adam, early stopping on held-out labels."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from angpn.anfp.sparse import PropagatedSparse
from angpn.kernels.threads import threads_for
from angpn.neighbors.locality import in_local_order
from angpn.neighbors.neighborhood import DenseNeighborhood, Neighborhood, as_neighborhood
from angpn.neighbors.partition import ALL_ROWS
from angpn.network.model import ANGPN
from angpn.utils.checks import as_float_tensor, as_sparse_rows, as_tensor, check_finite, check_same_rows, warn
from angpn.utils.labels import UNLABELLED
from angpn.utils.validation import check_task, checked_mask, checked_weights, hold_out

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
    weights: Tensor | None = None,  # (n,) how much each row counts, all alike by default
) -> Tensor:  # ()
    r"""Eq. (15) as a mean over the labelled rows, so that its scale does not depend on how many there are.

    .. math:: - \tfrac{1}{\sum_{i \in L} w_i} \sum_{i \in L} w_i \sum_j Y_{ij} \ln Z_{ij}
    """
    if weights is None:
        return torch.nn.functional.cross_entropy(logits[mask], labels[mask])
    losses = torch.nn.functional.cross_entropy(logits[mask], labels[mask], reduction="none")
    return (weights[mask] * losses).sum() / weights[mask].sum()


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
    max_epochs: int = 10_000,
    patience: int = 100,
    tol: float = 1e-4,
    warm_start: bool = False,
    class_names: Sequence[Any] | None = None,  # for messages
    random_state: int = 0,
) -> "Training":
    """Train ``network`` in place, an epoch for each turn of the loop over what this returns.

    The call itself checks the input and gives the network fresh weights (unless ``warm_start``); no epoch runs before
    the first turn. Whenever the caller has control (after each epoch, at the end, after an error or a break) the
    network is ready for use with the weights of the lowest validation loss so far: those of the last epoch with
    ``is_best``.

    With a :class:`~angpn.neighbors.distributed.Shard` for the distances, every process of a job calls this alike, with
    all rows and labels; each then works on its own rows, and all have the same weights after every epoch.

    Rows that ``validation_mask`` marks serve stopping only: training never sees their labels. Without a mask,
    ``validation_fraction`` of the labelled rows of each class is held out, rounded but at least one, where a class has
    more than one. Training ends when the validation loss has not improved by ``tol`` for ``patience`` epochs (where all
    held-out labels are right it falls for ever, by less and less); where nothing is held out, after 200 epochs, or
    ``max_epochs`` if that is fewer, with a warning.

    The same ``random_state`` gives the same result.
    """
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
    weights = checked_weights(sample_weight, labels, dtype)
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
        validation = checked_mask(validation_mask, labels)
    training = (labels != UNLABELLED) & ~validation
    names = list(range(network.perceptron.out_features)) if class_names is None else list(class_names)
    check_task(labels, validation, weights, names)
    if not learning_rate > 0:
        raise ValueError(f"learning_rate must be > 0, got {learning_rate}; the default is 0.005")
    if not validation.any():
        max_epochs = min(max_epochs, EPOCHS_WITHOUT_VALIDATION)
        warn(
            f"no label is held out for validation, so training runs for {max_epochs} epochs without early stopping; "
            "label two rows or more of some class and let validation_fraction be > 0, or pass validation_mask"
        )
    if isinstance(neighborhood, Neighborhood):
        if neighborhood.partition is ALL_ROWS and device.type == "cpu":
            neighborhood = in_local_order(neighborhood)
        neighborhood.forget_halos()
    partition = neighborhood.partition
    features, labels, training, validation = map(partition.local_rows, (features, labels, training, validation))
    weights = None if weights is None else partition.local_rows(weights)
    with torch.no_grad():
        propagated = network.propagate_input(features, neighborhood)
    if not warm_start:
        network.reset_parameters(generator)
    rows = (training | validation).nonzero().squeeze(1)
    task = _Task(
        propagated,
        neighborhood,
        rows.to(device),
        labels[rows].to(device),
        training[rows].to(device),
        validation[rows].to(device),
        None if weights is None else weights[rows].to(device),
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate, weight_decay=weight_decay, fused=True)
    return Training(network, optimizer, task, generator, max_epochs=max_epochs, patience=patience, tol=tol)


class _Task(NamedTuple):
    """What an epoch works on: the loss sees labelled rows only, so only their logits are computed."""

    propagated: Tensor | PropagatedSparse  # (n, d) P(D, X) of the first layer
    neighborhood: Neighborhood | DenseNeighborhood
    rows: Tensor  # (r,) the labelled rows; what follows is for these
    labels: Tensor
    training: Tensor  # bool
    validation: Tensor  # bool
    weights: Tensor | None

    def share(self, mask: Tensor) -> float:
        """Of the weight of all such rows, in all processes, how much is that of the rows here."""
        here = mask.sum().double() if self.weights is None else self.weights[mask].double().sum()
        return float(here / self.neighborhood.partition.all_reduce_sum(here))


class Training(Iterator[Epoch]):
    """The loop over the epochs, as :func:`train` returns it.

    It can be saved between two epochs and taken up again: ``load_state_dict`` on the result of the same call of
    :func:`train` goes on as if there had been no break, to the last bit.
    """

    def __init__(
        self,
        network: ANGPN,
        optimizer: torch.optim.Adam,
        task: _Task,
        generator: torch.Generator,
        *,
        max_epochs: int,
        patience: int,
        tol: float,
    ) -> None:
        self._network, self._optimizer, self._task, self._generator = network, optimizer, task, generator
        self._max_epochs, self._patience, self._tol = max_epochs, patience, tol
        self._weights = list(network.parameters())
        self._live = [weight.data for weight in self._weights]
        self._best = self._live  # what the network shows between epochs
        self._number = 0
        self._best_loss = float("inf")
        self._counted_loss, self._counted_number = float("inf"), 0  # of the last improvement that counts
        self._seed = generator.initial_seed()
        # What all processes together have, this one included.
        self._validated = bool(task.neighborhood.partition.all_reduce_sum(task.validation.sum().double()))
        self._share = {"training": task.share(task.training)}
        if self._validated:
            self._share["validation"] = task.share(task.validation)
        network.eval()

    @property
    def last_epoch(self) -> int:
        """The epoch that will be the last if the validation loss does not improve any more."""
        if not self._validated:
            return self._max_epochs
        return min(self._max_epochs, max(self._counted_number, 1) + self._patience)

    def __next__(self) -> Epoch:
        if self._number >= self.last_epoch:
            raise StopIteration
        _show(self._weights, self._live)
        try:
            with threads_for(self._task.neighborhood.n_rows):
                epoch = self._epoch(self._number + 1)
        finally:  # an interrupt too leaves the best weights
            _show(self._weights, self._best)
            self._network.eval()
        self._number = epoch.number
        return epoch

    def _epoch(self, number: int) -> Epoch:
        network, task = self._network, self._task
        network.train()
        partition = task.neighborhood.partition
        if partition.n_processes > 1:  # each process drops its own, and an epoch's do not depend on those before
            self._generator.manual_seed(hash((self._seed, number, int(partition.global_ids(torch.tensor(0))))))
        logits = network.classify(task.propagated, task.neighborhood, task.rows, self._generator)
        part = self._part(logits, "training")
        loss, validation_loss, validation_accuracy = self._figures(part.detach(), logits.detach())
        if not math.isfinite(loss):
            raise ValueError(
                f"the loss became {loss} in epoch {number}, it must be finite; lower learning_rate, pass "
                "features of unit length, or use normalize_hidden=True and rule='simplex'"
            )
        is_best, best = False, self._best
        if validation_loss is not None:
            is_best = validation_loss < self._best_loss
            if is_best:
                best = [weight.clone() for weight in self._live]  # a copy: the live ones change in place
        self._optimizer.zero_grad()
        part.backward()
        gradients = [weight.grad for weight in self._weights if weight.grad is not None]
        for weight, gradient in zip(self._weights, partition.all_reduce_sums(gradients), strict=True):
            weight.grad = gradient
        self._optimizer.step()
        # Last, so that an interrupt before leaves the best weights and their figures those of whole epochs.
        if is_best and validation_loss is not None:
            self._best, self._best_loss = best, validation_loss
            if validation_loss < self._counted_loss - self._tol:
                self._counted_loss, self._counted_number = validation_loss, number
        return Epoch(number, loss, validation_loss, validation_accuracy, is_best)

    def _figures(self, part: Tensor, logits: Tensor) -> tuple[float, float | None, float | None]:
        """The loss of all processes; that of held-out labels and accuracy on them, by the weights before this epoch."""
        network, task = self._network, self._task
        if not self._validated:
            return float(task.neighborhood.partition.all_reduce_sum(part)), None, None
        if network.dropout > 0:  # without it nothing is computed a second time
            network.eval()
            with torch.no_grad():
                logits = network.classify(task.propagated, task.neighborhood, task.rows)
        hits = (logits[task.validation].argmax(dim=1) == task.labels[task.validation]).sum()
        figures = [part, self._part(logits, "validation"), hits, task.validation.sum()]
        loss, validation_loss, n_hits, n_held = task.neighborhood.partition.all_reduce_sums(
            [figure.double() for figure in figures]
        )
        return float(loss), float(validation_loss), float(n_hits / n_held)

    def _part(self, logits: Tensor, which: Literal["training", "validation"]) -> Tensor:
        """What the rows of this process add to the loss."""
        task, mask = self._task, getattr(self._task, which)
        if not mask.any():
            return 0 * logits.sum()
        return self._share[which] * semi_supervised_loss(logits, task.labels, mask, task.weights)

    def state_dict(self) -> dict[str, Tensor]:
        """All that the next epoch depends on beside what :func:`train` was given."""
        state = {"generator": self._generator.get_state()}
        progress = self._number, self._best_loss, self._counted_loss, self._counted_number
        state["progress"] = torch.tensor(progress, dtype=torch.float64)
        for place, (weight, live, best) in enumerate(zip(self._weights, self._live, self._best, strict=True)):
            state[f"live.{place}"], state[f"best.{place}"] = live.clone(), best.clone()
            for name, value in self._optimizer.state[weight].items():
                state[f"adam.{place}.{name}"] = value.clone()
        return state

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from a :meth:`state_dict`."""
        number, self._best_loss, self._counted_loss, counted_number = state["progress"].tolist()
        validated = self._best_loss < float("inf")  # else the live weights are what is shown
        self._number, self._counted_number = int(number), int(counted_number)
        self._generator.set_state(state["generator"])
        if validated:
            self._best = [state[f"best.{place}"].to(weight) for place, weight in enumerate(self._live)]
        for place, (weight, live) in enumerate(zip(self._weights, self._live, strict=True)):
            live.copy_(state[f"live.{place}"])
            prefix = f"adam.{place}."
            moments = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
            self._optimizer.state[weight] = {name: value.to(live.device).clone() for name, value in moments.items()}
        _show(self._weights, self._best)


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
    labels = labels.cpu().to(torch.int64)
    if labels.min() < UNLABELLED or labels.max() >= n_classes:
        raise ValueError(
            f"labels must lie between -1 (unlabelled) and out_channels - 1 = {n_classes - 1}, got "
            f"{int(labels.min())} to {int(labels.max())}; number the classes from 0 or raise out_channels"
        )
    return labels
