"""Encoders from rows to features, fitted once and saved with the model."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np
import scipy.sparse

from angpn.features import TextFeatures
from angpn.features.table import Imputed
from angpn.features.text import TextState
from angpn.utils.array_checks import check_arrays, floats
from angpn.utils.schema import Saved
from angpn.utils.typing import Array


class Encoder(Protocol):
    """Interface of all encoders."""

    def fit_transform(self, content: Any, y: Any = None) -> Any:
        """Fit on the content of some rows, and return their features; labels serve warnings alone."""

    def transform(self, content: Any) -> Any:
        """Return the features of other rows."""

    @property
    def n_features(self) -> int | None:
        """How many features a row has, where the fitted state says so."""

    def to_state(self) -> tuple[Any, dict[str, Array]]:
        """Return plain values and arrays, from which ``from_state`` restores the fitted encoder."""

    @classmethod
    def from_state(cls, state: Any, arrays: Mapping[str, Array]) -> Self:
        """Restore a fitted encoder, after a check of its arrays."""


class ArrayState(Saved, frozen=True):
    """What a file keeps of an :class:`ArrayEncoder` beside the medians."""

    impute: bool


class TextEncoder:
    """TF-IDF features of texts."""

    def __init__(self, features: TextFeatures | None = None) -> None:
        self._features = features or TextFeatures()

    def fit_transform(self, content: Sequence[str], y: Any = None) -> Any:
        """Fit vocabulary and inverse document frequencies, and return the features."""
        return self._features.fit_transform(content)

    def transform(self, content: Sequence[str]) -> Any:
        """Return the features of other texts over the fitted vocabulary."""
        return self._features.transform(content)

    @property
    def n_features(self) -> int:
        """The size of the vocabulary."""
        return len(self.vocabulary)

    @property
    def vocabulary(self) -> list[str]:
        """The word of each feature."""
        return self._features.vocabulary_

    def to_state(self) -> tuple[TextState, dict[str, Array]]:
        """Return plain values, and arrays."""
        return self._features.to_state()

    @classmethod
    def from_state(cls, state: TextState, arrays: Mapping[str, Array]) -> Self:
        """Restore a fitted encoder."""
        return cls(TextFeatures.from_state(state, arrays))


class ArrayEncoder:
    """Unchanged features; with ``impute``, missing values are replaced by the median of their column.

    A row of which all values are missing needs no ``impute``.
    """

    def __init__(self, *, impute: bool = False) -> None:
        self.impute = impute
        self._medians: Array | None = None
        self.imputed_: list[Imputed] = []
        self.empty_rows_: Array = np.zeros(0, dtype=np.int64)  # of which all values are missing

    def fit_transform(self, content: Any, y: Any = None) -> Any:
        """Compute the medians if they are needed, and return the features."""
        if not scipy.sparse.issparse(content) and self.impute:
            with np.errstate(all="ignore"):
                self._medians = np.nan_to_num(np.nanmedian(np.asarray(content, dtype=np.float64), axis=0))
        return self.transform(content)

    def transform(self, content: Any) -> Any:
        """Return the features of other rows."""
        if scipy.sparse.issparse(content):
            self.imputed_, self.empty_rows_ = [], np.zeros(0, dtype=np.int64)
            return content
        rows = np.asarray(content, dtype=content.dtype if content.dtype.kind == "f" else np.float32)
        if self._medians is not None and rows.shape[1] != len(self._medians):
            raise ValueError(f"rows must have {len(self._medians)} features as in the fit, got {rows.shape[1]}")
        missing = np.isnan(rows)
        nothing = missing.all(axis=1)
        self.imputed_, self.empty_rows_ = [], np.flatnonzero(nothing)
        if not missing.any():
            return rows
        missing[nothing] = False
        if self._medians is None and missing.any():
            raise ValueError(
                f"features must be numbers, got {int(missing.sum())} missing, the first in row "
                f"{int(missing.any(axis=1).argmax())}; fill them, or pass --impute"
            )
        medians = np.zeros(rows.shape[1]) if self._medians is None else self._medians
        for column in np.flatnonzero(missing.any(axis=0)).tolist():
            gaps = missing[:, column]
            filling = f"the median {medians[column]:g}"
            self.imputed_.append(Imputed(f"column {column}", int(gaps.sum()), int(gaps.argmax()), filling))
        missing[nothing] = True
        return np.where(missing, medians, rows).astype(rows.dtype)

    @property
    def n_features(self) -> int | None:
        """The number of medians, where there are any."""
        return None if self._medians is None else len(self._medians)

    def to_state(self) -> tuple[ArrayState, dict[str, Array]]:
        """Return plain values, and arrays."""
        return ArrayState(impute=self.impute), {} if self._medians is None else {"medians": self._medians}

    @classmethod
    def from_state(cls, state: ArrayState, arrays: Mapping[str, Array]) -> Self:
        """Restore a fitted encoder."""
        check_arrays(arrays, {"medians": floats("d")} if "medians" in arrays and state.impute else {})
        encoder = cls(impute=state.impute)
        encoder._medians = arrays.get("medians")
        return encoder
