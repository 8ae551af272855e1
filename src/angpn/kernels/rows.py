"""The compiled loops. Each works on a range from ``start`` to ``stop`` and writes to nothing outside it.

A graph may hold only some rows of S, those ``chosen``: its p-th row belongs to row i = ``chosen[p]`` of the data. It is
held by its support: row p has ``sizes[p]`` entries, in columns ``columns[p, :sizes[p]]`` with weights
``weights[p, :sizes[p]]``; what lies beyond is undefined.

They are in one file, since they call each other, and numba's cache looks for changes in the file of a loop alone.
"""

# mypy: disable-error-code="no-untyped-def"

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

# Sums may be reordered, so that they can be vectorised; infinities and NaN keep their meaning.
compile_loop: Callable[[Callable[..., Any]], Callable[..., Any]] = njit(
    nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"}
)
# The same without fused multiplications: the products of equal rows are then equal to the last bit.
_compile_unfused: Callable[[Callable[..., Any]], Callable[..., Any]] = njit(
    nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "nsz"}
)


@compile_loop
def step_rows(
    start,
    stop,
    chosen,
    indices,
    distances,
    graph_features,  # F
    inverse,  # 1 / |f_i| where the graph is made from rows of unit length, else 1
    affinity_bound,  # at least |<f_i, f_j>| for all j, with the above
    beta,
    gamma,
    n_neighbors,
    printed,
    sizes,  # the support of S, to be filled; -1 where a score overflows
    columns,
    weights,
    directed,  # whether to propagate as well; otherwise what follows is not used
    alpha,
    inputs,  # H
    out,  # the next F
):
    """Run one alternation of Algorithm 1: S by Eq. (9), by either rule, then F by Eq. (13).

    Candidates come nearest first, so as soon as one could not enter the support even with the largest affinity that
    ``affinity_bound`` allows, none after it can.
    """
    m = indices.shape[1]
    zero, one = graph_features.dtype.type(0), graph_features.dtype.type(1)
    k = min(n_neighbors, m)
    score = np.empty(m, graph_features.dtype)
    for p in range(start, stop):
        i = chosen[p]
        row, mine, near = graph_features[i], indices[i], distances[i]
        scale, weight = one / (2 * gamma[i]), beta * inverse[i]
        threshold = -np.inf
        if printed:
            total = zero
            for entry in range(n_neighbors):
                total += near[entry]
            threshold = -(one + total * scale) / n_neighbors  # -eta
        used = 0
        while used < m:
            if used >= k:
                if threshold == -np.inf:
                    # (sum of some scores - 1) / (how many they are) never exceeds the threshold of the projection.
                    total = zero
                    for entry in range(k):
                        total += score[entry]
                    threshold = (total - one) / k
                if (beta * affinity_bound[i] - near[used]) * scale < threshold:
                    break
            if used + 4 <= m:  # four at once: the row is loaded once, and no sum waits for another
                a, b = graph_features[mine[used]], graph_features[mine[used + 1]]
                c, d = graph_features[mine[used + 2]], graph_features[mine[used + 3]]
                sum_a, sum_b, sum_c, sum_d = zero, zero, zero, zero
                for channel in range(row.shape[0]):
                    value = row[channel]
                    sum_a += value * a[channel]
                    sum_b += value * b[channel]
                    sum_c += value * c[channel]
                    sum_d += value * d[channel]
                score[used] = (weight * inverse[mine[used]] * sum_a - near[used]) * scale
                score[used + 1] = (weight * inverse[mine[used + 1]] * sum_b - near[used + 1]) * scale
                score[used + 2] = (weight * inverse[mine[used + 2]] * sum_c - near[used + 2]) * scale
                score[used + 3] = (weight * inverse[mine[used + 3]] * sum_d - near[used + 3]) * scale
                used += 4
            else:
                score[used] = (
                    weight * inverse[mine[used]] * _dot(row, graph_features[mine[used]]) - near[used]
                ) * scale
                used += 1
        total, largest = zero, score[0]
        for entry in range(used):
            total += score[entry]
            largest = max(largest, score[entry])
        if not np.isfinite(total):
            sizes[p] = -1
            continue
        if printed:
            sizes[p] = _keep_above(threshold, used, score, mine, columns[p])
            for entry in range(sizes[p]):
                weights[p, entry] = score[entry] - threshold
        else:
            sizes[p] = _project(threshold, largest, used, score, mine, columns[p], weights[p])
        if directed:
            own, following = inputs[i], out[p]
            for channel in range(own.shape[0]):
                following[channel] = (one - alpha) * own[channel]
            _add_rows(sizes[p], columns[p], weights[p], alpha, inputs, following)


@compile_loop
def _project(bound, largest, used, score, taken, columns, weights):
    """Project the scores onto the simplex: fill in support and weights, and return how many they are.

    ``bound`` is not above the threshold, but for rounding, and ``largest`` is the largest score.
    """
    zero, one = score.dtype.type(0), score.dtype.type(1)
    # The largest is subtracted, since beside scores of 1e8 the 1 would be lost; scores 1 below it get no weight.
    for entry in range(used):
        score[entry] -= largest
    rounding = score.dtype.type(1e-5) * (one + abs(largest))
    kept = _keep_above(max(bound - largest - rounding, -one), used, score, taken, columns)
    while True:  # raise the threshold to that of the entries above it, until all stay
        total = zero
        for entry in range(kept):
            total += score[entry]
        threshold = (total - one) / kept
        left = _keep_above(threshold, kept, score, columns, columns)
        if left == kept:
            break
        kept = left
    total = zero
    for entry in range(kept):
        total += score[entry] - threshold
    for entry in range(kept):
        weights[entry] = (score[entry] - threshold) / total
    return kept


@compile_loop
def _keep_above(threshold, used, score, taken, columns):
    """Move the scores above the threshold, and their columns, to the front; return how many they are."""
    kept = 0
    for entry in range(used):
        value = score[entry]
        columns[kept] = taken[entry]
        score[kept] = value
        kept += 1 if value > threshold else 0  # no branch, so none to predict
    return kept


@compile_loop
def inverse_lengths(start, stop, features, inverse):
    """Compute 1 / |f_i|, or 0 for a row of no length, as :func:`angpn.anfp.algorithm.unit_rows`."""
    for i in range(start, stop):
        square = _dot(features[i], features[i])
        inverse[i] = 1 / np.sqrt(square) if square > 1e-12 else 0


@compile_loop
def clear_rows(start, stop, values):
    """Set rows to zero."""
    values[start:stop] = 0


@compile_loop
def aggregate_rows(start, stop, chosen, sizes, columns, weights, keep, factor, features, out):
    """Add keep * f_i + factor * sum_j w_pj f_j to out_p."""
    for p in range(start, stop):
        own, mine = features[chosen[p]], out[p]
        for channel in range(mine.shape[0]):
            mine[channel] += keep * own[channel]
        _add_rows(sizes[p], columns[p], weights[p], factor, features, mine)


@compile_loop
def transpose(sizes, columns, ends, sources, places):
    """List by column j, in the order of rows, the rows p it is an entry of, and where in the flat weights.

    ``ends[j]`` says where the list of j ends; the first starts at 0. On one thread: it is a matter of one read and one
    write an entry, and sharing that out costs more than it saves.
    """
    n, m = columns.shape
    ends[:] = 0
    for p in range(n):
        for entry in range(sizes[p]):
            ends[columns[p, entry]] += 1
    total = 0
    for j in range(ends.shape[0]):
        total, ends[j] = total + ends[j], total
    for p in range(n):
        for entry in range(sizes[p]):
            place = ends[columns[p, entry]]
            sources[place] = p
            places[place] = p * m + entry
            ends[columns[p, entry]] = place + 1


@compile_loop
def aggregate_transposed_rows(start, stop, ends, sources, places, weights, factor, features, out):
    """Add factor * sum_s w_sj f_s over its sources s to out_j; weights are flat."""
    values = np.empty(_longest(start, stop, ends), weights.dtype)
    for j in range(start, stop):
        first = ends[j - 1] if j > 0 else 0
        for entry in range(first, ends[j]):
            values[entry - first] = weights[places[entry]]
        _add_rows(ends[j] - first, sources[first:], values, factor, features, out[j])


@compile_loop
def _longest(start, stop, ends):
    """Return the length of the longest list."""
    longest = 0
    for j in range(start, stop):
        longest = max(longest, ends[j] - (ends[j - 1] if j > 0 else 0))
    return longest


@compile_loop
def gradient_rows(
    start,
    stop,
    chosen,
    sizes,
    columns,
    factor,
    a,  # by row of the graph
    b,  # by row of the data
    both,  # only where the graph has all rows, so that the two are the same
    of_degree,
    scale,  # beta / (2 gamma_i)
    printed,
    graph_features,
    inverse,
    of_affinities,  # to be filled, on the support
    of_graph_features,  # to be filled in the chosen rows
    keep,
    of_inputs,
):
    """Go back through the graph, as far as it stays in the row; add keep * a_p to its row of ``of_inputs``.

    The gradient of a weight is ``factor * <a_p, b_j>``, plus ``factor * <b_i, a_j>`` if both, plus what the degrees of
    its two ends add. The Jacobian of the rule takes it to the affinities: on the support it subtracts the mean for
    "simplex", nothing for "printed". An affinity passes it on to the features of its row; what it passes to the other
    end is left to the transposed graph. Both are gradients of the rows at unit length, where ``inverse`` is that.
    """
    zero, one = a.dtype.type(0), a.dtype.type(1)
    values = np.empty(columns.shape[1], a.dtype)
    for p in range(start, stop):
        i = chosen[p]
        size, mine, gradient = sizes[p], columns[p], of_affinities[p]
        _products(size, mine, a[p], b, gradient)
        if both:
            for entry in range(size):
                gradient[entry] += _dot(b[i], a[mine[entry]])
        mean = zero
        for entry in range(size):
            gradient[entry] = factor * gradient[entry] + of_degree[i] + of_degree[mine[entry]]
            mean += gradient[entry]
        mean = mean / size if not printed else zero
        for entry in range(size):
            gradient[entry] = (gradient[entry] - mean) * scale[i]
            values[entry] = gradient[entry] * inverse[mine[entry]]
        of_graph_features[i, :] = 0
        _add_rows(size, mine, values, one, graph_features, of_graph_features[i])
        if keep != zero:
            for channel in range(a.shape[1]):
                of_inputs[i, channel] += keep * a[p, channel]


@compile_loop
def transposed_gradient_rows(
    start,
    stop,
    ends,
    sources,
    places,
    chosen,
    factor,
    weights,  # flat
    of_output,  # by row of the graph
    of_inputs,
    of_affinities,  # flat
    graph_features,
    inverse,
    normalize,
    of_graph_features,
):
    """Go back through the transposed graph: from the sources s of j, the rows of the graph that j is an entry of, to j.

    Add factor * sum_s w_sj g_s to ``of_inputs``, and what the affinities of s with j pass on to ``of_graph_features``.
    If ``normalize``, the latter is then turned from the gradient of the rows at unit length into that of the rows.
    """
    one = weights.dtype.type(1)
    longest = _longest(start, stop, ends)
    values, rows = np.empty(longest, weights.dtype), np.empty(longest, np.int32)
    for j in range(start, stop):
        first = ends[j - 1] if j > 0 else 0
        size = ends[j] - first
        for entry in range(size):
            values[entry] = weights[places[first + entry]]
        if factor != 0:
            _add_rows(size, sources[first:], values, factor, of_output, of_inputs[j])
        for entry in range(size):
            rows[entry] = chosen[sources[first + entry]]
            values[entry] = of_affinities[places[first + entry]] * inverse[rows[entry]]
        _add_rows(size, rows, values, one, graph_features, of_graph_features[j])
    if normalize:
        unit_gradient_rows(start, stop, graph_features, inverse, of_graph_features)


@compile_loop
def unit_gradient_rows(start, stop, features, inverse, gradient):
    """Turn the gradient of the rows at unit length into that of the rows themselves, in place."""
    for i in range(start, stop):
        row, mine = features[i], gradient[i]
        along = inverse[i] * inverse[i] * _dot(row, mine)
        for channel in range(mine.shape[0]):
            mine[channel] = inverse[i] * (mine[channel] - along * row[channel])


@compile_loop
def _products(size, columns, row, features, out):
    """Compute <row, f_j> for the columns j; four at once: the row is loaded once, and no sum waits for another."""
    zero = row.dtype.type(0)
    entry = 0
    while entry + 4 <= size:
        a, b = features[columns[entry]], features[columns[entry + 1]]
        c, d = features[columns[entry + 2]], features[columns[entry + 3]]
        sum_a, sum_b, sum_c, sum_d = zero, zero, zero, zero
        for channel in range(row.shape[0]):
            value = row[channel]
            sum_a += value * a[channel]
            sum_b += value * b[channel]
            sum_c += value * c[channel]
            sum_d += value * d[channel]
        out[entry], out[entry + 1], out[entry + 2], out[entry + 3] = sum_a, sum_b, sum_c, sum_d
        entry += 4
    while entry < size:
        out[entry] = _dot(row, features[columns[entry]])
        entry += 1


@compile_loop
def _dot(a, b):
    total = a.dtype.type(0)
    for channel in range(a.shape[0]):
        total += a[channel] * b[channel]
    return total


@compile_loop
def _add_rows(size, columns, weights, factor, features, out):
    """Add factor * sum over the entries of weight * row of features; four at once, to touch ``out`` less often."""
    width = out.shape[0]
    entry = 0
    while entry + 4 <= size:
        a, b = features[columns[entry]], features[columns[entry + 1]]
        c, d = features[columns[entry + 2]], features[columns[entry + 3]]
        weight_a, weight_b = factor * weights[entry], factor * weights[entry + 1]
        weight_c, weight_d = factor * weights[entry + 2], factor * weights[entry + 3]
        for channel in range(width):
            out[channel] += (
                weight_a * a[channel] + weight_b * b[channel] + weight_c * c[channel] + weight_d * d[channel]
            )
        entry += 4
    while entry < size:
        a, weight_a = features[columns[entry]], factor * weights[entry]
        for channel in range(width):
            out[channel] += weight_a * a[channel]
        entry += 1


@compile_loop
def sparse_product_rows(start, stop, lists, row_starts, row_columns, row_values, starts, columns, values, width, out):
    """Compute out_il = <r_i, x_j> with j the l-th candidate of i, for two CSR matrices of ``width`` columns."""
    row = np.zeros(width, values.dtype)
    for i in range(start, stop):
        for place in range(row_starts[i], row_starts[i + 1]):
            row[row_columns[place]] = row_values[place]
        for entry in range(lists.shape[1]):
            j = lists[i, entry]
            total = values.dtype.type(0)
            for place in range(starts[j], starts[j + 1]):
                total += row[columns[place]] * values[place]
            out[i, entry] = total
        for place in range(row_starts[i], row_starts[i + 1]):
            row[row_columns[place]] = 0


@_compile_unfused
def weighted_sum_rows(start, stop, lists, weights, values, out):
    """Compute out_i = sum_l w_il v_j with j the l-th candidate of i, in the precision of the weights; many are zero."""
    total = np.empty(values.shape[1], weights.dtype)
    for i in range(start, stop):
        total[:] = 0
        for entry in range(lists.shape[1]):
            weight = weights[i, entry]
            if weight != 0:
                row = values[lists[i, entry]]
                for channel in range(row.shape[0]):
                    total[channel] += weight * row[channel]
        out[i] = total


@_compile_unfused
def squared_distance_rows(start, stop, lists, rows, row_inverse, features, inverse, chord, out):
    """Compute out_il = |r_i - x_j|^2 with j the l-th candidate of i, of rows at unit length where ``chord``.

    From differences, so that equal rows are at 0. An empty row has cosine 0 with all others.
    """
    zero = features.dtype.type(0)
    for i in range(start, stop):
        row, mine = rows[i], out[i]
        for entry in range(lists.shape[1]):
            other = features[lists[i, entry]]
            total = zero
            if chord:
                scale, other_scale = row_inverse[i], inverse[lists[i, entry]]
                for channel in range(row.shape[0]):
                    difference = scale * row[channel] - other_scale * other[channel]
                    total += difference * difference
                if scale == 0 or other_scale == 0:
                    total = zero + 2
            else:
                for channel in range(row.shape[0]):
                    difference = row[channel] - other[channel]
                    total += difference * difference
            mine[entry] = total
