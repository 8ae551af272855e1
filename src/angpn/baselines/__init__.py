"""The methods that the paper compares with, and those a practitioner would try first, behind one interface.

Each is a scikit-learn style classifier: y == -1 is unlabelled, ``fit(X, y, validation_mask=...)`` labels every row
(``transduction_``, ``label_distributions_``). ``METHODS`` has them by the name that tables use, as factories that take
``random_state``. Those on torch_geometric and gensim need ``pip install angpn[baselines]`` when they are fitted.
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


def NGPN(**overrides: Any) -> ANGPNClassifier:
    """The paper's fixed-graph method: its configuration with beta = 0."""
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
