"""Features of a Gaussian kernel, approximated from some centres."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Nystroem:
    """Nystroem features of a Gaussian kernel: the kernel with some centres, whitened."""

    centers: Tensor  # (m, p)
    rate: float  # of exp(-rate * squared distance)
    whitening: Tensor  # (m, r)

    @classmethod
    def fit(cls, centers: Tensor, width: float) -> "Nystroem":
        """Return the features around these centres; with width 1 the kernel is 1/e at their median distance."""
        squares = _squared_distances(centers, centers)
        median = float(squares.median())
        rate = 1 / (width * median) if median > 0 else 1.0
        values, vectors = torch.linalg.eigh(torch.exp(-rate * squares).double())
        kept = values > 1e-6 * values.max()
        return cls(centers, rate, (vectors[:, kept] / values[kept].sqrt()).to(centers.dtype))

    def __call__(self, features: Tensor) -> Tensor:  # (n, r)
        """Return the whitened features of some rows."""
        return self.kernel(features) @ self.whitening

    def kernel(self, features: Tensor) -> Tensor:  # (n, m)
        """Return the kernel of some rows with each centre, from 0 to 1."""
        return _squared_distances(features, self.centers).mul_(-self.rate).exp_()


def _squared_distances(a: Tensor, b: Tensor) -> Tensor:  # (n, m)
    return torch.addmm(a.square().sum(1, keepdim=True) + b.square().sum(1), a, b.T, alpha=-2).clamp_(min=0)
