"""An order of the rows in which neighbours are near each other.

Their features then share caches, and rows can be shared out among processes that need little of each other.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from angpn.neighbors.neighborhood import Neighborhood, sparse_product
from angpn.utils.typing import Array

NEAREST = 8  # candidates of a row that should be near it; all of them would take longer to no effect
_COORDINATES = 8
_STEPS = 60
_TOGETHER = 256  # rows whose order among themselves no longer matters


@dataclass(frozen=True, eq=False)
class Part(Neighborhood):
    """Lists of rows that are in another order than those of the data."""

    rows: Tensor = field(kw_only=True)  # (n_rows,) which rows of the data these are

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a Part means something while a model is trained only, got a request to pickle it; see whole()")

    def named(self, numbers: Tensor) -> Tensor:
        """Which rows of the data the rows with these numbers are."""
        return self.rows[numbers]

    def here(self, rows: Array) -> tuple[Array, Array]:
        """Those of the rows of the data that are here: their numbers, and their places among the rows asked for."""
        ordered, numbers = self._by_row
        near = np.minimum(np.searchsorted(ordered, rows), len(ordered) - 1)
        found = ordered[near] == rows
        return numbers[near[found]], np.flatnonzero(found)

    def taken(self, values: Tensor, rows: Array) -> Tensor:
        """What these rows of the data have."""
        numbers, places = self.here(rows)
        found = values.new_zeros(len(rows), *values.shape[1:])
        found[places] = values[numbers]
        return self.total(found)

    def gathered(self, values: Tensor) -> Tensor:  # (total_rows, ...)
        """What all rows have, in the order of the data."""
        found = torch.empty_like(values)
        found[self.rows] = values
        return found

    def whole(self) -> Neighborhood:
        """The lists in the order of the data."""
        return Neighborhood(self.gathered(self.rows.int()[self.indices]), self.gathered(self.distances))

    @cached_property
    def _by_row(self) -> tuple[Array, Array]:
        numbers = np.argsort(self.rows.numpy())
        return self.rows.numpy()[numbers], numbers


def in_local_order(hood: Neighborhood) -> Part:
    """The same lists, the rows in an order in which neighbours are near each other."""
    order = locality_order(hood.indices[:, :NEAREST])
    number = torch.empty(len(order), dtype=torch.int32)
    number[order] = torch.arange(len(order), dtype=torch.int32)
    return Part(number[hood.indices[order]], hood.distances[order], rows=order)


def locality_order(nearest: Tensor) -> Tensor:  # (n,)
    """An order of the rows in which these nearest of each, (n, m), are near it.

    Random numbers, averaged over neighbours again and again, become coordinates in which rows that hang together are
    close; the rows are halved along the direction in which they extend most, and each half again.
    """
    n, m = nearest.shape
    ones = np.ones(n * m, np.float32), nearest.numpy().flatten(), np.arange(0, n * m + 1, m)
    graph = scipy.sparse.csr_array(ones, shape=(n, n))
    graph = scipy.sparse.csr_array(graph + graph.T)
    degree = np.asarray(graph.sum(axis=1)).ravel()
    graph.data /= np.repeat(degree, np.diff(graph.indptr))
    starts, columns = (torch.from_numpy(part.astype(np.int32, copy=False)) for part in (graph.indptr, graph.indices))
    coordinates = torch.from_numpy(np.random.default_rng(0).standard_normal((n, _COORDINATES), np.float32))
    for _ in range(_STEPS):
        coordinates = sparse_product(starts, columns, torch.from_numpy(graph.data), n, coordinates)
    halves = _halved(coordinates.double().numpy(), np.arange(n))
    return torch.from_numpy(np.concatenate(list(halves)))


def _halved(coordinates: Array, rows: Array) -> Iterator[Array]:
    """Rows in groups, next to each other those that are close."""
    if len(rows) <= _TOGETHER:
        yield rows
        return
    # Sums as einsum has them, since those of BLAS depend on how many threads there are.
    centred = coordinates[rows] - coordinates[rows].mean(axis=0)
    direction = np.linalg.eigh(np.einsum("ij,ik->jk", centred, centred))[1][:, -1]
    middle = len(rows) // 2
    order = np.argpartition(np.einsum("ij,j->i", centred, direction), middle)
    yield from _halved(coordinates, rows[order[:middle]])
    yield from _halved(coordinates, rows[order[middle:]])
