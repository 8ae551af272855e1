"""An order of the rows in which neighbours are near each other.

Their features then share caches, and rows can be distributed among processes with small halos.
"""

from collections.abc import Iterator

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from angpn.neighbors.list_products import sparse_product
from angpn.neighbors.neighborhood import Neighborhood
from angpn.neighbors.partition import Reordered
from angpn.utils.typing import Array

NEAREST = 8  # candidates of a row that should be near it; all of them would take longer to no effect
_COORDINATES = 8
_STEPS = 60
_TOGETHER = 256  # rows whose order among themselves no longer matters


def in_local_order(neighborhood: Neighborhood) -> Neighborhood:
    """Return the same lists with the rows in an order in which neighbours are near each other."""
    order = locality_order(neighborhood.indices[:, :NEAREST])
    number = torch.empty(len(order), dtype=torch.int32)
    number[order] = torch.arange(len(order), dtype=torch.int32)
    return Neighborhood(number[neighborhood.indices[order]], neighborhood.distances[order], partition=Reordered(order))


def locality_order(nearest: Tensor) -> Tensor:  # (n,)
    """Return an order of the rows in which these nearest of each, (n, m), are near it.

    Random numbers, averaged over neighbours again and again, become coordinates in which connected rows are close; the
    rows are halved along the direction of largest variance, and each half again.
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
    """Return rows in groups, close ones next to each other."""
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
