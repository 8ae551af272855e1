"""Prediction of new rows: each is attached to the fitted rows nearest to it.

Algorithm 1 runs for a new row as for a fitted one, with fitted rows as its candidates. Fitted rows do not change, and
new rows are not each other's candidates, so the result of a row does not depend on its batch or its order, but for
rounding.
"""

from functools import cached_property
from typing import Any

import scipy.sparse
import torch
from torch import Tensor

from angpn.anfp.neighbor_graph import resolve_gamma
from angpn.anfp.new_rows import (
    as_matrix,
    degree_scale,
    find_duplicates,
    first_empty_row,
    new_row_affinities,
    new_row_weights,
)
from angpn.neighbors.neighborhood import Neighborhood
from angpn.network.conv import ANGPNConv
from angpn.network.model import ANGPN

_BLOCK_NUMBERS = 2**20  # gathered at once: few enough for the cache


class InductiveNetwork:
    """A trained network and the rows it was trained on, for rows that come later.

    What only depends on the fitted rows (the inputs, graphs and degrees of each layer) is computed for the first new
    rows and kept.
    """

    def __init__(self, network: ANGPN, features: Any, neighborhood: Neighborhood) -> None:
        self._network, self._features, self._neighborhood = network, features, neighborhood

    def embed(
        self,
        new: Any,  # (r, d) dense or sparse, as the fitted rows are
        indices: Tensor,  # (r, m) the fitted rows nearest to each
        distances: Tensor,  # (r, m) nearest first
        *,
        match_empty: bool = True,
    ) -> Tensor:  # (r, width)
        """Return the last hidden layer for rows that were not trained on.

        A row that equals a fitted row, at distance 0, is that row and gets its result; with ``match_empty`` so does an
        empty row, where an empty row was fitted (in chord distance it is far from everything, other empty rows
        included).

        With direction "symmetric" or "normalized" the fitted rows are taken to choose a new row as much as it chooses
        them.
        """
        empty_row = self._empty_row if match_empty else None
        same, original = find_duplicates(self._features, new, indices, distances, empty_row)
        layers, fitted = self._layers
        hidden = new
        with torch.no_grad():
            for layer in layers:
                size = max(1, _BLOCK_NUMBERS // layer.numbers_of_a_row(indices.shape[1]))
                blocks = [slice(start, start + size) for start in range(0, hidden.shape[0], size)]
                mapped = [layer.transform(hidden[rows], indices[rows], distances[rows]) for rows in blocks]
                hidden = torch.cat([*mapped, fitted.new_empty(0, layer.conv.out_channels)])
            hidden[same] = fitted[original[same]]
        return hidden

    @cached_property
    def _empty_row(self) -> int | None:
        return first_empty_row(self._features)

    @cached_property
    def _layers(self) -> tuple[list["_Attached"], Tensor]:
        """The layers for new rows, and the last hidden layer of the fitted rows."""
        layers, inputs = [], self._features
        with torch.no_grad():
            for conv in self._network.convs:
                assert isinstance(conv, ANGPNConv)
                layers.append(_Attached(conv, inputs, self._neighborhood))
                inputs = conv(inputs, self._neighborhood)
        return layers, inputs


class _Attached:
    """One layer for new rows, with what it needs of the fitted rows."""

    def __init__(self, conv: ANGPNConv, inputs: Any, neighborhood: Neighborhood) -> None:
        self.conv, self.inputs = conv, inputs
        self.mean_gamma = None  # of the fitted rows, where gamma is not a number
        if isinstance(conv.gamma, str):
            self.mean_gamma = resolve_gamma(neighborhood.distances.to(conv.weight.dtype), conv.n_neighbors, "auto")
        # Run to convergence (None), the graph is made in every step from what the fitted rows converged to.
        steps = [None] if conv.num_steps is None else list(range(1 if conv.beta == 0 else conv.num_steps))
        self.graph_features = [conv.after_steps(step, inputs, neighborhood) for step in steps]
        self.rounds = 100 if conv.num_steps is None and conv.beta > 0 else len(steps)
        self.scales: list[Tensor | None] = [None] * len(steps)
        if conv.direction == "normalized":
            graphs = [conv.with_steps(None if step is None else step + 1) for step in steps]
            self.scales = [degree_scale(layer.graph_matrix(inputs, neighborhood)).to(conv.weight) for layer in graphs]

    def numbers_of_a_row(self, n_candidates: int) -> int:
        """Return how many numbers are gathered for a new row."""
        return self.inputs.shape[0] if scipy.sparse.issparse(self.inputs) else self.inputs.shape[1] * n_candidates

    def transform(self, hidden: Any, indices: Tensor, distances: Tensor) -> Tensor:  # (b, out_channels)
        """Return Eq. (12) for some new rows."""
        conv = self.conv
        distances = distances.to(conv.weight.dtype)
        gamma = resolve_gamma(distances, conv.n_neighbors, conv.gamma, self.mean_gamma)
        own, propagated = hidden, hidden
        for number in range(self.rounds):
            step = min(number, len(self.graph_features) - 1)
            affinities = None
            if conv.beta > 0:
                graph_features = self.graph_features[step]
                affinities = new_row_affinities(propagated, graph_features, indices, normalize=conv.normalize)
            weights = new_row_weights(
                indices,
                distances,
                affinities,
                n_neighbors=conv.n_neighbors,
                beta=conv.beta,
                gamma=gamma,
                rule=conv.rule,
                degree_scale=self.scales[step],
            )
            before = propagated
            propagated = conv.alpha * self._received(weights, indices) + (1 - conv.alpha) * own
            if conv.num_steps is None and abs(propagated - before).max() <= 1e-5 * abs(propagated).max():
                break
        if scipy.sparse.issparse(propagated):
            mapped = torch.from_numpy(propagated @ conv.weight.detach().cpu().numpy())
            return mapped if conv.activation is None else conv.activation(mapped)
        return conv.transform(propagated)

    def _received(self, weights: Tensor, indices: Tensor) -> Any:
        if isinstance(self.inputs, Tensor):
            return torch.bmm(weights.unsqueeze(1), self.inputs[indices]).squeeze(1)
        return as_matrix(weights, indices, self.inputs.shape[0]) @ self.inputs
