"""How rows are scaled before all else."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse
import torch
from sklearn.preprocessing import normalize
from sklearn.utils.extmath import randomized_svd
from torch import Tensor

from angpn.ensemble.config import EnsembleConfig
from angpn.neighbors.exact import Metric
from angpn.utils.typing import Array

ScalingName = Literal["unit", "idf", "standard", "unit_standard", "none"]
SCALINGS: tuple[ScalingName, ...] = get_args(ScalingName)


def feature_width(n_rows: int, config: EnsembleConfig) -> int:
    """Return to how many columns the features that are propagated are reduced at most."""
    return max(config.min_width, min(config.max_width, config.max_feature_values // n_rows))


@dataclass(frozen=True)
class Scaling:
    """A scaling of rows, fitted to all of them; labels play no part.

    "unit" keeps the direction of a row (text, embeddings), "standard" standardises the columns (tables),
    "unit_standard" keeps the direction of rows with standardised columns, "idf" that of rows whose columns are weighted
    by inverse document frequency (sparse text), "none" leaves the rows as they are.
    """

    name: ScalingName
    metric: Metric
    center: Array | None = None  # (d,) subtracted from the columns
    scale: Array | None = None  # (d,) what the columns are divided by
    basis: Array | None = None  # (d, p) the main directions of the scaled rows, where there are too many columns

    @classmethod
    def fit(cls, X: Any, name: ScalingName, metric: Metric, seed: int, config: EnsembleConfig) -> "Scaling":
        """Estimate what the scaling needs from the rows."""
        center = scale = None
        if name in ("standard", "unit_standard"):
            center, scale = (found(axis=0, dtype=np.float64) for found in (X.mean, X.std))
            # Rows of length 1 on average, as the other scalings have; a column that never changes stays at zero.
            scale = np.where(scale > 1e-12 * np.abs(X).max(axis=0, initial=0), scale, 1) * np.sqrt(X.shape[1])
            center, scale = center.astype(X.dtype), scale.astype(X.dtype)
        if name == "idf":
            documents = np.bincount(X.indices, minlength=X.shape[1])
            scale = (1 / (1 + np.log((1 + X.shape[0]) / (1 + documents)))).astype(X.dtype)
        scaling = cls(name, metric, center, scale)
        width = feature_width(X.shape[0], config)
        if X.shape[1] <= width:
            return scaling
        rows = scaling.transform(X[_sample(X.shape[0], config.max_rows_of_basis, seed)]).astype(np.float32)
        rank = min(width, min(rows.shape) - 1)
        basis = randomized_svd(rows, rank, n_iter=2, random_state=seed)[2].T
        return cls(name, metric, center, scale, np.ascontiguousarray(basis))

    def transform(self, X: Any) -> Any:
        """Return the scaled rows, between which distances are measured."""
        if self.center is not None:
            X = X - self.center
        if self.scale is not None:
            X = X @ scipy.sparse.diags_array(1 / self.scale) if scipy.sparse.issparse(X) else X / self.scale
        return normalize(X) if self.name in ("unit", "idf", "unit_standard") else X

    def features(self, rows: Any) -> Tensor:  # (n, p) float32
        """Return scaled rows as they are propagated: dense, and reduced to their main directions where too wide."""
        if self.basis is not None:
            rows = rows @ self.basis
        elif scipy.sparse.issparse(rows):
            rows = rows.toarray()
        rows = np.ascontiguousarray(rows, np.float32)
        return torch.from_numpy(rows if rows.flags.writeable else rows.copy())  # those of a mapped file are read-only


def is_table(X: Any, config: EnsembleConfig) -> bool:
    """Tell whether columns are of unlike scale, as measurements are and words are not."""
    if scipy.sparse.issparse(X):
        return False
    scale = X.std(axis=0)
    scale = scale[scale > 0]
    return bool(len(scale)) and bool(scale.max() > config.table_scale_ratio * np.median(scale))


def _sample(n: int, most: int, seed: int) -> Any:
    if n <= most:
        return slice(None)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))
