"""Chebyshev-filtered subspace iteration (Zhou et al., 2006): the smallest eigenvectors of a large sparse matrix.

A polynomial of the matrix damps what belongs to large eigenvalues, and a Rayleigh-Ritz step separates what is left.
Almost all of the time is spent in products with the matrix, whereas LOBPCG solves dense problems of three blocks of
vectors after every single product: of a million rows these take longer than the products.
"""

from collections.abc import Callable

import numpy as np
import scipy.linalg

from angpn.kernels.threads import one_library_thread
from angpn.utils.typing import Array

_DEGREE = 12  # of the polynomial: products between two Rayleigh-Ritz steps
_BLOCK_ROWS = 2**15  # of inner products that are summed in float64
_SMALLEST_RATIO = 1e-12  # of eigenvalues of inner products, below which vectors count as dependent


def filtered_subspace(
    product: Callable[[Array], Array],  # (n, b) -> (n, b): with a symmetric matrix
    start: Array,  # (n, b) linearly independent
    count: int,
    *,
    largest: float,
    tol: float,
    max_iter: int,
) -> tuple[Array, Array]:  # (b,), (n, b)
    """Find the smallest eigenvalues of a matrix and their eigenvectors.

    Args:
        product: the product of the matrix with vectors.
        start: vectors to begin with, more than ``count``: the last ones converge slowly.
        count: how many of them are to converge.
        largest: a bound of the largest eigenvalue; the smallest one is not negative.
        tol: norm of the residual of a vector.
        max_iter: filters at most.

    Returns:
        As many eigenvalues as there are vectors, in increasing order, and the orthonormal vectors.
    """
    # What BLAS has to do here is little, and on a busy machine its threads wait for each other longer than that takes.
    with one_library_thread("blas"):
        values, vectors, residuals = _rayleigh_ritz(product, start)
        for _ in range(max_iter):
            if residuals[:count].max() <= tol or values[-1] >= largest:
                break
            vectors = _filter(product, vectors, float(values[0]), float(values[-1]), largest)
            values, vectors, residuals = _rayleigh_ritz(product, vectors)
    return values, vectors


def _filter(product: Callable[[Array], Array], vectors: Array, low: float, cut: float, high: float) -> Array:
    r"""Return :math:`T_m((A - c I) / e) \, V / T_m((low - c) / e)` with c and e the middle and radius of [cut, high].

    Between cut and high Chebyshev's polynomial is at most 1, and below it grows faster than any other.
    """
    radius, middle = (high - cut) / 2, (high + cut) / 2
    first = scale = radius / (low - middle)
    number = vectors.dtype.type

    def step(v: Array, factor: float) -> Array:
        found = product(v)
        found -= number(middle) * v
        found *= number(factor / radius)
        return found

    before, now = vectors, step(vectors, scale)
    for _ in range(_DEGREE - 1):
        following = 1 / (2 / first - scale)
        after = step(now, 2 * following)
        after -= number(scale * following) * before
        before, now, scale = now, after, following
    return now


def _rayleigh_ritz(product: Callable[[Array], Array], vectors: Array) -> tuple[Array, Array, Array]:
    """Return the eigenvalues and -vectors of the matrix within the span of some vectors, and norms of residuals."""
    vectors = _orthonormal(vectors)
    images = product(vectors)
    inner = _inner(vectors, images)
    values, rotation = scipy.linalg.eigh((inner + inner.T) / 2)
    rotation = rotation.astype(vectors.dtype)
    vectors, images = vectors @ rotation, images @ rotation
    images -= vectors * values.astype(vectors.dtype)
    return values, vectors, np.sqrt(np.einsum("ij,ij->j", images, images, dtype=np.float64))


def _orthonormal(vectors: Array) -> Array:
    """Return an orthonormal basis of the span, by inner products in float64; of dependent vectors by QR."""
    lengths = np.sqrt(np.einsum("ij,ij->j", vectors, vectors, dtype=np.float64))
    vectors = vectors / np.where(lengths > 0, lengths, 1).astype(vectors.dtype)
    for _ in range(2):  # once more for what rounding left
        values, basis = scipy.linalg.eigh(_inner(vectors, vectors))
        if values[0] < _SMALLEST_RATIO * values[-1]:
            return np.linalg.qr(vectors)[0]
        vectors = vectors @ (basis / np.sqrt(values)).astype(vectors.dtype)
    return vectors


def _inner(a: Array, b: Array) -> Array:  # (p, q) float64
    found = np.zeros((a.shape[1], b.shape[1]))
    for start in range(0, len(a), _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        found += a[block].T.astype(np.float64) @ b[block].astype(np.float64)
    return found
