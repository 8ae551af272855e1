"""Rows that stand for many others: coverage by a kernel, by greedy choice.

MaxHerding (Bae et al., 2024) chooses rows so that every row is near a chosen one; Uncertainty Herding (Bae et al.,
2025) counts a row by how uncertain its label is. Without labels all rows count alike and the choice covers the data;
with a model that knows much, only rows near the boundaries count.
"""

from typing import NamedTuple

import numpy as np

from angpn.utils.typing import Array


class Herd(NamedTuple):
    """Chosen rows, best first."""

    chosen: Array  # (n,) positions among the candidates
    covered: Array  # (n,) the share of the references' weight that each newly covers


def herd(
    references: Array,  # (r, p) rows to be covered
    weights: Array,  # (r,) how much each counts, not negative
    candidates: Array,  # (c, p) rows to choose from
    labelled: Array,  # (l, p) rows that cover already
    width: float,
    n: int,
    strengths: tuple[Array, Array] | None = None,  # (c,) of candidates and (l,) of labelled rows, from 0 to 1
) -> Herd:
    r"""Choose n candidates, one after another, each the one that raises the coverage most.

    .. math:: \max_{C} \; \sum_i w_i \max_{j \in C \cup L} s_j \exp(-\|x_i - x_j\|^2 / (2 \sigma^2))

    The strengths s are how far the label of a row can be relied on, fully by default.

    Coverage is submodular: what a row adds only falls as others are chosen. So what was computed before is a bound, and
    only the row with the largest bound is computed again.
    """
    of_candidates, of_labelled = strengths or (np.ones(len(candidates)), np.ones(len(labelled)))
    kernel = _gaussian(candidates, references, width)  # (c, r)
    kernel *= of_candidates.astype(np.float32)[:, None]
    coverage = np.zeros(len(references), np.float32)
    for start in range(0, len(labelled), 1024):
        part = slice(start, start + 1024)
        found = _gaussian(labelled[part], references, width) * of_labelled[part].astype(np.float32)[:, None]
        coverage = np.maximum(coverage, found.max(axis=0))
    total = float(weights.sum())
    weights = (weights / (total or 1.0)).astype(np.float32)

    def gain(place: int) -> float:
        return float(np.maximum(kernel[place] - coverage, 0) @ weights)

    bounds = np.array([gain(place) for place in range(len(candidates))])
    chosen: list[int] = []
    covered: list[float] = []
    while len(chosen) < min(n, len(candidates)):
        best = int(bounds.argmax())
        bounds[best] = added = gain(best)
        if added < bounds.max():
            continue  # another one may add more
        chosen.append(best)
        covered.append(added)
        coverage = np.maximum(coverage, kernel[best])
        bounds[best] = -1
    return Herd(np.array(chosen, dtype=np.int64), np.array(covered))


def kernel_width(references: Array, share: float, seed: int) -> float:
    """Return the median distance within which a row has this share of the references, or one beside itself."""
    rows = references
    if len(rows) > 500:
        rows = rows[np.random.default_rng(seed).choice(len(rows), 500, replace=False)]
    rank = min(max(1, round(share * len(references))), len(references) - 1)
    found = np.partition(_squared_distances(rows, references), rank, axis=1)[:, rank]
    positive = found[found > 0]
    return float(np.sqrt(np.median(positive))) if len(positive) else 1.0


def _gaussian(a: Array, b: Array, width: float) -> Array:
    found = _squared_distances(a, b)
    found *= -1 / (2 * width**2)
    return np.exp(found, out=found)


def _squared_distances(a: Array, b: Array) -> Array:
    found = a @ b.T
    found *= -2
    found += (a**2).sum(axis=1)[:, None]
    found += (b**2).sum(axis=1)
    return np.maximum(found, 0, out=found)
