"""The nearest-neighbour graph that all baselines share."""

from typing import Any

import numpy as np
import scipy.sparse

from angpn.neighbors.exact import Metric, nearest_candidates


def shared_graph(
    X: Any,  # (n, d) dense or sparse
    n_neighbors: int = 10,
    metric: Metric = "chord",
    *,
    self_loops: bool = False,
    random_state: int = 0,
) -> scipy.sparse.csr_array:  # (n, n)
    """Return the symmetric graph of nearest neighbours: 1 where either row is among the other's nearest, else 0.

    Args:
        X: Features.
        n_neighbors: Number of nearest neighbours of a row.
        metric: "chord", "euclidean" or "sqeuclidean", see :func:`angpn.pairwise_distances`.
        self_loops: Make each row its own neighbour too.
        random_state: Seed that breaks ties among equal distances.

    Returns:
        The graph.
    """
    n = X.shape[0]
    neighborhood = nearest_candidates(X, min(n_neighbors, n - 1), metric, random_state=random_state)
    columns, m = neighborhood.indices.numpy().flatten(), neighborhood.n_candidates
    directed = scipy.sparse.csr_array((np.ones(n * m), columns, np.arange(0, n * m + 1, m)), shape=(n, n))
    graph = scipy.sparse.csr_array(directed.maximum(directed.T))
    return with_self_loops(graph) if self_loops else graph


def with_self_loops(graph: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Return the graph with every row as its own neighbour."""
    return scipy.sparse.csr_array(graph.maximum(scipy.sparse.eye_array(graph.shape[0])))


def connected(graph: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Return the graph with a self-loop at each row that has no neighbour, so that no degree is 0."""
    isolated = np.asarray(graph.sum(axis=1)).ravel() == 0
    return scipy.sparse.csr_array(graph + scipy.sparse.diags_array(isolated.astype(float)))
