"""Eigenvectors of a Laplacian: the features that vary least between neighbours."""

from collections.abc import Callable

import numpy as np
import scipy.linalg
import scipy.sparse
import torch

from angpn.anfp.chebyshev import filtered_subspace
from angpn.neighbors.list_products import sparse_product
from angpn.utils.typing import Array

_GUARD = 5  # vectors beside those wanted: the last ones of a block converge slowly
_SMOOTHING = 10  # products with random vectors to begin with, so that the first cut between eigenvalues is a low one
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

    Subspace iteration works on all vectors at once, so that it finds all of an eigenvalue that comes several times, as
    0 does where a graph has several components; and it can begin with the vectors of a similar graph. Few rows are
    solved densely.

    Args:
        adjacency: A.
        count: how many eigenvalues are wanted.
        normalized: whether the degrees are divided out of L.
        start: vectors of an earlier call.
        tol: norm of the residual of a vector, relative to the largest eigenvalue that L can have.
        max_iter: iterations at most, of several products each.
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
    product = _product(adjacency, root)

    def laplacian(vectors: Array) -> Array:
        found = product(vectors)
        return np.subtract(diagonal[:, None] * vectors, found, out=found)

    largest = 2 * float(diagonal.max(initial=1.0))
    if start is None or start.shape != (n, block):
        start = np.random.default_rng(seed).normal(size=(n, block)).astype(dtype)
        start[:, 0] = root  # the eigenvector of 0
        for _ in range(_SMOOTHING):
            start = start - laplacian(start) / dtype.type(largest)
    values, vectors = filtered_subspace(
        laplacian, np.asarray(start, dtype), count, largest=largest, tol=tol * largest, max_iter=max_iter
    )
    return np.maximum(values[:count], 0).astype(dtype), vectors


def _product(adjacency: scipy.sparse.csr_array, root: Array) -> Callable[[Array], Array]:
    """Return the function that multiplies with A, its rows and columns divided by ``root``, on all threads."""
    starts, columns = (torch.from_numpy(part.astype(np.int32)) for part in (adjacency.indptr, adjacency.indices))
    values = adjacency.data / np.repeat(root, np.diff(adjacency.indptr))
    values /= root[adjacency.indices]
    matrix = starts, columns, torch.from_numpy(values), adjacency.shape[1]
    return lambda vectors: sparse_product(*matrix, torch.from_numpy(np.ascontiguousarray(vectors))).numpy()
