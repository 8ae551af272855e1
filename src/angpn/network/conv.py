"""The hidden propagation layer of ANGPN, Eq. (12)."""

import copy
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import scipy.sparse
import torch
from torch import Tensor, nn

from angpn.anfp.algorithm import Options, algorithm1
from angpn.anfp.fused import algorithm1_fused, graph_fused
from angpn.anfp.graph_backends import can_compile
from angpn.anfp.neighbor_graph import Gamma, Rule, check_candidates, check_graph_options
from angpn.anfp.propagation import Direction, aggregate
from angpn.anfp.sparse import PropagatedSparse, graph_sparse, propagate_sparse
from angpn.neighbors.neighborhood import DenseNeighborhood, Neighborhood, as_neighborhood
from angpn.network.linear_map import linear_map
from angpn.utils.checks import as_float_tensor, as_sparse_rows, check_alpha, check_choice, check_finite, check_same_rows

Backend = Literal["auto", "kernel", "torch", "dense"]


class ANGPNConv(nn.Module):
    r"""Learn the neighbour graph together with the propagation on it, and map the propagated features.

    .. math:: H^{(k+1)} = \sigma\big( P(D, H^{(k)}) \, W^{(k)} \big)

    with :math:`P` the ``num_steps`` alternations of Algorithm 1 (``None``: until it settles).

    Args:
        in_channels: width of the input.
        out_channels: width of the output.
        n_neighbors: k of Eq. (9), about how many neighbours a row has (exactly so for beta = 0 and gamma "local"). With
            gamma "auto" or "local" a row needs at least k + 1 candidates to choose from.
        alpha: fraction that a row takes from its neighbours, Eq. (13).
        beta: weight of the features in the graph, Eq. (8); at 0 it depends on the distances alone (NGPN).
        gamma: "auto", "local" or a number, see :func:`angpn.neighbor_graph`.
        rule: "simplex", "printed" or "knn", see :func:`angpn.neighbor_graph`.
        num_steps: T of Algorithm 1.
        direction: propagate on S ("directed", the paper's), on (S + S^T)/2 ("symmetric"), or on that one with its
            degrees divided out ("normalized").
        graph_gradient: let the gradient flow through S.
        normalize: make the graph from the rows of F at unit length, so that F F^T stays in [-1, 1] beside the
            distances however long the features grow; what is propagated keeps its length.
        activation: sigma, or None for the identity.
        backend: "kernel" (compiled, candidate lists on the CPU), "torch" (plain torch operations on lists, any device),
            "dense" (n x n matrices, the reference), or "auto": the first of these that fits the input.

    Shapes: features (n, in_channels), dense or sparse, and the distances, an (n, n) matrix or a
    :class:`~angpn.neighbors.neighborhood.Neighborhood`, to (n, out_channels).

    Raises:
        ValueError: if an option is out of its range; on use, if shapes or the backend do not fit the input.
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
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        check_alpha(alpha)
        check_graph_options(n_neighbors=n_neighbors, beta=beta, gamma=gamma, rule=rule)
        check_choice(direction, "direction", get_args(Direction))
        check_choice(backend, "backend", get_args(Backend))
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
        self.normalize, self.activation, self.backend = normalize, activation, backend
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels))
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights anew (Glorot).

        Args:
            generator: source of randomness; torch's global one by default.
        """
        glorot_(self.weight, generator)

    def propagate(
        self,
        features: Tensor | scipy.sparse.csr_array,
        distances: Tensor | Neighborhood | DenseNeighborhood,
        rows: Tensor | None = None,
    ) -> Tensor | PropagatedSparse:
        """Return P(D, H) of Algorithm 1, or only these of its rows (distinct), which is less work when compiled."""
        sparse = as_sparse_rows(features, self.weight.dtype)
        if sparse is not None:
            factors = propagate_sparse(self._checked_lists(sparse, distances), sparse, self._options)
            return factors if rows is None else factors[rows]
        features, neighborhood, backend = self._checked(features, distances)
        if backend == "kernel":
            assert isinstance(neighborhood, Neighborhood)
            return algorithm1_fused(neighborhood, features, self._options, rows)
        propagated = algorithm1(neighborhood, features, self._options)[0]
        return propagated if rows is None else propagated[rows]

    def propagation(
        self,
        features: Tensor | scipy.sparse.csr_array,
        distances: Tensor | Neighborhood | DenseNeighborhood,
    ) -> Callable[[Any], Tensor | PropagatedSparse]:
        """Return the propagation of other features (n, in_channels) on the S that Algorithm 1 ends with for these.

        Both are dense or both are sparse. For ``features`` themselves it is :meth:`propagate`.
        """
        sparse = as_sparse_rows(features, self.weight.dtype)
        if sparse is not None:
            return propagate_sparse(self._checked_lists(sparse, distances), sparse, self._options).with_features
        features, neighborhood, _ = self._checked(features, distances)
        graph = algorithm1(neighborhood, features, self._options)[1]

        def step(other: Tensor) -> Tensor:
            received = aggregate(neighborhood, graph, other, self.direction)
            return self.alpha * received + (1 - self.alpha) * other

        return step

    def after_steps(
        self,
        num_steps: int | None,
        features: Tensor | scipy.sparse.csr_array,
        distances: Tensor | Neighborhood | DenseNeighborhood,
    ) -> Tensor | scipy.sparse.csr_array:
        """Return F after another number of steps of Algorithm 1: H itself after 0, the converged F for None."""
        if num_steps == 0 or self.beta == 0:
            return features
        propagated = self.with_steps(num_steps).propagate(features, distances)
        return propagated.multiplied() if isinstance(propagated, PropagatedSparse) else propagated

    def with_steps(self, num_steps: int | None) -> "ANGPNConv":
        """Return the same layer, with the same weights, for another number of steps."""
        other = copy.copy(self)
        other.num_steps = num_steps
        return other

    def graph(self, features: Tensor, distances: Tensor | Neighborhood | DenseNeighborhood) -> Tensor:
        """Return the S that Algorithm 1 ends with.

        Args:
            features: H, (n, in_channels).
            distances: a neighbourhood, or an (n, n) matrix.

        Returns:
            Its weights on the candidates, (n, m), or (n, n) for a full matrix.
        """
        sparse = as_sparse_rows(features, self.weight.dtype)
        if sparse is not None:
            return graph_sparse(self._checked_lists(sparse, distances), sparse, self._options)
        features, neighborhood, _ = self._checked(features, distances)
        return algorithm1(neighborhood, features, self._options)[1]

    def graph_matrix(self, features: Tensor, neighborhood: Neighborhood) -> scipy.sparse.csr_array:
        """Return the same S as a sparse matrix without its zeros, compiled where that is possible."""
        if as_sparse_rows(features, self.weight.dtype) is None:
            features, checked, backend = self._checked(features, neighborhood)
            if isinstance(checked, DenseNeighborhood):
                return scipy.sparse.csr_array(algorithm1(checked, features, self._options)[1].numpy())
            if backend == "kernel":
                return graph_fused(checked, features, self._options)
        return neighborhood.to_csr(self.graph(features, neighborhood))

    @property
    def _options(self) -> Options:
        graph = self.n_neighbors, self.alpha, self.beta, self.gamma, self.rule
        return Options(*graph, self.num_steps, self.direction, self.graph_gradient, self.normalize)

    def _checked(
        self, features: Tensor, distances: Tensor | Neighborhood | DenseNeighborhood
    ) -> tuple[Tensor, Neighborhood | DenseNeighborhood, Backend]:
        """Return the input as the backend takes it, and which backend that is."""
        neighborhood = as_neighborhood(distances)
        features = as_float_tensor(features, "features").to(self.weight.dtype)
        self._check_shape(features.shape, neighborhood)
        if isinstance(neighborhood, DenseNeighborhood):
            if self.backend in ("kernel", "torch"):
                raise ValueError(
                    f"backend={self.backend!r} works on candidate lists, got an (n, n) matrix of distances; "
                    "make lists with nearest_candidates, or use backend='auto' or 'dense'"
                )
            return features, neighborhood, "dense"
        if self.backend == "dense":
            return features, neighborhood.to_dense(), "dense"
        if self.backend == "auto":
            return features, neighborhood, "kernel" if can_compile(features) else "torch"
        if self.backend == "kernel" and features.device.type != "cpu":
            raise ValueError(
                f"backend='kernel' runs on the CPU, got features on {features.device}; use backend='torch'"
            )
        return features, neighborhood, self.backend

    def forward(self, features: Tensor, distances: Tensor | Neighborhood | DenseNeighborhood) -> Tensor:
        """Apply Eq. (12).

        Args:
            features: H, (n, in_channels), a tensor or a sparse matrix.
            distances: a neighbourhood, or an (n, n) matrix.

        Returns:
            The next H, (n, out_channels).
        """
        return self.transform(self.propagate(features, distances))

    def _checked_lists(
        self, features: scipy.sparse.csr_array, distances: Tensor | Neighborhood | DenseNeighborhood
    ) -> Neighborhood:
        if not isinstance(distances, Neighborhood) or self.backend in ("torch", "dense"):
            raise ValueError(
                f"sparse features need candidate lists and backend 'auto' or 'kernel', got {type(distances).__name__} "
                f"and backend={self.backend!r}; make lists with nearest_candidates, or pass dense features"
            )
        check_finite(torch.from_numpy(features.data)[:, None], "features")
        self._check_shape(features.shape, distances)
        return distances

    def _check_shape(self, shape: Sequence[int], neighborhood: Neighborhood | DenseNeighborhood) -> None:
        if shape[1] != self.in_channels:
            raise ValueError(
                f"features must have in_channels={self.in_channels} columns, got {shape[1]}; "
                "make the layer as wide as its input"
            )
        check_same_rows(shape[0], neighborhood.n_rows, "features", "distances")
        check_candidates(neighborhood, n_neighbors=self.n_neighbors, gamma=self.gamma, rule=self.rule)

    def transform(self, propagated: Tensor | PropagatedSparse) -> Tensor:
        """Apply the linear map and the activation of Eq. (12) to P(D, H)."""
        if isinstance(propagated, Tensor) and can_compile(propagated):
            rectify = self.activation is torch.relu
            mapped = linear_map(propagated, self.weight.t(), rectify=rectify)
            return mapped if rectify or self.activation is None else self.activation(mapped)
        mapped = propagated @ self.weight
        return mapped if self.activation is None else self.activation(mapped)

    def extra_repr(self) -> str:
        """Return the options that usually differ between layers."""
        return (
            f"{self.in_channels}, {self.out_channels}, n_neighbors={self.n_neighbors}, "
            f"alpha={self.alpha}, beta={self.beta}, num_steps={self.num_steps}"
        )


def glorot_(weight: Tensor, generator: torch.Generator | None) -> None:
    """Fill by Glorot's uniform initialisation, drawn on the CPU whatever the device: one seed, one result."""
    if weight.is_meta:
        return  # there is nothing to fill, and no number of the generator is spent
    drawn = nn.init.xavier_uniform_(torch.empty(weight.shape, dtype=weight.dtype, device="cpu"), generator=generator)
    with torch.no_grad():
        weight.copy_(drawn)
