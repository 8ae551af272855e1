"""What a fit leaves behind, however it was trained: the fitted rows, and predictions for new ones."""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from angpn.anfp.new_rows import find_duplicates
from angpn.anfp.sparse import propagation_matrix
from angpn.ensemble.ensemble import Ensemble
from angpn.ensemble.inductive import InductiveEnsemble
from angpn.estimators.influence import Path
from angpn.neighbors.approximate import FittedSearch
from angpn.neighbors.exact import Metric
from angpn.neighbors.neighborhood import Neighborhood
from angpn.network.coverage import Coverage
from angpn.network.inductive import InductiveNetwork
from angpn.network.model import ANGPN
from angpn.utils.inputs import LARGEST_KEPT, on_device, prepared_rows
from angpn.utils.powers_of_two import largest_entries
from angpn.utils.typing import Array


class Fitted(Protocol):
    """A fitted model and the rows it was trained on."""

    @property
    def rows(self) -> Any:  # (n, d) scaled, dense or sparse
        """The fitted rows as the model sees them."""

    @property
    def neighborhood(self) -> Neighborhood:
        """Their candidates."""

    @property
    def metric(self) -> Metric:
        """How distances were measured."""

    @property
    def width(self) -> int:
        """The width of the embedding."""

    @property
    def indexes(self) -> dict[tuple[float, int], FittedSearch]:
        """The index of the fitted rows, by recall and seed."""

    def scale(self, X: Any) -> Any:
        """Return new rows as the model sees them."""

    def far_columns(self, X: Any) -> Array:  # (d,) bool
        """Tell in which columns new rows are out of all proportion to the fitted ones."""

    def embedding(self) -> Array:  # (n, width)
        """Return the embedding of the fitted rows."""

    @property
    def graphs(self) -> list[scipy.sparse.csr_array]:
        """The learnt S of each layer, or of the first and the last round."""

    def propagation_paths(self) -> list[Path]:
        """Return the propagation matrices that a row's features went through, along each path."""

    def predict_new(self, rows: Any, indices: Tensor, distances: Tensor) -> tuple[Array, Array]:
        """Return embedding and probabilities of new rows, given the fitted rows nearest to each."""


class _FittedModel:
    """What both kinds keep beside their fields; it is computed on demand, and not pickled."""

    @cached_property
    def indexes(self) -> dict[tuple[float, int], FittedSearch]:
        """The index of the fitted rows, by recall and seed, see :func:`nearest_fitted_rows`."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


@dataclass(frozen=True)
class FittedNetwork(_FittedModel):
    """A network, and the rows it was trained on."""

    module: ANGPN
    rows: Any  # (n, d) as the network sees them, dense or sparse
    neighborhood: Neighborhood
    metric: Metric
    unit_rows: bool
    coverage: Coverage | None = None  # what the restriction to candidates cost, on a sample

    @property
    def width(self) -> int:
        """The width of the last hidden layer."""
        return self.module.perceptron.in_features

    def scale(self, X: Any) -> Any:
        """Return new rows as the network sees them."""
        return prepared_rows(X, self.unit_rows, self.rows.dtype)

    def far_columns(self, X: Any) -> Array:  # (d,) bool
        """Tell in which columns new rows are out of all proportion to the fitted ones."""
        largest = largest_entries(X, axis=0)
        return np.zeros(len(largest), dtype=bool) if self.unit_rows else largest > LARGEST_KEPT

    def distributions(self) -> Array:  # (n, c)
        """Return the probability of each class for the fitted rows."""
        with torch.no_grad():
            return self.module.probabilities(*self._inputs()).cpu().numpy()

    def embedding(self) -> Array:  # (n, width)
        """Return the last hidden layer of the fitted rows."""
        with torch.no_grad():
            return self.module.embed(*self._inputs()).cpu().numpy()

    @cached_property
    def graphs(self) -> list[scipy.sparse.csr_array]:
        """The learnt S of each layer."""
        with torch.no_grad():
            return self.module.graph_matrices(*self._inputs())

    def propagation_paths(self) -> list[Path]:
        """Return the one path through the layers."""
        alpha, direction = self.module.config["alpha"], self.module.config["direction"]
        return [[propagation_matrix(graph, alpha, direction) for graph in reversed(self.graphs)]]

    def predict_new(self, rows: Any, indices: Tensor, distances: Tensor) -> tuple[Array, Array]:  # (r, width), (r, c)
        """Return embedding and probabilities of new rows, given the fitted rows nearest to each."""
        device = self.module.perceptron.weight.device
        embedded = self._inductive.embed(
            on_device(rows, device), indices.to(device), distances.to(device), match_empty=self.metric == "chord"
        )
        with torch.no_grad():
            return embedded.cpu().numpy(), self.module.perceptron(embedded).softmax(dim=1).cpu().numpy()

    @cached_property
    def _inductive(self) -> InductiveNetwork:
        return InductiveNetwork(self.module, *self._inputs())

    def _inputs(self) -> tuple[Any, Neighborhood]:
        device = self.module.perceptron.weight.device
        return on_device(self.rows, device), self.neighborhood.to(device)


@dataclass(frozen=True)
class FittedEnsemble(_FittedModel):
    """An ensemble, and the rows it was trained on."""

    ensemble: Ensemble
    rows: Any  # (n, d) scaled
    neighborhood: Neighborhood
    metric: Metric
    distributions: Array  # (n, c) predicted for the fitted rows at the end of training

    @property
    def width(self) -> int:
        """The width of the propagated features."""
        basis = self.ensemble.scaling.basis
        return self.rows.shape[1] if basis is None else basis.shape[1]

    def scale(self, X: Any) -> Any:
        """Return new rows scaled."""
        return self.ensemble.scaling.transform(prepared_rows(X, False), self.rows.dtype)

    def far_columns(self, X: Any) -> Array:  # (d,) bool
        """Tell in which columns new rows are out of all proportion to the fitted ones."""
        return self.ensemble.scaling.far_columns(X, self.rows.dtype)

    def embedding(self) -> Array:  # (n, width)
        """Return the propagated features of the fitted rows."""
        return self._inductive.embedding().numpy().astype(self.distributions.dtype)

    @property
    def graphs(self) -> list[scipy.sparse.csr_array]:
        """The learnt S of the first and of the last round."""
        return self._inductive.graphs

    def propagation_paths(self) -> list[Path]:
        """Return a path for each base learner: all its hops are on the last S."""
        graph, direction = self.graphs[-1], self.ensemble.options.direction
        hops = (learner.parameters.influence_hops for learner in self.ensemble.learners)
        return [[propagation_matrix(graph, alpha, direction)] * n_hops for alpha, n_hops in hops]

    def predict_new(self, rows: Any, indices: Tensor, distances: Tensor) -> tuple[Array, Array]:  # (r, width), (r, c)
        """Return embedding and probabilities of new rows; a row that was fitted is recognised and gets its own."""
        features = self.ensemble.scaling.features(rows)
        found = self._inductive.predict_new(features, indices, distances.to(self.neighborhood.distances.dtype))
        embedded, probabilities = (part.numpy().astype(self.distributions.dtype) for part in found)
        fitted, new = (on_device(part, torch.device("cpu")) for part in (self.rows, rows))
        same, fitted_row = (
            part.numpy() for part in find_duplicates(fitted, new, indices, distances, self.metric == "chord")
        )
        if same.any():
            probabilities[same] = self.distributions[fitted_row[same]]
            embedded[same] = self.embedding()[fitted_row[same]]
        return embedded, probabilities

    @cached_property
    def _inductive(self) -> InductiveEnsemble:
        return InductiveEnsemble(self.ensemble, self.ensemble.scaling.features(self.rows), self.neighborhood)
