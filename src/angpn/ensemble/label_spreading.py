"""The member that reaches all rows: labels propagated by Eq. (2) until they settle, which is Eq. (3).

Where a class has one or two labels, features say little of what the classes are, but the graph still says which rows
hang together.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from angpn.ensemble.base_learners import PropagationMatrix
from angpn.ensemble.heads import RULED_OUT
from angpn.utils.typing import Array

TOL = 1e-4  # of what all terms of the series have, those left out may have so much
MAX_TERMS = 1000
MARGIN = 3.0  # of the most probable class over the mean: about as sure as readouts are


class SpreadSetting(NamedTuple):
    """Of the member that propagates labels."""

    alpha: float  # of Eq. (2)


@dataclass(frozen=True)
class Spread:
    """Propagated labels of the fitted rows."""

    scores: Tensor  # (n, c) far below zero for a class that had no label

    @classmethod
    def of(
        cls,
        propagation_matrix: PropagationMatrix,  # normalized
        rows: Array,
        codes: Array,
        weights: Array | None,
        alphas: Sequence[float],
        n_classes: int,
    ) -> "list[Spread]":
        """Eq. (3) from the labels of these rows, for each alpha.

        Each class sends out as much as any other: else far from all labels every row would be of the class with the
        most.
        """
        partition = propagation_matrix.partition
        numbers, places = partition.local_index(rows)
        sources = torch.zeros(propagation_matrix.n_rows, n_classes)
        sources[numbers, codes[places]] = 1.0 if weights is None else torch.from_numpy(weights[places]).float()
        sources /= partition.all_reduce_sum(sources.sum(dim=0)).clamp(min=1e-12)
        known = np.unique(codes)
        found = []
        for scores in settled(sources, propagation_matrix, alphas):
            margin = partition.mean(scores[:, known].max(dim=1).values - scores[:, known].mean(dim=1))
            scaled = torch.full_like(scores, RULED_OUT)
            scaled[:, known] = MARGIN * scores[:, known] / margin.clamp(min=1e-12)
            found.append(cls(scaled))
        return found

    def log_probabilities(self) -> Tensor:  # (n, c)
        """Of the fitted rows."""
        return torch.log_softmax(self.scores, dim=1)

    def unseen(self, weights: scipy.sparse.csr_array) -> Tensor:  # (r, c)
        """Of new rows that take so much from each fitted row."""
        received = torch.from_numpy(np.asarray(weights @ self.scores.numpy(), dtype=np.float32))
        return torch.log_softmax(received, dim=1)


def settled(
    sources: Tensor, propagation_matrix: PropagationMatrix, alphas: Sequence[float]
) -> list[Tensor]:  # (n, c) each
    """Eq. (3) for each alpha: where Eq. (2) ends, ``(1 - alpha) (I - alpha A)^-1 Y``.

    No eigenvalue of A is beyond 1, so that the inverse is a series in Chebyshev's polynomials,

        (I - alpha A)^-1 = (I + 2 sum_k r^k T_k(A)) / sqrt(1 - alpha^2),    r = alpha / (1 + sqrt(1 - alpha^2)),

    with ``T_k+1(A) = 2 A T_k(A) - T_k-1(A)``. Its terms shrink by r and not, as the steps of Eq. (2), by alpha: for
    0.97 these are 46 products instead of several hundred. How many is known before, and all alphas share them.
    """
    if not alphas:
        return []
    rates = [alpha / (1 + math.sqrt(1 - alpha**2)) for alpha in alphas]
    shares = [(1 - alpha) / math.sqrt(1 - alpha**2) for alpha in alphas]
    counts = [_n_terms(rate) for rate in rates]
    before, term = sources, propagation_matrix(sources)
    found = [torch.add(share * before, term, alpha=2 * share * rate) for share, rate in zip(shares, rates, strict=True)]
    for number in range(2, max(counts) + 1):
        product = propagation_matrix(term)
        before, term = term, torch.lerp(before, product, 2.0, out=product)
        for scores, share, rate, count in zip(found, shares, rates, counts, strict=True):
            if number <= count:
                scores.add_(term, alpha=2 * share * rate**number)
    return found


def _n_terms(rate: float) -> int:
    """After which the rest of the series is small: ``2 (r^n+1 + r^n+2 + ...) <= TOL``."""
    return min(MAX_TERMS, max(1, math.ceil(math.log(TOL * (1 - rate) / 2) / math.log(rate)) - 1))
