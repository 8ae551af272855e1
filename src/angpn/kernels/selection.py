"""Compiled loops that make lists of the smallest entries of rows, of those from ``start`` to ``stop`` and no others.

The key of an entry may be in error: the true one is at most half the ``slack`` of its row below, and at most as much
and the ``width`` of its column above. Entries are kept in the order of their columns.
"""

# mypy: disable-error-code="no-untyped-def"

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

_compile: Callable[[Callable[..., Any]], Callable[..., Any]] = njit(nogil=True, cache=True, error_model="numpy")
# Sums may be reordered, so that they can be vectorised; infinities and NaN keep their meaning.
_compile_sums: Callable[[Callable[..., Any]], Callable[..., Any]] = njit(
    nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"}
)

_STRIDE = 512  # entries that are looked at before some are dropped
_COUNTED = 256  # up to so many entries are sorted by counting smaller ones, which is vectorised
_place = np.uint64  # numba would test whether a signed index is negative


@_compile
def collect_rows(start, stop, block, first, lower, width, count, slack, sizes, limits, columns, keys):
    """Add the entries of some columns, from the ``first`` on, that may be among the ``count`` smallest of their row.

    The key of column j is ``lower[j]`` more than its entry in the block. Row p has ``sizes[p]`` entries so far, with
    keys up to ``limits[p]``; a size of -1 says that there was no room for all, and that the row is left alone.
    """
    room = columns.shape[1]
    mine, values, scratch = _work_space(room, keys)
    lower = lower[first : first + block.shape[1]]
    for p in range(start, stop):
        size = sizes[p]
        for entry in range(size):
            mine[entry], values[entry] = columns[p, entry], keys[p, entry]
        size, limits[p] = _collect(
            block[p], first, lower, width, slack[p], count, room, size, limits[p], mine, values, scratch
        )
        for entry in range(size):
            columns[p, entry], keys[p, entry] = mine[entry], values[entry]
        sizes[p] = size


@_compile_sums
def nearest_rows(
    start,
    stop,
    rows,  # (r, d) float64, as are the next three
    row_squares,
    features,  # (n, d)
    squares,
    rounding,  # a squared distance of at most so much of the two squares is 0
    factor,  # of distances; 0 asks for squared ones
    unit,  # of keys in squared distances
    lower,
    width,
    slack,
    sizes,
    limits,
    columns,
    keys,
    out_columns,  # (r, count), to be filled, as are the next two
    out_distances,
    done,
):
    """Compute the distances of collected entries in float64, and sort the smallest.

    Not done are rows without room for all entries, those in which another ties with the last, and those in which a key
    is wrong by more than it may be.
    """
    room, count = columns.shape[1], out_columns.shape[1]
    scratch = np.empty(room, keys.dtype)
    mine, distances = np.empty(room + 3, columns.dtype), np.empty(room + 3)
    for p in range(start, stop):
        done[p] = False
        if sizes[p] < count:
            continue
        size, _ = _drop(sizes[p], width, slack[p], count, columns[p], keys[p], scratch)
        for entry in range(size + 3):  # the last again, so that one loop computes all products, and equal rows tie
            mine[entry] = columns[p, min(entry, size - 1)]
        row = rows[p]
        for entry in range(0, size, 4):  # four at once: the row is loaded once, and no sum waits for another
            a, b = features[mine[entry]], features[mine[entry + 1]]
            c, d = features[mine[entry + 2]], features[mine[entry + 3]]
            sum_a, sum_b, sum_c, sum_d = 0.0, 0.0, 0.0, 0.0
            for channel in range(row.shape[0]):
                value = row[channel]
                sum_a += value * a[channel]
                sum_b += value * b[channel]
                sum_c += value * c[channel]
                sum_d += value * d[channel]
            distances[entry], distances[entry + 1] = sum_a, sum_b
            distances[entry + 2], distances[entry + 3] = sum_c, sum_d
        right = True
        for entry in range(size):
            j, product = mine[entry], distances[entry]
            error = abs(np.float64(keys[p, entry]) - lower[j] + unit * product)
            right &= error <= 0.5 * (np.float64(width[j]) + slack[p])
            scale = row_squares[p] + squares[j]
            squared = scale - 2 * product
            squared = 0.0 if squared <= rounding * scale else squared
            distances[entry] = np.sqrt(squared) * factor if factor else squared
        if right:
            done[p] = _sort(size, mine, distances, out_columns[p], out_distances[p])


@_compile
def smallest_rows(start, stop, block, out_columns, out_values, done):
    """Sort the smallest entries of each row; not done where another ties with the last."""
    n, count = block.shape[1], out_columns.shape[1]
    room = 2 * count + _STRIDE // 4
    columns, keys, scratch = _work_space(room, block)
    exact, none, limit = np.zeros(n, block.dtype), block.dtype.type(0), block.dtype.type(np.inf)
    for p in range(start, stop):
        size, _ = _collect(block[p], 0, exact, exact, none, count, room, 0, limit, columns, keys, scratch)
        done[p] = False
        if size >= count:
            size, _ = _drop(size, exact, none, count, columns, keys, scratch)
            done[p] = _sort(size, columns, keys, out_columns[p], out_values[p])


@_compile
def tied_rows(start, stop, rows, block, priorities, out_columns, out_values):
    """Sort the smallest entries of some rows of a block; those of lowest priority take the last places of a tie."""
    n, count = block.shape[1], out_columns.shape[1]
    scratch, tied = np.empty(n, block.dtype), np.empty(n, priorities.dtype)
    columns, values = np.empty(count, np.int32), np.empty(count, block.dtype)
    for p in range(start, stop):
        row, priority = block[rows[p]], priorities[p]
        for j in range(n):
            scratch[j] = row[j]
        last = _smallest(scratch, n, count)
        n_below, n_tied = 0, 0
        for j in range(n):
            n_below += row[j] < last
            if row[j] == last:
                tied[n_tied] = priority[j]
                n_tied += 1
        limit = _smallest(tied, n_tied, count - n_below)
        n_equal = count - n_below  # places for those whose priority is the limit itself
        for j in range(n):
            n_equal -= row[j] == last and priority[j] < limit
        size = 0
        for j in range(n):
            equal = row[j] == last and priority[j] == limit
            if row[j] < last or (row[j] == last and priority[j] < limit) or (equal and n_equal > 0):
                columns[size], values[size] = j, row[j]
                size += 1
                n_equal -= equal
        _sort(size, columns, values, out_columns[rows[p]], out_values[rows[p]])


@_compile
def repeats_rows(start, stop, lists, n, repeats):
    """Tell whether a list names one of n columns twice."""
    listed_by = np.full(n, -1, np.int64)
    for i in range(start, stop):
        repeats[i] = False
        for entry in range(lists.shape[1]):
            j = lists[i, entry]
            if listed_by[j] == i:
                repeats[i] = True
            listed_by[j] = i


@_compile
def _work_space(room, keys):
    """Return columns and keys of entries, and room for their keys again."""
    size = room + _STRIDE
    return np.empty(size, np.int32), np.empty(size, keys.dtype), np.empty(size, keys.dtype)


@_compile
def _collect(row, first, lower, width, slack, count, room, size, limit, columns, keys, scratch):
    """Add the entries of a row that may be among the smallest; return how many there are, and the limit of keys."""
    begin = 0
    while size >= 0 and begin < len(row):
        place, end = _place(size), min(begin + _STRIDE, len(row))
        # Without a branch, which would often be mispredicted: what is not wanted is overwritten.
        for j in range(begin, end):
            key = lower[j] + row[j]
            keys[place], columns[place] = key, first + j
            place += _place(key <= limit)
        size, begin = np.int64(place), end
        if size > room:
            size, limit = _drop(size, width, slack, count, columns, keys, scratch)
            if size > room:
                size = -1
    return size, limit


@_compile
def _drop(size, width, slack, count, columns, keys, scratch):
    """Drop entries that cannot be among the smallest; return how many are left, and the limit of their keys."""
    for entry in range(size):
        scratch[entry] = keys[entry] + width[_place(columns[entry])]
    limit = _smallest(scratch, size, count) + slack
    left = _place(0)
    for entry in range(size):
        key, column = keys[entry], columns[entry]
        keys[left], columns[left] = key, column
        left += _place(key <= limit)
    return np.int64(left), limit


@_compile
def _smallest(values, size, count):
    """Return the ``count``-th smallest of the first ``size`` values, which are overwritten."""
    while True:
        a, b, c = values[0], values[size // 2], values[size - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        n_below, n_above = 0, 0
        for place in range(size):
            n_below += values[place] < pivot
            n_above += values[place] > pivot
        if n_below < count <= size - n_above:
            return pivot
        left = _place(0)
        if count <= n_below:
            for place in range(size):
                value = values[place]
                values[left] = value
                left += _place(value < pivot)
        else:
            count -= size - n_above
            for place in range(size):
                value = values[place]
                values[left] = value
                left += _place(value > pivot)
        size = np.int64(left)


@_compile
def _sort(size, columns, values, out_columns, out_values):
    """Write the smallest values in order, those of one value by column; False if another ties with the last."""
    count = len(out_columns)
    if size > _COUNTED:
        order = np.argsort(values[:size], kind="mergesort")
        for place in range(count):
            out_columns[place], out_values[place] = columns[order[place]], values[order[place]]
        return size == count or values[order[count]] != values[order[count - 1]]
    next_value = values[0] + np.inf
    for entry in range(size):
        value, rank = values[entry], 0
        for other in range(entry):
            rank += values[other] <= value
        for other in range(entry + 1, size):
            rank += values[other] < value
        if rank < count:
            out_columns[rank], out_values[rank] = columns[entry], value
        elif rank == count:
            next_value = value
    return size == count or next_value != out_values[count - 1]
