"""The first layer on sparse rows: Algorithm 1 without making them dense, and (P X) W as P (X W)."""

import copy
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from angpn import kernels
from angpn.anfp.algorithm import Options
from angpn.anfp.neighbor_graph import neighbor_weights, resolve_gamma
from angpn.kernels.threads import over_rows
from angpn.neighbors.halo import HaloExchange
from angpn.neighbors.list_products import sparse_product
from angpn.neighbors.neighborhood import Neighborhood
from angpn.neighbors.partition import ALL_ROWS, Partition


class PropagatedSparse:
    """P(D, X) for sparse X, as the two factors it is the product of.

    P X has about k times the entries of X, so an epoch multiplies with P and X one after the other.
    """

    def __init__(self, propagation_matrix: scipy.sparse.csr_array, features: scipy.sparse.csr_array) -> None:
        self._propagation_matrix, self._features = propagation_matrix, features  # P (r, n), X (n, d)
        self._factors = _csr(propagation_matrix), _csr(features), _csr(features.T), _csr(propagation_matrix.T)

    def with_features(self, features: scipy.sparse.csr_array) -> "PropagatedSparse":  # (n, d)
        """Return P times other features."""
        other = copy.copy(self)
        other._features = features
        other._factors = self._factors[0], _csr(features), _csr(features.T), self._factors[3]
        return other

    def __matmul__(self, weight: Tensor) -> Tensor:
        return _Product.apply(self._factors, weight)

    def multiplied(self) -> scipy.sparse.csr_array:
        """Return P X, still sparse."""
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


def propagate_sparse(
    neighborhood: Neighborhood, features: scipy.sparse.csr_array, options: Options
) -> PropagatedSparse:
    """Return F of :func:`angpn.anfp.algorithm.algorithm1` for sparse features."""
    graph = neighborhood.to_csr(graph_sparse(neighborhood, features, options))
    matrix, halo_exchange = _propagation_matrix(graph, options.alpha, options.direction, neighborhood.partition)
    return PropagatedSparse(matrix, halo_exchange(features))


def graph_sparse(neighborhood: Neighborhood, features: scipy.sparse.csr_array, options: Options) -> Tensor:  # (n, m)
    """Return S of :func:`angpn.anfp.algorithm.algorithm1` for sparse features, as weights on the candidates."""
    k, beta, rule, partition = options.n_neighbors, options.beta, options.rule, neighborhood.partition
    distances = torch.from_numpy(neighborhood.as_arrays(features.dtype)[1])
    gamma = resolve_gamma(distances, k, options.gamma, mean_over_rows=partition.mean)
    propagated = features
    for number in range(1, options.step_limit + 1):
        affinities = _affinities(neighborhood, propagated, options.normalize) if beta > 0 else None
        weights = neighbor_weights(distances, affinities, n_neighbors=k, beta=beta, gamma=gamma, rule=rule)
        if number == options.step_limit:
            break
        previous, graph = propagated, neighborhood.to_csr(weights)
        matrix, halo_exchange = _propagation_matrix(graph, options.alpha, options.direction, partition)
        propagated = scipy.sparse.csr_array(matrix @ halo_exchange(features))
        if options.until_settled:
            sizes = [float(abs(part).max()) for part in (propagated - previous, propagated)]
            change, largest = partition.all_reduce_max(torch.tensor(sizes, dtype=torch.float64))
            if change <= options.tol * largest:
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
    over_rows(kernels.rows.sparse_product_rows, len(lists), lists, *parts, *parts, features.shape[1], out)
    return torch.from_numpy(out)


def propagation_matrix(graph: scipy.sparse.csr_array, alpha: float, direction: str) -> scipy.sparse.csr_array:
    """Return P = alpha A + (1 - alpha) I, with A the graph S itself or made from it and its transpose."""
    return _propagation_matrix(graph, alpha, direction, ALL_ROWS)[0]


def _propagation_matrix(
    graph: scipy.sparse.csr_array, alpha: float, direction: str, partition: Partition
) -> tuple[scipy.sparse.csr_array, HaloExchange]:
    """Return the same, and the halo exchange for products with it."""
    matrix, halo_exchange = adjacency_matrix(graph, direction, partition)
    mixed = alpha * matrix + (1 - alpha) * scipy.sparse.eye_array(*matrix.shape)
    return scipy.sparse.csr_array(mixed, dtype=graph.dtype), halo_exchange


def adjacency_matrix(
    graph: scipy.sparse.csr_array, direction: str, partition: Partition = ALL_ROWS
) -> tuple[scipy.sparse.csr_array, HaloExchange]:
    """Return A, and the halo exchange for products with it."""
    if direction == "directed":
        return graph, partition.halo.exchange
    both, halo_exchange = partition.with_transpose(graph)
    if direction == "symmetric":
        return both / 2, halo_exchange
    degree = np.asarray(both.sum(axis=1)).ravel()
    scale = 1 / np.sqrt(np.where(degree > 0, degree, 1))
    right = halo_exchange(torch.from_numpy(scale)).numpy()
    values = np.repeat(scale, np.diff(both.indptr)) * both.data * right[both.indices]
    return scipy.sparse.csr_array((values, both.indices, both.indptr), shape=both.shape), halo_exchange
