"""The methods that the paper compares with, and common methods of scikit-learn, with one interface.

Each is a classifier in the style of scikit-learn: -1 in y marks an unlabelled row, and ``fit(X, y,
validation_mask=...)`` labels every row (``transduction_``, ``label_distributions_``). ``METHODS`` maps the names of the
report to factories that take ``random_state``. Methods on torch_geometric and gensim need ``pip install
angpn[baselines]`` when they are fitted.

All take ``validation_fraction``, the share of the labels of each class to hold out where ``fit`` gets no
``validation_mask``, and ``random_state``. Methods on a graph take ``n_neighbors`` of :func:`shared_graph`. Networks
take ``learning_rate``, ``weight_decay``, ``max_iter`` (epochs) and ``n_iter_no_change`` (patience in epochs).
"""

from collections.abc import Callable
from typing import Any

from angpn.baselines.appnp import APPNP
from angpn.baselines.deepwalk import DeepWalk
from angpn.baselines.dgi import DeepGraphInfomax
from angpn.baselines.gat import GAT
from angpn.baselines.gcn import GCN
from angpn.baselines.graph import shared_graph
from angpn.baselines.graphsage import GraphSAGE
from angpn.baselines.label_propagation import LabelPropagation, LabelSpreading
from angpn.baselines.manifold_regularization import ManifoldRegularization
from angpn.baselines.poisson import PoissonLearning
from angpn.baselines.reference import KNN, SVM, LogisticRegression, SelfTraining
from angpn.estimators.auto import ANGPNClassifier
from angpn.estimators.network import ANGPNNetworkClassifier

__all__ = [
    "APPNP",
    "GAT",
    "GCN",
    "KNN",
    "METHODS",
    "NGPN",
    "SVM",
    "DeepGraphInfomax",
    "DeepWalk",
    "GraphSAGE",
    "LabelPropagation",
    "LabelSpreading",
    "LogisticRegression",
    "ManifoldRegularization",
    "PoissonLearning",
    "SelfTraining",
    "shared_graph",
]


def NGPN(**overrides: Any) -> ANGPNNetworkClassifier:
    """Return the paper's method with a fixed graph: its configuration with beta = 0.

    Args:
        **overrides: Parameters of the estimator that differ from the paper's configuration.

    Returns:
        The unfitted estimator.
    """
    return ANGPNClassifier.paper(**{"beta": 0.0, **overrides})


METHODS: dict[str, Callable[..., Any]] = {
    "ANGPN": ANGPNClassifier.paper,
    "ANGPN-auto": ANGPNClassifier,
    "NGPN": NGPN,
    "ManiReg": ManifoldRegularization,
    "LP": LabelPropagation,
    "DeepWalk": DeepWalk,
    "DGI": DeepGraphInfomax,
    "GraphSAGE": GraphSAGE,
    "GCN": GCN,
    "GAT": GAT,
    "LogisticRegression": LogisticRegression,
    "SVM": SVM,
    "LabelSpreading": LabelSpreading,
    "SelfTraining": SelfTraining,
    "kNN": KNN,
    "APPNP": APPNP,
    "Poisson": PoissonLearning,
}
