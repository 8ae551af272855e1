"""A Gaussian kernel on some centres, and the features that it is the inner product of (Nystroem)."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

# Added to the diagonal of the kernel matrix, as a part of its trace: the first, but where distances are rounding alone,
# so that the matrix has negative eigenvalues; with the last no such matrix has any.
_RIDGES = 1e-6, 1e-4, 1e-2, 1.0


@dataclass(frozen=True, eq=False)
class GaussianKernel:
    """``exp(-rate * squared distance)`` to each of some centres."""

    centers: Tensor  # (m, p)
    rate: float

    @classmethod
    def fit(cls, centers: Tensor, width: float) -> "GaussianKernel":
        """Return the kernel on these centres; with width 1 it is 1/e at their median distance."""
        median = float(_squared_distances(centers.double(), centers.double()).median())
        return cls(centers, 1 / (width * median) if median > 0 else 1.0)

    def __call__(self, rows: Tensor) -> Tensor:  # (n, m)
        """Return the kernel of some rows with each centre, from 0 to 1."""
        return _squared_distances(rows, self.centers).mul_(-self.rate).exp_()

    @cached_property
    def root(self) -> Tensor:  # (m, m)
        """L with ``L L^T = K``, the kernel of the centres with each other: the Nystroem features of the centres.

        Cholesky's factor and the root by eigenvectors differ by a rotation of the features, which leaves a penalised
        regression as it is, and the former costs a twentieth. The ridge takes the place of cutting small eigenvalues.
        """
        centers = self.centers.double()  # in float32 rounding may leave it with negative eigenvalues
        matrix = _squared_distances(centers, centers).mul_(-self.rate).exp_()
        for ridge in _RIDGES:
            root, failed = torch.linalg.cholesky_ex(matrix + ridge * len(matrix) * torch.eye(len(matrix)))
            if not failed:
                break
        return root.to(self.centers.dtype)

    @cached_property
    def whitening(self) -> Tensor:  # (m, m)
        """``L^-T``: a row's kernel times this is its Nystroem features, and this times weights on those is weights
        on the centres."""
        identity = torch.eye(len(self.root), dtype=torch.float64)
        inverse = torch.linalg.solve_triangular(self.root.double(), identity, upper=False)
        return inverse.T.contiguous().to(self.centers.dtype)

    def features(self, rows: Tensor) -> Tensor:  # (n, m)
        """Return the Nystroem features of some rows: their inner products are the kernel, as far as centres tell."""
        return self(rows) @ self.whitening


def _squared_distances(a: Tensor, b: Tensor) -> Tensor:  # (n, m)
    return torch.addmm(a.square().sum(1, keepdim=True) + b.square().sum(1), a, b.T, alpha=-2).clamp_(min=0)
