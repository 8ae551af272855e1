"""What a fit leaves behind, however it was trained: all about the fitted rows, and answers for new ones."""

from dataclasses import dataclass
from typing import Any

import scipy.sparse
import torch
from torch import Tensor

from angpn.anfp.sparse import propagation_matrix
from angpn.ensemble.ensemble import Committee
from angpn.estimators.influence import Path
from angpn.neighbors.exact import Metric
from angpn.neighbors.neighborhood import Neighborhood
from angpn.network.inductive import embed_new, find_duplicates
from angpn.network.model import ANGPN
from angpn.utils.inputs import on_device, prepared_rows
from angpn.utils.typing import Array

_HOPS_OF_SPREAD = 5  # labels that spread by themselves have no end; from here on they come from everywhere


@dataclass(frozen=True)
class FittedNetwork:
    """A network with hidden layers, and the rows it was trained on."""

    module: ANGPN
    rows: Any  # (n, d) as the network sees them, dense or sparse
    neighborhood: Neighborhood
    metric: Metric
    unit_rows: bool

    @property
    def width(self) -> int:
        """Of the embedding."""
        return self.module.perceptron.in_features

    def scaled(self, X: Any) -> Any:
        """New rows as the network sees them."""
        return prepared_rows(X, self.unit_rows)

    def distributions(self) -> Array:  # (n, c)
        """The probability of each class for the fitted rows."""
        with torch.no_grad():
            return self.module.probabilities(*self._inputs()).cpu().numpy()

    def embedding(self) -> Array:  # (n, width)
        """The last hidden layer of the fitted rows."""
        with torch.no_grad():
            return self.module.embed(*self._inputs()).cpu().numpy()

    def graphs(self) -> list[scipy.sparse.csr_array]:
        """The learnt S of each layer."""
        with torch.no_grad():
            return self.module.graph_matrices(*self._inputs())

    def paths(self, graphs: list[scipy.sparse.csr_array]) -> list[Path]:
        """The one path through the layers whose S these are."""
        alpha, direction = self.module.config["alpha"], self.module.config["direction"]
        return [[propagation_matrix(graph, alpha, direction) for graph in reversed(graphs)]]

    def unseen(self, rows: Any, indices: Tensor, near: Tensor) -> tuple[Array, Array]:  # (r, width), (r, c)
        """Embedding and probabilities of new rows, given the fitted rows nearest to each."""
        features, neighborhood = self._inputs()
        device = neighborhood.distances.device
        embedded = embed_new(
            self.module,
            features,
            neighborhood,
            on_device(rows, device),
            indices.to(device),
            near.to(device),
            match_empty=self.metric == "chord",
        )
        with torch.no_grad():
            return embedded.cpu().numpy(), self.module.perceptron(embedded).softmax(dim=1).cpu().numpy()

    def _inputs(self) -> tuple[Any, Neighborhood]:
        device = self.module.perceptron.weight.device
        return on_device(self.rows, device), self.neighborhood.to(device)


@dataclass(frozen=True)
class FittedCommittee:
    """A committee, and the rows it was trained on."""

    committee: Committee
    rows: Any  # (n, d) scaled as its view has them
    neighborhood: Neighborhood
    metric: Metric
    known: Array  # (n, c) what it said of the fitted rows at the end of training

    @property
    def width(self) -> int:
        """Of the embedding."""
        basis = self.committee.view.basis
        return self.rows.shape[1] if basis is None else basis.shape[1]

    def scaled(self, X: Any) -> Any:
        """New rows as the committee's view has them."""
        return self.committee.view.rows(prepared_rows(X, False))

    def embedding(self) -> Array:  # (n, width)
        """The propagated features of the fitted rows."""
        return (
            self.committee.embed(self.committee.view.features(self.rows), self.neighborhood).numpy().astype(self._dtype)
        )

    def graphs(self) -> list[scipy.sparse.csr_array]:
        """The learnt S of the first and of the last round."""
        return self.committee.graphs(self.neighborhood)

    def paths(self, graphs: list[scipy.sparse.csr_array]) -> list[Path]:
        """A path for each member: all its hops are on the last S."""
        direction = self.committee.options.direction
        return [
            [propagation_matrix(graphs[-1], setting.alpha, direction)] * getattr(setting, "hops", _HOPS_OF_SPREAD)
            for setting in self.committee.settings
        ]

    def unseen(self, rows: Any, indices: Tensor, near: Tensor) -> tuple[Array, Array]:  # (r, width), (r, c)
        """Embedding and probabilities of new rows; a row that was fitted is recognised and gets its own."""
        view = self.committee.view
        found = self.committee.unseen(
            view.features(self.rows),
            self.neighborhood,
            view.features(rows),
            indices,
            near.to(self.neighborhood.distances.dtype),
        )
        embedded, probabilities = (part.numpy().astype(self._dtype) for part in found)
        fitted, new = (on_device(part, torch.device("cpu")) for part in (self.rows, rows))
        same, twin = (part.numpy() for part in find_duplicates(fitted, new, indices, near, self.metric == "chord"))
        if same.any():
            probabilities[same] = self.known[twin[same]]
            embedded[same] = self.embedding()[twin[same]]
        return embedded, probabilities

    @property
    def _dtype(self) -> Any:
        return self.known.dtype
