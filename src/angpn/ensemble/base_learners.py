"""A member of the committee: features propagated by Eq. (13) over the learnt graph, hop after hop, and a readout."""

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from angpn.anfp.fused import graph_fused
from angpn.anfp.graph import Gamma, Rule
from angpn.anfp.propagation import Direction
from angpn.anfp.sparse import adjacency_matrix
from angpn.neighbors.neighborhood import Neighborhood, sparse_product
from angpn.neighbors.partition import ALL_ROWS, HaloExchange, Partition

Reach = tuple[float, int]  # alpha of Eq. (13), and how often it is applied


class Setting(NamedTuple):
    """What distinguishes one member from another."""

    alpha: float  # of Eq. (13); 0 leaves the features as they are
    hops: int  # how often it is applied
    width: float | None  # of a radial readout, see Radial.around; None is a linear one
    C: float  # of its logistic regression: the inverse of the penalty

    @property
    def reach(self) -> Reach:
        """The part that decides the features."""
        return self.alpha, self.hops


class GraphOptions(NamedTuple):
    """How S is learnt and used, see ANGPNConv."""

    n_neighbors: int
    beta: float
    gamma: Gamma
    rule: Rule
    direction: Direction


def learnt_graph(neighborhood: Neighborhood, options: GraphOptions, beliefs: Tensor | None) -> scipy.sparse.csr_array:
    """S of Eq. (8): from the distances alone, or from these and what is believed of each row's class so far.

    Rows that probably are of one class attract each other by ``beta`` times the probability that they are.
    """
    features = torch.zeros(neighborhood.n_rows, 1) if beliefs is None else beliefs.float()
    return graph_fused(
        neighborhood,
        features,
        n_neighbors=options.n_neighbors,
        alpha=0.5,  # plays no part in a single step
        beta=0.0 if beliefs is None else options.beta,
        gamma=options.gamma,
        rule=options.rule,
        num_steps=1,
        direction="directed",
        graph_gradient=False,
        normalize=False,
    )


def propagated(
    features: Tensor,  # (n, p)
    propagation_matrix: "PropagationMatrix",
    reaches: Iterable[Reach],
) -> dict[Reach, Tensor]:
    """Eq. (13) applied again and again: the features for each alpha and number of hops that is asked for."""
    found: dict[Reach, Tensor] = {}
    wanted: dict[float, set[int]] = {}
    for alpha, hops in reaches:
        wanted.setdefault(alpha, set()).add(hops)
    for alpha, counts in wanted.items():
        for number, hopped in enumerate(hop_after_hop(features, propagation_matrix, alpha, max(counts))):
            if number in counts:
                found[alpha, number] = hopped
    return found


def hop_after_hop(
    features: Tensor, propagation_matrix: "PropagationMatrix", alpha: float, hops: int
) -> Iterable[Tensor]:
    """The features after 0, 1, ... hops."""
    yield features
    for _ in range(hops):
        received = propagation_matrix(features)
        features = torch.lerp(features, received, alpha, out=received)
        yield features


class PropagationMatrix:
    """A of Eq. (13), by which rows receive from others: S, or made from S and its transpose. Made when it is used."""

    def __init__(self, graph: scipy.sparse.csr_array, direction: Direction, partition: Partition = ALL_ROWS) -> None:
        self._graph, self._direction, self.partition = graph, direction, partition
        self.n_rows = graph.shape[0]

    def __call__(self, features: Tensor) -> Tensor:  # (n, p)
        """``A features``."""
        matrix, halo_exchange = self._made
        return sparse_product(*matrix, halo_exchange(features))

    @cached_property
    def _made(self) -> tuple[tuple[Tensor, Tensor, Tensor, int], HaloExchange]:
        matrix, halo_exchange = adjacency_matrix(self._graph, self._direction, self.partition)
        numbers = (torch.from_numpy(part.astype(np.int32, copy=False)) for part in (matrix.indptr, matrix.indices))
        return (*numbers, torch.from_numpy(matrix.data).float(), matrix.shape[1]), halo_exchange
