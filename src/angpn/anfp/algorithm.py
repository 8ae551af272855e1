"""Algorithm 1: the graph by Eq. (9) and the features by Eq. (13), in turn. The reference for the compiled forms."""

from typing import NamedTuple

import torch
from torch import Tensor

from angpn.anfp.neighbor_graph import Gamma, Rule, neighbor_weights, resolve_gamma
from angpn.anfp.propagation import Direction, aggregate
from angpn.neighbors.neighborhood import DenseNeighborhood, Neighborhood


class Options(NamedTuple):
    """Options of Algorithm 1, for all its backends.

    ``num_steps=None`` runs it until F settles to ``tol``, at most ``max_steps`` times. Without ``graph_gradient`` S is
    a constant to autograd. With ``normalize`` the graph is made from the rows of F at unit length; what is propagated
    keeps its length.
    """

    n_neighbors: int
    alpha: float
    beta: float
    gamma: Gamma
    rule: Rule
    num_steps: int | None
    direction: Direction
    graph_gradient: bool
    normalize: bool
    max_steps: int = 100
    tol: float = 1e-5

    @property
    def step_limit(self) -> int:
        """The number of steps at most; one at beta = 0, where the graph does not depend on F."""
        return 1 if self.beta == 0 else self.num_steps or self.max_steps

    @property
    def until_settled(self) -> bool:
        """Whether the steps end when F settles."""
        return self.num_steps is None and self.beta > 0


def algorithm1(
    neighborhood: Neighborhood | DenseNeighborhood,
    features: Tensor,  # (n, d) H
    options: Options,
) -> tuple[Tensor, Tensor]:  # F (n, d), and the weights of S (n, m)
    r"""Run Algorithm 1 on a neighbourhood: from F = H, S from F by Eq. (9), then F from S by Eq. (13), and again."""
    distances = neighborhood.distances.to(features.dtype)
    k, beta, rule = options.n_neighbors, options.beta, options.rule
    gammas = resolve_gamma(distances, k, options.gamma, mean_over_rows=neighborhood.partition.mean)
    propagated = features
    for _ in range(options.step_limit):
        graph_features = propagated if options.graph_gradient else propagated.detach()
        if options.normalize:
            graph_features = unit_rows(graph_features)
        affinities = neighborhood.affinities(graph_features) if beta > 0 else None
        weights = neighbor_weights(distances, affinities, n_neighbors=k, beta=beta, gamma=gammas, rule=rule)
        previous = propagated
        received = aggregate(neighborhood, weights, features, options.direction)
        propagated = options.alpha * received + (1 - options.alpha) * features
        if options.until_settled:
            sizes = (part.detach().abs().max() for part in (propagated - previous, propagated))
            change, largest = map(neighborhood.partition.all_reduce_max, sizes)
            if change <= options.tol * largest:
                break
    return propagated, weights


def unit_rows(features: Tensor) -> Tensor:
    """Scale rows to unit length; a row of no length (every unit dead) stays zero and has no gradient."""
    squares = features.square().sum(dim=-1, keepdim=True)
    alive = squares > 1e-12
    return features * torch.where(alive, torch.where(alive, squares, 1).rsqrt(), 0)
