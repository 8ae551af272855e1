"""From propagated features to classes: linear or radial logistic regression."""

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from angpn.neighbors.partition import ALL_ROWS, Partition
from angpn.utils.typing import Array

_ROWS_AT_ONCE = 2**12  # so that what is near which centre stays in the cache
_MAX_ITER = 100
_TOL = 1e-3
RULED_OUT = -50.0


@dataclass(frozen=True)
class Radial:
    """Nystroem's features of a Gaussian kernel: how near a row is to each of some centres, made uncorrelated."""

    centers: Tensor  # (m, p)
    rate: float  # of exp(-rate * squared distance)
    whitening: Tensor  # (m, r)

    @classmethod
    def around(cls, centers: Tensor, width: float) -> "Radial":
        """With ``width`` 1 the kernel falls to 1/e at the median distance between centres."""
        squares = _squares(centers, centers)
        median = float(squares.median())
        rate = 1 / (width * median) if median > 0 else 1.0
        values, vectors = torch.linalg.eigh(torch.exp(-rate * squares).double())
        kept = values > 1e-6 * values.max()
        return cls(centers, rate, (vectors[:, kept] / values[kept].sqrt()).to(centers.dtype))

    def __call__(self, features: Tensor) -> Tensor:  # (n, r)
        """The features of some rows."""
        return self.nearness(features) @ self.whitening

    def nearness(self, features: Tensor) -> Tensor:  # (n, m)
        """Of some rows to each centre, from 0 to 1."""
        return _squares(features, self.centers).mul_(-self.rate).exp_()


@dataclass(frozen=True)
class Readout:
    """Logistic regression on propagated features, or on radial features of them."""

    scale: float  # brings the features to length 1 on average: propagation shortens them, and C knows one scale
    weight: Tensor  # (p or r, c)
    bias: Tensor  # (c,) far below zero for a class that had no label
    radial: Radial | None

    def __call__(self, features: Tensor) -> Tensor:  # (n, c)
        """The log-probability of each class for each row of propagated features."""
        parts = (self.scale * part for part in features.split(_ROWS_AT_ONCE))
        if self.radial is None:
            return torch.cat([log_probabilities(part, self.weight, self.bias) for part in parts])
        # Fifty times less work than to whiten the rows: the weights on the centres themselves.
        weight = (self.radial.whitening.double() @ self.weight.double()).float()
        return torch.cat([log_probabilities(self.radial.nearness(part), weight, self.bias) for part in parts])


def scale_of(features: Tensor, partition: Partition = ALL_ROWS) -> float:
    """What brings these rows to length 1 on average."""
    mean = float(partition.mean(features.norm(dim=1)))
    return 1 / mean if mean > 0 else 1.0


def fit_linear(
    inputs: Tensor, codes: Array, weights: Array | None, C: float, n_classes: int
) -> tuple[Tensor, Tensor]:  # (p, c), (c,)
    """Multinomial logistic regression; classes without a label are as good as ruled out."""
    if len(np.unique(codes)) == 1:
        bias = torch.full((n_classes,), RULED_OUT)
        bias[codes[0]] = 0.0
        return torch.zeros(inputs.shape[1], n_classes), bias
    with warnings.catch_warnings(), np.errstate(all="ignore"):  # BLAS leaves flags of lanes that nothing reads
        warnings.simplefilter("ignore", ConvergenceWarning)  # a readout near its optimum serves as well
        model = LogisticRegression(C=C, max_iter=_MAX_ITER, tol=_TOL).fit(inputs.numpy(), codes, weights)
    weight, bias = torch.from_numpy(model.coef_).float(), torch.from_numpy(model.intercept_).float()
    if len(model.classes_) == 2:  # scikit-learn keeps the difference of the two
        weight, bias = torch.cat([torch.zeros_like(weight), weight]), torch.cat([torch.zeros(1), bias])
    all_weights, all_biases = torch.zeros(n_classes, weight.shape[1]), torch.full((n_classes,), RULED_OUT)
    all_weights[model.classes_], all_biases[model.classes_] = weight, bias
    return all_weights.T.contiguous(), all_biases


def log_probabilities(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:  # (n, c)
    """Eq. (14), as logarithms."""
    return torch.log_softmax(inputs @ weight + bias, dim=1)


def mean_log_probabilities(opinions: list[Tensor]) -> Tensor:  # (n, c)
    """The logarithm of the mean probability."""
    return torch.logsumexp(torch.stack(opinions), dim=0) - np.log(len(opinions))


def _squares(a: Tensor, b: Tensor) -> Tensor:  # (n, m)
    return torch.addmm(a.square().sum(1, keepdim=True) + b.square().sum(1), a, b.T, alpha=-2).clamp_(min=0)
