"""The member that reaches all rows: labels propagated by Eq. (2) until they settle, which is Eq. (3).

Where a class has one or two labels, features say little of what the classes are, but the graph still says which rows
hang together.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from angpn.committee.members import Mixing
from angpn.committee.readout import RULED_OUT
from angpn.neighborhood import OneProcess

Array = np.ndarray[Any, Any]

MAX_STEPS = 300
TOL = 1e-4
STEPS_AT_ONCE = 4  # after which processes ask each other whether one of them was the last
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
        mixing: Mixing,  # normalized
        rows: Array,
        codes: Array,
        weights: Array | None,
        alpha: float,
        n_classes: int,
    ) -> "Spread":
        """Eq. (2) from the labels of these rows.

        Each class sends out as much as any other: else far from all labels every row would be of the class with the
        most.
        """
        hood = mixing.rows
        numbers, places = hood.here(rows)
        sources = torch.zeros(mixing.n_rows, n_classes)
        sources[numbers, codes[places]] = 1.0 if weights is None else torch.from_numpy(weights[places]).float()
        sources /= hood.total(sources.sum(dim=0)).clamp(min=1e-12)
        scores = _settled(_steps(sources, mixing, alpha), hood)
        known = np.unique(codes)
        margin = hood.average(scores[:, known].max(dim=1).values - scores[:, known].mean(dim=1))
        scaled = torch.full_like(scores, RULED_OUT)
        scaled[:, known] = MARGIN * scores[:, known] / margin.clamp(min=1e-12)
        return cls(scaled)

    def log_probabilities(self) -> Tensor:  # (n, c)
        """Of the fitted rows."""
        return torch.log_softmax(self.scores, dim=1)

    def unseen(self, weights: scipy.sparse.csr_array) -> Tensor:  # (r, c)
        """Of new rows that take so much from each fitted row."""
        received = torch.from_numpy(np.asarray(weights @ self.scores.numpy(), dtype=np.float32))
        return torch.log_softmax(received, dim=1)


def _steps(sources: Tensor, mixing: Mixing, alpha: float) -> Iterator[tuple[Tensor, Tensor]]:
    """Eq. (2), step after step: the scores, and of the rows here the largest change and the largest score."""
    scores, kept = sources, (1 - alpha) * sources
    while True:
        before, scores = scores, torch.add(kept, mixing(scores), alpha=alpha)
        yield scores, torch.stack([(scores - before).abs().max(), scores.abs().max()])


def _settled(steps: Iterator[tuple[Tensor, Tensor]], hood: OneProcess) -> Tensor:  # (n, c)
    """The scores of the first step that changed little."""
    at_once = 1 if hood.n_parts == 1 else STEPS_AT_ONCE
    for _ in range(MAX_STEPS // at_once):
        scores, sizes = zip(*itertools.islice(steps, at_once), strict=True)
        change, most = hood.largest(torch.stack(sizes)).T
        settled = (change <= TOL * most).nonzero()
        if len(settled):
            return scores[int(settled[0])]
    return scores[-1]
