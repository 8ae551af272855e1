"""Which rows may be suggested for labelling: of equal rows one, and more only where all else is labelled."""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from angpn.estimators.unreliable_rows import row_keys
from angpn.utils.labels import UNLABELLED
from angpn.utils.typing import Array

_SETTLED = 2  # labels by which the most frequent one of equal rows is ahead


class EligibleRows(NamedTuple):
    """Unlabelled rows that may be suggested.

    Equal rows may have different labels, as those of a table with few columns do. So a second label of equal rows says
    something: less than the label of a row that equals no labelled one, and nothing much once labels agree.
    """

    first: Array  # (n,) bool: of equal rows the first, if none of them is labelled
    again: Array  # (n,) how many unlabelled rows equal it, for the first of those with labels that settle nothing; or 0


def eligible_rows(
    rows: Any,  # (n, d)
    empty: Array,  # positions of rows
    codes: Array,  # (n,) class numbers, -1 where unlabelled
    candidates: Array,  # (n,) bool: rows that can be labelled
) -> EligibleRows:
    """Tell which unlabelled candidates may be suggested, first and again; none that is empty.

    The labels of equal rows settle theirs where the most frequent one is two ahead of the next: two that agree do, one
    alone does not, nor do two that differ.
    """
    groups: dict[bytes, int] = {}
    group = np.array([groups.setdefault(key, len(groups)) for key in row_keys(rows, np.arange(len(codes)))])
    labels: dict[int, Counter[int]] = {}
    for row in np.flatnonzero(codes != UNLABELLED):
        labels.setdefault(int(group[row]), Counter())[int(codes[row])] += 1
    is_open = np.ones(len(groups), dtype=bool)  # whether no label is two ahead
    for place, counts in labels.items():
        (_, most), (_, next_) = (*counts.most_common(2), (None, 0))[:2]
        is_open[place] = most - next_ < _SETTLED
    unlabelled = np.flatnonzero(codes == UNLABELLED)
    open_rows = np.flatnonzero((codes == UNLABELLED) & candidates)
    found, first = np.unique(group[open_rows], return_index=True)
    sizes = np.bincount(group[unlabelled], minlength=len(groups))
    has_labels = np.zeros(len(groups), dtype=bool)
    has_labels[list(labels)] = True
    eligible = EligibleRows(np.zeros(len(codes), dtype=bool), np.zeros(len(codes), dtype=np.int64))
    eligible.first[open_rows[first]] = ~has_labels[found]
    eligible.again[open_rows[first]] = np.where(has_labels[found] & is_open[found], sizes[found], 0)
    eligible.first[empty] = False
    eligible.again[empty] = 0
    return eligible
