"""A compiled search of rows that lie in groups, for many queries at once.

The queries that probe a group are multiplied with its rows in one matrix product, so that a row is loaded once for all
of them and not once for each.
"""

# mypy: disable-error-code="no-untyped-def"

import numpy as np
from numba import njit

_QUERIES, _ROWS = 128, 512  # multiplied at once: their products stay in a core's cache


# Sums may be reordered, so that they can be vectorised; infinities keep their meaning.
@njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def nearest_in_groups(
    start,
    stop,
    queries,  # (r, d) float32
    probed,  # (r, p) groups of each query
    origins,  # (g, d) float32, of which rows and queries are counted
    bounds,  # (g + 1,) where the rows of a group begin
    rows,  # (n, d) float32, less the origin of their group
    halves,  # (n,) half the squares of the rows, or zeros where products alone count
    numbers,  # (n,) of the rows
    out_numbers,  # (r, count) to be filled; -1 where the groups have fewer rows
    out_scores,  # (r, count)
):
    """Find the rows of highest score in the groups that each query probes: minus half the squared distance.

    Differences from an origin nearby lose no digits where all rows are far from zero.
    """
    n_groups, width, count = len(origins), queries.shape[1], out_numbers.shape[1]
    ends = np.zeros(n_groups + 1, np.int64)
    for i in range(start, stop):
        for group in probed[i]:
            ends[group + 1] += 1
        for place in range(count):
            out_numbers[i, place], out_scores[i, place] = -1, -np.inf
    ends = np.cumsum(ends)
    places = ends[:-1].copy()
    by_group = np.empty(ends[-1], np.int64)
    for i in range(start, stop):
        for group in probed[i]:
            by_group[places[group]] = i
            places[group] += 1
    some, squares = np.empty((_QUERIES, width), np.float32), np.empty(_QUERIES, np.float32)
    products = np.empty(_QUERIES * _ROWS, np.float32)
    for group in range(n_groups):
        for begin in range(ends[group], ends[group + 1], _QUERIES):
            end = min(begin + _QUERIES, ends[group + 1])
            for entry in range(begin, end):
                square = np.float32(0)
                for channel in range(width):
                    value = queries[by_group[entry], channel] - origins[group, channel]
                    some[entry - begin, channel] = value
                    square += value * value
                squares[entry - begin] = square / 2
            for first in range(bounds[group], bounds[group + 1], _ROWS):
                last = min(first + _ROWS, bounds[group + 1])
                table = products[: (end - begin) * (last - first)].reshape(end - begin, last - first)
                np.dot(some[: end - begin], rows[first:last].T, table)
                for entry in range(begin, end):
                    i = by_group[entry]
                    _insert(
                        table[entry - begin],
                        squares[entry - begin],
                        first,
                        halves,
                        numbers,
                        out_numbers[i],
                        out_scores[i],
                    )


@njit(nogil=True, cache=True, error_model="numpy")
def _insert(products, square, first, halves, numbers, best, scores):
    """Put rows into the sorted list of a query where they score higher than its last; of equals the first stays."""
    lowest = scores[-1]
    for column in range(len(products)):
        score = products[column] - halves[first + column] - square
        if score > lowest:
            place = len(scores) - 1
            while place > 0 and scores[place - 1] < score:
                scores[place], best[place] = scores[place - 1], best[place - 1]
                place -= 1
            scores[place], best[place] = score, numbers[first + column]
            lowest = scores[-1]
