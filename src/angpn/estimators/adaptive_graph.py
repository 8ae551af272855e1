"""The graph of rows without labels: learnt from their distances, and again from the features propagated on it.

A graph that is learnt again and again from its own features collapses: near rows come nearer, far ones further, and it
falls apart into more and more small components, long before these are clusters. The cure is that of AdaGAE (Li et al.,
2022): k grows with each update, so that components have to join as fast as they split.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse
import torch
from sklearn.preprocessing import normalize
from torch import Tensor

from angpn.anfp.graph_backends import learn_graph
from angpn.anfp.neighbor_graph import neighbor_weights, resolve_gamma
from angpn.ensemble.config import EnsembleConfig
from angpn.ensemble.propagated_features import Adjacency, after_each_hop
from angpn.ensemble.scaling import Scaling, ScalingName, is_table
from angpn.estimators.fit_ensemble import candidate_scalings
from angpn.neighbors.approximate import EXACT_PAIRS, EXACT_ROWS, FittedSearch, approximate_candidates, has_index
from angpn.neighbors.exact import ExactSearch, Metric, nearest_candidates
from angpn.neighbors.neighborhood import Neighborhood
from angpn.utils.progress import count_bar
from angpn.utils.typing import Array

_ROWS_AT_ONCE = 2**13  # new rows
_SHARE_OF_ROWS = 4  # no row has more neighbours than this part of all: clusters are smaller
_CANDIDATES_PER_NEIGHBOR, _OF_MANY_ROWS = 4, 2  # of many rows their lists are most of the memory
_CONFIG = EnsembleConfig()


class AdaptiveGraphOptions(NamedTuple):
    """How the graph is learnt."""

    n_neighbors: int
    n_updates: int
    n_hops: int
    metric: Metric | Literal["auto"]
    scaling: ScalingName | Literal["auto"]
    recall: float
    seed: int
    verbose: bool
    n_directions: int | None = None  # to which rows are reduced, those of a table if it is wide; None: they are not


@dataclass(frozen=True)
class AdaptiveGraph:
    """Rows, their neighbours, and the graph that was learnt on them without labels."""

    scaling: Scaling | None  # None where distances were given
    rows: Any  # (n, d) scaled, or their coordinates in main directions; None where distances were given
    first: Neighborhood  # of the rows
    features: Tensor | None  # (n, p) propagated
    neighborhood: Neighborhood  # of these features, or of the rows where there are none
    graph: scipy.sparse.csr_array  # S
    n_neighbors: int  # of the first graph
    grown: int  # k of the last one
    options: AdaptiveGraphOptions

    @classmethod
    def learn(cls, X: Any, options: AdaptiveGraphOptions) -> "AdaptiveGraph":
        """Learn the graph of rows of features, or of a full matrix of distances."""
        n, k = X.shape[0], options.n_neighbors
        grown = [_fewer(k * 2**update, n) for update in range(options.n_updates + 1)]
        if options.metric == "precomputed":
            given = nearest_candidates(X, _n_candidates(grown[-1], n), "precomputed", random_state=options.seed)
            graph = learn_graph(given, None, n_neighbors=grown[-1], beta=0.0)
            return cls(None, None, given, None, given, graph, grown[0], grown[-1], options)
        scaling = Scaling.fit(X, *scaling_without_labels(X, options), options.seed, _CONFIG)
        if options.n_directions is not None and X.shape[1] > max(options.n_directions, _most_whole_columns(scaling)):
            scaling = scaling.with_main_directions(X, options.n_directions, options.seed, _CONFIG)
        rows = scaling.coordinates(scaling.transform(X))
        features = scaling.features(rows) if scaling.main is None else torch.from_numpy(rows.astype(np.float32))
        by_direction = scaling.name not in ("standard", "none")
        neighborhood = first = _search(rows, grown[0], scaling.metric, options, "neighbours")
        graph = learn_graph(first, None, n_neighbors=grown[0], beta=0.0)
        for k in grown[1:]:
            *_, features = after_each_hop(features, Adjacency(graph, "normalized"), 1.0, options.n_hops)
            features = torch.from_numpy(normalize(features.numpy())) if by_direction else features
            neighborhood = _search(features.numpy(), k, "euclidean", options, "neighbours of propagated features")
            graph = learn_graph(neighborhood, None, n_neighbors=k, beta=0.0)
        return cls(scaling, rows, first, features, neighborhood, graph, grown[0], grown[-1], options)

    def weights_of(self, X: Any) -> Iterator[tuple[Array, Array]]:  # (r, m) rows of the fit, and their weights
        """Yield for new rows, some at a time, the weights of fitted rows: the row of S that each would have.

        A row that was fitted has its own weight only.
        """
        gamma = resolve_gamma(self.first.distances, self.n_neighbors, "auto")
        for start in range(0, X.shape[0], _ROWS_AT_ONCE):
            indices, distances = self._search_for(X.shape[0])(self.scaled(X[start : start + _ROWS_AT_ONCE]))
            weights = neighbor_weights(
                distances, None, n_neighbors=self.n_neighbors, beta=0.0, gamma=gamma.to(distances), rule="simplex"
            )
            fitted = distances[:, 0] == 0
            weights[fitted] = 0
            weights[fitted, 0] = 1
            yield indices.numpy(), weights.numpy()

    def scaled(self, X: Any) -> Any:
        """Return new rows as the fitted ones are."""
        if self.scaling is None:
            return X
        return self.scaling.coordinates(self.scaling.transform(X, self.rows.dtype))

    @property
    def _metric(self) -> Metric:
        return "precomputed" if self.scaling is None else self.scaling.metric

    def _search_for(self, n_new: int) -> Callable[[Any], tuple[Tensor, Tensor]]:
        if n_new * self.first.n_rows > EXACT_PAIRS and has_index(self.first.n_rows) and self.rows is not None:
            return self._index
        return self._exact

    @cached_property
    def _exact(self) -> ExactSearch:
        # Of rows whose distances were given, how many there are is all that counts.
        rows = np.empty((self.first.n_rows, 0)) if self.rows is None else self.rows
        return ExactSearch(rows, self.first.n_candidates, self._metric, random_state=self.options.seed)

    @cached_property
    def _index(self) -> FittedSearch:
        return FittedSearch(
            self.rows,
            self.first.n_candidates,
            self._metric,
            recall=self.options.recall,
            random_state=self.options.seed,
        )


def scaling_without_labels(X: Any, options: AdaptiveGraphOptions) -> tuple[ScalingName, Metric]:
    """Return how rows are scaled, where no label can select: columns of a table, directions of all else.

    Columns of two values each, as names that were one-hot encoded have, stay as they are: scaling them would make
    rare values the most important ones.
    """
    scalings = candidate_scalings(options.scaling, options.metric, sparse=scipy.sparse.issparse(X))
    if len(scalings) == 1:
        return scalings[0]
    if scipy.sparse.issparse(X):
        wanted = "idf"
    elif not is_table(X, _CONFIG):
        wanted = "unit"
    elif ((X.min(axis=0) == X) | (X.max(axis=0) == X)).all():
        return "none", "euclidean"
    else:
        wanted = "standard"
    return next(scaling for scaling in scalings if scaling[0] == wanted)


def _most_whole_columns(scaling: Scaling) -> float:
    """Return up to how many columns rows are not reduced to main directions: in a small table each tells something."""
    if scaling.name == "unit_standard":
        return math.inf
    return _CONFIG.max_columns_of_table if scaling.name in ("standard", "none") else 0


def _fewer(n_neighbors: int, n_rows: int) -> int:
    return max(1, min(n_neighbors, n_rows // _SHARE_OF_ROWS, n_rows - 2))


def _n_candidates(n_neighbors: int, n_rows: int) -> int:
    per_neighbor = _CANDIDATES_PER_NEIGHBOR if n_rows <= EXACT_ROWS else _OF_MANY_ROWS
    return min(per_neighbor * n_neighbors, n_rows - 1)


def _search(rows: Any, n_neighbors: int, metric: Metric, options: AdaptiveGraphOptions, what: str) -> Neighborhood:
    n, count = rows.shape[0], _n_candidates(n_neighbors, rows.shape[0])
    with count_bar(what, n, enabled=options.verbose) as advance:
        if n <= EXACT_ROWS or options.recall == 1 or not has_index(n):
            return nearest_candidates(rows, count, metric, random_state=options.seed, on_rows=advance)
        return approximate_candidates(
            rows, count, metric, recall=options.recall, random_state=options.seed, on_rows=advance
        ).neighborhood
