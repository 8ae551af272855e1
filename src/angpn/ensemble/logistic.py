"""Multinomial logistic regression, solved to a tolerance in such a way that rounding cannot show."""

import math
from typing import Any

import numpy as np
import scipy.optimize
import torch
from torch import Tensor

from angpn.utils.typing import Array

RULED_OUT = -50.0  # log-probability of a class without labels
_BAND = 1.5**0.5  # iterates whose largest entry is within this factor of tol are averaged


def fit_logistic(
    inputs: Tensor,  # (n, p)
    codes: Array,  # (n,) class numbers
    weights: Array | None,  # (n,)
    C: float,
    n_classes: int,
    *,
    tol: float,
    max_iter: int,
) -> tuple[Tensor, Tensor]:  # (p, c), (c,)
    r"""Return weights and biases of a penalised multinomial logistic regression.

    .. math:: \min_{W, b} \; - \frac{1}{\sum_i w_i} \sum_i w_i \ln softmax(x_i W + b)_{y_i}
              + \frac{1}{2 C \sum_i w_i} \|W\|_F^2

    L-BFGS runs until the largest entry of the gradient is about ``tol``. Where it stops would depend on the last bit of
    that entry, and two machines that sum in another order could stop iterations apart, which are large steps this far
    from the minimum. So the result is a weighted mean of the last iterates: each takes a share of the weight that those
    before it left, from nothing where its largest entry is 1.22 ``tol`` to everything where it is ``tol`` / 1.22. That
    is a continuous function of the iterates, also where the largest entry rises again, as it often does.

    A class without labels is as good as ruled out.
    """
    known, numbers = np.unique(codes, return_inverse=True)
    weight, bias = torch.zeros(inputs.shape[1], n_classes), torch.full((n_classes,), RULED_OUT)
    if len(known) == 1:
        bias[known[0]] = 0.0
        return weight, bias
    loss = _MeanLoss(inputs.numpy(), numbers, weights, C)
    solution = torch.from_numpy(_minimize(loss, tol, max_iter)).float()
    free = known[-solution.shape[1] :]
    bias[known] = 0.0
    weight[:, free], bias[free] = solution[:-1], solution[-1]
    return weight, bias


class _MeanLoss:
    """The objective and its gradient.

    Products with the data are in its own dtype. Sums over the rows that cancel, those of the loss and of the gradient
    of the biases, are in float64: in float32 they would depend on the order of the rows, which L-BFGS would amplify.

    Of two classes the first has no weights of its own, so that the penalty is on the difference of the two, as
    everywhere.
    """

    def __init__(self, inputs: Array, codes: Array, weights: Array | None, C: float) -> None:
        n, p = inputs.shape
        weights = np.ones(n) if weights is None else weights
        total = float(weights.sum())
        n_classes = int(codes.max()) + 1
        self._inputs, self._penalty = inputs, 1 / (C * total)
        self._shares = weights / total
        self._cast_shares = self._shares.astype(inputs.dtype)
        self._truth = np.arange(n), codes
        self._scores = np.zeros((n, n_classes), inputs.dtype)
        self.shape = p + 1, 1 if n_classes == 2 else n_classes  # the last row holds the biases
        self.largest_entries: list[float] = []  # of the gradient, at each evaluation

    def __call__(self, flat: Array) -> tuple[float, Array]:
        weight, scores = flat.reshape(self.shape), self._scores
        scores[:, : -self.shape[1]] = 0
        scores[:, -self.shape[1] :] = self._inputs @ weight[:-1].astype(scores.dtype) + weight[-1].astype(scores.dtype)
        scores -= scores.max(axis=1, keepdims=True)
        of_truth = scores[self._truth]
        exponentials = np.exp(scores, out=scores)
        sums = exponentials.sum(axis=1)
        value = float(np.dot(self._shares, np.log(sums, dtype=np.float64) - of_truth))
        residuals = np.multiply(exponentials, (self._cast_shares / sums)[:, None], out=exponentials)
        residuals[self._truth] -= self._cast_shares
        gradient = np.empty(self.shape)
        gradient[:-1] = self._inputs.T @ residuals[:, -self.shape[1] :]
        gradient[:-1] += self._penalty * weight[:-1]
        gradient[-1] = residuals[:, -self.shape[1] :].sum(axis=0, dtype=np.float64)
        self.largest_entries.append(float(np.abs(gradient).max()))
        return value + self._penalty / 2 * float(np.vdot(weight[:-1], weight[:-1])), gradient.ravel()


def _minimize(loss: _MeanLoss, tol: float, max_iter: int) -> Array:  # (p + 1, c)
    start = np.zeros(loss.shape[0] * loss.shape[1])
    mean, last, weight_left = start, start, 1.0

    def after_iteration(intermediate_result: Any) -> None:
        nonlocal mean, last, weight_left
        if last is start:  # the first iteration; the start adds nothing to the mean, it is zero
            weight_left -= _share(loss.largest_entries[0], tol)
        last = intermediate_result.x.copy()
        weight = weight_left * _share(loss.largest_entries[-1], tol)  # an iteration ends where it evaluated last
        mean, weight_left = mean + weight * last, weight_left - weight
        if weight_left == 0:
            raise StopIteration

    with np.errstate(all="ignore"):  # BLAS leaves floating-point flags of lanes that nothing reads
        scipy.optimize.minimize(
            loss,
            start,
            jac=True,
            method="L-BFGS-B",
            callback=after_iteration,
            options={"maxiter": max_iter, "gtol": 0.0, "ftol": 0.0, "maxls": 50},  # the rule above ends it
        )
    return (mean + weight_left * last).reshape(loss.shape)


def _share(largest: float, tol: float) -> float:
    """Return the share of the weight left that an iterate with this largest entry of the gradient takes."""
    if largest <= tol / _BAND:
        return 1.0
    return max(0.0, math.log(tol * _BAND / largest) / (2 * math.log(_BAND)))
