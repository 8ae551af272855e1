from . import (
    anfp,
    annotation,
    baselines,
    datasets,
    ensemble,
    estimators,
    experiments,
    features,
    inspection,
    labelling,
    model_selection,
    neighbors,
    network,
)
from .anfp.exact_solver import ANFPResult, solve_anfp
from .anfp.neighbor_graph import neighbor_graph
from .anfp.propagation import propagate
from .anfp.simplex import project_simplex
from .annotation.notebook import annotate
from .ensemble.config import EnsembleConfig
from .estimators.auto import ANGPNClassifier
from .estimators.clustering import ANGPNClusterer
from .estimators.embedding import ANGPNEmbedding
from .estimators.influence import Influence
from .estimators.network import ANGPNNetworkClassifier
from .estimators.suggest import suggest
from .estimators.suggestion import Suggestion
from .estimators.unreliable_rows import UnreliableRows
from .inspection.accuracy_estimate import Estimate
from .neighbors.exact import nearest_candidates, pairwise_distances
from .neighbors.neighborhood import Neighborhood
from .network.conv import ANGPNConv
from .network.coverage import Coverage, candidate_coverage
from .network.model import ANGPN
from .network.training import train
from .network.training_loop import Epoch, Training

__version__: str

__all__ = [
    "ANGPN",
    "ANFPResult",
    "ANGPNClassifier",
    "ANGPNClusterer",
    "ANGPNConv",
    "ANGPNEmbedding",
    "ANGPNNetworkClassifier",
    "Coverage",
    "EnsembleConfig",
    "Epoch",
    "Estimate",
    "Influence",
    "Neighborhood",
    "Suggestion",
    "Training",
    "UnreliableRows",
    "anfp",
    "annotate",
    "annotation",
    "baselines",
    "candidate_coverage",
    "datasets",
    "ensemble",
    "estimators",
    "experiments",
    "features",
    "inspection",
    "labelling",
    "model_selection",
    "nearest_candidates",
    "neighbor_graph",
    "neighbors",
    "network",
    "pairwise_distances",
    "project_simplex",
    "propagate",
    "solve_anfp",
    "suggest",
    "train",
]
