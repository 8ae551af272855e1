"""New rows: each is attached to the fitted rows nearest to it, and predicted as they were."""

from functools import cached_property

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from angpn import kernels
from angpn.anfp.neighbor_graph import resolve_gamma
from angpn.anfp.new_rows import degree_scale, new_row_affinities, new_row_weights
from angpn.ensemble.config import Hops
from angpn.ensemble.ensemble import Ensemble
from angpn.ensemble.propagated_features import Adjacency, after_each_hop
from angpn.kernels.threads import over_rows
from angpn.neighbors.locality import NEAREST, locality_order
from angpn.neighbors.neighborhood import Neighborhood
from angpn.utils.typing import Array

_MANY_ROWS = 2**14  # of which the features are not in the cache


class InductiveEnsemble:
    """An ensemble and the rows it was trained on: predicts new rows, which change nothing for the fitted ones.

    What only depends on the fitted rows (graphs, degrees, what new rows receive over several hops) is computed when it
    is first needed and kept.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        features: Tensor,  # (n, p) of the rows that it was trained on
        neighborhood: Neighborhood,
    ) -> None:
        self.ensemble, self.neighborhood, self._features = ensemble, neighborhood, features
        self._sent: dict[tuple[int, Hops], Tensor] = {}

    @cached_property
    def graphs(self) -> list[scipy.sparse.csr_array]:
        """S of the first round, and of the last."""
        return self.ensemble.graphs(self.neighborhood)

    @cached_property
    def adjacencies(self) -> list[Adjacency]:
        """A of Eq. (13) for each of these graphs, for features in ``order``."""
        return [Adjacency(graph, self.ensemble.options.direction, order=self.order) for graph in self.graphs]

    @cached_property
    def order(self) -> Array | None:  # (n,)
        """Where rows are many, an order in which neighbours are close in memory: a hop is then three times as fast."""
        if self.neighborhood.n_rows < _MANY_ROWS:
            return None
        return locality_order(self.neighborhood.indices[:, :NEAREST]).numpy()

    def embedding(self) -> Tensor:  # (n, p)
        """Return the propagated features of the fitted rows that the best head is trained on."""
        alpha, n_hops = self.ensemble.embedding_hops
        *_, last = after_each_hop(self._ordered_features(), self.adjacencies[-1], alpha, n_hops)
        return self._in_data_order(last)

    def _ordered_features(self) -> Tensor:  # (n, p)
        return self._features if self.order is None else self._features[self.order]

    def _in_data_order(self, ordered: Tensor) -> Tensor:  # (n, p)
        if self.order is None:
            return ordered
        found = torch.empty_like(ordered)
        found[self.order] = ordered
        return found

    def predict_new(
        self,
        new: Tensor,  # (r, p)
        indices: Tensor,  # (r, m) the fitted rows nearest to each new one
        distances: Tensor,  # (r, m)
    ) -> Tensor:  # (r, c)
        """Return probabilities: first by distances alone, then also by the probabilities so found."""
        return self._probabilities(self._on_last_graph(new, indices, distances))

    def embed_new(
        self,
        new: Tensor,  # (r, p)
        indices: Tensor,  # (r, m)
        distances: Tensor,  # (r, m)
    ) -> Tensor:  # (r, p)
        """Return what :meth:`embedding` gives for fitted rows."""
        return self._on_last_graph(new, indices, distances).propagated(self.ensemble.embedding_hops)

    def _on_last_graph(self, new: Tensor, indices: Tensor, distances: Tensor) -> "NewRows":
        rows = NewRows(self, 0, new, indices, self._weights(0, indices, distances, None))
        if len(self.graphs) == 1:
            return rows
        weights = self._weights(1, indices, distances, self._probabilities(rows))
        return NewRows(self, 1, new, indices, weights)

    def _probabilities(self, rows: "NewRows") -> Tensor:  # (r, c)
        found = (learner.log_proba_new(rows) for learner in self.ensemble.learners)
        return self.ensemble.calibrate(self.ensemble.mixture(found))

    def sent(self, number: int, hops: Hops) -> Tensor:  # (n, p)
        r"""Return what fitted rows send to new ones over all hops.

        A new row is ``x^(t+1) = alpha W f^(t) + (1 - alpha) x^(t)`` with the same W in every hop, so that

        .. math:: x^{(T)} = (1 - \alpha)^T x^{(0)} + W \sum_t \alpha (1 - \alpha)^{T - 1 - t} f^{(t)}
        """
        found = self._sent.get((number, hops))
        if found is not None:
            return found
        (alpha, n_hops), found = hops, torch.zeros_like(self._features)
        before = after_each_hop(self._ordered_features(), self.adjacencies[number], alpha, max(0, n_hops - 1))
        for t, fitted in enumerate(before):
            if t < n_hops:
                found.add_(fitted, alpha=alpha * (1 - alpha) ** (n_hops - 1 - t))
        self._sent[number, hops] = self._in_data_order(found)  # every batch of new rows needs it
        return self._sent[number, hops]

    def _weights(
        self,
        number: int,
        indices: Tensor,
        distances: Tensor,
        probabilities: Tensor | None,  # (r, c) of the new rows
    ) -> Tensor:  # (r, m)
        """Return what each new row takes from the fitted ones: Eq. (8) with these as its candidates."""
        options, fitted, affinities = self.ensemble.options, self.ensemble.graph_probabilities, None
        if probabilities is not None and fitted is not None:
            affinities = new_row_affinities(probabilities, fitted, indices)
        gamma = resolve_gamma(distances, options.n_neighbors, options.gamma, self._mean_gamma)
        return new_row_weights(
            indices,
            distances,
            affinities,
            n_neighbors=options.n_neighbors,
            beta=options.beta,
            gamma=gamma,
            rule=options.rule,
            degree_scale=self._degree_scales[number] if options.direction == "normalized" else None,
        )

    @cached_property
    def _mean_gamma(self) -> Tensor | None:  # ()
        """The mean over the fitted rows, where gamma is not a number: new rows do not change it."""
        options = self.ensemble.options
        if not isinstance(options.gamma, str):
            return None
        return resolve_gamma(self.neighborhood.distances, options.n_neighbors, "auto")

    @cached_property
    def _degree_scales(self) -> list[Tensor]:  # (n,) each
        """degree^-1/2 of the fitted rows in S + S^T, for each graph."""
        return [degree_scale(graph) for graph in self.graphs]


class NewRows:
    """New rows on one graph of the fitted rows: what base learners see of them."""

    def __init__(
        self,
        fitted: InductiveEnsemble,
        number: int,  # of the graph
        features: Tensor,  # (r, p)
        indices: Tensor,  # (r, m) the fitted rows nearest to each
        weights: Tensor,  # (r, m) what it takes from them
    ) -> None:
        self._fitted, self._number, self._features = fitted, number, features
        self._lists = indices.numpy(), weights.numpy()
        self._propagated: dict[Hops, Tensor] = {}

    def receive(self, values: Tensor) -> Tensor:  # (r, ...)
        """Return what the new rows receive of the values of the fitted rows."""
        out = np.empty((len(self._features), values.shape[1]), np.float32)
        over_rows(kernels.rows.weighted_sum_rows, len(out), *self._lists, values.numpy(), out)
        return torch.from_numpy(out)

    def propagated(self, hops: Hops) -> Tensor:  # (r, p)
        """Return their propagated features, which base learners with the same hops share."""
        alpha, n_hops = hops
        if alpha == 0 or n_hops == 0:
            return self._features
        if hops not in self._propagated:
            received = self.receive(self._fitted.sent(self._number, hops))
            self._propagated[hops] = received.add_(self._features, alpha=(1 - alpha) ** n_hops)
        return self._propagated[hops]
