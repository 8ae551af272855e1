"""A Gaussian kernel on some centres, and the features that it is the inner product of (Nystroem)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

_MIN_EIGENVALUE = 3e-6  # of the kernel matrix, as a part of its trace; rounding in float32 is a hundredth of it


@dataclass(frozen=True, eq=False)
class GaussianKernel:
    """``exp(-rate * squared distance)`` to each of some centres."""

    centers: Tensor  # (m, p)
    rate: float

    @classmethod
    def fit(cls, centers: Tensor, width: float) -> "GaussianKernel":
        """Return the kernel on these centres; with width 1 it is 1/e at their median distance."""
        squares = _squared_distances(centers.double(), centers.double()).flatten().numpy()
        middle = (len(squares) - 1) // 2
        median = float(np.partition(squares, middle)[middle])  # torch's takes eight times as long
        return cls(centers, 1 / (width * median) if median > 0 else 1.0)

    def __call__(self, rows: Tensor) -> Tensor:  # (n, m)
        """Return the kernel of some rows with each centre, from 0 to 1."""
        return _squared_distances(rows, self.centers).mul_(-self.rate).exp_()

    @cached_property
    def whitening(self) -> Tensor:  # (m, r)
        """``U L^-1/2`` for the kernel matrix ``U L U^T`` of the centres.

        A row's kernel times this is its Nystroem features: their inner products are the kernel, as far as centres tell,
        and over the centres they are uncorrelated. This times weights on them is weights on the centres. Eigenvalues
        that are rounding have no features.
        """
        centers = self.centers.double()  # else distances of near centres would be rounding
        matrix = _squared_distances(centers, centers).mul_(-self.rate).exp_()
        values, vectors = torch.linalg.eigh(matrix.to(self.centers.dtype))
        kept = values > _MIN_EIGENVALUE * len(values)
        return vectors[:, kept] / values[kept].sqrt()


def _squared_distances(a: Tensor, b: Tensor) -> Tensor:  # (n, m)
    return torch.addmm(a.square().sum(1, keepdim=True) + b.square().sum(1), a, b.T, alpha=-2).clamp_(min=0)
