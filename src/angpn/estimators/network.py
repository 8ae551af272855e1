"""ANGPNNetworkClassifier: the paper's network, trained end to end, as a scikit-learn estimator."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Self, get_args

import numpy as np
import scipy.sparse
import torch

from angpn.anfp.neighbor_graph import Gamma, Rule
from angpn.anfp.propagation import Direction
from angpn.estimators.base import BaseANGPNClassifier
from angpn.estimators.fit_network import fit_network
from angpn.estimators.fitted_models import FittedNetwork
from angpn.estimators.memory_estimate import network_bytes
from angpn.estimators.task import Fit, Task
from angpn.neighbors.exact import Metric
from angpn.network.training import check_self_supervised
from angpn.utils.checks import check_alpha, check_choice, check_number
from angpn.utils.inputs import find_device

# Every parameter that the result depends on, so that a new default never changes what the paper's configuration is.
_PAPER: Mapping[str, Any] = {
    "hidden_layer_sizes": (50, 50),
    "n_neighbors": 30,  # not in the paper; of 10, 15, 20, 30, 40 the best on validation labels, docs/results.md
    "n_candidates": None,
    "recall": 0.9,
    "metric": "chord",
    "normalize": True,
    "normalize_hidden": True,
    "alpha": 0.5,
    "beta": 0.3,
    "gamma": "auto",
    "rule": "simplex",
    "num_steps": 2,
    "direction": "directed",
    "graph_gradient": True,
    "dropout": 0.0,
    "learning_rate": 0.005,
    "weight_decay": 0.0,
    "self_supervised": 0.0,
    "max_iter": 10_000,
    "n_iter_no_change": 100,
    "tol": 1e-4,
    "validation_fraction": 0.05,
    "class_weight": None,
}


class ANGPNNetworkClassifier(BaseANGPNClassifier):
    """Label the unlabelled rows by an Adaptive Neighborhood Graph Propagation Network, trained end to end.

    Args:
        hidden_layer_sizes: the width of each hidden propagation layer of Eq. (12).
        n_neighbors: k of Eq. (9), about how many neighbours a row has. Lowered, with a warning, where there are fewer
            than k + 2 rows.
        n_candidates: among how many nearest rows a row learns to choose its neighbours; None is 4 k, and 3 k
            where X is dense and beta 0.
        recall: the share of those nearest rows that must be found. Up to 20,000 rows all are; beyond, an index finds
            about so many in a fraction of the time (extra ``scale``). 1 always compares every pair.
        metric: "chord" (Euclidean between rows of unit length), "euclidean", "sqeuclidean", or "precomputed", where X
            is the full matrix of distances.
        normalize: scale the rows of X to unit length before all else.
        normalize_hidden: let the graphs of the hidden layers see rows of unit length.
        alpha: fraction that a row takes from its neighbours, Eq. (13).
        beta: weight of the features in the graph, Eq. (8); 0 fixes the graph (NGPN).
        gamma: "auto", "local" or a number, see :func:`angpn.neighbor_graph`.
        rule: "simplex" or "printed", see :func:`angpn.neighbor_graph`; "knn", with beta 0, is a plain k-NN graph.
        num_steps: T of Algorithm 1, at most 100; None runs it to convergence.
        direction: "directed", "symmetric" or "normalized", see :class:`angpn.ANGPNConv`.
        graph_gradient: let the gradient flow through the learnt graph.
        dropout: share of a hidden layer's numbers that an epoch leaves out.
        learning_rate: of Adam.
        weight_decay: of Adam.
        self_supervised: weight of a denoising loss beside that of the labels: in each epoch a fifth of the entries of X
            is masked, and restored from the last hidden layer, so that every row trains the layers and their graphs.
            For a dense X the values are restored, for a sparse one which entries are not 0. 0 trains on labels alone.
            For study: it did not raise accuracy, see docs/accuracy.md. Must be 0 with ``distributed``.
        max_iter: epochs at most.
        n_iter_no_change: stop after so many epochs in which the validation loss did not improve.
        tol: what counts as an improvement.
        validation_fraction: of the labels of each class, held out for early stopping; at least one where a class has
            more.
        class_weight: None, "balanced", or the weight of each class.
        device: "auto" (CUDA where there is one and X is dense, else the CPU) or what torch takes.
        distributed: True shares the rows out among the processes that torchrun started; False fits in this process
            alone even there; None is an error under torchrun, and False elsewhere.
        random_state: an int gives the same result every time.
        warm_start: fit again from the weights of the last fit.
        checkpoint: a file that a fit keeps about every second, so that it can be resumed.
        resume: resume the fit whose ``checkpoint`` this is (perhaps with another ``max_iter``); where there is none, or
            that of another fit that had ended, begin.
        verbose: show progress bars.

    Attributes:
        classes_: the labels, sorted.
        transduction_: the most probable label of every row of X; for a row whose label was given it may be another one.
        label_distributions_: the probability of each class for every row.
        n_iter_: how many epochs ran.
        loss_curve_: the training loss before each epoch's update.
        validation_scores_: the accuracy on held-out labels likewise, or None where none were held out.
        best_validation_score_: that accuracy for the weights that were kept, or None.
        best_iter_: the epoch, from 1, whose weights were kept.
        validation_mask_: the rows whose labels were held out.
        validation_transduction_: what was predicted for these.
        validation_distributions_: the probability of each class for these, or None in a model that an older version
            saved.
        module_: the network.
        neighborhood_: each row's candidates and their distances.
        recall_: the share of the nearest rows that are among these, on a sample; 1 where all were searched for.
        neighbor_seconds_: how long the search for them took.
        layer_graphs_: the learnt S of each layer, sparse.
        graph_: the last of them.
        embedding_: the last hidden layer for every row of X.
        coverage_: what the restriction to candidates cost, on a sample; None where every row was a candidate, only a
            graph of neighbours was given, or several processes shared the rows.
        unreliable_rows_: positions of rows whose label means little: ``unreached`` by any label, ``empty``, or
            ``conflicting``, equal to labelled rows of different classes.
        n_features_in_, feature_names_in_: as everywhere in scikit-learn.

    It computes in float32 where X is float32, else in float64.
    """

    _validated_by = "validation"
    _unit = "epoch"

    def __init__(
        self,
        *,
        hidden_layer_sizes: Sequence[int] = (50, 50),
        n_neighbors: int = 20,
        n_candidates: int | None = None,
        recall: float = 0.9,
        metric: Metric = "chord",
        normalize: bool = True,
        normalize_hidden: bool = True,
        alpha: float = 0.7,
        beta: float = 0.1,
        gamma: Gamma = "auto",
        rule: Rule = "simplex",
        num_steps: int | None = 2,
        direction: Direction = "normalized",
        graph_gradient: bool = True,
        dropout: float = 0.5,
        learning_rate: float = 0.005,
        weight_decay: float = 5e-4,
        self_supervised: float = 0.0,
        max_iter: int = 10_000,
        n_iter_no_change: int = 100,
        tol: float = 1e-4,
        validation_fraction: float = 0.1,
        class_weight: Mapping[Any, float] | str | None = None,
        device: str | torch.device = "auto",
        distributed: bool | None = None,
        random_state: int | np.random.RandomState | None = None,
        warm_start: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
        verbose: bool | int = False,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.n_neighbors = n_neighbors
        self.n_candidates = n_candidates
        self.recall = recall
        self.metric = metric
        self.normalize = normalize
        self.normalize_hidden = normalize_hidden
        self.alpha = alpha
        self.beta = beta
        self.gamma = gamma
        self.rule = rule
        self.num_steps = num_steps
        self.direction = direction
        self.graph_gradient = graph_gradient
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.self_supervised = self_supervised
        self.max_iter = max_iter
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.validation_fraction = validation_fraction
        self.class_weight = class_weight
        self.device = device
        self.distributed = distributed
        self.random_state = random_state
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.resume = resume
        self.verbose = verbose

    @classmethod
    def paper(cls, **overrides: Any) -> Self:
        """Return it with the paper's configuration; k, which the paper does not give, is 30.

        Args:
            **overrides: parameters that shall differ.

        Returns:
            The estimator, not fitted.
        """
        return cls(**{**_PAPER, **overrides})

    @property
    def _units_kept_by(self) -> str | None:
        return None if self.normalize else "normalize=False"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice(self.metric, "metric", get_args(Metric), "or pass distances to fit")
        check_alpha(self.alpha)
        for name in ("dropout", "learning_rate", "weight_decay", "max_iter", "n_iter_no_change", "tol"):
            check_number(getattr(self, name), name)
        check_number(self.validation_fraction, "validation_fraction")
        check_self_supervised(self.self_supervised, 1)
        if self.num_steps is not None:
            check_number(self.num_steps, "num_steps")
        if self.max_iter < 1 or self.n_iter_no_change < 1:
            raise ValueError(
                f"max_iter and n_iter_no_change must be at least 1, got {self.max_iter} and {self.n_iter_no_change}; "
                "the defaults are 10000 and 100"
            )

    def _fit_task(self, task: Task) -> Fit:
        return fit_network(task)

    def _needed_bytes(self, task: Task) -> int:
        return network_bytes(task)

    def _set_fitted(self, fitted: FittedNetwork) -> None:
        try:
            device = find_device(self.device, scipy.sparse.issparse(fitted.rows))
        except ValueError:  # of a loaded model, whose device this machine may not have
            device = torch.device("cpu")
        self.module_, self.coverage_ = fitted.module.to(device), fitted.coverage
