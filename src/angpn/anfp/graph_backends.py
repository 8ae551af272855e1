"""S of Eq. (8) for given features, by the backend that suits them."""

from typing import Any

import scipy.sparse
import torch

from angpn.anfp.algorithm import Options, algorithm1
from angpn.anfp.fused import graph_fused
from angpn.anfp.neighbor_graph import Gamma, Rule
from angpn.anfp.sparse import graph_sparse
from angpn.neighbors.neighborhood import Neighborhood


def learn_graph(
    neighborhood: Neighborhood,
    features: Any,  # (n, d) tensor or CSR array; None: from the distances alone, in float32
    *,
    n_neighbors: int,
    beta: float,
    gamma: Gamma = "auto",
    rule: Rule = "simplex",
) -> scipy.sparse.csr_array:  # (n, n_columns), without its zeros
    """Learn the graph on the candidates of each row: :func:`angpn.neighbor_graph`, one step of Algorithm 1.

    Args:
        neighborhood: each row's candidates and their distances.
        features: F of Eq. (8), one row for each list.
        n_neighbors: k of Eq. (9).
        beta: weight of the features.
        gamma: "auto", "local" or a number, see :func:`angpn.neighbor_graph`.
        rule: "simplex", "printed" or "knn", see :func:`angpn.neighbor_graph`.

    Returns:
        S, whose columns are the rows of the neighbourhood and then those of its halo.
    """
    if features is None:
        features, beta = torch.zeros(neighborhood.n_rows, 1), 0.0
    # Neither alpha nor the direction plays a part in the graph of a single step.
    options = Options(n_neighbors, 0.5, beta, gamma, rule, 1, "directed", graph_gradient=False, normalize=False)
    return graph_matrix(neighborhood, features, options)


def graph_matrix(neighborhood: Neighborhood, features: Any, options: Options) -> scipy.sparse.csr_array:
    """Return the S that Algorithm 1 ends with, compiled where that is possible."""
    if scipy.sparse.issparse(features):
        return neighborhood.to_csr(graph_sparse(neighborhood, features, options))
    if can_compile(features):
        return graph_fused(neighborhood, features, options)
    return neighborhood.to_csr(algorithm1(neighborhood, features, options)[1].detach())


def can_compile(features: torch.Tensor) -> bool:
    """Tell whether the compiled loops take such features."""
    return features.device.type == "cpu" and features.dtype in (torch.float32, torch.float64)
