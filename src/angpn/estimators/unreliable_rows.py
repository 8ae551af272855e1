"""Fitted rows whose predicted label means little, whatever its confidence: unreached, empty and conflicting ones."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from angpn.utils.labels import UNLABELLED
from angpn.utils.powers_of_two import largest_entries
from angpn.utils.typing import Array

_BLOCK_NUMBERS = 2**22  # of dense features that are compared or copied at once


class UnreliableRows(NamedTuple):
    """Positions of fitted rows whose label means little, by the reason; a row may have several.

    Attributes:
        unreached: Unlabelled rows that no label reaches: they are in a connected component of the learnt graphs, links
            taken both ways, in which no label was given.
        empty: Rows of X without a non-zero entry, such as texts without a known word; none where X is distances.
        conflicting: Rows whose features, as the model scales them, equal those of labelled rows of two classes or more;
            these labelled rows are among them.
    """

    unreached: Array
    empty: Array
    conflicting: Array

    def union(self) -> Array:
        """Return the rows that have at least one reason.

        Returns:
            Their positions, in order.
        """
        return np.unique(np.concatenate(self))


def unreached_rows(
    graphs: Sequence[scipy.sparse.csr_array],  # (n, n) each
    codes: Array,  # (n,) class numbers, -1 where unlabelled
) -> Array:
    """Return the rows of components without a label; a link of any graph counts."""
    linked = scipy.sparse.csr_array(sum(graphs))
    linked.eliminate_zeros()
    component = connected_components(linked, directed=False)[1]
    return np.flatnonzero(~np.isin(component, component[codes != UNLABELLED]))


def empty_rows(
    rows: Any,  # (n, d) scaled, dense or sparse
    empty: Any,  # (1, d) what an empty row looks like when it is scaled
) -> Array:
    """Return the rows that were empty before they were scaled."""
    if scipy.sparse.issparse(rows):
        return np.flatnonzero(largest_entries(rows, axis=1) == 0)
    found = [np.flatnonzero((rows[block] == empty).all(axis=1)) + block.start for block in _blocks(rows.shape)]
    return np.concatenate(found)


def conflicting_rows(
    rows: Any,  # (n, d) dense or sparse
    codes: Array,  # (n,) class numbers, -1 where unlabelled
) -> Array:
    """Return the rows that equal labelled rows of different classes.

    Labelled rows, which are few, are compared first; all others only if two of these conflict.
    """
    classes: dict[bytes, int] = {}
    conflicts: set[bytes] = set()
    labelled = np.flatnonzero(codes != UNLABELLED)
    for key, code in zip(row_keys(rows, labelled), codes[labelled].tolist(), strict=True):
        if classes.setdefault(key, code) != code:
            conflicts.add(key)
    if not conflicts:
        return labelled[:0]
    return np.flatnonzero([key in conflicts for key in row_keys(rows, np.arange(len(codes)))])


def row_keys(rows: Any, numbers: Array) -> Iterator[bytes]:
    """Return bytes that are the same for equal rows, and for these alone."""
    for block in _blocks((len(numbers), rows.shape[1])):
        part = rows[numbers[block]]  # a copy
        if scipy.sparse.issparse(part):
            part.eliminate_zeros()
            part.sort_indices()
            for start, stop in zip(part.indptr, part.indptr[1:], strict=False):
                yield part.indices[start:stop].tobytes() + part.data[start:stop].tobytes()
        else:
            part += 0  # -0 becomes 0, which it equals
            yield from (row.tobytes() for row in part)


def _blocks(shape: tuple[int, int]) -> list[slice]:
    size = max(1, _BLOCK_NUMBERS // max(1, shape[1]))
    return [slice(start, min(start + size, shape[0])) for start in range(0, shape[0], size)]
