"""What the user decided of a fit, and the means to carry it out."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple

import scipy.sparse
from torch import Tensor

from angpn.anfp.graph_backends import learn_graph
from angpn.anfp.neighbor_graph import Rule
from angpn.anfp.propagation import Direction
from angpn.ensemble.config import EnsembleConfig
from angpn.ensemble.scaling import ScalingName
from angpn.neighbors.distributed import ParallelMap, serial_map
from angpn.neighbors.exact import Metric
from angpn.neighbors.neighborhood import Neighborhood
from angpn.utils.schema import Beta, Gamma, Size

FindNeighbors = Callable[[Any, Metric], Neighborhood]  # scaled rows and a metric, to each row's candidates
ProgressBar = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]


class GraphOptions(NamedTuple):
    """How S is learnt and used, see ANGPNConv; it is saved as it is."""

    n_neighbors: Size
    beta: Beta
    gamma: Gamma | Literal["auto", "local"]
    rule: Rule
    direction: Direction

    def learn_graph(self, neighborhood: Neighborhood, probabilities: Tensor | None) -> scipy.sparse.csr_array:
        """Return S of Eq. (8): from the distances alone, or with the predicted class probabilities as its features.

        Rows that probably are of one class attract each other by ``beta`` times the probability that they are.
        """
        features = None if probabilities is None else probabilities.float()
        k, beta, gamma, rule, _ = self
        return learn_graph(neighborhood, features, n_neighbors=k, beta=beta, gamma=gamma, rule=rule)


class EnsembleOptions(NamedTuple):
    """What the user decided; all else held-out labels select."""

    scalings: Sequence[tuple[ScalingName, Metric]]  # among which they select
    alpha: float | None  # of Eq. (13); None: selected
    graph: GraphOptions
    find_neighbors: FindNeighbors
    find_training_neighbors: FindNeighbors  # the same in an order, or for a part of the rows, that suits training
    distances_given: bool  # then neighbours are those of all rows
    keep_features: bool  # of the final model, for a refit with more labels
    progress_bar: ProgressBar
    seed: int
    config: EnsembleConfig = EnsembleConfig()
    of_table: bool = False  # see is_table
    n_components: int = 22  # main directions of the scaling "pca"
    parallel_map: ParallelMap = serial_map
