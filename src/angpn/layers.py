"""The hidden propagation layer of ANGPN, Eq. (12)."""

from collections.abc import Callable
from typing import get_args

import torch
from torch import Tensor, nn

from angpn.anfp import algorithm1
from angpn.checks import as_float_tensor, check_alpha, check_choice, check_same_rows
from angpn.graph import Gamma, Rule, check_candidates, check_graph_options
from angpn.neighborhood import DenseNeighborhood, Neighborhood, as_neighborhood
from angpn.propagation import Direction


class ANGPNConv(nn.Module):
    r"""Learns the neighbour graph that best serves propagation, propagates on it, and maps the result.

    .. math:: H^{(k+1)} = \sigma\big( P(D, H^{(k)}) \, W^{(k)} \big)

    with :math:`P` the ``num_steps`` alternations of Algorithm 1 (``None``: until it settles).

    Args:
        in_channels: width of the input.
        out_channels: width of the output.
        n_neighbors: k of Eq. (9), the sparsity of the graph.
        alpha: fraction that a row takes from its neighbours, Eq. (13).
        beta: weight of the features in the graph, Eq. (8); 0 leaves the distances alone to decide (NGPN).
        gamma: "auto", "local" or a number, see :func:`angpn.neighbor_graph`.
        rule: "simplex", "printed" or "knn", see :func:`angpn.neighbor_graph`.
        num_steps: T of Algorithm 1.
        direction: propagate on S ("directed", the paper's), on (S + S^T)/2 ("symmetric"), or on that one with its
            degrees divided out ("normalized").
        graph_gradient: let the gradient flow through S.
        normalize: let the graph see the rows of F at unit length, so that F F^T stays in [-1, 1] beside the distances
            however long the features grow; what is propagated keeps its length.
        activation: sigma, or None for the identity.

    Shapes: features (n, in_channels) and the distances, an (n, n) matrix or a
    :class:`~angpn.neighborhood.Neighborhood`, to (n, out_channels).
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        n_neighbors: int = 10,
        alpha: float = 0.5,
        beta: float = 0.3,
        gamma: Gamma = "auto",
        rule: Rule = "simplex",
        num_steps: int | None = 2,
        direction: Direction = "directed",
        graph_gradient: bool = True,
        normalize: bool = False,
        activation: Callable[[Tensor], Tensor] | None = torch.relu,
    ) -> None:
        super().__init__()
        check_alpha(alpha)
        check_graph_options(n_neighbors=n_neighbors, beta=beta, gamma=gamma, rule=rule)
        check_choice(direction, "direction", get_args(Direction))
        if num_steps is not None and num_steps < 1:
            raise ValueError(f"num_steps must be at least 1, got {num_steps}; None runs to convergence")
        if in_channels < 1 or out_channels < 1:
            raise ValueError(
                f"in_channels and out_channels must be at least 1, got {in_channels} and {out_channels}; "
                "in_channels is the number of columns of the features"
            )
        self.in_channels, self.out_channels = in_channels, out_channels
        self.n_neighbors, self.alpha, self.beta, self.gamma, self.rule = n_neighbors, alpha, beta, gamma, rule
        self.num_steps, self.direction, self.graph_gradient = num_steps, direction, graph_gradient
        self.normalize, self.activation = normalize, activation
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels))
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Glorot initialisation."""
        nn.init.xavier_uniform_(self.weight, generator=generator)

    def propagate(
        self, features: Tensor, distances: Tensor | Neighborhood | DenseNeighborhood
    ) -> tuple[Tensor, Tensor]:
        """P(D, H) of Algorithm 1, and the weights of S on the candidates it ended with."""
        hood = as_neighborhood(distances)
        features = as_float_tensor(features, "features").to(self.weight.dtype)
        if features.shape[1] != self.in_channels:
            raise ValueError(
                f"features must have in_channels={self.in_channels} columns, got {features.shape[1]}; "
                "make the layer as wide as its input"
            )
        check_same_rows(len(features), hood.n_rows, "features", "distances")
        check_candidates(hood, n_neighbors=self.n_neighbors, gamma=self.gamma, rule=self.rule)
        return algorithm1(
            hood,
            features,
            n_neighbors=self.n_neighbors,
            alpha=self.alpha,
            beta=self.beta,
            gamma=self.gamma,
            rule=self.rule,
            num_steps=self.num_steps,
            direction=self.direction,
            graph_gradient=self.graph_gradient,
            normalize=self.normalize,
        )

    def forward(self, features: Tensor, distances: Tensor | Neighborhood | DenseNeighborhood) -> Tensor:
        """Eq. (12)."""
        return self.transform(self.propagate(features, distances)[0])

    def transform(self, propagated: Tensor) -> Tensor:
        """What Eq. (12) does with P(D, H): the linear map and the activation."""
        mapped = propagated @ self.weight
        return mapped if self.activation is None else self.activation(mapped)

    def extra_repr(self) -> str:
        """The options that differ between layers one meets."""
        return (
            f"{self.in_channels}, {self.out_channels}, n_neighbors={self.n_neighbors}, "
            f"alpha={self.alpha}, beta={self.beta}, num_steps={self.num_steps}"
        )
