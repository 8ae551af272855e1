"""``ANGPNEmbedding``: coordinates of rows without labels, by the adaptive neighbour graph."""

from typing import Any, Literal, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from angpn.ensemble.scaling import ScalingName
from angpn.estimators.diffusion import DiffusionMap
from angpn.estimators.unlabelled import UnlabelledRowsMixin
from angpn.neighbors.exact import Metric
from angpn.utils.typing import Array


class ANGPNEmbedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, UnlabelledRowsMixin):
    """The spectral embedding of the graph of adaptive neighbours: a diffusion map, for any number of rows.

    The graph is learnt as by :class:`angpn.ANGPNClusterer`, but from all columns. Its coordinates are the smoothest
    eigenvectors of the Laplacian but the constant one, each as strong as it is after some steps of diffusion, so that
    distances between rows are those that a random walk on the graph sees.

    Args:
        n_components: how many coordinates.
        n_neighbors: k of Eq. (9) of the first graph; of few rows, less.
        n_updates: how often the graph is learnt again from propagated features, with twice the neighbours each time.
        n_hops: hops of Eq. (13) before each.
        metric: as for :class:`angpn.ANGPNClassifier`; "precomputed" takes a full matrix of distances as X.
        scaling: as there; without labels "auto" is "standard" for a table ("none" where its columns have two values
            each), "idf" for sparse rows, and "unit" for others.
        recall: share of the nearest rows that an index for many rows is to find.
        random_state: an int gives the same result every time.
        verbose: show progress bars.

    Attributes:
        embedding_: the coordinates of every row, of variance 1 in the first one.
        eigenvalues_: of the normalised Laplacian, that of each coordinate.
        affinity_matrix_: S, sparse.
        n_features_in_, feature_names_in_: as everywhere in scikit-learn.

    >>> from sklearn.datasets import load_iris
    >>> X = load_iris().data
    >>> ANGPNEmbedding(random_state=0).fit_transform(X).shape
    (150, 2)
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_neighbors: int = 20,
        n_updates: int = 1,
        n_hops: int = 3,
        metric: Metric | Literal["auto"] = "auto",
        scaling: ScalingName | Literal["auto"] = "auto",
        recall: float = 0.9,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.n_updates = n_updates
        self.n_hops = n_hops
        self.metric = metric
        self.scaling = scaling
        self.recall = recall
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:  # (n, d)
        """Learn the graph, and find the coordinates of its rows.

        Args:
            X: features, dense or sparse; with ``metric="precomputed"`` the full matrix of distances.
            y: not used.

        Returns:
            The fitted estimator.

        Raises:
            ValueError: if X cannot be embedded; the message says what to change.
        """
        count = self._check_whole("n_components", 1)
        self._graph, seed = self._learn_graph(X)
        n_rows = self._graph.first.n_rows
        if count > n_rows - 1:
            raise ValueError(f"n_components must be less than the number of rows, {n_rows}, got {count}; ask for fewer")
        found = DiffusionMap.fit(self._graph.graph, count + 1, seed)
        coordinates = found.coordinates(count + 1)[:, 1:]
        scale = float(coordinates[:, 0].std())
        dtype = np.float64 if self._graph.rows is None else self._graph.rows.dtype
        self.embedding_ = (coordinates / (scale or 1.0)).astype(dtype)
        self.eigenvalues_ = found.eigenvalues[1:]
        self.affinity_matrix_ = self._graph.graph
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Array:  # (n, n_components)
        """Fit, and return the coordinates of the rows.

        Args:
            X: features, or distances, as for :meth:`fit`.
            y: not used.

        Returns:
            ``embedding_``.
        """
        return self.fit(X).embedding_

    def transform(self, X: Any) -> Array:  # (r, n_components)
        """Return the coordinates of new rows: the mean of their neighbours, by the weights that S would have.

        Args:
            X: new rows; with ``metric="precomputed"`` their distances to the fitted rows.

        Returns:
            Their coordinates; a fitted row has those that it had in the fit.
        """
        return self._mean_over_neighbors(X, getattr(self, "embedding_", np.empty((0, 0))))

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components)
