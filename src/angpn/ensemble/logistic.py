"""Multinomial logistic regression, solved to a tolerance in such a way that rounding cannot show."""

import numpy as np
import torch
from torch import Tensor

from angpn import kernels
from angpn.utils.typing import Array

RULED_OUT = -50.0  # log-probability of a class without labels
BAND = 1.5**0.5  # iterates whose largest entry is within this factor of tol are averaged


def fit_logistic(
    inputs: Tensor,  # (n, p)
    codes: Array,  # (n,) class numbers
    weights: Array | None,  # (n,)
    C: float,
    n_classes: int,
    *,
    tol: float,
    max_iter: int,
    start: tuple[Tensor, Tensor] | None = None,  # (p, c), (c,) weights and biases to begin with
) -> tuple[Tensor, Tensor]:  # (p, c), (c,)
    r"""Return weights and biases of a penalised multinomial logistic regression.

    .. math:: \min_{W, b} \; - \frac{1}{\sum_i w_i} \sum_i w_i \ln softmax(x_i W + b)_{y_i}
              + \frac{1}{2 C \sum_i w_i} \|W\|_F^2

    L-BFGS runs until the largest entry of the gradient is about ``tol``. Where it stops would depend on the last bit of
    that entry, and two machines that sum in another order could stop iterations apart, which are large steps this far
    from the minimum. So the result is a weighted mean of the last iterates: each takes a share of the weight that those
    before it left, from nothing where its largest entry is 1.22 ``tol`` to everything where it is ``tol`` / 1.22. That
    is a continuous function of the iterates, also where the largest entry rises again, as it often does.

    A class without labels is as good as ruled out. Of two classes the first has no weights of its own, so that the
    penalty is on the difference of the two, as everywhere.
    """
    known = np.flatnonzero(np.bincount(codes, minlength=n_classes))
    numbers = np.searchsorted(known, codes)
    weight, bias = torch.zeros(inputs.shape[1], n_classes), torch.full((n_classes,), RULED_OUT)
    if len(known) == 1:
        bias[known[0]] = 0.0
        return weight, bias
    shares = np.ones(len(codes)) if weights is None else weights
    total = float(shares.sum())
    free = known[1:] if len(known) == 2 else known
    point = np.zeros((inputs.shape[1] + 1, len(free)))
    if start is not None:
        point[:-1], point[-1] = start[0][:, free], start[1][free]
        point[-1][point[-1] == RULED_OUT] = 0.0  # it had no labels then
    rows, penalty = np.ascontiguousarray(inputs.numpy()), 1 / (C * total)
    solution, _, _ = kernels.logistic_regression.minimize_mean_loss(
        rows, numbers, shares / total, penalty, point, tol, BAND, max_iter
    )
    found = torch.from_numpy(solution).float()
    bias[known] = 0.0
    weight[:, free], bias[free] = found[:-1], found[-1]
    return weight, bias
