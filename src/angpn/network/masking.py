"""Random masks of the entries of X, whose values the network then has to restore."""

from typing import NamedTuple, Protocol

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

MASKED_SHARE = 0.2  # of the entries, in each epoch anew
ZEROS_PER_MASKED = 5  # entries of a sparse X that are 0, drawn for each that is masked


class MaskedRows(NamedTuple):
    """X without the entries that were masked, and what these are to be restored to."""

    features: Tensor | scipy.sparse.csr_array  # (n, d)
    rows: Tensor  # (e,) int64
    columns: Tensor  # (e,) int64
    targets: Tensor  # (e,)


class Masking(Protocol):
    """How entries of X are masked, and what is asked of a decoder that restores them."""

    def draw(self, generator: torch.Generator) -> MaskedRows:
        """Mask a random share of the entries."""

    def mean_loss(self, restored: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss over the masked entries; both (e,)."""

    def first_bias(self) -> Tensor:  # (d,)
        """Return what restores the entries of each column best without looking at the row."""


class SparseMasking:
    """Masks for sparse rows: whether an entry is 0 is to be told.

    In text, which words a document has says more than how often, and there are far more entries that are 0 than can be
    looked at. So a share of the others is masked, for each a few that are 0 are drawn, and the loss is logistic.
    """

    def __init__(self, features: scipy.sparse.csr_array) -> None:  # (n, d)
        features = features.copy()
        features.sum_duplicates()
        features.eliminate_zeros()
        n, d = features.shape
        if not 0 < features.nnz <= n * d / 2:
            raise ValueError(
                "self_supervised on a sparse X restores which entries are not 0, so some must be, and at most half of "
                f"them, got {features.nnz} of {n * d}; pass X as a dense array, or set self_supervised=0"
            )
        self._features = features
        self._rows = torch.from_numpy(np.repeat(np.arange(n), np.diff(features.indptr)))
        self._columns = torch.from_numpy(features.indices.astype(np.int64))
        self._places = self._rows * d + self._columns  # in ascending order

    def draw(self, generator: torch.Generator) -> MaskedRows:
        """Mask a random share of the entries that are not 0, and draw others that are."""
        X, d = self._features, self._features.shape[1]
        masked = torch.rand(X.nnz, generator=generator) < MASKED_SHARE
        count = int(masked.sum())
        drawn = torch.randint(X.shape[0] * d, (ZEROS_PER_MASKED * count,), generator=generator)
        nearest = torch.searchsorted(self._places, drawn).clamp(max=X.nnz - 1)
        zeros = drawn[self._places[nearest] != drawn]
        kept = scipy.sparse.csr_array(
            (np.where(masked.numpy(), 0, X.data), X.indices.copy(), X.indptr.copy()), shape=X.shape
        )
        kept.eliminate_zeros()
        targets = torch.zeros(count + len(zeros), dtype=torch.from_numpy(X.data).dtype)
        targets[:count] = 1
        return MaskedRows(
            kept,
            torch.cat([self._rows[masked], zeros // d]),
            torch.cat([self._columns[masked], zeros % d]),
            targets,
        )

    def mean_loss(self, restored: Tensor, targets: Tensor) -> Tensor:
        """Return the logistic loss."""
        return torch.nn.functional.binary_cross_entropy_with_logits(restored, targets)

    def first_bias(self) -> Tensor:  # (d,)
        """Return the log odds of each column among the entries that are drawn."""
        X, (n, d) = self._features, self._features.shape
        occurrences = np.bincount(X.indices, minlength=d)
        zeros = ZEROS_PER_MASKED * X.nnz / d * (1 - occurrences / n)  # for as many as occur
        return torch.from_numpy(np.log((occurrences + 0.5) / (zeros + 0.5)).astype(X.dtype))


class DenseMasking:
    """Masks for dense rows: a masked entry is the mean of its column, and the loss is squared, in standard deviations.

    Columns that do not vary are left as they are.
    """

    def __init__(self, features: Tensor) -> None:  # (n, d)
        self._features, self._mean, deviation = features, features.mean(dim=0), features.std(dim=0, correction=0)
        # Of a constant column, what rounding makes of it is no variation.
        self._varies = deviation > 1e-6 * features.abs().amax(dim=0)
        if not self._varies.any():
            raise ValueError(
                f"self_supervised needs a column of X that varies, got none of {features.shape[1]}; pass other "
                "features, or set self_supervised=0"
            )
        self._deviation = torch.where(self._varies, deviation, 1)

    def draw(self, generator: torch.Generator) -> MaskedRows:
        """Set a random share of the entries to the means of their columns."""
        X = self._features
        # Drawn on the CPU whatever the device, so that one seed means one result.
        masked = (torch.rand(X.shape, generator=generator) < MASKED_SHARE).to(X.device) & self._varies
        rows, columns = masked.nonzero(as_tuple=True)
        targets = (X[rows, columns] - self._mean[columns]) / self._deviation[columns]
        return MaskedRows(torch.where(masked, self._mean, X), rows, columns, targets)

    def mean_loss(self, restored: Tensor, targets: Tensor) -> Tensor:
        """Return the squared loss."""
        return torch.nn.functional.mse_loss(restored, targets)

    def first_bias(self) -> Tensor:  # (d,)
        """Return zeros: targets are standardised."""
        return torch.zeros_like(self._mean)


def masking_for(features: Tensor | scipy.sparse.csr_array) -> Masking:
    """Return the masks for dense or for sparse rows.

    Args:
        features: X, (n, d).

    Returns:
        How its entries are masked.

    Raises:
        ValueError: if there is nothing to restore.
    """
    return DenseMasking(features) if isinstance(features, Tensor) else SparseMasking(features)
