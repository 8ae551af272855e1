"""Main directions of rows: what is left of them where most columns are noise.

Nearest neighbours are found by distances between two rows, and in a distance the noise of all columns adds up: of
hundreds of weak columns, such as words or the places of a sequence, near duplicates are all that it shows. Means over
many rows do not have this noise. So do the main directions of all rows, in which c clusters differ by their means in
c - 1 dimensions at most; some more leave room for clusters that are not round.
"""

from typing import NamedTuple

import numpy as np
import scipy.linalg

from angpn.utils.typing import Array

_BLOCK_ROWS = 2**14
_SMALLEST_LENGTH = 1e-5  # of what differs from the mean, relative to rows of length 1: below it is rounding


class MainDirections(NamedTuple):
    """The mean of rows, and the directions of the largest variance."""

    center: Array  # (d,) float64
    basis: Array  # (d, p) float64, orthonormal

    @classmethod
    def fit(cls, rows: Array, count: int) -> "MainDirections":
        """Find so many directions, or all where there are fewer."""
        center = rows.mean(axis=0, dtype=np.float64)
        covariance = np.zeros((rows.shape[1], rows.shape[1]))
        for block in _blocks(len(rows)):
            part = rows[block] - center
            covariance += part.T @ part
        last = rows.shape[1] - 1
        basis = scipy.linalg.eigh(covariance, subset_by_index=(max(last - count + 1, 0), last))[1]
        return cls(center, np.ascontiguousarray(basis[:, ::-1]))

    def share(self, rows: Array) -> float:
        """Return the share of the variance of rows of length 1 that lies along these directions."""
        along = sum(float((((rows[block] - self.center) @ self.basis) ** 2).sum()) for block in _blocks(len(rows)))
        return along / len(rows) / max(1 - float(self.center @ self.center), _SMALLEST_LENGTH)

    def transform(self, rows: Array, *, unit: bool = True) -> Array:  # (n, p) float32
        """Return the coordinates of rows from the mean: as directions, of length 1 or 0, or as they are.

        They are computed in float64 and rounded, so that equal rows have equal coordinates, wherever they stand.
        """
        found = np.empty((len(rows), self.basis.shape[1]), np.float32)
        for block in _blocks(len(rows)):
            part = (rows[block] - self.center) @ self.basis
            if unit:
                lengths = np.linalg.norm(part, axis=1, keepdims=True)
                part = np.where(lengths > _SMALLEST_LENGTH, part, 0) / np.maximum(lengths, _SMALLEST_LENGTH)
            found[block] = part
        return found


def _blocks(n: int) -> list[slice]:
    return [slice(start, start + _BLOCK_ROWS) for start in range(0, n, _BLOCK_ROWS)]
