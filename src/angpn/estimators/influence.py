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
    shares = scipy.sparse.csr_array(sum(_along(path, start) for path in paths) / len(paths))
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


def _along(path: Path, shares: scipy.sparse.csr_array) -> scipy.sparse.csr_array:  # (r, n)
    for number, matrix in enumerate(path):
        shares = shares @ matrix
        if number >= _EXACT_HOPS:  # by now most rows have a little of very many
            shares.data[shares.data < _NEGLIGIBLE] = 0
            shares.eliminate_zeros()
    return shares
