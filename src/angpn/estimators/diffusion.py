"""The diffusion map of a learnt graph: its smoothest eigenvectors, each as strong as it is after some steps."""

from typing import NamedTuple

import numpy as np
import scipy.sparse

from angpn.anfp.spectral import smallest_eigenvectors, symmetric_adjacency
from angpn.utils.typing import Array

STEPS = 16  # of diffusion: what a walk forgets after so many is left out
_TOL, _TOL_OF_MANY_ROWS, _MANY_ROWS = 1e-4, 1e-3, 20_000  # of eigenvectors, which take most of the time of many rows


class DiffusionMap(NamedTuple):
    """Coordinates of rows, and the eigenvalues of the normalised Laplacian that belong to them."""

    vectors: Array  # (n, p) orthonormal
    eigenvalues: Array  # (p,) increasing, from 0

    @classmethod
    def fit(cls, graph: scipy.sparse.csr_array, count: int, seed: int) -> "DiffusionMap":
        """Find so many coordinates at most."""
        n, count = graph.shape[0], min(count, graph.shape[0])
        tol = _TOL if n <= _MANY_ROWS else _TOL_OF_MANY_ROWS
        values, vectors = smallest_eigenvectors(symmetric_adjacency(graph), count, normalized=True, tol=tol, seed=seed)
        vectors = vectors[:, :count]
        signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(count)])  # the solver's are chance
        return cls(np.where(signs == 0, 1, signs) * vectors, values)

    @property
    def shares(self) -> Array:  # (p,)
        """What is left of each eigenvector after the steps of diffusion, from 1."""
        return np.maximum(1 - self.eigenvalues, 0) ** STEPS

    def coordinates(self, count: int) -> Array:  # (n, count)
        """Return the first coordinates after the steps of diffusion."""
        return self.vectors[:, :count] * self.shares[:count]

    def directions(self, count: int) -> Array:  # (n, count)
        """Return these as directions: rows of one cluster differ in their degrees, and so in length, alone."""
        found = self.coordinates(count)
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        return found / np.where(lengths > 0, lengths, 1)
