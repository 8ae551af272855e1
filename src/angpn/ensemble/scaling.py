"""How rows are scaled before all else."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse
import torch
from sklearn.preprocessing import normalize
from sklearn.utils.extmath import randomized_svd
from torch import Tensor

from angpn.ensemble.config import EnsembleConfig
from angpn.ensemble.main_directions import MainDirections
from angpn.neighbors.exact import Metric
from angpn.utils.array_checks import ArraySpec, floats
from angpn.utils.inputs import LARGEST_KEPT
from angpn.utils.powers_of_two import column_moments, exponents, largest_entries, rows_near_one, times_powers
from angpn.utils.typing import Array

ScalingName = Literal["unit", "idf", "standard", "unit_standard", "pca", "standard_pca", "none"]
SCALINGS: tuple[ScalingName, ...] = get_args(ScalingName)
IN_MAIN_DIRECTIONS: tuple[ScalingName, ...] = ("pca", "standard_pca")  # where neighbours are found there
_BY_ROW = ("unit", "idf", "pca")  # those that divide a row by its length, whatever the columns' scales
_SMALLEST_SCALE = float(np.finfo(np.float64).smallest_subnormal)


def feature_width(n_rows: int, config: EnsembleConfig) -> int:
    """Return to how many columns the features that are propagated are reduced at most."""
    return max(config.min_width, min(config.max_width, config.max_feature_values // n_rows))


@dataclass(frozen=True)
class Scaling:
    """A scaling of rows, fitted to all of them; labels play no part.

    "unit" keeps the direction of a row (text, embeddings), "standard" standardises the columns (tables),
    "unit_standard" keeps the direction of rows with standardised columns, "idf" that of rows whose columns are weighted
    by inverse document frequency (sparse text), "none" leaves the rows as they are. "pca" is "unit", or "idf" of sparse
    rows, and finds neighbours in the few main directions of the rows, where the noise of many weak columns is gone;
    what is propagated is still the whole row. "standard_pca" is "standard" with neighbours found in this way: for
    tables of many columns, which may be of any scale, and which trees want as they are. Where these directions hold
    nearly all of a row, there is no such noise, and the two are "unit" and "standard".
    """

    name: ScalingName
    metric: Metric
    center: Array | None = None  # (d,) subtracted from the columns
    scale: Array | None = None  # (d,) what the columns are divided by
    basis: Array | None = None  # (d, p) the main directions of the scaled rows, where there are too many columns
    main: MainDirections | None = None  # of the features, between whose coordinates in these distances are measured

    @classmethod
    def fit(
        cls, X: Any, name: ScalingName, metric: Metric, seed: int, config: EnsembleConfig, n_components: int = 22
    ) -> "Scaling":
        """Estimate what the scaling needs from the rows; so many main directions, where neighbours are found there."""
        if name in IN_MAIN_DIRECTIONS:
            whole = cls._fit_whole(X, name, metric, seed, config)
            features = whole._some_features(X, seed, config)
            main = MainDirections.fit(features, n_components)
            return whole if main.share(features) > config.max_share_of_pca else whole._in_directions(main)
        center = scale = None
        if name in ("standard", "unit_standard"):
            center, std = column_moments(X)
            largest = largest_entries(X, axis=0).astype(np.float64)
            # A column that never changes stays at zero, whatever rounding made of its mean.
            std = np.where(std > 1e-12 * largest, std, np.ldexp(1.0, exponents(largest)))
            scale = std * np.sqrt(X.shape[1])  # rows of length 1 on average, as the other scalings have
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

    @classmethod
    def _fit_whole(cls, X: Any, name: ScalingName, metric: Metric, seed: int, config: EnsembleConfig) -> "Scaling":
        """Fit the scaling that neighbours would be found by in all directions."""
        if name == "standard_pca":
            return cls.fit(X, "standard", metric, seed, config)
        base: ScalingName = "idf" if scipy.sparse.issparse(X) else "unit"
        return cls.fit(X, base, "chord" if metric == "euclidean" else metric, seed, config)

    def with_main_directions(self, X: Any, count: int, seed: int, config: EnsembleConfig) -> "Scaling":
        """Return this scaling with neighbours in so many main directions: "pca" of rows, "standard_pca" of columns."""
        return self._in_directions(MainDirections.fit(self._some_features(X, seed, config), count))

    def _in_directions(self, main: MainDirections) -> "Scaling":
        if self.name not in _BY_ROW:
            return replace(self, name="standard_pca" if self.name == "standard" else self.name, main=main)
        # By the euclidean metric rows at the mean, which have no direction, are equal; by the chord they are not.
        return replace(self, name="pca", metric="euclidean" if self.metric == "chord" else self.metric, main=main)

    def _some_features(self, X: Any, seed: int, config: EnsembleConfig) -> Array:
        return self.features(self.transform(X[_sample(X.shape[0], config.max_rows_of_basis, seed)])).numpy()

    @staticmethod
    def specs(name: ScalingName, n_features: int, given: Collection[str]) -> dict[str, ArraySpec]:
        """Return what the arrays of a saved scaling must be, where these are given."""
        width: int | str = "p" if "basis" in given else n_features
        specs = {
            "center": floats(n_features),
            "scale": floats(n_features, low=_SMALLEST_SCALE),
            "basis": floats(n_features, "p"),
            "main_center": floats(width),
            "main_basis": floats(width, "q"),
        }
        needed: dict[ScalingName, set[str]] = {
            "standard": {"center", "scale"},
            "unit_standard": {"center", "scale"},
            "idf": {"scale"},
            "pca": {"main_center", "main_basis"} | ({"scale"} & set(given)),
            "standard_pca": {"center", "scale", "main_center", "main_basis"},
        }
        return {part: specs[part] for part in needed.get(name, set()) | ({"basis"} & set(given))}

    @classmethod
    def from_arrays(cls, name: ScalingName, metric: Metric, arrays: Mapping[str, Array]) -> "Scaling":
        """Return a saved scaling."""
        has_main = name in IN_MAIN_DIRECTIONS
        main = MainDirections(arrays["main_center"], arrays["main_basis"]) if has_main else None
        return cls(name, metric, arrays.get("center"), arrays.get("scale"), arrays.get("basis"), main)

    def to_arrays(self) -> dict[str, Array]:
        """Return what a file keeps of it."""
        found = {"center": self.center, "scale": self.scale, "basis": self.basis}
        if self.main is not None:
            found |= {"main_center": self.main.center, "main_basis": self.main.basis}
        return {name: array for name, array in found.items() if array is not None}

    @property
    def has_columns(self) -> bool:
        """Whether the features are the columns of X, each on a scale of its own."""
        return self.name in ("standard", "standard_pca", "none") and self.basis is None

    def transform(self, X: Any, dtype: Any = None) -> Any:
        """Return the scaled rows; in this dtype, or in that of X.

        Rows, or columns, are divided by a power of two first, so that what is squared and summed is near 1.
        """
        if self.name in _BY_ROW:
            X = rows_near_one(X)
        X = X if dtype is None else X.astype(dtype, copy=False)
        if self.center is not None and self.scale is not None:
            shifts = -exponents(self.scale)
            X = times_powers(X, shifts)
            X -= times_powers(self.center, shifts).astype(X.dtype)
            X /= times_powers(self.scale, shifts).astype(X.dtype)
        elif self.scale is not None:
            X = X @ scipy.sparse.diags_array(1 / self.scale)
        return normalize(X, copy=False) if self.name in (*_BY_ROW, "unit_standard") else X

    def coordinates(self, rows: Any) -> Any:
        """Return that of scaled rows between which distances are measured."""
        if self.main is None:
            return rows
        unit = self.name != "standard_pca"  # how far out a row lies says something where columns are measurements
        return self.main.transform(self.features(rows).numpy(), unit=unit).astype(rows.dtype, copy=False)

    def far_columns(self, X: Any, dtype: Any) -> Array:  # (d,) bool
        """Tell in which columns new rows are so far from the fitted ones that float32 could not square it."""
        if self.name in _BY_ROW:
            return np.zeros(X.shape[1], dtype=bool)
        largest = largest_entries(X, axis=0).astype(np.float64)
        if self.center is None or self.scale is None:
            return largest > LARGEST_KEPT
        return ((largest - np.abs(self.center)) / LARGEST_KEPT > self.scale) | (largest > np.finfo(dtype).max)

    def features(self, rows: Any) -> Tensor:  # (n, p) float32
        """Return scaled rows as they are propagated: dense, and reduced to their main directions where too wide."""
        if self.basis is not None:
            rows = rows @ self.basis
        elif scipy.sparse.issparse(rows):
            rows = rows.toarray()
        rows = np.ascontiguousarray(rows, np.float32)
        return torch.from_numpy(rows if rows.flags.writeable else rows.copy())  # those of a mapped file are read-only


def is_table(X: Any, config: EnsembleConfig) -> bool:
    """Tell whether columns are measurements, each of its own kind; words and pixels are not."""
    if scipy.sparse.issparse(X):
        return False
    scale = column_moments(X)[1]
    scale = scale[scale > 0]
    if not len(scale):
        return False
    return bool(
        X.shape[1] <= config.max_columns_of_table
        or scale.max() / config.table_scale_ratio > np.median(scale)
        or scale.max() / config.same_scale_ratio < scale.min()
    )


def _sample(n: int, most: int, seed: int) -> Any:
    if n <= most:
        return slice(None)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))
