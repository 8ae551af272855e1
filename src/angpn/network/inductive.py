"""Rows that came after training: each is attached to the fitted rows nearest to it.

A new row takes part in Algorithm 1 as a fitted one does, with fitted rows as its candidates; nothing changes for the
fitted rows, and new rows do not see each other, so what a row gets does not depend on its batch or its order, but for
rounding.
"""

from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from angpn.anfp.algorithm import unit_rows
from angpn.anfp.graph import neighbor_weights, resolve_gamma
from angpn.neighbors.neighborhood import Neighborhood
from angpn.network.conv import ANGPNConv
from angpn.network.model import ANGPN

_BLOCK_NUMBERS = 2**23  # gathered at once


def embed_new(
    network: ANGPN,
    features: Any,  # (n, d) the fitted rows, dense or sparse
    neighborhood: Neighborhood,  # of the fitted rows
    new: Any,  # (r, d) alike
    indices: Tensor,  # (r, m) the fitted rows nearest to each
    distances: Tensor,  # (r, m) nearest first
    *,
    match_empty: bool = True,
) -> Tensor:  # (r, width)
    """The last hidden layer for rows that were not trained on.

    A row that equals a fitted row, at distance 0, is that row and gets its result; with ``match_empty`` so does an
    empty row, where an empty row was fitted (in chord distance it is far from everything, other empty rows included).

    With direction "symmetric" or "normalized" the fitted rows are taken to choose a new row as much as it chooses them.
    """
    same, original = find_duplicates(features, new, indices, distances, match_empty)
    fitted, hidden = features, new
    with torch.no_grad():
        for conv in network.convs:
            assert isinstance(conv, ANGPNConv)
            attached = _Attached(conv, fitted, neighborhood)
            width = neighborhood.n_rows if scipy.sparse.issparse(fitted) else fitted.shape[1] * indices.shape[1]
            size = max(1, _BLOCK_NUMBERS // width)
            starts = range(0, hidden.shape[0], size)
            blocks = [slice(start, start + size) for start in starts]
            mapped = [attached.transform(hidden[rows], indices[rows], distances[rows]) for rows in blocks]
            fitted = conv(fitted, neighborhood)
            hidden = torch.cat([*mapped, fitted[:0]])
        hidden[same] = fitted[original[same]]
    return hidden


def find_duplicates(
    features: Any, new: Any, indices: Tensor, distances: Tensor, match_empty: bool
) -> tuple[Tensor, Tensor]:
    """Which new rows equal a fitted one, and which that is."""
    same = torch.zeros(len(indices), dtype=torch.bool, device=indices.device)
    original = indices[:, 0].clone()
    for place in range(indices.shape[1]):
        rows = ((distances[:, place] == 0) & ~same).nonzero().squeeze(1)
        if not len(rows):
            break
        found = rows[_equal(features, indices[rows, place], new, rows)]
        same[found], original[found] = True, indices[found, place]
    empty = _empty(features).nonzero().squeeze(1) if match_empty else indices[:0, 0]
    if len(empty):
        alike = _empty(new).to(same.device) & ~same
        same, original = same | alike, torch.where(alike, empty[0].to(original.device), original)
    return same, original


def _equal(features: Any, fitted_rows: Tensor, new: Any, rows: Tensor) -> Tensor:  # (r,) bool
    if isinstance(features, Tensor):
        return (features[fitted_rows] == new[rows]).all(dim=1)
    difference = abs(features[fitted_rows.numpy()] - new[rows.numpy()]).sum(axis=1)
    return torch.from_numpy(np.asarray(difference == 0).ravel())


def _empty(rows: Any) -> Tensor:  # (n,) bool
    if isinstance(rows, Tensor):
        return ~rows.any(dim=1)
    return torch.from_numpy(np.asarray(abs(rows).sum(axis=1) == 0).ravel())


class _Attached:
    """One layer for new rows: what it needs of the fitted rows is worked out once."""

    def __init__(self, conv: ANGPNConv, inputs: Any, neighborhood: Neighborhood) -> None:
        self.conv, self.inputs, self.fitted_distances = conv, inputs, neighborhood.distances
        # Until it settles (None), a fitted row shows in every step what it ends with.
        steps = [None] if conv.num_steps is None else list(range(1 if conv.beta == 0 else conv.num_steps))
        self.graph_features = [conv.after_steps(step, inputs, neighborhood) for step in steps]
        self.rounds = 100 if conv.num_steps is None and conv.beta > 0 else len(steps)
        self.scales: list[Tensor | None] = [None] * len(steps)
        if conv.direction == "normalized":
            self.scales = [
                _degree_scale(conv.with_steps(None if step is None else step + 1), inputs, neighborhood)
                for step in steps
            ]

    def transform(self, hidden: Any, indices: Tensor, distances: Tensor) -> Tensor:  # (b, out_channels)
        """Eq. (12) for some new rows."""
        conv = self.conv
        distances = distances.to(conv.weight.dtype)
        gamma = resolve_gamma(distances, conv.n_neighbors, conv.gamma, self.fitted_distances.to(distances))
        own, propagated = hidden, hidden
        for number in range(self.rounds):
            step = min(number, len(self.graph_features) - 1)
            affinities = None
            if conv.beta > 0:
                affinities = _affinities(propagated, self.graph_features[step], indices, conv.normalize)
            weights = neighbor_weights(
                distances, affinities, n_neighbors=conv.n_neighbors, beta=conv.beta, gamma=gamma, rule=conv.rule
            )
            scale = self.scales[step]
            if scale is not None:
                weights = weights * scale[indices] * 2**0.5  # 2 s_j / sqrt(2 degree_j), its own degree being 2
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
        rows, m = indices.shape
        parts = weights.numpy().flatten(), indices.numpy().flatten(), np.arange(0, rows * m + 1, m)
        return scipy.sparse.csr_array(parts, shape=(rows, self.inputs.shape[0])) @ self.inputs


def _degree_scale(conv: ANGPNConv, inputs: Any, neighborhood: Neighborhood) -> Tensor:  # (n,)
    """degree^-1/2 of the fitted rows in S + S^T."""
    graph = conv.graph_matrix(inputs, neighborhood)
    degree = torch.from_numpy(graph.sum(axis=1) + graph.sum(axis=0)).to(
        neighborhood.distances.device, conv.weight.dtype
    )
    return torch.where(degree > 0, degree, 1).rsqrt()


def _affinities(rows: Any, fitted: Any, indices: Tensor, normalize: bool) -> Tensor:  # (b, m)
    """<f_i, f_j> for each new row i and each candidate j."""
    if not isinstance(fitted, Tensor):
        products = torch.from_numpy((rows @ fitted.T).toarray())
        return products.gather(1, indices)
    candidates = fitted[indices]
    if normalize:
        rows, candidates = unit_rows(rows), unit_rows(candidates)
    return torch.bmm(candidates, rows.unsqueeze(2)).squeeze(2)
