"""What the estimators without labels share: input checks, and the graph that they learn."""

from typing import Any, get_args

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from angpn.ensemble.scaling import SCALINGS
from angpn.estimators.adaptive_graph import AdaptiveGraph, AdaptiveGraphOptions
from angpn.neighbors.exact import Metric
from angpn.utils.checks import check_choice, check_number
from angpn.utils.inputs import check_not_negative, check_sizes, naming_table_encoder, without_torch
from angpn.utils.typing import Array


class UnlabelledRowsMixin(BaseEstimator):
    """Rows without labels, and the graph of them."""

    def _check_whole(self, name: str, least: int) -> int:
        value = getattr(self, name)
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}")
        return int(value)

    def _learn_graph(self, X: Any, n_directions: int | None = None) -> tuple[AdaptiveGraph, int]:
        """Check X and the parameters, and learn the graph; return it and the seed of all that is drawn."""
        check_choice(self.metric, "metric", ("auto", *get_args(Metric)))
        check_choice(self.scaling, "scaling", ("auto", *SCALINGS))
        check_number(self.recall, "recall")
        if not 0 < self.recall <= 1:
            raise ValueError(f"recall must lie in (0, 1], got {self.recall}; the default is 0.9, 1 searches exactly")
        n_neighbors, n_updates, n_hops = (
            self._check_whole(name, least) for name, least in (("n_neighbors", 1), ("n_updates", 0), ("n_hops", 1))
        )
        X = self._checked_rows(X, reset=True)
        if self.metric == "precomputed":
            if scipy.sparse.issparse(X) or X.shape[0] != X.shape[1]:
                kind = "a sparse one" if scipy.sparse.issparse(X) else f"shape {X.shape}"
                raise ValueError(
                    f"X must be a full square matrix of distances with metric='precomputed', got {kind}; pass features "
                    "with another metric"
                )
            check_not_negative(X)
        else:
            check_sizes(X, None, self._column_name)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        options = AdaptiveGraphOptions(
            n_neighbors,
            n_updates,
            n_hops,
            self.metric,
            self.scaling,
            float(self.recall),
            seed,
            bool(self.verbose),
            n_directions,
        )
        return AdaptiveGraph.learn(X, options), seed

    def _checked_rows(self, X: Any, *, reset: bool) -> Any:
        X = without_torch(X)
        with naming_table_encoder(X):
            return validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                ensure_min_samples=3 if reset else 1,
            )

    def _column_name(self, place: int) -> str:
        names = getattr(self, "feature_names_in_", None)
        return str(place) if names is None else repr(str(names[place]))

    def _mean_over_neighbors(self, X: Any, values: Array) -> Array:  # (r, p)
        """Return for new rows the mean of the values (n, p) of fitted rows, by the weights that S would have."""
        check_is_fitted(self)
        X = self._checked_rows(X, reset=False)
        parts = [np.einsum("rm,rmp->rp", weights, values[rows]) for rows, weights in self._graph.weights_of(X)]
        return np.concatenate(parts).astype(X.dtype)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.metric == "precomputed"
        return tags
