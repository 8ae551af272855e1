"""The compiled loops. Each works on rows ``start`` to ``stop`` and writes to no other row.

A graph is held by its support: row i has ``sizes[i]`` entries, in columns ``columns[i, :sizes[i]]`` with weights
``weights[i, :sizes[i]]``; what lies beyond is undefined.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

# Sums may be reordered, so that they can be vectorised; infinities and NaN keep their meaning.
_compile: Callable[[Callable[..., Any]], Callable[..., Any]] = njit(
    nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"}
)


@_compile
def graph_rows(  # type: ignore[no-untyped-def]
    start, stop, indices, distances, features, reach, beta, gamma, n_neighbors, printed, sizes, columns, weights
):
    """Eq. (9) by either rule: the support of each row of S. False where a score is not finite.

    ``reach[i]`` bounds ``|<f_i, f_j>|`` over all j. Candidates come nearest first, so as soon as one could not enter
    the support even with an affinity of ``reach[i]``, none after it can.
    """
    m = indices.shape[1]
    zero, one = features.dtype.type(0), features.dtype.type(1)
    k = min(n_neighbors, m)
    score = np.empty(m, features.dtype)
    finite = True
    for i in range(start, stop):
        scale = one / (2 * gamma[i])
        row = features[i]
        if printed:
            near = zero
            for entry in range(n_neighbors):
                near += distances[i, entry]
            threshold = -one / n_neighbors - near * scale / n_neighbors  # -eta
        else:
            threshold = -np.inf
        used = 0
        total = zero
        while used < m:
            if used >= k and (beta * reach[i] - distances[i, used]) * scale <= threshold:
                break
            affinity = zero
            if beta > 0:
                other = features[indices[i, used]]
                for channel in range(row.shape[0]):
                    affinity += row[channel] * other[channel]
            score[used] = (beta * affinity - distances[i, used]) * scale
            total += score[used]
            used += 1
            if used == k and not printed:
                # (sum of any scores - 1) / (how many) never exceeds the threshold of the projection.
                threshold = (total - one) / k
        largest = score[0]
        for entry in range(1, used):
            largest = max(largest, score[entry])
        if not np.isfinite(largest):
            finite = False
            sizes[i] = 0
            continue
        kept = 0
        if printed:
            for entry in range(used):
                columns[i, kept] = indices[i, entry]
                weights[i, kept] = score[entry] - threshold
                kept += 1 if score[entry] > threshold else 0
            sizes[i] = kept
            continue
        # Projection onto the simplex: shifted by the largest score, lest the 1 be lost beside scores of 1e8, then the
        # threshold is raised to that of the entries above it until none of them falls below.
        threshold = max(threshold - largest, -one)
        for entry in range(used):
            shifted = score[entry] - largest
            columns[i, kept] = indices[i, entry]
            score[kept] = shifted
            kept += 1 if shifted > threshold else 0
        while True:
            total = zero
            for entry in range(kept):
                total += score[entry]
            threshold = (total - one) / kept
            left = 0
            for entry in range(kept):
                shifted = score[entry]
                columns[i, left] = columns[i, entry]
                score[left] = shifted
                left += 1 if shifted > threshold else 0
            if left == kept:
                break
            kept = left
        total = zero
        for entry in range(kept):
            total += score[entry] - threshold
        for entry in range(kept):
            weights[i, entry] = (score[entry] - threshold) / total
        sizes[i] = kept
    return finite


@_compile
def gather_rows(start, stop, sizes, columns, weights, factor, features, out):  # type: ignore[no-untyped-def]
    """out_i += factor * sum_j w_ij f_j."""
    for i in range(start, stop):
        mine = out[i]
        for entry in range(sizes[i]):
            weight = factor * weights[i, entry]
            other = features[columns[i, entry]]
            for channel in range(mine.shape[0]):
                mine[channel] += weight * other[channel]


@_compile
def scatter_rows(start, stop, sizes, columns, weights, factor, features, out):  # type: ignore[no-untyped-def]
    """out_j += factor * sum_i w_ij f_i, for the j from start to stop: every thread reads all rows, in order."""
    for i in range(sizes.shape[0]):
        mine = features[i]
        for entry in range(sizes[i]):
            j = columns[i, entry]
            if start <= j < stop:
                weight = factor * weights[i, entry]
                other = out[j]
                for channel in range(mine.shape[0]):
                    other[channel] += weight * mine[channel]


@_compile
def product_rows(start, stop, sizes, columns, factor, a, b, both, out):  # type: ignore[no-untyped-def]
    """out_ij = factor * <a_i, b_j> on the support, plus factor * <b_i, a_j> if both."""
    for i in range(start, stop):
        mine, mine_too = a[i], b[i]
        for entry in range(sizes[i]):
            j = columns[i, entry]
            other = b[j]
            total = a.dtype.type(0)
            for channel in range(mine.shape[0]):
                total += mine[channel] * other[channel]
            if both:
                other = a[j]
                for channel in range(mine.shape[0]):
                    total += mine_too[channel] * other[channel]
            out[i, entry] = factor * total


@_compile
def project_rows(start, stop, sizes, scale, printed, gradient):  # type: ignore[no-untyped-def]
    """From the gradient of the weights to that of the affinities: the Jacobian of the rule, times beta / (2 gamma)."""
    for i in range(start, stop):
        mean = gradient.dtype.type(0)
        if not printed:
            for entry in range(sizes[i]):
                mean += gradient[i, entry]
            mean /= sizes[i]
        for entry in range(sizes[i]):
            gradient[i, entry] = (gradient[i, entry] - mean) * scale[i]


@_compile
def degree_gradient_rows(start, stop, sizes, columns, of_degree, gradient):  # type: ignore[no-untyped-def]
    """gradient_ij += of_degree_i + of_degree_j: a weight counts in the degree of both its ends."""
    for i in range(start, stop):
        for entry in range(sizes[i]):
            gradient[i, entry] += of_degree[i] + of_degree[columns[i, entry]]
