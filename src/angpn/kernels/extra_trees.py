"""Compiled loops of extremely randomised trees: growing them, and sending rows down.

scikit-learn's spend half a millisecond a tree on Python before they look at a row, and there is no way to keep them but
pickle. Here a forest is a few flat arrays, of all trees one after the other.
"""

# mypy: disable-error-code="no-untyped-def"

import numpy as np

from angpn.kernels.rows import compile_loop


@compile_loop
def next_random(state):
    """Advance a generator, ``state`` (1,) uint64, and return a number in [0, 1): SplitMix64."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    return mix(state[0]) / 2.0**64


@compile_loop
def mix(number):
    """Return a hash of 64 bits, SplitMix64's."""
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number ^ (number >> np.uint64(31))


@compile_loop
def grow_tree(columns, codes, weights, n_classes, n_drawn, min_leaf, seed):
    """Return a tree that separates classes: column, threshold and left child of each node, and shares of each leaf.

    A node draws ``n_drawn`` columns that are not constant in it, for each a threshold between its smallest and largest
    value, and takes the pair that leaves the least Gini impurity, of those that leave ``min_leaf`` rows on either side.
    Rows up to the threshold go left, and the right child follows the left one. A leaf has no column (-1), and its
    number among the leaves in place of the left child.

    What a node draws depends on the seed and on the way to the node alone. So a row more changes the nodes that it
    comes to, and not all of the tree.
    """
    n, d = columns.shape
    column, left = np.empty(2 * n, np.int32), np.empty(2 * n, np.int32)
    threshold = np.zeros(2 * n, columns.dtype)
    shares = np.empty((n, n_classes), np.float32)
    order, drawn = np.arange(n), np.arange(d)
    starts, ends = np.empty(2 * n, np.int32), np.empty(2 * n, np.int32)  # of the rows of each node, in that order
    sums, on_left = np.empty(n_classes), np.empty(n_classes)
    keys, state, swapped = np.empty(2 * n, np.uint64), np.empty(1, np.uint64), np.empty(d, np.int32)
    keys[0], starts[0], ends[0] = mix(seed), 0, n
    node, n_nodes, n_leaves = 0, 1, 0
    while node < n_nodes:
        start, end = starts[node], ends[node]
        sums[:] = 0.0
        for i in range(start, end):
            sums[codes[order[i]]] += weights[order[i]]
        total, n_present = 0.0, 0
        for k in range(n_classes):
            total += sums[k]
            n_present += sums[k] > 0
        best_column, best_score, best_threshold = -1, -1.0, threshold[node]
        state[0] = keys[node]
        n_most = d if n_present > 1 and end - start >= 2 * min_leaf else 0
        n_left, n_tried = n_most, 0
        while n_left > 0 and n_tried < n_drawn:
            place = min(int(next_random(state) * n_left), n_left - 1)
            n_left -= 1
            j = drawn[place]
            drawn[place], drawn[n_left] = drawn[n_left], j
            swapped[n_left] = place
            low = high = columns[order[start], j]
            for i in range(start + 1, end):
                value = columns[order[i], j]
                low, high = min(low, value), max(high, value)
            if not low < high:
                continue
            n_tried += 1
            share = next_random(state)
            cut = columns.dtype.type((1 - share) * low + share * high)
            if not low <= cut < high:
                cut = low
            on_left[:] = 0.0
            weight, n_rows = 0.0, 0
            for i in range(start, end):
                row = order[i]
                if columns[row, j] <= cut:
                    on_left[codes[row]] += weights[row]
                    weight += weights[row]
                    n_rows += 1
            if min(n_rows, end - start - n_rows) < min_leaf:
                continue
            score, score_right = 0.0, 0.0
            for k in range(n_classes):
                score += on_left[k] * on_left[k]
                score_right += (sums[k] - on_left[k]) * (sums[k] - on_left[k])
            score = score / max(weight, 1e-300) + score_right / max(total - weight, 1e-300)
            if score > best_score:
                best_column, best_score, best_threshold = j, score, cut
        for place in range(n_left, n_most):  # back into the order of before
            drawn[place], drawn[swapped[place]] = drawn[swapped[place]], drawn[place]
        column[node], threshold[node] = best_column, best_threshold
        if best_column < 0:
            for k in range(n_classes):
                shares[n_leaves, k] = sums[k] / total
            left[node] = n_leaves
            n_leaves += 1
        else:
            middle, last = start, end - 1
            while middle <= last:
                if columns[order[middle], best_column] <= best_threshold:
                    middle += 1
                else:
                    order[middle], order[last] = order[last], order[middle]
                    last -= 1
            left[node] = n_nodes
            keys[n_nodes], keys[n_nodes + 1] = mix(keys[node] + np.uint64(1)), mix(keys[node] + np.uint64(2))
            starts[n_nodes], ends[n_nodes] = start, middle
            starts[n_nodes + 1], ends[n_nodes + 1] = middle, end
            n_nodes += 2
        node += 1
    return column[:n_nodes].copy(), threshold[:n_nodes].copy(), left[:n_nodes].copy(), shares[:n_leaves].copy()


@compile_loop
def grow_trees(columns, codes, weights, n_classes, n_drawn, min_leaf, seeds):
    """Return a tree for each seed, all in arrays one after the other, as :func:`descend_rows` takes them."""
    n = len(codes)
    column, threshold, left = np.empty(2 * n, np.int32), np.empty(2 * n, columns.dtype), np.empty(2 * n, np.int32)
    shares, roots = np.empty((n, n_classes), np.float32), np.empty(len(seeds), np.int32)
    n_nodes = n_leaves = 0
    for tree in range(len(seeds)):
        columns_of, thresholds_of, left_of, shares_of = grow_tree(
            columns, codes, weights, n_classes, n_drawn, min_leaf, seeds[tree]
        )
        nodes, leaves = n_nodes + len(columns_of), n_leaves + len(shares_of)
        if nodes > len(column):
            column, threshold = with_room(column, 2 * nodes), with_room(threshold, 2 * nodes)
            left = with_room(left, 2 * nodes)
        if leaves > len(shares):
            shares = with_room(shares, 2 * leaves)
        roots[tree] = n_nodes
        column[n_nodes:nodes], threshold[n_nodes:nodes] = columns_of, thresholds_of
        for node in range(len(columns_of)):
            left[n_nodes + node] = left_of[node] + (n_leaves if columns_of[node] < 0 else n_nodes)
        shares[n_leaves:leaves] = shares_of
        n_nodes, n_leaves = nodes, leaves
    return column[:n_nodes].copy(), threshold[:n_nodes].copy(), left[:n_nodes].copy(), shares[:n_leaves].copy(), roots


@compile_loop
def with_room(values, size):
    """Return a copy with room for so many."""
    found = np.empty((size,) + values.shape[1:], values.dtype)  # noqa: RUF005 - numba knows no star here
    found[: len(values)] = values
    return found


@compile_loop
def descend_rows(start, stop, columns, column, threshold, left, shares, roots, out):
    """Write to ``out`` (n, c), for the rows in this range, the mean class shares of the leaves they come to.

    Tree after tree, so that one is in the cache for all rows. ``roots`` has the first node of each tree.
    """
    n_classes = out.shape[1]
    out[start:stop] = 0
    for root in roots:
        for i in range(start, stop):
            node = root
            while column[node] >= 0:
                node = left[node] + (columns[i, column[node]] > threshold[node])
            leaf = left[node]
            for k in range(n_classes):
                out[i, k] += shares[leaf, k]
    for i in range(start, stop):
        for k in range(n_classes):
            out[i, k] /= len(roots)
