"""The last step of calibration: a temperature for each row, by the entropy of its prediction."""

import math
from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np
import scipy.optimize
import torch
from torch import Tensor

from angpn.ensemble.config import EnsembleConfig
from angpn.ensemble.softmax import softmax
from angpn.utils.typing import Array

_MOST = 5.0  # no row is sharpened or softened by more, whatever the held-out labels say


class AdaptiveTemperature(NamedTuple):
    """Sharpens or softens a row more, the further its entropy H is from the mean.

    The inverse temperature of a row is (1 + slope (H - mean_entropy)) / base. Self-training learns its own surest
    predictions again, which makes them surer than they may be, while those that became no pseudo-labels are better than
    they claim; one temperature for all rows is right for neither. Balanya, Maroñas and Ramos (2022), "Adaptive
    Temperature Scaling for Robust Calibration of Deep Neural Networks", let it depend on the entropy; that it is
    linear here makes the loss of the slope convex. No prediction changes but in its probabilities.
    """

    base: float = 1.0
    slope: float = 0.0  # above 0 sharpens uncertain rows and softens confident ones
    mean_entropy: float = 0.0  # 1 where all classes are equally probable

    @classmethod
    def fit(cls, probabilities: Tensor, truth: Array, weights: Array | None, config: EnsembleConfig) -> Self:
        """Return the slope under which held-out labels are most likely, under a penalty; the base is not fitted.

        That base is above 1, since the held-out labels also selected the hyper-parameters and are optimistic.
        """
        weights = np.ones(len(truth)) if weights is None else weights
        entropies = entropy(probabilities).double().numpy()
        mean = float(np.average(entropies, weights=weights))
        logs = np.log(np.maximum(probabilities.double().numpy(), np.finfo(np.float32).tiny))
        smoothing = 1 / (1 + weights.sum())  # as in the calibration before
        targets = (1 - smoothing) * logs[np.arange(len(truth)), truth] + smoothing * logs.mean(axis=1)
        differences = entropies - mean

        def gradient(slope: float) -> float:  # of minus the log-likelihood and the penalty, which are convex
            scores = (1 + slope * differences)[:, None] * logs
            exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
            expected = (exponentials * logs).sum(axis=1) / exponentials.sum(axis=1)
            return float((weights * differences) @ (expected - targets)) + config.slope_penalty * slope

        below, above = max(mean, 1e-9), max(1 - mean, 1e-9)  # how far entropies may be from the mean
        lowest = -min((1 - 1 / _MOST) / above, (_MOST - 1) / below)
        highest = min((1 - 1 / _MOST) / below, (_MOST - 1) / above)
        return cls(config.optimism, _zero(gradient, lowest, highest), mean)

    def __call__(self, probabilities: Tensor) -> Tensor:  # (n, c)
        """Return the probabilities of each row at its temperature."""
        if self.slope == 0:
            return softmax(probabilities.log(), self.base)
        inverse = (1 + self.slope * (entropy(probabilities) - self.mean_entropy)) / self.base
        return softmax(probabilities.log().mul_(inverse.unsqueeze(1)))


def _zero(increasing: Callable[[float], float], lowest: float, highest: float) -> float:
    """Return where a function is zero, or the bound that is closest to it."""
    if increasing(lowest) >= 0:
        return lowest
    if increasing(highest) <= 0:
        return highest
    return float(scipy.optimize.brentq(increasing, lowest, highest, xtol=1e-12))


def entropy(probabilities: Tensor) -> Tensor:  # (n,)
    """Return the entropy of each row, as a share of the largest there is."""
    found = torch.special.entr(probabilities).sum(dim=1) / math.log(max(2, probabilities.shape[1]))
    return found.clamp(max=1)  # despite rounding
