"""Which rows may be suggested for labelling: of equal rows one, and more only where all else is labelled."""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from angpn.estimators.unreliable_rows import row_keys
from angpn.utils.labels import UNLABELLED
from angpn.utils.typing import Array

_SETTLED = 2  # labels by which the most frequent one of equal rows is ahead
_ROWS_OF_A_KIND = 3  # on average, from which on rows are of few kinds


class EligibleRows(NamedTuple):
    """Unlabelled rows that may be suggested.

    Equal rows may have different labels, as those of a table with few columns do. So a second label of equal rows says
    something: less than the label of a row that equals no labelled one, and nothing much once labels agree. But where
    all rows are of few kinds, it says more than the first label of a rare kind.
    """

    first: Array  # (n,) bool: of equal rows the first, if none of them is labelled, or rows are of few kinds
    again: Array  # (n,) how many unlabelled rows equal it, for the first of those with labels that settle nothing; or 0
    labels: Array  # (n,) how many labels its kind has
    of_few_kinds: bool


def eligible_rows(
    rows: Any,  # (n, d)
    empty: Array,  # positions of rows
    codes: Array,  # (n,) class numbers, -1 where unlabelled
    candidates: Array,  # (n,) bool: rows that can be labelled
) -> EligibleRows:
    """Tell which unlabelled candidates may be suggested, first and again; none that is empty.

    The labels of equal rows settle theirs where the most frequent one is two ahead of the next: two that agree do, one
    alone does not, nor do two that differ. Where there are three times as many rows as kinds, equal rows are no copies,
    and any of them may be suggested, one at a time.
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
    n_labels = np.bincount(group[codes != UNLABELLED], minlength=len(groups))[group]
    of_few_kinds = len(codes) >= _ROWS_OF_A_KIND * len(groups)
    eligible = EligibleRows(np.zeros(len(codes), dtype=bool), np.zeros(len(codes), np.int64), n_labels, of_few_kinds)
    eligible.first[open_rows[first]] = of_few_kinds | ~has_labels[found]
    if not of_few_kinds:
        eligible.again[open_rows[first]] = np.where(has_labels[found] & is_open[found], sizes[found], 0)
    eligible.first[empty] = False
    eligible.again[empty] = 0
    return eligible
