"""The first layer on sparse rows: Algorithm 1 without ever writing them out, and (P X) W as P (X W)."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from angpn.anfp.fused import Options
from angpn.anfp.graph import neighbor_weights, resolve_gamma
from angpn.kernels.rows import sparse_product_rows
from angpn.kernels.threads import over_rows
from angpn.neighbors.neighborhood import Neighborhood, sparse_product
from angpn.neighbors.partition import ALL_ROWS, HaloExchange, Partition


class PropagatedSparse:
    """P(D, X) for sparse X, as the two factors it is the product of.

    P X has about k times the entries of X; P and X apart are what an epoch should touch.
    """

    def __init__(self, propagation_matrix: scipy.sparse.csr_array, features: scipy.sparse.csr_array) -> None:
        self._propagation_matrix, self._features = propagation_matrix, features  # P (r, n), X (n, d)
        self._factors = _csr(propagation_matrix), _csr(features), _csr(features.T), _csr(propagation_matrix.T)

    def __matmul__(self, weight: Tensor) -> Tensor:
        return _Product.apply(self._factors, weight)

    def multiplied(self) -> scipy.sparse.csr_array:
        """P X written out, still sparse."""
        return scipy.sparse.csr_array(self._propagation_matrix @ self._features)

    def __getitem__(self, rows: Tensor) -> "PropagatedSparse":
        return PropagatedSparse(self._propagation_matrix[rows.numpy()], self._features)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, factors: tuple[Any, ...], weight: Tensor) -> Tensor:
        ctx.factors = factors
        propagation_matrix, features, _, _ = factors
        return _times(propagation_matrix, _times(features, weight.detach()))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        _, _, features_transposed, propagation_transposed = ctx.factors
        return None, _times(features_transposed, _times(propagation_transposed, gradient.contiguous()))


class _CSR(NamedTuple):
    starts: Tensor
    columns: Tensor
    values: Tensor
    n_columns: int


def _times(matrix: _CSR, dense: Tensor) -> Tensor:
    return sparse_product(matrix.starts, matrix.columns, matrix.values, matrix.n_columns, dense)


def _csr(matrix: Any) -> _CSR:
    rows = scipy.sparse.csr_array(matrix)
    starts, columns = (torch.from_numpy(part.astype(np.int32, copy=False)) for part in (rows.indptr, rows.indices))
    return _CSR(starts, columns, torch.from_numpy(rows.data), rows.shape[1])


def propagate_sparse(neighborhood: Neighborhood, features: scipy.sparse.csr_array, **options: Any) -> PropagatedSparse:
    """F of :func:`angpn.anfp.algorithm.algorithm1` for sparse features."""
    alpha, direction = options["alpha"], options["direction"]
    propagation_matrix, halo_exchange = _propagation_matrix(
        neighborhood.to_csr(graph_sparse(neighborhood, features, **options)), alpha, direction, neighborhood.partition
    )
    return PropagatedSparse(propagation_matrix, halo_exchange(features))


def graph_sparse(neighborhood: Neighborhood, features: scipy.sparse.csr_array, **options: Any) -> Tensor:  # (n, m)
    """S of :func:`angpn.anfp.algorithm.algorithm1` for sparse features, as weights on the candidates."""
    o = Options(**options)
    distances = torch.from_numpy(neighborhood.as_arrays(features.dtype)[1])
    gamma = resolve_gamma(distances, o.n_neighbors, o.gamma, mean_over_rows=neighborhood.partition.mean)
    limit = 1 if o.beta == 0 else o.num_steps or o.max_steps
    propagated = features
    for number in range(1, limit + 1):
        affinities = _affinities(neighborhood, propagated, o.normalize) if o.beta > 0 else None
        weights = neighbor_weights(
            distances, affinities, n_neighbors=o.n_neighbors, beta=o.beta, gamma=gamma, rule=o.rule
        )
        if number == limit:
            break
        previous = propagated
        propagation_matrix, halo_exchange = _propagation_matrix(
            neighborhood.to_csr(weights), o.alpha, o.direction, neighborhood.partition
        )
        propagated = scipy.sparse.csr_array(propagation_matrix @ halo_exchange(features))
        if o.num_steps is None:
            sizes = [float(abs(part).max()) for part in (propagated - previous, propagated)]
            change, largest = neighborhood.partition.all_reduce_max(torch.tensor(sizes, dtype=torch.float64))
            if change <= o.tol * largest:
                break
    return weights


def _affinities(neighborhood: Neighborhood, features: scipy.sparse.csr_array, normalize: bool) -> Tensor:  # (n, m)
    features = neighborhood.halo_exchange(features)
    if normalize:
        squares = np.asarray(features.multiply(features).sum(axis=1)).ravel()
        inverse = np.where(squares > 1e-12, 1 / np.sqrt(np.where(squares > 1e-12, squares, 1)), 0)
        features = scipy.sparse.csr_array(scipy.sparse.diags_array(inverse.astype(features.dtype)) @ features)
    features.sum_duplicates()
    lists = neighborhood.as_arrays(features.dtype)[0]
    out = np.empty(lists.shape, features.dtype)
    parts = features.indptr, features.indices, features.data
    over_rows(sparse_product_rows, len(lists), lists, *parts, *parts, features.shape[1], out)
    return torch.from_numpy(out)


def propagation_matrix(graph: scipy.sparse.csr_array, alpha: float, direction: str) -> scipy.sparse.csr_array:
    """P = alpha A + (1 - alpha) I, with A the S of :meth:`Neighborhood.to_csr` or made from it and its transpose."""
    return _propagation_matrix(graph, alpha, direction, ALL_ROWS)[0]


def _propagation_matrix(
    graph: scipy.sparse.csr_array, alpha: float, direction: str, partition: Partition
) -> tuple[scipy.sparse.csr_array, HaloExchange]:
    """The same, and what extends features for a product with it."""
    matrix, halo_exchange = adjacency_matrix(graph, direction, partition)
    mixed = alpha * matrix + (1 - alpha) * scipy.sparse.eye_array(*matrix.shape)
    return scipy.sparse.csr_array(mixed, dtype=graph.dtype), halo_exchange


def adjacency_matrix(
    graph: scipy.sparse.csr_array, direction: str, partition: Partition = ALL_ROWS
) -> tuple[scipy.sparse.csr_array, HaloExchange]:
    """A, and what extends features for a product with it."""
    if direction == "directed":
        return graph, partition.halo.exchange
    both, halo_exchange = partition.with_transpose(graph)
    if direction == "symmetric":
        return both / 2, halo_exchange
    degree = np.asarray(both.sum(axis=1)).ravel()
    scale = 1 / np.sqrt(np.where(degree > 0, degree, 1))
    left, right = (scipy.sparse.diags_array(part) for part in (scale, halo_exchange(torch.from_numpy(scale)).numpy()))
    return scipy.sparse.csr_array(left @ both @ right), halo_exchange
