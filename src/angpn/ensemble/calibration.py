"""Calibrated probabilities: temperature scaling and a shift of the class prior, by held-out labels."""

from typing import NamedTuple

import numpy as np
import scipy.optimize
import torch
from torch import Tensor

from angpn import kernels
from angpn.ensemble.config import EnsembleConfig
from angpn.ensemble.softmax import softmax
from angpn.utils.typing import Array


class Calibration(NamedTuple):
    """How log-probabilities become calibrated probabilities."""

    temperature: float  # below 1 sharpens, above 1 softens
    shift: Tensor  # (c,) added before: raises classes that are predicted too seldom

    @classmethod
    def without_labels(cls, n_classes: int, config: EnsembleConfig) -> "Calibration":
        """Return the calibration to use where no label was held out."""
        return cls(config.temperature_without_labels, torch.zeros(n_classes))

    @classmethod
    def fit(
        cls, log_proba: Tensor, truth: Array, weights: Array | None, config: EnsembleConfig
    ) -> tuple["Calibration", float]:
        """Return the most likely calibration of these held-out labels, and their mean log-likelihood under it."""
        n_labels = len(truth) if weights is None else float(weights.sum())
        temperature = fit_temperature(log_proba, truth, weights, config)[0]
        penalty = config.shift_penalty * (1 + (config.labels_of_shift / n_labels) ** 2)
        shift = temperature * _fit_shift(log_proba / temperature, truth, weights, penalty)
        # After Platt: where all of a few labels are predicted right, the next one need not be.
        smoothing = 1 / (1 + n_labels)
        temperature, likelihood = fit_temperature(log_proba + shift, truth, weights, config, smoothing)
        return cls(temperature, shift), likelihood

    def __call__(self, log_proba: Tensor) -> Tensor:  # (n, c)
        """Return the calibrated probabilities."""
        return softmax(log_proba + self.shift, self.temperature)

    def inverse(self, probabilities: Tensor) -> Tensor:  # (n, c)
        """Return log-probabilities that would become these, up to a constant in each row."""
        return probabilities.clamp(min=torch.finfo(probabilities.dtype).tiny).log() * self.temperature - self.shift


def fit_temperature(
    log_proba: Tensor,  # (h, c)
    truth: Array,  # (h,)
    weights: Array | None,  # (h,)
    config: EnsembleConfig,
    smoothing: float = 0.0,
) -> tuple[float, float]:
    """Return the temperature under which held-out labels are most likely, and their mean log-likelihood then.

    ``smoothing`` is the share of each label that is given to all classes alike. The loss is convex in the inverse
    temperature, so the zero of its slope is found, in float64: a minimum sought by values alone is known to no more
    than the root of their rounding, and would differ between machines.
    """
    scores = log_proba.double().numpy()
    scores = scores - scores.max(axis=1, keepdims=True)
    rows = np.arange(len(truth))
    weights = np.full(len(truth), 1 / len(truth)) if weights is None else weights / weights.sum()
    target = float(weights @ ((1 - smoothing) * scores[rows, truth] + smoothing * scores.mean(axis=1)))
    bounds = np.exp(-config.max_log_temperature), np.exp(config.max_log_temperature)
    inverse, loss = kernels.temperature.minimize_over_inverse(scores, weights, target, *bounds)
    return 1 / inverse, -loss


def log_likelihoods(
    log_proba: Tensor,  # (h, c)
    truth: Array,  # (h,)
    weights: Array | None,  # (h,)
    config: EnsembleConfig,
) -> Array:  # (h,)
    """Return how likely each held-out label is, at the temperature under which they all are most likely.

    With weights each counts so much that the mean is that over the weights.
    """
    temperature, _ = fit_temperature(log_proba, truth, weights, config)
    found = torch.log_softmax(log_proba.double() / temperature, dim=1).numpy()[np.arange(len(truth)), truth]
    return found if weights is None else found * weights / weights.mean()


def _fit_shift(log_proba: Tensor, truth: Array, weights: Array | None, penalty: float) -> Tensor:  # (c,)
    """Return what to add, under a penalty, to each class that has held-out labels, so that these are most likely."""
    scores = log_proba.double()
    targets = torch.nn.functional.one_hot(torch.from_numpy(truth), scores.shape[1]).double()
    if weights is not None:
        targets = targets * torch.from_numpy(weights).double().unsqueeze(1)
    counts = targets.sum(dim=1, keepdim=True)
    has_labels = (targets.sum(dim=0) > 0).numpy()

    def loss(shift: Array) -> tuple[float, Array]:
        shifted = torch.log_softmax(scores + torch.from_numpy(shift), dim=1)
        gradient = (counts * shifted.exp() - targets).sum(dim=0).numpy()
        value = penalty / 2 * float(shift @ shift) - float((targets * shifted).sum())
        return value, (gradient + penalty * shift) * has_labels

    # To the end: it takes a few evaluations more, and where it stopped early would differ between machines.
    options = {"ftol": 0.0, "gtol": 1e-8}
    found = scipy.optimize.minimize(loss, np.zeros(scores.shape[1]), jac=True, method="L-BFGS-B", options=options)
    return torch.from_numpy(found.x).float()
