"""Features in their principal directions, in which many regressions on the same rows are cheap to precondition."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from angpn.ensemble.logistic import Linear
from angpn.ensemble.nystroem import GaussianKernel

_MIN_VARIANCE = 1e-6  # of a direction, as a part of that of all: less is rounding in float32


@dataclass(frozen=True, eq=False)
class PrincipalFeatures:
    """A linear map of features, or of their kernel with some centres, to uncorrelated columns of mean 0.

    A penalised regression does not mind a rotation of its inputs. But where columns are uncorrelated its Hessian at
    even probabilities is diagonal, whatever the penalty; eigenvectors are found once for all penalties, folds, rounds.
    """

    kernel: GaussianKernel | None
    directions: Tensor  # (p, r), or (m, r) from the kernel with m centres; orthogonal to each other
    mean: Tensor  # (r,) which is subtracted
    variances: Tensor  # (r,) of the columns

    @classmethod
    def fit(cls, rows: Tensor, width: float | None) -> "PrincipalFeatures":
        """Return the map for features that vary as those of these rows (n, p) do; a kernel is centred on them."""
        if width is None:
            kernel, values, directions = None, rows, _main_directions(rows)
        else:
            kernel = GaussianKernel.fit(rows, width)
            values, directions = kernel(rows), kernel.whitening
        columns = values @ directions
        mean = columns.mean(dim=0)
        return cls(kernel, directions, mean, (columns - mean).square().mean(dim=0))

    def __call__(self, rows: Tensor) -> Tensor:  # (n, r)
        """Return the columns for some rows."""
        values = rows if self.kernel is None else self.kernel(rows)
        return torch.addmm(-self.mean, values, self.directions)

    def to_features(self, weight: Tensor, bias: Tensor) -> Linear:
        """Return weights and bias on the features, or on the kernel with the centres, of those on the columns."""
        found = self.directions.double() @ weight.double()
        return found.float(), (bias - self.mean.double() @ weight.double()).float()

    def from_features(self, weight: Tensor, bias: Tensor) -> Linear:
        """Return the inverse of :meth:`to_features`."""
        found = self._inverse.to(weight) @ weight
        return found, bias + self.mean.to(weight) @ found

    @cached_property
    def _inverse(self) -> Tensor:  # (r, p)
        return (self.directions / self.directions.square().sum(dim=0)).T


def _main_directions(rows: Tensor) -> Tensor:  # (p, r)
    """Return orthonormal directions in which the rows are uncorrelated, without those in which they do not vary."""
    n, p = rows.shape
    centered = rows - rows.mean(dim=0)
    if n >= p:
        values, vectors = torch.linalg.eigh(centered.T @ centered)
    else:  # there are no more than n: found in the span of the rows
        values, vectors = torch.linalg.eigh(centered @ centered.T)
    kept = values > _MIN_VARIANCE * values.sum()
    directions = vectors[:, kept]
    if n < p:
        directions = centered.T @ directions / values[kept].sqrt()
    return directions
