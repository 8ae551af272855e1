"""A member of the committee: features propagated by Eq. (13) over the learnt graph, hop after hop, and a readout."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from angpn.graph import Gamma, Rule
from angpn.kernels.sparse import mixing_matrix
from angpn.layers import ANGPNConv
from angpn.neighborhood import Neighborhood, sparse_product
from angpn.propagation import Direction

Reach = tuple[float, int]  # alpha of Eq. (13), and how often it is applied
Matrix = tuple[Tensor, Tensor, Tensor, int]  # as sparse_product takes it


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


def learnt_graph(hood: Neighborhood, options: GraphOptions, beliefs: Tensor | None) -> scipy.sparse.csr_array:
    """S of Eq. (8): from the distances alone, or from these and what is believed of each row's class so far.

    Rows that probably are of one class attract each other by ``beta`` times the probability that they are.
    """
    classes = 1 if beliefs is None else beliefs.shape[1]
    with torch.random.fork_rng(devices=[]):  # a layer draws weights, which are not used here
        layer = ANGPNConv(
            classes,
            1,
            n_neighbors=options.n_neighbors,
            beta=0.0 if beliefs is None else options.beta,
            gamma=options.gamma,
            rule=options.rule,
            num_steps=1,
        )
    features = torch.zeros(hood.n_rows, 1) if beliefs is None else beliefs.float()
    return layer.graph_matrix(features, hood)


def propagated(
    features: Tensor,  # (n, p)
    graph: scipy.sparse.csr_array,
    direction: Direction,
    reaches: Iterable[Reach],
) -> dict[Reach, Tensor]:
    """Eq. (13) applied again and again: the features for each alpha and number of hops that is asked for."""
    found: dict[Reach, Tensor] = {}
    wanted: dict[float, set[int]] = {}
    for alpha, hops in reaches:
        wanted.setdefault(alpha, set()).add(hops)
    matrix = neighbor_matrix(graph, direction) if any(max(counts) for counts in wanted.values()) else None
    for alpha, counts in wanted.items():
        for number, hopped in enumerate(hop_after_hop(features, matrix, alpha, max(counts))):
            if number in counts:
                found[alpha, number] = hopped
    return found


def hop_after_hop(features: Tensor, matrix: Matrix | None, alpha: float, hops: int) -> Iterable[Tensor]:
    """The features after 0, 1, ... hops; without a hop no matrix is needed."""
    yield features
    for _ in range(hops):
        assert matrix is not None
        features = torch.lerp(features, sparse_product(*matrix, features), alpha)
        yield features


def neighbor_matrix(graph: scipy.sparse.csr_array, direction: Direction) -> Matrix:
    """A of Eq. (13): S, or made from S and its transpose."""
    matrix = mixing_matrix(graph, 1.0, direction)
    starts, columns = (torch.from_numpy(part.astype(np.int32, copy=False)) for part in (matrix.indptr, matrix.indices))
    return starts, columns, torch.from_numpy(matrix.data).float(), matrix.shape[1]
