"""t-SNE in the plane (van der Maaten, Hinton 2008), compiled.

Sums over all pairs are exact: for a few thousand rows that takes a tenth of the time of the usual trees.
"""

import numpy as np
import scipy.sparse
from numba import njit
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from angpn.utils.typing import Array

_EXAGGERATIONS = 12.0, 6.0, 3.0, 1.0  # of the probabilities at first, so that clusters form before they settle
_FIRST_STEPS, _FIRST_MOMENTUM = 250, 0.5
_STEPS, _MOMENTUM = 750, 0.8
_SPREAD = 1e-4  # standard deviation of the first positions
_BISECTIONS = 64


def tsne(
    rows: Array,  # (n, d)
    *,
    perplexity: float = 30.0,
    random_state: int = 0,
) -> Array:  # (n, 2) float32
    """Place rows in the plane so that neighbours stay close.

    Args:
        rows: The rows, not all of them equal; they are compared by Euclidean distance.
        perplexity: How many neighbours of a row count, less than the number of rows.
        random_state: Seed of the first positions.

    Returns:
        The position of each row.
    """
    joint = joint_probabilities(rows, perplexity)
    first = _first_positions(rows, random_state)
    rate = max(len(rows) / _EXAGGERATIONS[0] / 4, 50.0)
    for exaggeration in _EXAGGERATIONS:
        state = first, np.zeros_like(first), np.ones_like(first)
        state = _descend(joint, *state, exaggeration, rate, _FIRST_STEPS, _FIRST_MOMENTUM)
        # Where hardly any two rows are much nearer than others, all attract each other so exaggerated that they
        # contract to a line or a point instead of forming clusters.
        if (state[0].std(axis=1) > first.std(axis=1)).all():
            break
    return _descend(joint, *state, 1.0, rate, _STEPS, _MOMENTUM)[0].T.copy()


def _descend(
    joint: scipy.sparse.csr_array,  # (n, n)
    positions: Array,  # (2, n), as are the next two
    update: Array,
    gains: Array,
    exaggeration: float,
    rate: float,
    steps: int,
    momentum: float,
) -> tuple[Array, Array, Array]:  # positions, update, gains
    """Descend the divergence by steps with momentum and, for each coordinate, a gain of its own."""
    for _ in range(steps):
        gradient = kl_gradient(joint, positions, exaggeration)
        gains = np.maximum(np.where(update * gradient < 0, gains + 0.2, gains * 0.8), 0.01)
        update = momentum * update - rate * gains * gradient
        positions = positions + update
    return positions, update, gains


def joint_probabilities(
    rows: Array,  # (n, d)
    perplexity: float,
) -> scipy.sparse.csr_array:  # (n, n) float32, symmetric, sums to 1
    """Return the probabilities of pairs, which fall with the distance of their rows; 0 beyond the nearest."""
    n = len(rows)
    n_neighbors = min(n - 1, int(3 * perplexity + 1))
    distances, nearest = NearestNeighbors(n_neighbors=n_neighbors).fit(rows).kneighbors()
    weights = conditional_probabilities(distances.astype(np.float64) ** 2, perplexity)
    starts = np.arange(0, n * n_neighbors + 1, n_neighbors)
    conditional = scipy.sparse.csr_array((weights.reshape(-1), nearest.reshape(-1), starts), shape=(n, n))
    return scipy.sparse.csr_array((conditional + conditional.T) / (2 * n), dtype=np.float32)


def conditional_probabilities(
    squares: Array,  # (n, k)
    perplexity: float,
) -> Array:  # (n, k), rows sum to 1
    """Return the probabilities of the neighbours of each row, normal densities of that perplexity, by bisection."""
    squares = squares - squares.min(axis=1, keepdims=True)
    scale = squares.mean(axis=1, keepdims=True)
    squares = squares / np.where(scale > 0, scale, 1)
    low, high = np.full(len(squares), -30.0), np.full(len(squares), 30.0)  # of the logarithm of the precision
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        weights = np.exp(-np.exp(middle)[:, None] * squares)
        weights /= weights.sum(axis=1, keepdims=True)
        entropy = -(weights * np.log(np.maximum(weights, 1e-300))).sum(axis=1)
        low = np.where(entropy > np.log(perplexity), middle, low)
        high = np.where(entropy > np.log(perplexity), high, middle)
    return weights


def kl_gradient(
    joint: scipy.sparse.csr_array,  # (n, n)
    positions: Array,  # (2, n)
    exaggeration: float = 1.0,
) -> Array:  # (2, n)
    """Return the gradient of the Kullback-Leibler divergence between the probabilities and those of the positions.

    .. math:: 4 \\sum_j (p_{ij} - q_{ij}) (1 + |y_i - y_j|^2)^{-1} (y_i - y_j)
    """
    attraction, repulsion = np.empty_like(positions), np.empty_like(positions)
    total = _sum_pairs(joint.indptr, joint.indices, joint.data, *positions, *attraction, *repulsion)
    return 4 * (np.float32(exaggeration) * attraction - repulsion / positions.dtype.type(total))


def _first_positions(rows: Array, random_state: int) -> Array:  # (2, n) float32
    """Return the first two principal components, small; random positions where there are none."""
    if min(rows.shape) < 2:
        return np.random.default_rng(random_state).normal(0, _SPREAD, (2, len(rows))).astype(np.float32)
    components = PCA(2, svd_solver="randomized", random_state=random_state).fit_transform(rows).T
    return np.ascontiguousarray(components / components[0].std() * _SPREAD, dtype=np.float32)


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"})
def _sum_pairs(starts, columns, joint, x, y, attract_x, attract_y, repel_x, repel_y):  # type: ignore[no-untyped-def]
    """Fill in both parts of the gradient; return the sum of (1 + |y_i - y_j|^2)^-1 over all pairs."""
    zero, one = x.dtype.type(0), x.dtype.type(1)
    total = 0.0
    for i in range(len(x)):
        a, b = zero, zero
        for place in range(starts[i], starts[i + 1]):
            dx, dy = x[i] - x[columns[place]], y[i] - y[columns[place]]
            weight = joint[place] / (one + dx * dx + dy * dy)
            a += weight * dx
            b += weight * dy
        attract_x[i], attract_y[i] = a, b
        a, b, own = zero, zero, zero
        for j in range(len(x)):
            dx, dy = x[i] - x[j], y[i] - y[j]
            weight = one / (one + dx * dx + dy * dy)
            own += weight
            a += weight * weight * dx
            b += weight * weight * dy
        repel_x[i], repel_y[i] = a, b
        total += own - one  # without the pair of i with itself
    return total
