"""Eigenvectors of a Laplacian: the features that vary least between neighbours."""

import warnings
from collections.abc import Callable

import numpy as np
import scipy.linalg
import scipy.sparse
import torch
from scipy.sparse.linalg import LinearOperator, lobpcg

from angpn.neighbors.list_products import sparse_product
from angpn.utils.typing import Array

_GUARD = 5  # vectors beside those wanted: the last ones of a block converge slowly
_SMOOTHING = 10  # products with random vectors to begin with: an iteration of the solver costs as much as several
_DENSE_BLOCKS = 5  # with fewer rows than so many blocks there is nothing to gain from iterations


def symmetric_adjacency(graph: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Return (S + S^T) / 2."""
    return scipy.sparse.csr_array(graph + graph.T) * graph.dtype.type(0.5)  # a half of Python would make it float64


def smallest_eigenvectors(
    adjacency: scipy.sparse.csr_array,  # (n, n) symmetric, not negative
    count: int,
    *,
    normalized: bool,
    start: Array | None = None,  # (n, b) to begin with
    tol: float = 1e-4,
    max_iter: int = 300,
    seed: int = 0,
) -> tuple[Array, Array]:  # (count,), (n, b)
    r"""Return the smallest eigenvalues of a graph's Laplacian, and their eigenvectors and a few more to begin with.

    .. math:: \min_F \; Tr(F^T L F) \quad \text{s.t.} \quad F^T F = I, \quad
              L = Q - A \;\text{ or }\; I - Q^{-1/2} A Q^{-1/2}, \quad Q_{ii} = \sum_j A_{ij}

    LOBPCG works on all vectors at once, so that it finds all of an eigenvalue that comes several times, as 0 does where
    a graph has several components; and it can begin with the vectors of a similar graph. Few rows are solved densely.

    Args:
        adjacency: A.
        count: how many eigenvalues are wanted.
        normalized: whether the degrees are divided out of L.
        start: vectors of an earlier call.
        tol: norm of the residual of a vector, relative to the largest eigenvalue that L can have.
        max_iter: iterations at most.
        seed: seed of the first vectors.

    Returns:
        The eigenvalues in increasing order, and the vectors: of ``count`` at least, in the same order.
    """
    n, dtype = adjacency.shape[0], adjacency.dtype
    degree = np.asarray(adjacency.sum(axis=1), dtype).ravel()
    root = np.sqrt(np.where(degree > 0, degree, dtype.type(1))) if normalized else np.ones(n, dtype)
    diagonal = (degree > 0).astype(dtype) if normalized else degree
    block = count + _GUARD
    if n <= _DENSE_BLOCKS * block:
        dense = np.diag(diagonal) - adjacency.toarray() / root[:, None] / root
        values, vectors = scipy.linalg.eigh(dense)
        return np.maximum(values[:count], 0), vectors[:, :block]
    product = _product(adjacency)

    def laplacian(vectors: Array) -> Array:
        return diagonal[:, None] * vectors - product(vectors / root[:, None]) / root[:, None]

    operator = LinearOperator((n, n), matvec=lambda v: laplacian(v.reshape(n, 1)), matmat=laplacian, dtype=dtype)
    largest = 2 * float(diagonal.max(initial=1.0))
    if start is None or start.shape != (n, block):
        start = np.random.default_rng(seed).normal(size=(n, block)).astype(dtype)
        start[:, 0] = root  # the eigenvector of 0
        for _ in range(_SMOOTHING):
            start = start - laplacian(start) / dtype.type(largest)
    inverse = scipy.sparse.diags_array(1 / np.where(diagonal > 0, diagonal, dtype.type(1)))  # Jacobi's preconditioner
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of vectors of the guard that did not converge
        values, vectors = lobpcg(
            operator, np.asarray(start, dtype), M=inverse, tol=tol * largest, maxiter=max_iter, largest=False
        )
    order = np.argsort(values)
    return np.maximum(values[order][:count], 0), np.ascontiguousarray(vectors[:, order])


def _product(adjacency: scipy.sparse.csr_array) -> Callable[[Array], Array]:
    """Return the function that multiplies with A, on all threads."""
    starts, columns = (torch.from_numpy(part.astype(np.int32)) for part in (adjacency.indptr, adjacency.indices))
    matrix = starts, columns, torch.from_numpy(adjacency.data), adjacency.shape[1]
    return lambda vectors: sparse_product(*matrix, torch.from_numpy(np.ascontiguousarray(vectors))).numpy()
