"""Features propagated by Eq. (13) over the learnt graph, hop after hop."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from angpn.anfp.propagation import Direction
from angpn.anfp.sparse import adjacency_matrix
from angpn.ensemble.config import Hops
from angpn.ensemble.folds import TrainingSet
from angpn.ensemble.principal_features import PrincipalFeatures
from angpn.ensemble.user_options import GraphOptions
from angpn.neighbors.halo import HaloExchange
from angpn.neighbors.list_products import sparse_product
from angpn.neighbors.neighborhood import Neighborhood
from angpn.neighbors.partition import ALL_ROWS, Partition
from angpn.utils.typing import Array

_MAX_KEPT = 2**26  # values of inputs of heads that are kept: a quarter of a gigabyte
_MAX_SAMPLE = 2**12  # rows that principal directions are found on

Inputs = tuple[Hops, float | None]  # of a head: hops of its features, and the width of a Gaussian kernel, if any


class Adjacency:
    """A of Eq. (13): S, or made from S and its transpose. The matrix is made when it is first used."""

    def __init__(
        self,
        graph: scipy.sparse.csr_array,
        direction: Direction,
        partition: Partition = ALL_ROWS,
        order: Array | None = None,  # (n,) in which features come; that of the graph by default
    ) -> None:
        self._graph, self._direction, self.partition, self._order = graph, direction, partition, order
        self.n_rows = graph.shape[0]

    def __call__(self, features: Tensor, alpha: float = 1.0) -> Tensor:  # (n, p)
        """Return the features after one hop of Eq. (13); by default ``A features``."""
        matrix, halo_exchange = self._matrix
        return sparse_product(*matrix, halo_exchange(features), alpha)

    def normalized_dense(self) -> Tensor:  # (n, n) float64
        """Return ``D^-1/2 (S + S^T) D^-1/2`` in full; for few rows, all of them held by this process."""
        graph = torch.from_numpy(self._graph.toarray()).double()
        both = graph + graph.T
        degree = both.sum(dim=1)
        scale = torch.where(degree > 0, degree, 1).rsqrt()
        return scale[:, None] * both * scale

    @cached_property
    def _matrix(self) -> tuple[tuple[Tensor, Tensor, Tensor, int], HaloExchange]:
        matrix, halo_exchange = adjacency_matrix(self._graph, self._direction, self.partition)
        if self._order is not None:
            number_of = np.empty(self.n_rows, np.int32)
            number_of[self._order] = np.arange(self.n_rows, dtype=np.int32)
            matrix = matrix[self._order]
            matrix.indices = number_of[matrix.indices]  # the order of entries stays, and so do sums to the last bit
        numbers = (torch.from_numpy(part.astype(np.int32, copy=False)) for part in (matrix.indptr, matrix.indices))
        return (*numbers, torch.from_numpy(matrix.data).float(), matrix.shape[1]), halo_exchange


def after_each_hop(features: Tensor, adjacency: Adjacency, alpha: float, n_hops: int) -> Iterator[Tensor]:
    """Yield the features after 0, 1, ... hops of Eq. (13)."""
    yield features
    for _ in range(n_hops):
        features = adjacency(features, alpha)
        yield features


def propagate_hops(features: Tensor, adjacency: Adjacency, hops: Iterable[Hops]) -> dict[Hops, Tensor]:
    """Return the features for each alpha and number of hops; one pass serves all numbers of one alpha."""
    found: dict[Hops, Tensor] = {}
    wanted: dict[float, set[int]] = {}
    for alpha, n_hops in hops:
        wanted.setdefault(alpha, set()).add(n_hops)
    for alpha, counts in wanted.items():
        for count, propagated in enumerate(after_each_hop(features, adjacency, alpha, max(counts))):
            if count in counts:
                found[alpha, count] = propagated
    return found


class PropagatedFeatures:
    """The features of all rows on one graph, by hops, and what the base learners trained on them share."""

    def __init__(
        self,
        features: Tensor,  # (n, p) of the rows that the lists are of
        neighborhood: Neighborhood,
        options: GraphOptions,
        hops: Sequence[Hops],
        probabilities: Tensor | None = None,  # (n, c) to learn the graph from, beside the distances
    ) -> None:
        graph = options.learn_graph(neighborhood, probabilities)
        self.partition, self._features = neighborhood.partition, features
        self._adjacency = Adjacency(graph, options.direction, self.partition)
        # Label spreading is on the normalised graph whatever the direction: no eigenvalue of it is beyond 1.
        is_normalized = options.direction == "normalized"
        self.normalized = self._adjacency if is_normalized else Adjacency(graph, "normalized", self.partition)
        self.by_hops: dict[Hops, Tensor] = {}
        self.scales: dict[Hops, float] = {}
        self.maps: dict[Inputs, PrincipalFeatures] = {}
        self.columns_of_all: dict[PrincipalFeatures, Tensor] = {}  # (n, r) each, as many as there is room for
        self.labelled: dict[Inputs, tuple[Tensor, Tensor]] = {}  # (l, r) in cross-validation, and (r,) variances
        self.propagate(hops)

    def propagate(self, hops: Iterable[Hops]) -> None:
        """Add the features after these hops, where they are not there yet."""
        found = propagate_hops(self._features, self._adjacency, [each for each in hops if each not in self.by_hops])
        self.by_hops |= found
        # Propagation shortens rows, and the penalty of a head knows one scale: to length 1 on average.
        for key, each in found.items():
            length = mean_length(each, self.partition)
            if not np.isfinite(length):
                raise ValueError(
                    f"features must stay finite, got an overflow after {key[1]} hops; rows of S by rule='printed' need "
                    "not sum to 1: use rule='simplex', a smaller beta or alpha, or a larger gamma"
                )
            self.scales[key] = 1 / (length or 1.0)

    def scaled(self, hops: Hops, rows: Array) -> Tensor:  # (r, p)
        """Return the features of these rows of the data, at length 1 on average."""
        return self.scales[hops] * self.partition.gather_rows(self.by_hops[hops], rows)

    @cached_property
    def sample(self) -> Array:
        """Rows of the data that the features are judged by: all of few, else some."""
        total = self.partition.total_rows(len(self._features))
        return np.arange(0, total, -(-total // _MAX_SAMPLE))

    def columns(self, inputs: Inputs, rows: Array) -> Callable[[], Tensor]:  # (r, q)
        """Return what returns the inputs of heads for these rows of the data, by the map for them.

        Where most rows are wanted and there is room, they are computed once for all rows. Rows that other processes
        hold are gathered now, else later: they are much memory.
        """
        mapped, scaled = self.maps[inputs], partial(self.scaled, inputs[0], rows)
        if self.partition.n_processes > 1:
            return partial(mapped, scaled())
        if mapped not in self.columns_of_all:
            n_kept = sum(kept.numel() for kept in self.columns_of_all.values())
            has_room = n_kept + len(self._features) * len(mapped.variances) <= _MAX_KEPT
            if not has_room or 2 * len(rows) < len(self._features):
                return lambda: mapped(scaled())
            self.columns_of_all[mapped] = mapped(self.scales[inputs[0]] * self.by_hops[inputs[0]])
        return partial(self.partition.gather_rows, self.columns_of_all[mapped], rows)


@dataclass(frozen=True)
class PropagationParameters:
    """The hyper-parameters that decide which features a base learner is trained on."""

    alpha: float  # of Eq. (13); 0 leaves the features as they are
    n_hops: int  # how often it is applied

    @property
    def hops(self) -> Hops:
        """The part that decides the features."""
        return self.alpha, self.n_hops

    @property
    def inputs(self) -> Hashable:
        """What it is trained on beside the labels."""
        return self.hops

    @property
    def influence_hops(self) -> Hops:
        """The hops over which other rows influence a prediction."""
        return self.hops


class Problem(NamedTuple):
    """What a base learner is trained on."""

    features: PropagatedFeatures
    training: TrainingSet


def same_features(problems: Sequence[Problem]) -> list[list[int]]:
    """Return the places of the problems on the same features, for each of these."""
    found: dict[int, list[int]] = {}
    for place, problem in enumerate(problems):
        found.setdefault(id(problem.features), []).append(place)
    return list(found.values())


def mean_length(features: Tensor, partition: Partition) -> float:
    """Return the mean length of the rows of all processes."""
    return float(partition.mean(features.norm(dim=1)))
