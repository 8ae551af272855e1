"""``ANGPNClusterer``: groups of rows without labels, by the adaptive neighbour graph."""

from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.cluster import KMeans

from angpn.anfp.rank_constraint import ConstrainedGraph, rank_constrained_graph
from angpn.anfp.spectral import symmetric_adjacency
from angpn.ensemble.scaling import ScalingName
from angpn.estimators.adaptive_graph import AdaptiveGraph
from angpn.estimators.diffusion import DiffusionMap
from angpn.estimators.unlabelled import UnlabelledRowsMixin
from angpn.neighbors.exact import Metric
from angpn.utils.checks import check_choice
from angpn.utils.typing import Array

_MOST_CLUSTERS = 30  # that are looked for where their number is not given
_STARTS = 20  # of k-means
_ROWS_OF_STARTS = 20_000  # on which they are compared


class ANGPNClusterer(ClusterMixin, UnlabelledRowsMixin):
    """Clustering by the graph of adaptive neighbours, for any number of rows.

    Rows that are compared by direction (words, pixels, columns of 0 and 1) are first reduced to their 2 c + 2 main
    directions for c clusters: the noise of hundreds of columns hides which rows are near. The graph is learnt from
    distances (Eq. (8) with beta 0), features are propagated on it, and it is learnt again from these with twice as many
    neighbours: a graph that is learnt from its own features without that falls apart. Its
    diffusion map, the smoothest eigenvectors of its Laplacian, is then divided by k-means; or the graph itself is made
    to have as many connected components as clusters are wanted, by the rank constraint of CAN (Nie et al., 2014).

    Args:
        n_clusters: how many clusters; None takes the number, 2 to 30, after which the share of a random walk that
            stays within them for 16 steps falls most: the largest gap between powers of the eigenvalues.
        assign_labels: "kmeans" divides the diffusion map; "components" learns a graph whose connected components are
            the clusters. That is exact where clusters are apart, and cuts off outliers as clusters of their own where
            they are not.
        n_neighbors: k of Eq. (9) of the first graph; of few rows, less.
        n_updates: how often the graph is learnt again from propagated features, with twice the neighbours each time.
        n_hops: hops of Eq. (13) before each.
        metric: as for :class:`angpn.ANGPNClassifier`; "precomputed" takes a full matrix of distances as X, which has no
            features to propagate: the last graph is then learnt at once.
        scaling: as there; without labels "auto" is "standard" for a table ("none" where its columns have two values
            each), "idf" for sparse rows, and "unit" for others.
        recall: share of the nearest rows that an index for many rows is to find.
        random_state: an int gives the same result every time.
        verbose: show progress bars.

    Attributes:
        labels_: the cluster of every row, the largest cluster first.
        n_clusters_: how many clusters there are.
        eigengap_: that gap, from 0 to 1; near 0 their number is a guess. None where it was given.
        affinity_matrix_: (S + S^T) / 2 of the last graph, sparse.
        embedding_: the diffusion map that was divided, each row a direction.
        eigenvalues_: of the normalised Laplacian, from 0.
        margins_: from 0 to 1, how much nearer each row is to the centre of its cluster than to the next one.
        typicality_: how dense its neighbourhood is, times its margin: the largest of a cluster are typical of it.
        half_steps_: with "components" what each update of the graph and of the features reached, else None.
        n_features_in_, feature_names_in_: as everywhere in scikit-learn.

    >>> from sklearn.datasets import make_blobs
    >>> X, truth = make_blobs(300, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)
    >>> model = ANGPNClusterer(random_state=0).fit(X)
    >>> model.n_clusters_, np.bincount(model.labels_).tolist()
    (3, [100, 100, 100])
    """

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        assign_labels: Literal["kmeans", "components"] = "kmeans",
        n_neighbors: int = 20,
        n_updates: int = 1,
        n_hops: int = 3,
        metric: Metric | Literal["auto"] = "auto",
        scaling: ScalingName | Literal["auto"] = "auto",
        recall: float = 0.9,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.assign_labels = assign_labels
        self.n_neighbors = n_neighbors
        self.n_updates = n_updates
        self.n_hops = n_hops
        self.metric = metric
        self.scaling = scaling
        self.recall = recall
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:  # (n, d)
        """Find the clusters.

        Args:
            X: features, dense or sparse; with ``metric="precomputed"`` the full matrix of distances.
            y: not used.

        Returns:
            The fitted estimator.

        Raises:
            ValueError: if X cannot be clustered; the message says what to change.
        """
        wanted = None if self.n_clusters is None else self._check_whole("n_clusters", 1)
        check_choice(self.assign_labels, "assign_labels", ("kmeans", "components"))
        n_rows = getattr(X, "shape", (0,))[0]
        if wanted is not None and 0 < n_rows < wanted:
            raise ValueError(f"n_clusters must be at most the number of rows, {n_rows}, got {wanted}; ask for fewer")
        n_coordinates = 2 * (wanted or _MOST_CLUSTERS) + 2
        graph, seed = self._learn_graph(X, n_directions=n_coordinates)
        if float(graph.first.distances.max()) == 0:
            raise ValueError(
                "rows must differ, got rows that are all alike; there is one cluster, or a column is missing"
            )
        diffusion = DiffusionMap.fit(graph.graph, n_coordinates, seed)
        self.eigengap_ = None
        if wanted is None:
            wanted, self.eigengap_ = _eigengap(diffusion.shares)
        self._graph, self.eigenvalues_ = graph, diffusion.eigenvalues
        self.embedding_ = diffusion.directions(2 * wanted + 2)
        self.half_steps_ = None
        if self.assign_labels == "components":
            constrained = _constrained(graph, wanted, seed)
            labels, learnt, self.half_steps_ = constrained.labels, constrained.graph, constrained.half_steps
        else:
            labels, learnt = _kmeans(self.embedding_, wanted, seed), graph.graph
        self.affinity_matrix_ = symmetric_adjacency(learnt)
        self.labels_, self.n_clusters_ = _largest_first(labels), len(np.unique(labels))
        self.margins_ = _margins(self.embedding_, self.labels_)
        nearest = graph.neighborhood.distances[:, : graph.grown].mean(dim=1).numpy()
        self.typicality_ = self.margins_ / (1 + nearest / max(float(np.median(nearest)), np.finfo(np.float32).tiny))
        return self

    def predict(self, X: Any) -> Array:  # (r,)
        """Return the clusters of new rows: of each the one with most weight among its neighbours.

        Args:
            X: new rows; with ``metric="precomputed"`` their distances to the fitted rows.

        Returns:
            The number of the cluster of each row; a fitted row has the cluster that it had in the fit.
        """
        members = np.eye(self.n_clusters_)[self.labels_] if hasattr(self, "labels_") else np.empty((0, 0))
        return self._mean_over_neighbors(X, members).argmax(axis=1)


def _eigengap(shares: Array) -> tuple[int, float]:
    """Return the number of clusters, two or more, after which the largest gap comes, and this gap."""
    gaps = -np.diff(shares[1:])[: _MOST_CLUSTERS - 1]
    return int(gaps.argmax()) + 2, float(gaps.max())


def _kmeans(embedding: Array, n_clusters: int, seed: int) -> Array:  # (n,)
    """Divide by k-means: the best of some starts, of many rows on a sample, and then all rows from there."""
    n = len(embedding)
    if n <= _ROWS_OF_STARTS:
        return KMeans(n_clusters, n_init=_STARTS, random_state=seed).fit_predict(embedding)
    sample = np.random.default_rng(seed).choice(n, _ROWS_OF_STARTS, replace=False)
    found = KMeans(n_clusters, n_init=_STARTS, random_state=seed).fit(embedding[sample])
    return KMeans(n_clusters, init=found.cluster_centers_, n_init=1, max_iter=50).fit_predict(embedding)


def _constrained(graph: AdaptiveGraph, n_clusters: int, seed: int) -> ConstrainedGraph:
    """Learn the graph of so many components, with more neighbours where few leave too many components."""
    neighborhood = replace(graph.neighborhood, distances=graph.neighborhood.distances.square())  # as CAN has them
    k = graph.grown
    while True:
        found = rank_constrained_graph(neighborhood, n_clusters, n_neighbors=k, seed=seed)
        if found.n_components == n_clusters:
            return found
        if found.n_components < n_clusters:
            raise ValueError(
                f"a graph of {n_clusters} components must be found, got one of {found.n_components}; ask for fewer "
                "clusters, or use assign_labels='kmeans'"
            )
        if k >= neighborhood.n_candidates - 1:
            raise ValueError(
                f"n_clusters must be at least {found.n_components}, into which the rows fall with any neighbours, "
                f"got {n_clusters}; ask for more clusters, raise n_neighbors, or use assign_labels='kmeans'"
            )
        k = min(2 * k, neighborhood.n_candidates - 1)


def _largest_first(labels: Array) -> Array:
    names, codes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    rank = np.empty(len(names), np.int64)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(len(names))
    return rank[codes]


def _margins(embedding: Array, labels: Array) -> Array:  # (n,)
    """Return 1 - (distance to the own centre) / (distance to the nearest other), at least 0."""
    n_clusters = int(labels.max()) + 1
    if n_clusters == 1:
        return np.ones(len(labels))
    centers = np.stack([embedding[labels == label].mean(axis=0) for label in range(n_clusters)])
    distances = np.stack([np.linalg.norm(embedding - center, axis=1) for center in centers], axis=1)
    own = distances[np.arange(len(labels)), labels]
    distances[np.arange(len(labels)), labels] = np.inf
    other = distances.min(axis=1)
    return np.clip(1 - own / np.where(other > 0, other, 1), 0, 1)
