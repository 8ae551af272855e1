"""The loop over the epochs: Adam, early stopping on held-out labels, and the state to resume from."""

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from angpn.anfp.sparse import PropagatedSparse
from angpn.kernels.threads import fair_threads_for, threads_for
from angpn.neighbors.neighborhood import DenseNeighborhood, Neighborhood
from angpn.network.denoising import Denoising
from angpn.network.loss import semi_supervised_loss
from angpn.network.model import ANGPN


class Epoch(NamedTuple):
    """One epoch of :func:`angpn.train`; losses and accuracy are those of the weights before its update.

    Attributes:
        number: of the epoch, from 1.
        loss: Eq. (15) on the training labels, plus the weighted denoising loss where training is self-supervised.
        validation_loss: the same on the held-out labels, None where there are none.
        validation_accuracy: on the held-out labels, None where there are none.
        is_best: whether the validation loss is the lowest so far, so that these weights are kept.
    """

    number: int
    loss: float
    validation_loss: float | None
    validation_accuracy: float | None
    is_best: bool


class TrainingTask(NamedTuple):
    """What an epoch works on. The loss is that of labelled rows, so only their logits are computed."""

    propagated: Tensor | PropagatedSparse  # (n, d) P(D, X) of the first layer
    neighborhood: Neighborhood | DenseNeighborhood
    rows: Tensor  # (r,) the labelled rows; what follows is for these
    labels: Tensor
    training: Tensor  # bool
    validation: Tensor  # bool
    weights: Tensor | None

    def share(self, mask: Tensor) -> float:
        """Return the fraction of the weight of all such rows that those of this process have."""
        own = mask.sum().double() if self.weights is None else self.weights[mask].double().sum()
        return float(own / self.neighborhood.partition.all_reduce_sum(own))


class Training(Iterator[Epoch]):
    """The loop over the epochs, with early stopping, as :func:`angpn.train` returns it.

    It can be saved between two epochs and resumed: ``load_state_dict`` on the result of the same call of
    :func:`angpn.train` goes on as if there had been no break, to the last bit.
    """

    def __init__(
        self,
        network: ANGPN,
        optimizer: torch.optim.Adam,
        task: TrainingTask,
        generator: torch.Generator,
        denoising: Denoising | None = None,
        *,
        max_epochs: int,
        patience: int,
        tol: float,
    ) -> None:
        self._network, self._optimizer, self._task, self._generator = network, optimizer, task, generator
        self._denoising = denoising
        self._max_epochs, self._patience, self._tol = max_epochs, patience, tol
        # n x n matrices are left to torch, whose results depend on the number of threads.
        self._threads = fair_threads_for if isinstance(task.neighborhood, Neighborhood) else threads_for
        self._weights = [*network.parameters(), *([] if denoising is None else denoising.parameters())]
        self._live = [weight.data for weight in self._weights]
        self._best = self._live  # the weights of the network between epochs
        self._number = 0
        self._best_loss = float("inf")
        self._counted_loss, self._counted_number = float("inf"), 0  # of the last improvement by more than tol
        self._seed = generator.initial_seed()
        # Of all processes together.
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
        _set_weights(self._weights, self._live)
        try:
            with self._threads(self._task.neighborhood.n_rows):
                epoch = self._epoch(self._number + 1)
        finally:  # an interrupt too leaves the best weights
            _set_weights(self._weights, self._best)
            self._network.eval()
        self._number = epoch.number
        return epoch

    def _epoch(self, number: int) -> Epoch:
        network, task = self._network, self._task
        network.train()
        partition = task.neighborhood.partition
        if partition.n_processes > 1:  # dropout of each process, independent of the epochs before
            self._generator.manual_seed(hash((self._seed, number, int(partition.global_ids(torch.tensor(0))))))
        logits = network.classify(task.propagated, task.neighborhood, task.rows, self._generator)
        part = self._part(logits, "training")
        if self._denoising is not None:
            part = part + self._denoising(self._generator)
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
        """Return loss, validation loss and validation accuracy of all processes, by the weights before this epoch."""
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
        """Return the part of the loss that the rows of this process have."""
        task, mask = self._task, getattr(self._task, which)
        if not mask.any():
            return 0 * logits.sum()
        return self._share[which] * semi_supervised_loss(logits, task.labels, mask, task.weights)

    def state_dict(self) -> dict[str, Tensor]:
        """Return all that the next epoch depends on beside the arguments of :func:`angpn.train`."""
        state = {"generator": self._generator.get_state()}
        progress = self._number, self._best_loss, self._counted_loss, self._counted_number
        state["progress"] = torch.tensor(progress, dtype=torch.float64)
        for place, (weight, live, best) in enumerate(zip(self._weights, self._live, self._best, strict=True)):
            state[f"live.{place}"], state[f"best.{place}"] = live.clone(), best.clone()
            for name, value in self._optimizer.state[weight].items():
                state[f"adam.{place}.{name}"] = value.clone()
        return state

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Resume from a :meth:`state_dict`."""
        number, self._best_loss, self._counted_loss, counted_number = state["progress"].tolist()
        validated = self._best_loss < float("inf")  # else the network has the live weights
        self._number, self._counted_number = int(number), int(counted_number)
        self._generator.set_state(state["generator"])
        if validated:
            self._best = [state[f"best.{place}"].to(weight) for place, weight in enumerate(self._live)]
        for place, (weight, live) in enumerate(zip(self._weights, self._live, strict=True)):
            live.copy_(state[f"live.{place}"])
            prefix = f"adam.{place}."
            moments = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
            self._optimizer.state[weight] = {name: value.to(live.device).clone() for name, value in moments.items()}
        _set_weights(self._weights, self._best)


def _set_weights(weights: list[torch.nn.Parameter], values: list[Tensor]) -> None:
    """Set the network's weights to these tensors."""
    for weight, value in zip(weights, values, strict=True):
        weight.data = value
