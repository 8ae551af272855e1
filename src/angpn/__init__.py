"""Semi-supervised classification when there is no graph: Adaptive Neighborhood Graph Propagation Networks.

``ANGPNClassifier`` is the method as a scikit-learn estimator. Below it, for those who want the parts:
``project_simplex``, ``neighbor_graph``, ``propagate`` and ``solve_anfp`` are the paper's maths; ``ANGPNConv`` and
``ANGPN`` its layer and network; ``train`` its training; ``nearest_candidates`` and ``pairwise_distances`` make the
distances it starts from; ``candidate_coverage`` says what its restriction to candidates cost. None of the parts
rescales what it is given.
"""

from angpn.anfp.algorithm import ANFPResult, solve_anfp
from angpn.anfp.graph import neighbor_graph
from angpn.anfp.propagation import propagate
from angpn.anfp.simplex import project_simplex
from angpn.estimators.auto import ANGPNClassifier
from angpn.estimators.influence import Influence
from angpn.neighbors.exact import nearest_candidates, pairwise_distances
from angpn.neighbors.neighborhood import Neighborhood
from angpn.network.conv import ANGPNConv
from angpn.network.coverage import Coverage, candidate_coverage
from angpn.network.model import ANGPN
from angpn.network.training import Epoch, Training, train

__version__ = "0.1.0"

__all__ = [
    "ANGPN",
    "ANFPResult",
    "ANGPNClassifier",
    "ANGPNConv",
    "Coverage",
    "Epoch",
    "Influence",
    "Neighborhood",
    "Training",
    "candidate_coverage",
    "nearest_candidates",
    "neighbor_graph",
    "pairwise_distances",
    "project_simplex",
    "propagate",
    "solve_anfp",
    "train",
]
