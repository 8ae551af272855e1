"""A trained committee: what it says of the rows it was trained on, and of rows that come later."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from angpn.anfp.graph import neighbor_weights, resolve_gamma
from angpn.ensemble.base_learners import GraphOptions, PropagationMatrix, Setting, hop_after_hop, learnt_graph
from angpn.ensemble.calibration import Calibration
from angpn.ensemble.heads import Readout, mean_log_probabilities
from angpn.ensemble.label_spreading import Spread, SpreadSetting
from angpn.ensemble.scaling import View
from angpn.neighbors.neighborhood import Neighborhood

_ROWS_AT_ONCE = 2**12


@dataclass(frozen=True)
class Committee:
    """Members that agree on a view of the rows and on a graph; each has its own reach and readout."""

    view: View
    options: GraphOptions
    settings: Sequence[Setting | SpreadSetting]  # best first
    readouts: Sequence[Readout | Spread]
    calibration: Calibration
    beliefs: Tensor | None  # (n, c) what the graph was learnt from beside the distances

    def gathered(self, neighborhood: Neighborhood) -> "Committee":
        """What it says of all rows, in the order of the data; it was trained on those of these lists."""
        spreads = [
            Spread(neighborhood.partition.gather_in_data_order(member.scores)) if isinstance(member, Spread) else member
            for member in self.readouts
        ]
        beliefs = None if self.beliefs is None else neighborhood.partition.gather_in_data_order(self.beliefs)
        return replace(self, readouts=spreads, beliefs=beliefs)

    def graphs(self, neighborhood: Neighborhood) -> list[scipy.sparse.csr_array]:
        """S of the first round, and of the last."""
        steps = [None] if self.beliefs is None else [None, self.beliefs]
        return [learnt_graph(neighborhood, self.options, beliefs) for beliefs in steps]

    def embed(self, features: Tensor, neighborhood: Neighborhood) -> Tensor:  # (n, p)
        """The propagated features that the best member sees that sees any."""
        best = self._best
        propagation_matrix = PropagationMatrix(self.graphs(neighborhood)[-1], self.options.direction)
        *_, last = hop_after_hop(features, propagation_matrix, best.alpha, best.hops)
        return last

    def unseen(
        self,
        features: Tensor,  # (n, p) of the fitted rows
        neighborhood: Neighborhood,
        new: Tensor,  # (r, p)
        indices: Tensor,  # (r, m) the fitted rows nearest to each new one
        distances: Tensor,  # (r, m)
    ) -> tuple[Tensor, Tensor]:  # (r, p) as embed gives it, (r, c) probabilities
        """New rows take part as fitted ones do: first by distances alone, then also by what is believed of them."""
        probabilities = None
        for graph, beliefs in zip(self.graphs(neighborhood), [None, self.beliefs], strict=False):
            affinities = None if beliefs is None else torch.cat(list(_affinities(probabilities, beliefs, indices)))
            weights = self._weights(neighborhood, graph, indices, distances, affinities)
            opinions = []
            for setting, member in zip(self.settings, self.readouts, strict=True):
                if isinstance(member, Spread):
                    opinions.append(member.unseen(weights))
                else:
                    assert isinstance(setting, Setting)
                    opinions.append(member(self._hops(setting, features, graph, new, weights)))
            probabilities = self.calibration(mean_log_probabilities(opinions))
        assert probabilities is not None
        return self._hops(self._best, features, graph, new, weights), probabilities

    @property
    def _best(self) -> Setting:
        found = (setting for setting in self.settings if isinstance(setting, Setting))
        return next(found, Setting(0.5, 2, None, 1.0))  # with labels that spread alone no member says which

    def _weights(
        self,
        neighborhood: Neighborhood,
        graph: scipy.sparse.csr_array,
        indices: Tensor,
        distances: Tensor,
        affinities: Tensor | None,
    ) -> scipy.sparse.csr_array:  # (r, n)
        """What each new row takes from the fitted ones."""
        options = self.options
        gamma = resolve_gamma(distances, options.n_neighbors, options.gamma, neighborhood.distances.to(distances))
        weights = neighbor_weights(
            distances,
            affinities,
            n_neighbors=options.n_neighbors,
            beta=0.0 if affinities is None else options.beta,
            gamma=gamma,
            rule=options.rule,
        )
        if options.direction == "normalized":  # 2 s_j / sqrt(2 degree_j), its own degree being 2
            degree = torch.from_numpy(np.asarray(graph.sum(axis=1) + graph.sum(axis=0))).to(weights)
            weights = weights * torch.where(degree > 0, degree, 1).rsqrt()[indices] * 2**0.5
        rows, m = indices.shape
        parts = weights.numpy().flatten(), indices.numpy().flatten(), np.arange(0, rows * m + 1, m)
        return scipy.sparse.csr_array(parts, shape=(rows, neighborhood.n_rows))

    def _hops(
        self,
        setting: Setting,
        features: Tensor,
        graph: scipy.sparse.csr_array,
        new: Tensor,
        weights: scipy.sparse.csr_array,
    ) -> Tensor:
        propagation_matrix = PropagationMatrix(graph, self.options.direction)
        before = hop_after_hop(features, propagation_matrix, setting.alpha, max(0, setting.hops - 1))
        for _, fitted in zip(range(setting.hops), before, strict=False):
            received = torch.from_numpy(np.asarray(weights @ fitted.numpy(), dtype=np.float32))
            new = setting.alpha * received + (1 - setting.alpha) * new
        return new


def _affinities(rows: Tensor | None, fitted: Tensor, indices: Tensor) -> Iterator[Tensor]:  # (b, m) each
    """<f_i, f_j> for each new row i and each candidate j."""
    assert rows is not None
    for part, candidates in zip(rows.split(_ROWS_AT_ONCE), indices.split(_ROWS_AT_ONCE), strict=True):
        yield torch.bmm(fitted[candidates], part.unsqueeze(2)).squeeze(2)
