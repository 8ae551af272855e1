"""What a fit leaves behind, however it was trained: the fitted rows, and predictions for new ones."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from angpn.anfp.new_rows import find_duplicates, first_empty_row
from angpn.anfp.sparse import propagation_matrix
from angpn.ensemble.ensemble import Ensemble
from angpn.ensemble.inductive import InductiveEnsemble
from angpn.estimators.influence import Path
from angpn.neighbors.approximate import FittedSearch
from angpn.neighbors.exact import ExactSearch, Metric
from angpn.neighbors.inverted_index import IndexState
from angpn.neighbors.neighborhood import Neighborhood
from angpn.network.coverage import Coverage
from angpn.network.inductive import InductiveNetwork
from angpn.network.model import ANGPN
from angpn.utils.inputs import LARGEST_KEPT, as_widths, on_device, prepared_rows
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
    def index(self) -> IndexState | None:
        """What the index of a fit of many rows learnt."""

    @property
    def searches(self) -> dict[tuple[float, int], FittedSearch]:
        """The search by an index of the fitted rows, by recall and seed."""

    @property
    def exact_searches(self) -> dict[int, ExactSearch]:
        """The fitted rows prepared for exact search, by seed."""

    def scale(self, X: Any) -> Any:
        """Return new rows as the model sees them."""

    def coordinates(self, rows: Any) -> Any:
        """Return that of scaled rows between which distances are measured."""

    @property
    def located_rows(self) -> Any:  # (n, p)
        """That of the fitted rows."""

    def far_columns(self, X: Any) -> Array:  # (d,) bool
        """Tell in which columns new rows are out of all proportion to the fitted ones."""

    def embedding(self) -> Array:  # (n, width)
        """Return the embedding of the fitted rows."""

    @property
    def graphs(self) -> list[scipy.sparse.csr_array]:
        """The learnt S of each layer, or of the first and the last round."""

    def propagation_paths(self) -> list[Path]:
        """Return the propagation matrices that a row's features went through, along each path."""

    def predict_new(self, rows: Any, indices: Tensor, distances: Tensor) -> Array:  # (r, c)
        """Return the probabilities of new rows, given the fitted rows nearest to each."""

    def embed_new(self, rows: Any, indices: Tensor, distances: Tensor) -> Array:  # (r, width)
        """Return the embedding of new rows, given the fitted rows nearest to each."""

    def kept_bytes(self) -> int:
        """Estimate what the first new rows make the model compute and keep."""


class _FittedModel:
    """What both kinds keep beside their fields; it is computed on demand, and not pickled."""

    @cached_property
    def searches(self) -> dict[tuple[float, int], FittedSearch]:
        """The search by an index of the fitted rows, by recall and seed, see :func:`fitted_search`."""
        return {}

    @cached_property
    def exact_searches(self) -> dict[int, ExactSearch]:
        """The fitted rows prepared for exact search, by the seed by which ties fall, see :func:`fitted_search`."""
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
    index: IndexState | None = None

    @property
    def width(self) -> int:
        """The width of the last hidden layer."""
        return self.module.perceptron.in_features

    def scale(self, X: Any) -> Any:
        """Return new rows as the network sees them."""
        return prepared_rows(X, self.unit_rows, self.rows.dtype)

    def coordinates(self, rows: Any) -> Any:
        """Return these rows: distances are measured between all of their columns."""
        return rows

    @property
    def located_rows(self) -> Any:  # (n, d)
        """The fitted rows."""
        return self.rows

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

    def predict_new(self, rows: Any, indices: Tensor, distances: Tensor) -> Array:  # (r, c)
        """Return the probabilities of new rows, given the fitted rows nearest to each."""
        with torch.no_grad():
            return self.module.logits(self._embed(rows, indices, distances)).softmax(dim=1).cpu().numpy()

    def embed_new(self, rows: Any, indices: Tensor, distances: Tensor) -> Array:  # (r, width)
        """Return the last hidden layer of new rows, given the fitted rows nearest to each."""
        return self._embed(rows, indices, distances).cpu().numpy()

    def _embed(self, rows: Any, indices: Tensor, distances: Tensor) -> Tensor:
        device = self.module.perceptron.weight.device
        return self._inductive.embed(
            on_device(rows, device), indices.to(device), distances.to(device), match_empty=self.metric == "chord"
        )

    def kept_bytes(self) -> int:
        """Estimate the inputs of the layers, and the features that their graphs are made of in each step."""
        if "_inductive" in self.__dict__:
            return 0
        config, n, item = self.module.config, self.rows.shape[0], self.rows.dtype.itemsize
        inputs = 4 * 12 * self.rows.nnz if scipy.sparse.issparse(self.rows) else item * self.rows.size
        return 2 * (config["num_steps"] or 1) * (inputs + item * n * sum(as_widths(config["hidden_channels"])))

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
    index: IndexState | None = None

    @property
    def width(self) -> int:
        """The width of the propagated features."""
        basis = self.ensemble.scaling.basis
        return self.rows.shape[1] if basis is None else basis.shape[1]

    def scale(self, X: Any) -> Any:
        """Return new rows scaled."""
        return self.ensemble.scaling.transform(prepared_rows(X, False), self.rows.dtype)

    def coordinates(self, rows: Any) -> Any:
        """Return that of scaled rows between which distances are measured."""
        return self.ensemble.scaling.coordinates(rows)

    @cached_property
    def located_rows(self) -> Any:  # (n, p)
        """The coordinates of the fitted rows; kept, so that a few new rows cost what they must."""
        return self.coordinates(self.rows)

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
        hops = [learner.parameters.influence_hops for learner in self.ensemble.learners]
        matrices = {alpha: propagation_matrix(graph, alpha, direction) for alpha, _ in hops}
        return [[matrices[alpha]] * n_hops for alpha, n_hops in hops]

    def predict_new(self, rows: Any, indices: Tensor, distances: Tensor) -> Array:  # (r, c)
        """Return the probabilities of new rows; a row that was fitted is recognised and gets its own."""
        return self._answer(self._inductive.predict_new, lambda: self.distributions, rows, indices, distances)

    def embed_new(self, rows: Any, indices: Tensor, distances: Tensor) -> Array:  # (r, width)
        """Return the propagated features of new rows; a row that was fitted is recognised and gets its own."""
        return self._answer(self._inductive.embed_new, lambda: self._embedding, rows, indices, distances)

    def _answer(
        self,
        of_new: Callable[[Tensor, Tensor, Tensor], Tensor],
        of_fitted: Callable[[], Array],
        rows: Any,
        indices: Tensor,
        distances: Tensor,
    ) -> Array:
        features = self.ensemble.scaling.features(rows)
        found = of_new(features, indices, distances.to(self.neighborhood.distances.dtype))
        answers = found.numpy().astype(self.distributions.dtype)
        fitted, new = (on_device(part, torch.device("cpu")) for part in (self.rows, rows))
        empty_row = self._empty_row if self.metric == "chord" else None
        same, fitted_row = (part.numpy() for part in find_duplicates(fitted, new, indices, distances, empty_row))
        if same.any():
            answers[same] = of_fitted()[fitted_row[same]]
        return answers

    def kept_bytes(self) -> int:
        """Estimate the graphs, and what fitted rows send to new ones over the hops of each base learner."""
        if "_inductive" in self.__dict__:
            return 0
        n, n_graphs = self.rows.shape[0], 1 if self.ensemble.graph_probabilities is None else 2
        hops = {learner.parameters.hops for learner in self.ensemble.learners}
        graph = 3 * 16 * n * self.ensemble.options.n_neighbors  # S, S + S^T and the adjacency
        return n_graphs * (graph + 4 * n * self.width * len(hops)) + 3 * 4 * n * self.width

    @cached_property
    def _embedding(self) -> Array:  # (n, width)
        return self.embedding()

    @cached_property
    def _empty_row(self) -> int | None:
        return first_empty_row(on_device(self.rows, torch.device("cpu")))

    @cached_property
    def _inductive(self) -> InductiveEnsemble:
        return InductiveEnsemble(self.ensemble, self.ensemble.scaling.features(self.rows), self.neighborhood)
