"""How rows are scaled before all else."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse
import torch
from sklearn.preprocessing import normalize
from sklearn.utils.extmath import randomized_svd
from torch import Tensor

from angpn.neighbors.exact import Metric
from angpn.utils.typing import Array

Scaling = Literal["unit", "rare", "standard", "both", "none"]

_ROWS_FOR_BASIS = 20_000


def max_width(n_rows: int) -> int:
    """Of the features that are propagated; more columns are reduced to their main directions.

    Of very many rows fewer are kept, so that a copy takes no more than a quarter of a gigabyte, up to half a million.
    """
    return max(128, min(512, 2**26 // n_rows))


@dataclass(frozen=True)
class View:
    """One way to look at rows: "unit" sees directions (text, embeddings), "standard" sees columns alike (tables).

    "both" is the direction of rows with standardised columns: which measurements stand out, not how far. "rare" is the
    direction of rows in which a column counts the more the fewer rows have it (words: inverse document frequency).
    """

    scaling: Scaling
    metric: Metric
    center: Array | None = None  # (d,) of the columns; None leaves them where they are
    spread: Array | None = None  # (d,) what the columns are divided by
    basis: Array | None = None  # (d, p) the main directions of the scaled rows, where there are too many columns

    @classmethod
    def of(cls, X: Any, scaling: Scaling, metric: Metric, seed: int) -> "View":
        """Learn from all rows what the scaling needs; labels play no part."""
        center = spread = None
        if scaling in ("standard", "both"):
            center, spread = (found(axis=0, dtype=np.float64) for found in (X.mean, X.std))
            # Rows of length 1 on average, as the others have; a column that never changes stays at zero.
            spread = np.where(spread > 1e-12 * np.abs(X).max(axis=0, initial=0), spread, 1) * np.sqrt(X.shape[1])
            center, spread = center.astype(X.dtype), spread.astype(X.dtype)
        if scaling == "rare":
            having = np.bincount(X.indices, minlength=X.shape[1])
            spread = (1 / (1 + np.log((1 + X.shape[0]) / (1 + having)))).astype(X.dtype)
        view = cls(scaling, metric, center, spread)
        width = max_width(X.shape[0])
        if X.shape[1] <= width:
            return view
        rows = view.rows(X[_sample(X.shape[0], _ROWS_FOR_BASIS, seed)]).astype(np.float32)
        rank = min(width, min(rows.shape) - 1)
        basis = randomized_svd(rows, rank, n_iter=2, random_state=seed)[2].T
        return cls(scaling, metric, center, spread, np.ascontiguousarray(basis))

    def rows(self, X: Any) -> Any:
        """The scaled rows, between which distances are measured."""
        if self.center is not None:
            X = X - self.center
        if self.spread is not None:
            X = X @ scipy.sparse.diags_array(1 / self.spread) if scipy.sparse.issparse(X) else X / self.spread
        return normalize(X) if self.scaling in ("unit", "rare", "both") else X

    def features(self, rows: Any) -> Tensor:  # (n, p) float32
        """The scaled rows as they are propagated."""
        if self.basis is not None:
            rows = rows @ self.basis
        elif scipy.sparse.issparse(rows):
            rows = rows.toarray()
        rows = np.ascontiguousarray(rows, np.float32)
        return torch.from_numpy(rows if rows.flags.writeable else rows.copy())  # those of a file may not be written to


def _sample(n: int, most: int, seed: int) -> Any:
    if n <= most:
        return slice(None)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))
