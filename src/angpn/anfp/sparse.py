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
from angpn.neighbors.neighborhood import ALL_ROWS, Extend, Neighborhood, OneProcess, sparse_product


class PropagatedSparse:
    """P(D, X) for sparse X, as the two factors it is the product of.

    P X has about k times the entries of X; P and X apart are what an epoch should touch.
    """

    def __init__(self, mixing: scipy.sparse.csr_array, features: scipy.sparse.csr_array) -> None:
        self._mixing, self._features = mixing, features  # P (r, n), X (n, d)
        self._factors = _csr(mixing), _csr(features), _csr(features.T), _csr(mixing.T)

    def __matmul__(self, weight: Tensor) -> Tensor:
        return _Product.apply(self._factors, weight)

    def multiplied(self) -> scipy.sparse.csr_array:
        """P X written out, still sparse."""
        return scipy.sparse.csr_array(self._mixing @ self._features)

    def __getitem__(self, rows: Tensor) -> "PropagatedSparse":
        return PropagatedSparse(self._mixing[rows.numpy()], self._features)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, factors: tuple[Any, ...], weight: Tensor) -> Tensor:
        ctx.factors = factors
        mixing, features, _, _ = factors
        return _times(mixing, _times(features, weight.detach()))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        _, _, features_transposed, mixing_transposed = ctx.factors
        return None, _times(features_transposed, _times(mixing_transposed, gradient.contiguous()))


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


def propagate_sparse(hood: Neighborhood, features: scipy.sparse.csr_array, **options: Any) -> PropagatedSparse:
    """F of :func:`angpn.anfp.algorithm.algorithm1` for sparse features."""
    alpha, direction = options["alpha"], options["direction"]
    mixing, extend = _mixing(hood.to_csr(graph_sparse(hood, features, **options)), alpha, direction, hood)
    return PropagatedSparse(mixing, extend(features))


def graph_sparse(hood: Neighborhood, features: scipy.sparse.csr_array, **options: Any) -> Tensor:  # (n, m)
    """S of :func:`angpn.anfp.algorithm.algorithm1` for sparse features, as weights on the candidates."""
    o = Options(**options)
    distances = torch.from_numpy(hood.as_arrays(features.dtype)[1])
    gamma = resolve_gamma(distances, o.n_neighbors, o.gamma, average=hood.average)
    limit = 1 if o.beta == 0 else o.num_steps or o.max_steps
    propagated = features
    for number in range(1, limit + 1):
        affinities = _affinities(hood, propagated, o.normalize) if o.beta > 0 else None
        weights = neighbor_weights(
            distances, affinities, n_neighbors=o.n_neighbors, beta=o.beta, gamma=gamma, rule=o.rule
        )
        if number == limit:
            break
        previous = propagated
        mixing, extend = _mixing(hood.to_csr(weights), o.alpha, o.direction, hood)
        propagated = scipy.sparse.csr_array(mixing @ extend(features))
        if o.num_steps is None:
            sizes = [float(abs(part).max()) for part in (propagated - previous, propagated)]
            change, largest = hood.largest(torch.tensor(sizes, dtype=torch.float64))
            if change <= o.tol * largest:
                break
    return weights


def _affinities(hood: Neighborhood, features: scipy.sparse.csr_array, normalize: bool) -> Tensor:  # (n, m)
    features = hood.extend(features)
    if normalize:
        squares = np.asarray(features.multiply(features).sum(axis=1)).ravel()
        inverse = np.where(squares > 1e-12, 1 / np.sqrt(np.where(squares > 1e-12, squares, 1)), 0)
        features = scipy.sparse.csr_array(scipy.sparse.diags_array(inverse.astype(features.dtype)) @ features)
    features.sum_duplicates()
    lists = hood.as_arrays(features.dtype)[0]
    out = np.empty(lists.shape, features.dtype)
    parts = features.indptr, features.indices, features.data
    over_rows(sparse_product_rows, len(lists), lists, *parts, *parts, features.shape[1], out)
    return torch.from_numpy(out)


def mixing_matrix(graph: scipy.sparse.csr_array, alpha: float, direction: str) -> scipy.sparse.csr_array:
    """P = alpha A + (1 - alpha) I, with A the S of :meth:`Neighborhood.to_csr` or made from it and its transpose."""
    return _mixing(graph, alpha, direction, ALL_ROWS)[0]


def _mixing(
    graph: scipy.sparse.csr_array, alpha: float, direction: str, rows: OneProcess
) -> tuple[scipy.sparse.csr_array, Extend]:
    """The same, and what extends features for a product with it."""
    matrix, extend = neighbor_matrix(graph, direction, rows)
    mixed = alpha * matrix + (1 - alpha) * scipy.sparse.eye_array(*matrix.shape)
    return scipy.sparse.csr_array(mixed, dtype=graph.dtype), extend


def neighbor_matrix(
    graph: scipy.sparse.csr_array, direction: str, rows: OneProcess = ALL_ROWS
) -> tuple[scipy.sparse.csr_array, Extend]:
    """A, and what extends features for a product with it."""
    if direction == "directed":
        return graph, rows.extend
    both, extend = rows.with_transpose(graph)
    if direction == "symmetric":
        return both / 2, extend
    degree = np.asarray(both.sum(axis=1)).ravel()
    scale = 1 / np.sqrt(np.where(degree > 0, degree, 1))
    left, right = (scipy.sparse.diags_array(part) for part in (scale, extend(torch.from_numpy(scale)).numpy()))
    return scipy.sparse.csr_array(left @ both @ right), extend
