"""Multinomial logistic regression, solved to a tolerance in such a way that rounding cannot show."""

import math

import numpy as np
import torch
from torch import Tensor

from angpn import kernels
from angpn.utils.typing import Array

RULED_OUT = -50.0  # log-probability of a class without labels
BAND = 1.5  # iterates whose excess is within this factor of tol are averaged
_ROUNDING = 1e-5  # of sums in float32, beyond what the eigenvalues of their matrix may be off by
_MAX_ROWS = 4096  # of a Hessian that is only to precondition; more would cost more than they save


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

    L-BFGS runs until the loss is about ``tol`` above its minimum, by half of Newton's decrement. By itself it would go
    long ways along directions in which the rows hardly vary, and amplify on each step what rounding had changed; the
    Hessian at even probabilities, with which it is preconditioned here, makes all directions alike.

    Where it stops would still depend on the last bit of the decrement, and two machines that sum in another order could
    stop an iteration apart. So the result is a weighted mean of the last iterates: each takes a share of the weight
    that those before it left, from nothing where its excess is 1.5 ``tol`` to everything where it is ``tol`` / 1.5.
    That is a continuous function of the iterates, also where the decrement rises again.

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
    shares, penalty, rotation = shares / total, 1 / (C * total), None
    if len(inputs) < inputs.shape[1]:  # the weights are sums of the rows: in the span of these they have fewer entries
        rotation, triangle = torch.linalg.qr(inputs.T)
        inputs, point = triangle.T, np.concatenate([rotation.T.numpy() @ point[:-1], point[-1:]])
    preconditioner = _inverse_hessian(inputs, shares, penalty, len(known))
    solution = kernels.logistic_regression.minimize_mean_loss(
        np.ascontiguousarray(inputs.numpy()), numbers, shares, penalty, point, preconditioner, tol, BAND, max_iter
    )[0]
    found = torch.from_numpy(solution).float()
    bias[known] = 0.0
    weight[:, free], bias[free] = found[:-1] if rotation is None else rotation.float() @ found[:-1], found[-1]
    return weight, bias


def _inverse_hessian(inputs: Tensor, shares: Array, penalty: float, n_classes: int) -> Array:  # (p + 1, p + 1)
    """Return the inverse of the Hessian of one class's weights and bias where all classes are equally probable."""
    step = math.ceil(len(inputs) / _MAX_ROWS)
    rows = torch.nn.functional.pad(inputs[::step], (0, 1), value=1.0)
    curvature = step * shares[::step] / (4 if n_classes == 2 else n_classes)  # of two classes one has weights
    hessian = (rows.T @ (rows * torch.from_numpy(curvature).to(rows.dtype)[:, None])).double()
    # The penalty is on the bias too, and more than rounding, so that there is an inverse whatever the rows.
    hessian.diagonal().mul_(1 + _ROUNDING).add_(penalty)
    return torch.cholesky_inverse(torch.linalg.cholesky(hessian)).numpy()
