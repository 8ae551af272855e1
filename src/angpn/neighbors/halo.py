"""The halo exchange: rows of other processes that the candidate lists of this one name.

Before each step of Algorithm 1 they are received from the processes that own them, and in the backward pass their
gradients are sent back. Rows are distributed in an order in which neighbours are near each other, so halos are small.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse
import torch
import torch.distributed as dist
from torch import Tensor

from angpn.neighbors.collectives import all_to_all, all_to_all_async, all_to_all_counts

HaloExchange = Callable[[Any], Any]  # features, dense or a CSR array, to the same with halo rows appended


class Halo:
    """Rows of other processes that the lists of this process name: none."""

    n_rows = 0

    def exchange(self, features: Any) -> Any:  # (n_rows + halo, ...), dense or a CSR array
        """Append the halo rows, received from the processes that own them."""
        return features

    def reduce(self, gradient: Tensor) -> Tensor:  # (n_rows, ...)
        """Send the gradients of halo rows to their owners and add them there: the adjoint of :meth:`exchange`."""
        return gradient

    def subset(self, positions: Tensor) -> "Halo":
        """Return a halo that exchanges only the rows at these positions and leaves the others zero."""
        return self


class DistributedHalo(Halo):
    """The rows of other processes that this one needs, and those of its own that the others need."""

    def __init__(self, numbers: Tensor, bounds: Sequence[int]) -> None:
        """Agree on an exchange of rows with these sorted numbers; a process owns those from one bound to the next."""
        self.numbers, self._bounds, self._counts = numbers, bounds, counts_by_owner(numbers, bounds)
        self._sent_counts = all_to_all_counts(self._counts)
        self._sent = all_to_all(numbers, self._counts, self._sent_counts) - bounds[dist.get_rank()]
        self._positions: Tensor | None = None
        self.n_rows = len(numbers)

    def subset(self, positions: Tensor) -> "DistributedHalo":
        """Return a halo that exchanges only the rows at these positions and leaves the others zero."""
        subset = DistributedHalo(self.numbers[positions], self._bounds)
        subset._positions, subset.n_rows = positions, self.n_rows
        return subset

    def exchange(self, features: Any) -> Any:  # (n_rows + halo, ...), dense or a CSR array
        """Append the halo rows, received from the processes that own them."""
        if scipy.sparse.issparse(features):
            return self._exchange_sparse(features)
        own, shape = len(features), features.shape[1:]
        extended = features.new_empty(own + self.n_rows, *shape)
        received = extended[own:] if self._positions is None else features.new_empty(len(self.numbers), *shape)
        with all_to_all_async(features[self._sent], received, self._sent_counts, self._counts):
            extended[:own] = features
        if self._positions is not None:
            extended[own:] = 0
            extended[own + self._positions] = received
        return extended

    def _exchange_sparse(self, features: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        sent = features[self._sent.numpy()]
        lengths = torch.from_numpy(np.diff(sent.indptr)).long()
        received = all_to_all(lengths, self._sent_counts, self._counts)
        counts = [
            [int(part.sum()) for part in numbers.split(by_owner)]
            for numbers, by_owner in ((lengths, self._sent_counts), (received, self._counts))
        ]
        parts = sent.data, sent.indices.astype(np.int32, copy=False)  # of one type whatever scipy chose elsewhere
        entries = [all_to_all(torch.from_numpy(part), *counts).numpy() for part in parts]
        starts = np.concatenate([[0], received.cumsum(0).numpy()])
        halo = scipy.sparse.csr_array((*entries, starts), shape=(len(self.numbers), features.shape[1]))
        return scipy.sparse.vstack([features, halo], format="csr")

    def reduce(self, gradient: Tensor) -> Tensor:  # (n_rows, ...)
        """Send the gradients of halo rows to their owners and add them there: the adjoint of :meth:`exchange`."""
        own = len(gradient) - self.n_rows
        received = gradient.new_empty(len(self._sent), *gradient.shape[1:])
        sent = gradient[own:].contiguous() if self._positions is None else gradient[own + self._positions]
        with all_to_all_async(sent, received, self._counts, self._sent_counts):
            reduced = gradient[:own].clone()
        return reduced.index_add_(0, self._sent.to(gradient.device), received)


def counts_by_owner(numbers: Tensor, bounds: Sequence[int]) -> list[int]:
    """Return how many of these rows each process owns."""
    owner = torch.bucketize(numbers, torch.tensor(bounds[1:]), right=True)
    return torch.bincount(owner, minlength=len(bounds) - 1).tolist()
