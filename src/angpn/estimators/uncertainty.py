"""Which unlabelled rows are most worth labelling next."""

import numpy as np
import scipy.sparse

from angpn.utils.typing import Array


def most_uncertain(
    probabilities: Array,  # (n, c)
    eligible: Array,  # (n,) bool, of unlabelled rows
    graph: scipy.sparse.csr_array,  # (n, n)
    n: int,
) -> Array:  # row numbers
    """Return eligible rows by the smallest margin between their two most probable classes.

    A row that is a neighbour of one already on the list waits until no other is left: one label will probably settle
    both.
    """
    top = np.sort(probabilities, axis=1)[:, -2:]
    order = np.argsort(top[:, 1] - top[:, 0], kind="stable")
    neighbors = graph + graph.T
    chosen: list[int] = []
    waiting: list[int] = []
    covered = np.zeros(len(probabilities), dtype=bool)
    for row in order[eligible[order]]:
        if len(chosen) == n:
            break
        if covered[row]:
            waiting.append(int(row))
        else:
            chosen.append(int(row))
            covered[neighbors[[row]].indices] = True
    return np.array((chosen + waiting)[:n], dtype=np.int64)
