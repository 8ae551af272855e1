"""ANGPNClassifier: the automatic estimator, an ensemble whose hyper-parameters held-out labels select."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Literal, TypeVar, cast, get_args

import numpy as np

from angpn.anfp.neighbor_graph import Gamma, Rule
from angpn.anfp.propagation import Direction
from angpn.ensemble.config import EnsembleConfig
from angpn.ensemble.scaling import SCALINGS, ScalingName
from angpn.estimators.base import BaseANGPNClassifier
from angpn.estimators.fit_ensemble import fit_ensemble
from angpn.estimators.fitted_models import FittedEnsemble
from angpn.estimators.memory_estimate import ensemble_bytes
from angpn.estimators.network import ANGPNNetworkClassifier
from angpn.estimators.task import Fit, Task
from angpn.neighbors.exact import Metric
from angpn.utils.checks import check_alpha, check_choice, check_number

Init = TypeVar("Init", bound=Callable[..., None])


def _refuse_parameters_of(other: type[BaseANGPNClassifier]) -> Callable[[Init], Init]:
    """Let a constructor name the class whose parameter it was given."""

    def decorate(init: Init) -> Init:
        @wraps(init)  # with its signature, which scikit-learn reads
        def checked(self: Any, **parameters: Any) -> None:
            for name in parameters.keys() & (set(other._get_param_names()) - set(self._get_param_names())):
                raise TypeError(
                    f"{name} is a parameter of {other.__name__}, the network that is trained end to end, got "
                    f"{name}={parameters[name]!r} for {type(self).__name__}, which selects its own hyper-parameters; "
                    f"use {other.__name__}({name}=...), or leave it out"
                )
            init(self, **parameters)

        return cast("Init", checked)

    return decorate


class ANGPNClassifier(BaseANGPNClassifier):
    """Label the unlabelled rows by an ensemble of shallow adaptive neighbourhood graph propagation models.

    How rows are scaled and compared, how far to propagate on the graph and which classifier heads to use is selected by
    labels that are held out in turn; in the end it is trained on all of them, in rounds of self-training, and its
    probabilities are calibrated. The paper's network, trained end to end, is :class:`angpn.ANGPNNetworkClassifier`.

    Args:
        n_neighbors: k of Eq. (9), about how many neighbours a row has. Lowered, with a warning, where there are fewer
            than k + 2 rows.
        n_candidates: among how many nearest rows a row learns to choose its neighbours; None is 3 k, and 4 k
            where X is sparse or beta is not 0.
        recall: the share of those nearest rows that must be found. Up to 20,000 rows all are; beyond, an index finds
            about so many in a fraction of the time (extra ``scale``). 1 always compares every pair.
        metric: "chord" (Euclidean between rows of unit length, for text and embeddings), "euclidean", "sqeuclidean", or
            "precomputed", where X is the full matrix of distances; "auto" is the one that suits the scaling.
        scaling: "unit" (rows to unit length), "standard" (columns standardised), "unit_standard" (first standard,
            then unit), "idf" (sparse rows, columns weighted by inverse document frequency), "pca" ("unit" or "idf",
            and neighbours in the main directions of the rows), "standard_pca" ("standard", and the same) or "none";
            "auto" selects by held-out labels, or is "unit" where the metric is given.
        alpha: fraction that a row takes from its neighbours in a hop, Eq. (13); "auto" selects by held-out labels.
        beta: weight of the predicted probabilities in the graph, Eq. (8); 0 fixes the graph.
        gamma: "auto", "local" or a number, see :func:`angpn.neighbor_graph`.
        rule: "simplex" or "printed", see :func:`angpn.neighbor_graph`; "knn", with beta 0, is a plain k-NN graph.
        direction: "directed", "symmetric" or "normalized", see :class:`angpn.ANGPNConv`.
        max_rounds: rounds of self-training after the first fit; None goes on until no prediction changes.
        class_weight: None, "balanced", or the weight of each class.
        config: the constants of the search and the solvers, for study; None is the defaults of
            :class:`angpn.EnsembleConfig`.
        distributed: True shares the rows out among the processes that torchrun started; False fits in this process
            alone even there; None is an error under torchrun, and False elsewhere.
        random_state: an int gives the same result every time.
        warm_start: after a few more labels of the same X, keep neighbours, graph and hyper-parameters of the last fit,
            and update heads and calibration only. It searches again where labels have grown or changed by half, a class
            is new, or the predictions for new labels were worse than they claimed to be.
        verbose: show progress bars.

    Attributes:
        classes_: the labels, sorted.
        transduction_: the most probable label of every row of X; for a row whose label was given it may be another one.
        label_distributions_: the probability of each class for every row.
        n_iter_: how many rounds ran.
        loss_curve_: the training loss after each round.
        validation_scores_: the accuracy on held-out labels likewise, or None where none were held out.
        best_validation_score_: that accuracy for the round that was kept, or None.
        best_iter_: the round, from 1, that was kept.
        validation_mask_: the rows whose labels were held out, in turn: the model is trained on all of them.
        validation_transduction_: what was predicted for these while their labels were held out.
        validation_distributions_: the probability of each class for these then, or None in a model that an older
            version saved; ``label_distributions_`` of a labelled row has learnt its label.
        ensemble_: the ensemble.
        neighborhood_: each row's candidates and their distances.
        recall_: the share of the nearest rows that are among these, on a sample; 1 where all were searched for.
        neighbor_seconds_: how long the search for them took.
        layer_graphs_: the learnt S of the first and the last round, sparse.
        graph_: the last of them.
        embedding_: the propagated features of every row of X.
        unreliable_rows_: positions of rows whose label means little: ``unreached`` by any label, ``empty``, or
            ``conflicting``, equal to labelled rows of different classes.
        n_features_in_, feature_names_in_: as everywhere in scikit-learn.

    Labels are held out in turn to select hyper-parameters and to calibrate; beside a ``validation_mask`` of few rows,
    training labels are held out as well. It computes in float32.

    >>> from sklearn.datasets import load_digits
    >>> X, truth = load_digits(n_class=4, return_X_y=True)
    >>> y = np.where(np.random.default_rng(0).random(len(X)) < 0.1, truth, -1)  # a tenth is labelled
    >>> model = ANGPNClassifier(random_state=0).fit(X, y)
    >>> bool(model.score(X, truth) > 0.95)
    True
    """

    _validated_by = "cross-validation"
    _unit = "round"

    @_refuse_parameters_of(ANGPNNetworkClassifier)
    def __init__(
        self,
        *,
        n_neighbors: int = 20,
        n_candidates: int | None = None,
        recall: float = 0.9,
        metric: Metric | Literal["auto"] = "auto",
        scaling: ScalingName | Literal["auto"] = "auto",
        alpha: float | Literal["auto"] = "auto",
        beta: float = 0.0,
        gamma: Gamma = "auto",
        rule: Rule = "simplex",
        direction: Direction = "normalized",
        max_rounds: int | None = 2,
        class_weight: Mapping[Any, float] | str | None = None,
        config: EnsembleConfig | None = None,
        distributed: bool | None = None,
        random_state: int | np.random.RandomState | None = None,
        warm_start: bool = False,
        verbose: bool | int = False,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.n_candidates = n_candidates
        self.recall = recall
        self.metric = metric
        self.scaling = scaling
        self.alpha = alpha
        self.beta = beta
        self.gamma = gamma
        self.rule = rule
        self.direction = direction
        self.max_rounds = max_rounds
        self.class_weight = class_weight
        self.config = config
        self.distributed = distributed
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    @classmethod
    def paper(cls, **overrides: Any) -> ANGPNNetworkClassifier:
        """Return the network with the paper's configuration; k, which the paper does not give, is 30.

        Args:
            **overrides: parameters of :class:`angpn.ANGPNNetworkClassifier` that shall differ.

        Returns:
            The network's estimator, not fitted.
        """
        return ANGPNNetworkClassifier.paper(**overrides)

    @property
    def _config(self) -> EnsembleConfig:
        return EnsembleConfig() if self.config is None else self.config

    @property
    def _units_kept_by(self) -> str | None:
        return "scaling='none'" if self.scaling == "none" else None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice(self.metric, "metric", ("auto", *get_args(Metric)), "or pass distances to fit")
        check_choice(self.scaling, "scaling", ("auto", *SCALINGS))
        if self.alpha != "auto":
            check_alpha(self.alpha)
        check_choice(self.direction, "direction", get_args(Direction))
        if not isinstance(self._config, EnsembleConfig):
            raise ValueError(f"config must be an EnsembleConfig or None, got {self.config!r}; use angpn.EnsembleConfig")
        if self.max_rounds is not None:
            check_number(self.max_rounds, "max_rounds")
        if self.max_rounds is not None and self.max_rounds < 0:
            raise ValueError(f"max_rounds must be at least 0, got {self.max_rounds}; None runs to convergence")

    def _fit_task(self, task: Task) -> Fit:
        return fit_ensemble(task)

    def _needed_bytes(self, task: Task) -> int:
        return ensemble_bytes(task)

    def _set_fitted(self, fitted: FittedEnsemble) -> None:
        self.ensemble_ = fitted.ensemble
