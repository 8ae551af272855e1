"""New rows: each is attached to the fitted rows nearest to it, and predicted as they were."""

from functools import cached_property

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from angpn.anfp.neighbor_graph import resolve_gamma
from angpn.anfp.new_rows import as_matrix, degree_scale, new_row_affinities, new_row_weights
from angpn.ensemble.base_learners import mean_log_proba
from angpn.ensemble.config import Hops
from angpn.ensemble.ensemble import Ensemble
from angpn.ensemble.propagated_features import Adjacency, after_each_hop
from angpn.neighbors.neighborhood import Neighborhood


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
        *,
        max_cached_values: int = 2**27,  # of what new rows receive over several hops: half a gigabyte
    ) -> None:
        self.ensemble, self.neighborhood, self._features = ensemble, neighborhood, features
        self._max_cached_values = max_cached_values
        self._sent: dict[tuple[int, Hops], Tensor] = {}

    @cached_property
    def graphs(self) -> list[scipy.sparse.csr_array]:
        """S of the first round, and of the last."""
        return self.ensemble.graphs(self.neighborhood)

    @cached_property
    def adjacencies(self) -> list[Adjacency]:
        """A of Eq. (13) for each of these graphs."""
        return [Adjacency(graph, self.ensemble.options.direction) for graph in self.graphs]

    def embedding(self) -> Tensor:  # (n, p)
        """Return the propagated features of the fitted rows that the best head is trained on."""
        alpha, n_hops = self.ensemble.embedding_hops
        *_, last = after_each_hop(self._features, self.adjacencies[-1], alpha, n_hops)
        return last

    def predict_new(
        self,
        new: Tensor,  # (r, p)
        indices: Tensor,  # (r, m) the fitted rows nearest to each new one
        distances: Tensor,  # (r, m)
    ) -> tuple[Tensor, Tensor]:  # (r, p) as embedding gives it, (r, c) probabilities
        """Return embedding and probabilities: first by distances alone, then also by the probabilities so found."""
        ensemble, probabilities = self.ensemble, None
        for number, fitted in zip(range(len(self.graphs)), [None, ensemble.graph_probabilities], strict=False):
            weights = self._weights(number, indices, distances, probabilities, fitted)
            rows = NewRows(self, number, new, weights)
            found = [learner.log_proba_new(rows) for learner in ensemble.learners]
            probabilities = ensemble.calibration(mean_log_proba(found))
        assert probabilities is not None
        return rows.propagated(ensemble.embedding_hops), probabilities

    def sent(self, number: int, hops: Hops) -> Tensor:  # (n, p)
        r"""Return what fitted rows send to new ones over all hops.

        A new row is ``x^(t+1) = alpha W f^(t) + (1 - alpha) x^(t)`` with the same W in every hop, so that

        .. math:: x^{(T)} = (1 - \alpha)^T x^{(0)} + W \sum_t \alpha (1 - \alpha)^{T - 1 - t} f^{(t)}
        """
        found = self._sent.get((number, hops))
        if found is not None:
            return found
        (alpha, n_hops), found = hops, torch.zeros_like(self._features)
        before = after_each_hop(self._features, self.adjacencies[number], alpha, max(0, n_hops - 1))
        for t, fitted in enumerate(before):
            if t < n_hops:
                found.add_(fitted, alpha=alpha * (1 - alpha) ** (n_hops - 1 - t))
        if (len(self._sent) + 1) * found.numel() <= self._max_cached_values:
            self._sent[number, hops] = found
        return found

    def _weights(
        self,
        number: int,
        indices: Tensor,
        distances: Tensor,
        probabilities: Tensor | None,  # (r, c) of the new rows
        fitted: Tensor | None,  # (n, c)
    ) -> scipy.sparse.csr_array:  # (r, n)
        """Return what each new row takes from the fitted ones: Eq. (8) with these as its candidates."""
        options, affinities = self.ensemble.options, None
        if probabilities is not None and fitted is not None:
            affinities = new_row_affinities(probabilities, fitted, indices)
        gamma = resolve_gamma(distances, options.n_neighbors, options.gamma, self.neighborhood.distances.to(distances))
        weights = new_row_weights(
            indices,
            distances,
            affinities,
            n_neighbors=options.n_neighbors,
            beta=options.beta,
            gamma=gamma,
            rule=options.rule,
            degree_scale=self._degree_scales[number] if options.direction == "normalized" else None,
        )
        return as_matrix(weights, indices, self.neighborhood.n_rows)

    @cached_property
    def _degree_scales(self) -> list[Tensor]:  # (n,) each
        """degree^-1/2 of the fitted rows in S + S^T, for each graph."""
        return [degree_scale(graph) for graph in self.graphs]


class NewRows:
    """New rows on one graph of the fitted rows: what base learners see of them."""

    def __init__(
        self, fitted: InductiveEnsemble, number: int, features: Tensor, weights: scipy.sparse.csr_array
    ) -> None:
        self._fitted, self._number, self._features, self._weights = fitted, number, features, weights

    def receive(self, values: Tensor) -> Tensor:  # (r, ...)
        """Return what the new rows receive of the values of the fitted rows."""
        return torch.from_numpy(np.asarray(self._weights @ values.numpy(), dtype=np.float32))

    def propagated(self, hops: Hops) -> Tensor:  # (r, p)
        """Return their propagated features."""
        alpha, n_hops = hops
        if alpha == 0 or n_hops == 0:
            return self._features
        received = self.receive(self._fitted.sent(self._number, hops))
        return (1 - alpha) ** n_hops * self._features + received
