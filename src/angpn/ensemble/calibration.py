"""Probabilities that mean what they say, by labels that were held out."""

from typing import NamedTuple

import numpy as np
import scipy.optimize
import torch
from torch import Tensor

from angpn.utils.typing import Array

_LARGEST = 2.5  # logarithm of a temperature
_PENALTY = 1.0  # of a shift: few labels move it little
# What is told in the end is softer than what was learnt by: labels that chose settings are flattered by them.
_FLATTERED = 1.05
# Where no label can be held out: penalised readouts of very few labels are too modest.
_UNKNOWN = 0.5


class Calibration(NamedTuple):
    """How log-probabilities become probabilities."""

    temperature: float  # below 1 sharpens, above 1 softens
    shift: Tensor  # (c,) added before: raises classes that are said too seldom

    @classmethod
    def unknown(cls, n_classes: int) -> "Calibration":
        """Where no label was held out."""
        return cls(_UNKNOWN, torch.zeros(n_classes))

    @classmethod
    def by(cls, log_probabilities: Tensor, truth: Array, weights: Array | None) -> tuple["Calibration", float]:
        """Under which these held-out labels are most likely, and the mean logarithm of how likely they are."""
        temperature = best_temperature(log_probabilities, truth, weights)[0]
        shift = temperature * _best_shift(log_probabilities / temperature, truth, weights)
        # After Platt: where all of a few labels are said right, the next one need not be.
        doubt = 1 / (1 + (len(truth) if weights is None else float(weights.sum())))
        temperature, likelihood = best_temperature(log_probabilities + shift, truth, weights, doubt)
        return cls(temperature, shift), likelihood

    def softened(self) -> "Calibration":
        """As it is told in the end."""
        return self._replace(temperature=_FLATTERED * self.temperature)

    def __call__(self, log_probabilities: Tensor) -> Tensor:  # (n, c)
        """The calibrated probabilities."""
        return torch.softmax((log_probabilities + self.shift) / self.temperature, dim=1)


def softened(probabilities: Tensor) -> Tensor:  # (n, c)
    """What :meth:`Calibration.softened` would have made of the same opinions."""
    return torch.softmax(probabilities.log() / _FLATTERED, dim=1)


def best_temperature(
    log_probabilities: Tensor, truth: Array, weights: Array | None, doubt: float = 0.0
) -> tuple[float, float]:
    """The temperature alone that held-out labels ask for, and the mean log-likelihood that they then have.

    ``doubt`` is the share of each label that is given to all classes alike.
    """
    rows, codes = torch.arange(len(truth)), torch.from_numpy(truth)
    scale = torch.ones(len(truth)) if weights is None else torch.from_numpy(weights).float()

    def loss(log_temperature: float) -> float:
        found = torch.log_softmax(log_probabilities / np.exp(log_temperature), dim=1)
        mixed = (1 - doubt) * found[rows, codes] + doubt * found.mean(dim=1)
        return -float((scale * mixed).sum() / scale.sum())

    best = scipy.optimize.minimize_scalar(loss, bounds=(-_LARGEST, _LARGEST), method="bounded", options={"xatol": 0.01})
    return float(np.exp(best.x)), -float(best.fun)


def _best_shift(log_probabilities: Tensor, truth: Array, weights: Array | None) -> Tensor:  # (c,)
    """What to add, under a penalty, to each class that has held-out labels, so that these are most likely."""
    opinions = log_probabilities.double()
    targets = torch.nn.functional.one_hot(torch.from_numpy(truth), opinions.shape[1]).double()
    if weights is not None:
        targets = targets * torch.from_numpy(weights).double().unsqueeze(1)
    counts = targets.sum(dim=1, keepdim=True)
    judged = (targets.sum(dim=0) > 0).numpy()

    def loss(shift: Array) -> tuple[float, Array]:
        shifted = torch.log_softmax(opinions + torch.from_numpy(shift), dim=1)
        gradient = (counts * shifted.exp() - targets).sum(dim=0).numpy()
        value = _PENALTY / 2 * float(shift @ shift) - float((targets * shifted).sum())
        return value, (gradient + _PENALTY * shift) * judged

    found = scipy.optimize.minimize(loss, np.zeros(opinions.shape[1]), jac=True, method="L-BFGS-B")
    return torch.from_numpy(found.x).float()
