"""Given labels that are probably wrong."""

from typing import NamedTuple

import numpy as np

from angpn.utils.typing import Array

# Another class must be more than so many times as probable as the given one, and than this part of the number of labels
# that predictions agree with for each that they contradict: where few are contradicted, few are wrong.
MIN_RATIO, RATIO_PER_ODDS = 3, 1 / 3


class Suspect(NamedTuple):
    """A given label that is probably wrong.

    Attributes:
        row: The row.
        suggested: The number of the class that is more probable.
        share: The probability of that class while the label was held out, or the share of the influence that suggests
            it where the label never was.
    """

    row: int
    suggested: int
    share: float


def find_suspects(
    probabilities: Array,  # (n, c)
    codes: Array,  # (n,) the given class, or the predicted one
    given: Array,  # (n,) bool
    held_out: Array,  # (n,) bool: given labels that were held out, once each
    held_out_probabilities: Array,  # (h, c) of these, then
    influences: Array,  # (n, t) rows, -1 where fewer
    weights: Array,  # (n, t) 0 where fewer
) -> list[Suspect]:
    """Return the given labels that are much less probable than another class, the least probable label first.

    The probabilities are those of a model that was not trained on the label. Where it was never held out (the only one
    of its class, and most of many labels), they are the shares of the most influential rows, among which is not the
    row itself: a row with a given label counts for that label, any other for each class by its probability. Labels of a
    class that no unlabelled row was predicted to be of are left out: there the model knows no such class, which says
    nothing against them.
    """
    found = np.zeros(probabilities.shape)
    found[held_out] = held_out_probabilities
    others = given & ~held_out
    class_shares = np.where(given[:, None], np.eye(probabilities.shape[1])[codes], probabilities)
    found[others] = _influence_shares(class_shares, influences[others], weights[others])
    is_predicted = np.isin(codes, codes[~given]) if not given.all() else np.ones(len(codes), dtype=bool)
    of_label, of_best, suggested = found[np.arange(len(codes)), codes], found.max(axis=1), found.argmax(axis=1)
    judged = given & is_predicted & (of_best > 0)  # not where no row has an influence
    n_contradicted = np.count_nonzero(judged & (of_best > of_label))
    odds = (np.count_nonzero(judged) - n_contradicted + 1) / (n_contradicted + 1)
    ratio = max(MIN_RATIO, RATIO_PER_ODDS * odds)
    rows = np.flatnonzero(judged & (of_best > ratio * of_label))
    rows = rows[np.argsort(of_label[rows], kind="stable")]
    return [Suspect(int(row), int(suggested[row]), float(of_best[row])) for row in rows]


def _influence_shares(
    class_shares: Array,  # (n, c)
    influences: Array,  # (r, t)
    weights: Array,  # (r, t)
) -> Array:  # (r, c)
    """Return the share of each class in the influence on some rows, zeros where no row has any."""
    shares = np.zeros((len(influences), class_shares.shape[1]))
    for rows, of_rows in zip(influences.T, weights.T, strict=True):
        shares += of_rows[:, None] * class_shares[rows]
    sums = shares.sum(axis=1, keepdims=True)
    return shares / np.where(sums > 0, sums, 1)
