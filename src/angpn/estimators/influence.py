"""Which rows a prediction came from."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from angpn.utils.typing import Array

Path = list[scipy.sparse.csr_array]  # the propagation matrices that a row's features went through, the last first

ROWS_AT_ONCE = 2000  # of the product along a path, which is denser than each of its matrices
_EXACT_HOPS, _NEGLIGIBLE = 2, 1e-3


class Influence(NamedTuple):
    """A row that influenced the prediction for another one, see :meth:`angpn.ANGPNClassifier.explain`."""

    row: int
    weight: float  # its share in the propagated features of the explained row
    label: Any  # its own label
    given: bool  # by the user, not predicted


def strongest_influences(
    rows: Array, n: int, paths: Sequence[Path], n_rows: int
) -> tuple[Array, Array]:  # (r, n) each: rows, -1 where there are fewer, and weights
    """Return the other rows with the largest share in each of these, and that share, as a mean over the paths."""
    start = scipy.sparse.csr_array((np.ones(len(rows)), (np.arange(len(rows)), rows)), shape=(len(rows), n_rows))
    shares = scipy.sparse.csr_array(_sum_along(paths, start) / len(paths))
    entries = shares.tocoo()
    (places, columns), values = entries.coords, entries.data
    other = (columns != rows[places]) & (values > 0)
    places, columns, values = places[other], columns[other], values[other]
    order = np.lexsort((columns, -values, places))
    places, columns, values = places[order], columns[order], values[order]
    rank = np.arange(len(places)) - np.searchsorted(places, places)  # within its row
    kept = rank < n
    found, weights = np.full((len(rows), n), -1, dtype=np.int64), np.zeros((len(rows), n))
    found[places[kept], rank[kept]], weights[places[kept], rank[kept]] = columns[kept], values[kept]
    return found, weights


def _sum_along(paths: Sequence[Path], shares: scipy.sparse.csr_array) -> scipy.sparse.csr_array:  # (r, n)
    """Return the sum of the shares at the ends of the paths; what is alike at their beginnings is gone through once."""
    total = scipy.sparse.csr_array(shares.shape)
    open_parts = [(0, list(paths), shares)]
    while open_parts:
        depth, here, shares = open_parts.pop()
        following: dict[int, list[Path]] = {}
        for path in here:
            if len(path) == depth:
                total = total + shares
            else:
                following.setdefault(id(path[depth]), []).append(path)
        open_parts += [(depth + 1, some, _step(shares, some[0][depth], depth)) for some in following.values()]
    return total


def _step(shares: scipy.sparse.csr_array, matrix: scipy.sparse.csr_array, number: int) -> scipy.sparse.csr_array:
    shares = shares @ matrix
    if number >= _EXACT_HOPS:  # by now most rows have a little of very many
        shares.data[shares.data < _NEGLIGIBLE] = 0
        shares.eliminate_zeros()
    return shares
