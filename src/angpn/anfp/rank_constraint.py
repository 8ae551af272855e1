"""Clustering with adaptive neighbours (CAN, Nie et al., 2014): a graph of as many components as there are clusters.

Eq. (5) without labels: instead of staying near some features H, F has c orthonormal columns. By Fan's theorem the
smallest Tr(F^T L F) is the sum of the c smallest eigenvalues of L, and that is zero exactly where the graph has at
least c connected components. So with a large enough weight on it the learnt graph is the clustering.
"""

from typing import NamedTuple

import scipy.sparse
import torch
from scipy.sparse.csgraph import connected_components

from angpn.anfp.neighbor_graph import Gamma, neighbor_weights, resolve_gamma
from angpn.anfp.spectral import smallest_eigenvectors, symmetric_adjacency
from angpn.neighbors.neighborhood import Neighborhood
from angpn.utils.typing import Array


class HalfStep(NamedTuple):
    """An update of S or of F, and what it reached."""

    weight: float  # lambda of the objective
    objective: float  # after it
    n_components: int  # of the graph then


class ConstrainedGraph(NamedTuple):
    """What :func:`rank_constrained_graph` found."""

    graph: scipy.sparse.csr_array  # S
    features: Array  # (n, c) F
    labels: Array  # (n,) the component of each row
    n_components: int
    half_steps: list[HalfStep]


def rank_constrained_graph(
    neighborhood: Neighborhood,
    n_clusters: int,
    *,
    n_neighbors: int,
    gamma: Gamma = "auto",
    max_iter: int = 60,
    tol: float = 1e-4,
    seed: int = 0,
) -> ConstrainedGraph:
    r"""Learn a graph with exactly so many connected components, if there is one on these candidates.

    .. math:: \min_{S, F} \; \sum_{ij} D_{ij} S_{ij} + \sum_i \gamma_i \|s_i\|^2 + 2 \lambda \, Tr(F^T L_S F)
              \quad \text{s.t.} \quad \sum_j S_{ij} = 1, \; S_{ij} \ge 0, \; F^T F = n I

    where :math:`L_S` is the Laplacian of :math:`(S + S^T) / 2`, so that the last term is
    :math:`\lambda \sum_{ij} S_{ij} \|f_i - f_j\|^2`. S and F are updated in turn, each exactly, so that the objective
    never rises while lambda stays. Lambda begins at the mean of gamma; it is doubled while there are fewer components
    than wanted. Where there are more, the update of S is taken back, and lambda is halved.

    Args:
        neighborhood: candidates and distances. CAN has squared Euclidean ones.
        n_clusters: c, how many components are wanted.
        n_neighbors: k of Eq. (9).
        gamma: "auto", "local" or a number, see :func:`angpn.neighbor_graph`.
        max_iter: updates of S at most.
        tol: of the eigenvectors.
        seed: seed of the first vectors of the solver.

    Returns:
        Graph, features and components. ``n_components`` is not c where ``max_iter`` did not suffice, or where the
        distances alone have more components already: more neighbours join some.
    """
    distances = neighborhood.distances
    n = neighborhood.n_rows
    gammas = resolve_gamma(distances, n_neighbors, gamma)
    weight = float(gammas.mean())
    half_steps: list[HalfStep] = []

    def learn(gaps: torch.Tensor | None) -> tuple[torch.Tensor, scipy.sparse.csr_array, int, Array]:
        affinities = None if gaps is None else -gaps
        weights = neighbor_weights(
            distances, affinities, n_neighbors=n_neighbors, beta=weight, gamma=gammas, rule="simplex"
        )
        adjacency = symmetric_adjacency(neighborhood.to_csr(weights))
        return weights, adjacency, *connected_components(adjacency, directed=False)

    def note(weights: torch.Tensor, gaps: torch.Tensor, n_components: int) -> None:
        objective = float(((distances + weight * gaps) * weights).sum() + (gammas * weights.square()).sum())
        half_steps.append(HalfStep(weight, objective, n_components))

    def embed(adjacency: scipy.sparse.csr_array, start: Array | None) -> tuple[torch.Tensor, torch.Tensor, Array]:
        vectors = smallest_eigenvectors(adjacency, n_clusters, normalized=False, start=start, tol=tol, seed=seed)[1]
        features = torch.from_numpy(vectors[:, :n_clusters] * n**0.5).to(distances)
        return features, _squared_distances(neighborhood, features), vectors

    weights, adjacency, n_components, labels = learn(None)
    features, gaps, vectors = embed(adjacency, None)
    note(weights, gaps, n_components)
    for _ in range(max_iter if n_components < n_clusters else 0):
        before = weights, adjacency, n_components, labels
        weights, adjacency, n_components, labels = learn(gaps)
        note(weights, gaps, n_components)
        if n_components == n_clusters:
            break
        if n_components > n_clusters:
            weights, adjacency, n_components, labels = before
            weight /= 2
            continue
        features, gaps, vectors = embed(adjacency, vectors)
        note(weights, gaps, n_components)
        weight *= 2
    return ConstrainedGraph(neighborhood.to_csr(weights), features.numpy(), labels, n_components, half_steps)


def _squared_distances(neighborhood: Neighborhood, features: torch.Tensor) -> torch.Tensor:  # (n, m)
    """Return ||f_i - f_j||^2 for each candidate j of row i."""
    squares = features.square().sum(dim=1)
    found = squares[:, None] + squares[neighborhood.indices.long()] - 2 * neighborhood.affinities(features)
    return found.clamp(min=0)
