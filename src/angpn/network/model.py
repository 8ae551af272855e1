"""The network: hidden propagation layers of Eq. (12), then a perceptron and the softmax of Eq. (14)."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import scipy.sparse
import torch
from msgspec import Meta
from torch import Tensor, nn

from angpn.anfp.graph_backends import can_compile
from angpn.anfp.neighbor_graph import Rule
from angpn.anfp.propagation import Direction
from angpn.anfp.sparse import PropagatedSparse
from angpn.neighbors.neighborhood import DenseNeighborhood, Neighborhood, as_neighborhood
from angpn.network.conv import ANGPNConv, glorot_
from angpn.network.linear_map import linear_map
from angpn.utils.array_checks import MAX_WEIGHT, ArraySpec, check_arrays, floats
from angpn.utils.schema import MAX_STEPS, Beta, Flag, Gamma, OpenShare, Saved, Size
from angpn.utils.typing import Array


class NetworkState(Saved, frozen=True):
    """What a file keeps of an :class:`ANGPN` beside its weights: the arguments of its constructor."""

    in_channels: Size
    hidden_channels: Annotated[list[Size], Meta(min_length=1)]
    out_channels: Annotated[int, Meta(ge=2, le=2**40)]
    normalize_hidden: Flag
    dropout: Annotated[float, Meta(ge=0, lt=1)]
    n_neighbors: Size
    alpha: OpenShare
    beta: Beta
    gamma: Gamma | Literal["auto", "local"]
    rule: Rule
    num_steps: Annotated[int, Meta(ge=1, le=MAX_STEPS)] | None
    direction: Direction
    graph_gradient: Flag


class ANGPN(nn.Module):
    r"""The Adaptive Neighborhood Graph Propagation Network. NGPN, the paper's fixed-graph baseline, is ``beta=0``.

    .. math:: Z = softmax(H^{(K)}), \quad H^{(K)} = H^{(K-1)} W^{(K-1)},
              \quad H^{(k+1)} = \sigma(P(D, H^{(k)}) W^{(k)}), \quad H^{(0)} = X

    Args:
        in_channels: width of X.
        hidden_channels: width of the hidden layers, or one width for each.
        out_channels: number of classes.
        num_layers: number of hidden layers; follows from ``hidden_channels`` when that is a sequence, else 2.
        normalize_hidden: make the graphs of the hidden layers from rows of unit length. Without it F F^T grows in
            training, until the distances no longer matter. The first layer takes X as it is.
        dropout: share of a hidden layer's activations that an epoch of training drops.
        conv_options: what :class:`~angpn.ANGPNConv` takes beside its widths and ``normalize`` (``n_neighbors``,
            ``alpha``, ``beta``, ...).

    Raises:
        ValueError: if an option is out of its range.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int | Sequence[int],
        out_channels: int,
        num_layers: int | None = None,
        *,
        normalize_hidden: bool = False,
        dropout: float = 0.0,
        **conv_options: Any,
    ) -> None:
        super().__init__()
        if "normalize" in conv_options:
            raise ValueError("normalize is set by normalize_hidden in a network, got normalize; pass normalize_hidden")
        widths = _widths(hidden_channels, num_layers)
        if out_channels < 2:
            raise ValueError(
                f"out_channels must be at least 2 classes, got {out_channels}; it is the number of classes"
            )
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must lie in [0, 1), got {dropout}; 0 leaves nothing out")
        self.dropout = dropout
        # Arguments by which the constructor makes this network again.
        self.config = {
            "in_channels": in_channels,
            "hidden_channels": widths,
            "out_channels": out_channels,
            "normalize_hidden": normalize_hidden,
            "dropout": dropout,
            **conv_options,
        }
        device = torch.get_default_device()
        with torch.device("meta"):  # shapes alone, so that weights are drawn once
            self.convs = nn.ModuleList(
                ANGPNConv(before, after, normalize=normalize_hidden and depth > 0, **conv_options)
                for depth, (before, after) in enumerate(zip([in_channels, *widths], widths, strict=False))
            )
            self.perceptron = nn.Linear(widths[-1], out_channels, bias=False)
        self.to_empty(device=device)
        self.reset_parameters()

    def to_state(self) -> tuple[NetworkState, dict[str, Array]]:
        """Return what a file keeps of it: plain values, and the weights."""
        return NetworkState(**self.config), {name: value.cpu().numpy() for name, value in self.state_dict().items()}

    @classmethod
    def from_state(cls, state: NetworkState, arrays: Mapping[str, Array], dtype: np.dtype[Any]) -> "ANGPN":
        """Return the network, in eval mode; the weights are checked before any layer is made.

        Args:
            state: The plain values that :meth:`to_state` returned.
            arrays: The weights.
            dtype: The precision to compute in.

        Returns:
            The network on the CPU.

        Raises:
            ValueError: If a weight is missing, of another shape or not finite.
        """
        widths = [state.in_channels, *state.hidden_channels]
        specs = {
            f"convs.{depth}.weight": _weights(*shape)
            for depth, shape in enumerate(zip(widths, state.hidden_channels, strict=False))
        }
        check_arrays(arrays, {**specs, "perceptron.weight": _weights(state.out_channels, widths[-1])})
        with torch.device("meta"):  # shapes alone: the file has the weights
            network = cls(**msgspec.structs.asdict(state))
        network = network.to(getattr(torch, dtype.name)).to_empty(device="cpu")
        network.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
        return network.eval()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights of every layer anew (Glorot).

        Args:
            generator: source of randomness; torch's global one by default.
        """
        for conv in self.convs:
            assert isinstance(conv, ANGPNConv)
            conv.reset_parameters(generator)
        glorot_(self.perceptron.weight, generator)

    def forward(self, features: Tensor, distances: Tensor | Neighborhood | DenseNeighborhood) -> Tensor:
        """Return the logits H^(K).

        Args:
            features: X, (n, in_channels), a tensor or a sparse matrix.
            distances: a neighbourhood, or an (n, n) matrix.

        Returns:
            One row of out_channels logits for each row of X.
        """
        neighborhood = as_neighborhood(distances)
        return self.classify(self.propagate_input(features, neighborhood), neighborhood)

    def propagate_input(
        self, features: Tensor, distances: Tensor | Neighborhood | DenseNeighborhood
    ) -> Tensor | PropagatedSparse:
        """Return P(D, X) of the first layer, which no weight enters, so that training computes it once."""
        return self.convs[0].propagate(features, distances)  # type: ignore[operator]

    def classify(
        self,
        propagated: Tensor | PropagatedSparse,
        distances: Tensor | Neighborhood | DenseNeighborhood,
        rows: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Return the logits from the propagated input of the first layer, of all rows or of some, which is less work.

        In training mode dropout draws from ``generator``.
        """
        return self.logits(self._hidden(propagated, as_neighborhood(distances), rows, generator)[-1])

    def logits(self, hidden: Tensor) -> Tensor:  # (n, out_channels)
        """Return the logits of rows of the last hidden layer; those of a row do not depend on the others."""
        return linear_map(hidden, self.perceptron.weight) if can_compile(hidden) else self.perceptron(hidden)

    def embed(self, features: Tensor, distances: Tensor | Neighborhood | DenseNeighborhood) -> Tensor:
        """Return the last hidden layer H^(K-1), (n, hidden_channels), from the arguments of :meth:`forward`."""
        neighborhood = as_neighborhood(distances)
        return self._hidden(self.propagate_input(features, neighborhood), neighborhood)[-1]

    def embed_propagated(
        self,
        propagated: Tensor | PropagatedSparse,
        distances: Tensor | Neighborhood | DenseNeighborhood,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Return the same from the propagated input of the first layer; with dropout in training mode."""
        return self._hidden(propagated, as_neighborhood(distances), None, generator)[-1]

    def probabilities(self, features: Tensor, distances: Tensor | Neighborhood | DenseNeighborhood) -> Tensor:
        """Return Z of Eq. (14), (n, out_channels), from the arguments of :meth:`forward`."""
        return self(features, distances).softmax(dim=1)

    def graphs(self, features: Tensor, distances: Tensor | Neighborhood | DenseNeighborhood) -> list[Tensor]:
        """Return the S that each layer ends with, as weights on the candidates (n, m)."""
        neighborhood = as_neighborhood(distances)
        inputs = [features, *self._hidden(self.propagate_input(features, neighborhood), neighborhood)[:-1]]
        return [conv.graph(h, neighborhood) for conv, h in zip(self.convs, inputs, strict=True)]  # type: ignore[operator]

    def graph_matrices(self, features: Tensor, neighborhood: Neighborhood) -> list[scipy.sparse.csr_array]:
        """Return the same as sparse matrices without their zeros."""
        inputs = [features, *self._hidden(self.propagate_input(features, neighborhood), neighborhood)[:-1]]
        return [conv.graph_matrix(h, neighborhood) for conv, h in zip(self.convs, inputs, strict=True)]  # type: ignore[operator]

    def _hidden(
        self,
        propagated: Tensor | PropagatedSparse,
        neighborhood: Neighborhood | DenseNeighborhood,
        rows: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> list[Tensor]:
        """Return H^(1) to H^(K-1), the last of them in these rows only."""
        last = len(self.convs) - 1
        hidden: list[Tensor] = []
        for depth, conv in enumerate(self.convs):
            assert isinstance(conv, ANGPNConv)
            wanted = rows if depth == last else None
            if depth > 0:
                propagated = conv.propagate(hidden[-1], neighborhood, wanted)
            elif wanted is not None:
                propagated = propagated[wanted]
            hidden.append(self._dropped(conv.transform(propagated), generator))
        return hidden

    def _dropped(self, hidden: Tensor, generator: torch.Generator | None) -> Tensor:
        if self.dropout == 0 or not self.training:
            return hidden
        # Drawn on the CPU whatever the device, so that one seed means one result.
        kept = torch.rand(hidden.shape, generator=generator, dtype=hidden.dtype) >= self.dropout
        return hidden * kept.to(hidden.device) / (1 - self.dropout)


def _weights(*shape: int) -> ArraySpec:
    return floats(*shape, low=-MAX_WEIGHT, high=MAX_WEIGHT)


def _widths(hidden_channels: int | Sequence[int], num_layers: int | None) -> list[int]:
    if isinstance(hidden_channels, Sequence):
        widths = [int(width) for width in hidden_channels]
    else:
        widths = [int(hidden_channels)] * (2 if num_layers is None else num_layers)
    if not widths or min(widths) < 1 or num_layers not in (None, len(widths)):
        raise ValueError(
            f"hidden_channels must be one positive width, or one for each of num_layers >= 1 hidden layers, got "
            f"hidden_channels={hidden_channels}, num_layers={num_layers}; the paper has 50 and 2"
        )
    return widths
