"""Semi-supervised classification when there is no graph: Adaptive Neighborhood Graph Propagation Networks.

``ANGPNClassifier`` is the method as a scikit-learn estimator. Below it, for those who want the parts:
``project_simplex``, ``neighbor_graph``, ``propagate`` and ``solve_anfp`` are the paper's maths; ``ANGPNConv`` and
``ANGPN`` its layer and network; ``train`` its training; ``nearest_candidates`` and ``pairwise_distances`` make the
distances it starts from; ``candidate_coverage`` says what its restriction to candidates cost. None of the parts
rescales what it is given.
"""

from angpn.anfp.exact_solver import ANFPResult, solve_anfp
from angpn.anfp.neighbor_graph import neighbor_graph
from angpn.anfp.propagation import propagate
from angpn.anfp.simplex import project_simplex
from angpn.ensemble.config import EnsembleConfig
from angpn.estimators.auto import ANGPNClassifier
from angpn.estimators.influence import Influence
from angpn.estimators.network import ANGPNNetworkClassifier
from angpn.neighbors.exact import nearest_candidates, pairwise_distances
from angpn.neighbors.neighborhood import Neighborhood
from angpn.network.conv import ANGPNConv
from angpn.network.coverage import Coverage, candidate_coverage
from angpn.network.model import ANGPN
from angpn.network.training import train
from angpn.network.training_loop import Epoch, Training

__version__ = "0.2.0.dev0"

__all__ = [
    "ANGPN",
    "ANFPResult",
    "ANGPNClassifier",
    "ANGPNConv",
    "ANGPNNetworkClassifier",
    "Coverage",
    "EnsembleConfig",
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
