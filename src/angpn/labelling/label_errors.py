"""Given labels that are probably wrong."""

from typing import NamedTuple

import numpy as np

from angpn.utils.typing import Array

N_SUSPECTS = 50
SUSPECT_THRESHOLD = 0.6  # share of the influence on a labelled row that must suggest one other class


class Suspect(NamedTuple):
    """A given label that is probably wrong.

    Attributes:
        row: The row.
        suggested: The number of the class that the most influential rows suggest.
        share: The share of their weight that suggests it.
    """

    row: int
    suggested: int
    share: float


def find_suspects(
    probabilities: Array,  # (n, c)
    codes: Array,  # (n,) the given class, or the predicted one
    given: Array,  # (n,) bool
    influences: Array,  # (n, t) rows, -1 where fewer
    weights: Array,  # (n, t)
) -> list[Suspect]:
    """Return the given labels that the most influential rows contradict, the clearest first.

    A row has no influence on itself. A row with a given label counts for that label, any other row for each class by
    its probability. Labels of a class that no other row was predicted to be of are left out: there the model knows no
    such class, which says nothing against them.
    """
    is_predicted = np.isin(codes, codes[~given]) if not given.all() else np.ones(len(codes), dtype=bool)
    class_shares = np.where(given[:, None], np.eye(probabilities.shape[1])[codes], probabilities)
    suspects = []
    for row in np.flatnonzero(given & is_predicted):
        present = influences[row] >= 0
        share = weights[row][present] @ class_shares[influences[row][present]]
        share /= share.sum() or 1.0
        suggested = int(share.argmax())
        if suggested != codes[row] and share[suggested] >= SUSPECT_THRESHOLD:
            suspects.append(Suspect(int(row), suggested, float(share[suggested])))
    return sorted(suspects, key=lambda suspect: -suspect.share)[:N_SUSPECTS]
