"""Multinomial logistic regressions on the same inputs, solved in such a way that rounding cannot show."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from angpn import kernels
from angpn.utils.typing import Array

RULED_OUT = -50.0  # log-probability of a class without labels
BAND = 1.5  # iterates whose excess is within this factor of tol are averaged

Linear = tuple[Tensor, Tensor]  # (p, c) weights and (c,) biases


class Regression(NamedTuple):
    """What one regression is trained on."""

    rows: Array  # of the inputs
    codes: Array  # class numbers of these
    weights: Array | None  # how much each counts
    C: float
    whitening: float = 0.0  # power of the variance by which columns are divided: 1/2 makes all vary alike


def fit_logistic(
    inputs: Tensor,  # (n, p) uncorrelated columns of mean about 0
    variances: Tensor,  # (p,) of these
    regressions: Sequence[Regression],
    n_classes: int,
    *,
    tol: float,
    max_iter: int,
) -> list[Linear]:
    r"""Return weights and biases of penalised multinomial logistic regressions.

    .. math:: \min_{W, b} \; - \frac{1}{\sum_i w_i} \sum_i w_i \ln softmax(x_i W + b)_{y_i}
              + \frac{1}{2 C \sum_i w_i} \sum_j r_j \|W_j\|^2, \quad r_j = v_j^{2a} \sum_k v_k^{1 - 2a}

    With ``whitening`` :math:`a` the columns, of variances :math:`v`, are in effect divided by :math:`v_j^a`, all by one
    factor more so that rows keep a length of 1 on average; without it :math:`r_j` is 1.

    L-BFGS runs until the loss is about ``tol`` above its minimum, by half of Newton's decrement. By itself it would go
    long ways along directions in which the rows hardly vary, and amplify on each step what rounding had changed; the
    Hessian at even probabilities, with which it is preconditioned here, makes all directions alike. It is diagonal,
    since the columns are uncorrelated, see :class:`angpn.ensemble.principal_features.PrincipalFeatures`.

    Where it stops would still depend on the last bit of the decrement, and two machines that sum in another order could
    stop an iteration apart. So the result is a weighted mean of the last iterates: each takes a share of the weight
    that those before it left, from nothing where its excess is 1.5 ``tol`` to everything where it is ``tol`` / 1.5.
    That is a continuous function of the iterates, also where the decrement rises again.

    A class without labels is as good as ruled out. Of two classes the first has no weights of its own, so that the
    penalty is on the difference of the two, as everywhere.
    """
    by_classes: dict[tuple[int, ...], list[int]] = {}
    for place, regression in enumerate(regressions):
        by_classes.setdefault(tuple(np.unique(regression.codes).tolist()), []).append(place)
    found: dict[int, Linear] = {}
    for known, places in by_classes.items():
        same = [regressions[place] for place in places]
        solutions = _solve(inputs, variances, same, np.array(known), n_classes, tol, max_iter)
        found.update(zip(places, solutions, strict=True))
    return [found[place] for place in range(len(regressions))]


def _solve(
    inputs: Tensor,
    variances: Tensor,
    regressions: Sequence[Regression],
    known: Array,  # the classes that all of these have labels of
    n_classes: int,
    tol: float,
    max_iter: int,
) -> list[Linear]:
    n, p = inputs.shape
    weights = np.zeros((len(regressions), p, n_classes), np.float32)
    biases = np.full((len(regressions), n_classes), RULED_OUT, np.float32)
    biases[:, known] = 0.0
    if len(known) == 1:
        return _linear(weights, biases)
    varied = variances.double().numpy()
    free = known[1:] if len(known) == 2 else known
    codes, shares = np.zeros((len(regressions), n), np.int64), np.zeros((len(regressions), n))
    penalties = np.empty((len(regressions), p + 1))
    for place, (rows, own, counted, C, whitening) in enumerate(regressions):
        codes[place, rows] = np.searchsorted(known, own)
        counts = np.ones(len(rows)) if counted is None else counted
        shares[place, rows] = counts / counts.sum()
        penalties[place] = 1 / (C * counts.sum())
        if whitening:
            penalties[place, :p] *= varied ** (2 * whitening) * (varied ** (1 - 2 * whitening)).sum()
    curvature = np.append(varied, 1.0) / (4 if len(known) == 2 else len(known))
    solutions = kernels.logistic_regression.minimize_mean_losses(
        np.ascontiguousarray(inputs.numpy()),
        codes,
        shares,
        penalties[:, :p],
        np.zeros((len(regressions), len(free), p + 1)),
        1 / (curvature + penalties),  # the penalty is on the bias too, so that there is always an inverse
        tol,
        BAND,
        max_iter,
    )[0]
    weights[:, :, free] = solutions[:, :, :p].transpose(0, 2, 1)
    biases[:, free] = solutions[:, :, p]
    return _linear(weights, biases)


def _linear(weights: Array, biases: Array) -> list[Linear]:
    """Return each in memory of its own, since few of them are kept."""
    copies = ((weight.copy(), bias.copy()) for weight, bias in zip(weights, biases, strict=True))
    return [(torch.from_numpy(weight), torch.from_numpy(bias)) for weight, bias in copies]
