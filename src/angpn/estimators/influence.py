"""Which rows carried a label to another."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from angpn.utils.typing import Array

Path = list[scipy.sparse.csr_array]  # P of each propagation that a row's features went through, the last first

ROWS_AT_ONCE = 2000  # of the product along a path, which is denser than each of its graphs
_EXACT_HOPS, _TOO_LITTLE = 2, 1e-3


class Influence(NamedTuple):
    """A row that helped to label another one, see :meth:`ANGPNClassifier.explain`."""

    row: int
    weight: float  # its share in what the explained row is made of
    label: Any  # the label it has itself
    given: bool  # by the user, not predicted


def heaviest(rows: Array, n: int, paths: Sequence[Path], n_rows: int) -> tuple[Array, Array]:  # (r, n) each
    """Which other rows have reached each of these along the paths, and how much of them on the mean."""
    start = scipy.sparse.csr_array((np.ones(len(rows)), (np.arange(len(rows)), rows)), shape=(len(rows), n_rows))
    reached = scipy.sparse.csr_array(sum(_along(path, start) for path in paths) / len(paths))
    entries = reached.tocoo()
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


def _along(path: Path, reached: scipy.sparse.csr_array) -> scipy.sparse.csr_array:  # (r, n)
    for number, matrix in enumerate(path):
        reached = reached @ matrix
        if number >= _EXACT_HOPS:  # by now most rows have received a little of very many
            reached.data[reached.data < _TOO_LITTLE] = 0
            reached.eliminate_zeros()
    return reached
