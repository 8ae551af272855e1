"""ANGPNClassifier: the method as a scikit-learn estimator."""

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, Self, get_args

import numpy as np
import scipy.sparse
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from angpn.anfp.graph import Gamma, Rule, check_graph_options
from angpn.anfp.propagation import Direction
from angpn.estimators.fit_ensemble import fit_committee
from angpn.estimators.fitted import FittedCommittee, FittedNetwork
from angpn.estimators.influence import ROWS_AT_ONCE, Influence, heaviest
from angpn.estimators.memory_estimate import check_memory
from angpn.estimators.network import fit_network
from angpn.estimators.persistence import load_model, save_model
from angpn.estimators.task import Task
from angpn.neighbors.approximate import EXACT_PAIRS, approximate_fitted, has_index
from angpn.neighbors.distributed import join_process_group
from angpn.neighbors.exact import Metric, nearest_fitted
from angpn.utils.callbacks import CallbackSupportMixin, with_callbacks
from angpn.utils.checks import as_sparse_rows, check_alpha, check_choice, check_same_rows
from angpn.utils.inputs import (
    as_array,
    as_distances,
    as_weights,
    check_not_negative,
    few_enough_neighbors,
    find_device,
)
from angpn.utils.labels import UNLABELLED, check_enough_classes, encode_labels
from angpn.utils.typing import Array

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
    "max_iter": 10_000,
    "n_iter_no_change": 100,
    "tol": 1e-4,
    "validation_fraction": 0.05,
    "class_weight": None,
}


class ANGPNClassifier(
    CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, BaseEstimator
):
    """Label the unlabelled rows by an Adaptive Neighborhood Graph Propagation Network.

    Args:
        hidden_layer_sizes: None for a committee of shallow networks that chooses its own settings by the labels there
            are, see :mod:`angpn.committee`; or the width of each hidden propagation layer of Eq. (12), for one network
            that is trained end to end. Parameters marked "layers" are for the latter.
        n_neighbors: k of Eq. (9), about how many neighbours a row has. Lowered, with a warning, where there are fewer
            than k + 2 rows.
        n_candidates: among how many nearest rows a row learns to choose its neighbours; None is 4 k.
        recall: the share of those nearest rows that must be found. Up to 20,000 rows all are; beyond, an index finds
            about so many in a fraction of the time (extra ``scale``). 1 always compares every pair.
        metric: "chord" (Euclidean between rows of unit length, for text and embeddings), "euclidean" or "sqeuclidean";
            "auto" is as the labels ask for: the chord, of rows as they are, with standardised columns, or (sparse) with
            columns weighted by their rarity, or the Euclidean distance with standardised columns (layers: the chord).
        normalize: scale the rows of X to unit length before all else; has no say where the metric is "auto".
        normalize_hidden: layers: let the graphs of the hidden layers see rows of unit length.
        alpha: fraction that a row takes from its neighbours, Eq. (13); "auto" is as the labels ask for (layers: 0.7).
        beta: weight of the features in the graph, Eq. (8), which for a committee are its predictions; 0 fixes the graph
            (NGPN).
        gamma: "auto", "local" or a number, see :func:`angpn.neighbor_graph`.
        rule: "simplex" or "printed", see :func:`angpn.neighbor_graph`; "knn", with beta 0, is a plain k-NN graph.
        num_steps: T of Algorithm 1; None runs it to convergence. For a committee, how often it learns anew from what it
            believes of the unlabelled rows.
        direction: "directed", "symmetric" or "normalized", see :class:`angpn.ANGPNConv`.
        graph_gradient: layers: let the gradient flow through the learnt graph.
        dropout: layers: share of a hidden layer's numbers that an epoch leaves out.
        learning_rate: layers: of Adam.
        weight_decay: layers: of Adam.
        max_iter: layers: epochs at most.
        n_iter_no_change: layers: stop after so many epochs in which the validation loss did not improve.
        tol: layers: what counts as an improvement.
        validation_fraction: layers: of the labels of each class, held out to know when to stop.
        class_weight: None, "balanced", or the weight of each class.
        device: layers: "auto" (CUDA where there is one and X is dense, else the CPU) or what torch takes.
        random_state: an int gives the same result every time.
        warm_start: fit again from the weights (a committee: with the settings) of the last fit.
        checkpoint: layers: a file that a fit keeps about every second, so that it can be taken up again.
        resume: layers: take up the fit whose ``checkpoint`` this is (perhaps with another ``max_iter``); where there is
            none, or that of another fit that had ended, begin.
        distributed: True distributes the rows among the processes that torchrun has started, which all call fit with
            the same arguments and all have the same model in the end; False fits in this process alone. None is False,
            except that it is refused where there are several processes.
        verbose: show progress bars.

    Attributes:
        classes_: the labels, sorted.
        transduction_: the most probable label of every row of X; for a row whose label was given it may be another one.
        label_distributions_: the probability of each class for every row.
        n_iter_: how many epochs, or rounds of a committee, ran.
        loss_curve_: the training loss before each epoch's update, or after each round.
        validation_scores_: the accuracy on held-out labels likewise, or None where none were held out.
        best_validation_score_: that accuracy for what was kept, or None.
        best_iter_: the epoch or round, from 1, that was kept.
        validation_mask_: the rows whose labels were held out; by a committee in turn, so that it learnt from all.
        validation_transduction_: what was predicted for these while their labels were held out.
        module_: the network, where there are hidden layers.
        committee_: the committee, where there are none.
        neighborhood_: each row's candidates and their distances.
        recall_: the share of the nearest rows that are among these, on a sample; 1 where all were searched for.
        neighbor_seconds_: how long the search for them took.
        layer_graphs_: the learnt S of each layer, or of a committee's first and last round, sparse.
        graph_: the last of them.
        embedding_: the last hidden layer, or the propagated features, for every row of X.
        coverage_: what the restriction to candidates cost a network, on a sample; None for a committee, and where every
            row was a candidate or only a graph of neighbours was given.
        n_features_in_, feature_names_in_: as everywhere in scikit-learn.

    A network computes in float32 where X is float32, else in float64; a committee in float32.

    >>> from sklearn.datasets import load_digits
    >>> X, truth = load_digits(n_class=4, return_X_y=True)
    >>> y = np.where(np.random.default_rng(0).random(len(X)) < 0.1, truth, -1)  # a tenth is labelled
    >>> model = ANGPNClassifier(random_state=0).fit(X, y)
    >>> bool(model.score(X, truth) > 0.95)
    True
    """

    def __init__(
        self,
        *,
        hidden_layer_sizes: Sequence[int] | None = None,
        n_neighbors: int = 20,
        n_candidates: int | None = None,
        recall: float = 0.9,
        metric: Metric | Literal["auto"] = "auto",
        normalize: bool = True,
        normalize_hidden: bool = True,
        alpha: float | Literal["auto"] = "auto",
        beta: float = 0.1,
        gamma: Gamma = "auto",
        rule: Rule = "simplex",
        num_steps: int | None = 2,
        direction: Direction = "normalized",
        graph_gradient: bool = True,
        dropout: float = 0.5,
        learning_rate: float = 0.005,
        weight_decay: float = 5e-4,
        max_iter: int = 10_000,
        n_iter_no_change: int = 100,
        tol: float = 1e-4,
        validation_fraction: float = 0.1,
        class_weight: Mapping[Any, float] | str | None = None,
        device: str | torch.device = "auto",
        random_state: int | np.random.RandomState | None = None,
        warm_start: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
        distributed: bool | None = None,
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
        self.max_iter = max_iter
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.validation_fraction = validation_fraction
        self.class_weight = class_weight
        self.device = device
        self.random_state = random_state
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.resume = resume
        self.distributed = distributed
        self.verbose = verbose

    @classmethod
    def paper(cls, **overrides: Any) -> Self:
        """The paper's configuration; k, which it does not give, is 30."""
        return cls(**{**_PAPER, **overrides})

    # Fitting

    @with_callbacks
    def fit(
        self,
        X: Any,  # (n, d) features: numpy, pandas, polars or torch, dense or sparse
        y: Any,  # (n,) labels; -1, None or NaN where unlabelled
        *,
        validation_mask: Any = None,  # (n,) bool
        sample_weight: Any = None,  # (n,)
        distances: Any = None,  # (n, n) matrix, or sparse graph of nearest neighbours
    ) -> Self:
        """Learn from the labelled rows, and label all.

        ``validation_mask`` marks labelled rows whose labels serve only to choose settings, to calibrate and to know
        when to stop. Without it a committee holds labels out in turn and learns from all in the end (beside a mask of
        few rows it holds training labels out in turn as well, to judge settings); a network holds out
        ``validation_fraction`` of the labels of each class, at least one where a class has more.
        ``sample_weight`` says how much each labelled row counts. ``distances`` replaces those that ``metric`` would
        compute: a full matrix, or a sparse graph as KNeighborsTransformer gives.

        Ctrl-C ends training early with the best weights (or the last whole round) so far and a warning; inside a search
        it ends the search. A fit that fails leaves the estimator as it was.
        """
        before = dict(self.__dict__)
        try:
            return self._fit(X, y, validation_mask, sample_weight, distances)
        except BaseException:
            context = {name: value for name, value in self.__dict__.items() if "callback" in name}
            self.__dict__ = {**before, **context}
            raise

    def _fit(self, X: Any, y: Any, validation_mask: Any, sample_weight: Any, distances: Any) -> Self:
        if y is None:
            raise ValueError(
                "ANGPNClassifier requires y to be passed, but the target y is None; mark unlabelled rows by -1"
            )
        distributed = join_process_group(self.distributed)
        previous = dict(self.__dict__) if self.warm_start and "_fitted" in self.__dict__ else None
        labels = encode_labels(y)
        self._check_parameters()
        distances = as_distances(distances)
        X = self._checked_features(X, reset=True)
        check_same_rows(len(labels.codes), X.shape[0], "y", "X")
        check_enough_classes(labels)
        mask = None if validation_mask is None else as_array(validation_mask)
        weights = None if sample_weight is None else as_weights(sample_weight, labels.codes)
        n_neighbors = few_enough_neighbors(int(self.n_neighbors), X.shape[0])
        task = Task(self, X, y, labels, mask, weights, distances, n_neighbors, previous, distributed)
        check_memory(task)
        for derived in ("layer_graphs_", "embedding_", "module_", "committee_"):
            self.__dict__.pop(derived, None)
        fit = fit_committee(task) if self.hidden_layer_sizes is None else fit_network(task)
        self._fitted, self._seed, self._codes = fit.fitted, fit.seed, labels.codes
        if isinstance(fit.fitted, FittedNetwork):
            self.module_ = fit.fitted.module
        else:
            self.committee_ = fit.fitted.committee
        self.classes_, self.n_neighbors_, self.neighborhood_ = labels.classes, n_neighbors, fit.fitted.neighborhood
        self.label_distributions_ = fit.distributions
        self.transduction_ = self.classes_[fit.distributions.argmax(axis=1)]
        self.validation_mask_, self.validation_transduction_ = fit.validation_mask, self.classes_[fit.held_codes]
        self.loss_curve_, self.validation_scores_, self.n_iter_ = fit.losses, fit.scores, len(fit.losses)
        self.best_iter_, self.best_validation_score_ = fit.best_iter, fit.best_score
        self.recall_, self.neighbor_seconds_, self.coverage_ = fit.recall, fit.neighbor_seconds, fit.coverage
        return self

    def _check_parameters(self) -> None:
        check_choice(self.metric, "metric", ("auto", "chord", "euclidean", "sqeuclidean"), "or pass distances to fit")
        if self.alpha != "auto":
            check_alpha(self.alpha)
        if self.hidden_layer_sizes is None:
            self._check_committee_parameters()
        if self.max_iter < 1 or self.n_iter_no_change < 1:
            raise ValueError(
                f"max_iter and n_iter_no_change must be at least 1, got {self.max_iter} and {self.n_iter_no_change}; "
                "the defaults are 10000 and 100"
            )
        if not isinstance(self.n_neighbors, int | np.integer) or self.n_neighbors < 1:
            raise ValueError(f"n_neighbors must be a whole number >= 1, got {self.n_neighbors!r}; the default is 20")
        if not 0 < self.recall <= 1:
            raise ValueError(f"recall must lie in (0, 1], got {self.recall}; the default is 0.9, 1 searches exactly")
        if self.n_candidates is not None and self.n_candidates < self.n_neighbors + 1:
            raise ValueError(
                f"n_candidates must be at least n_neighbors + 1 = {self.n_neighbors + 1}, got {self.n_candidates}; "
                "raise it, or leave it None"
            )

    def _check_committee_parameters(self) -> None:
        check_graph_options(n_neighbors=1, beta=self.beta, gamma=self.gamma, rule=self.rule)
        check_choice(self.direction, "direction", get_args(Direction))
        if self.num_steps is not None and self.num_steps < 0:
            raise ValueError(f"num_steps must be at least 0, got {self.num_steps}; None runs to convergence")
        # What a user would miss if it were passed over.
        for name, nothing in (("checkpoint", (None,)), ("resume", (False,)), ("device", ("auto", "cpu"))):
            value = str(self.device) if name == "device" else getattr(self, name)
            if value not in nothing:
                raise ValueError(
                    f"{name} is for networks with hidden layers, got {name}={getattr(self, name)!r} with "
                    "hidden_layer_sizes=None; pass hidden_layer_sizes=(50, 50), or leave it out"
                )

    def _checked_features(self, X: Any, *, reset: bool) -> Any:
        if isinstance(X, Tensor):
            X = X.float() if X.dtype == torch.bfloat16 else X  # numpy has no such type
            sparse = as_sparse_rows(X, X.dtype if X.is_floating_point() else torch.float64)
            X = X.detach().cpu().numpy() if sparse is None else sparse
        return validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_min_samples=3 if reset else 1,
        )

    # Answers

    def predict(self, X: Any, *, distances: Any = None) -> Array:
        """The most probable label of each row, see :meth:`predict_proba`."""
        probabilities = self.predict_proba(X, distances=distances)
        return self.classes_[probabilities.argmax(axis=1)]

    def predict_proba(
        self,
        X: Any,  # (r, d)
        *,
        distances: Any = None,  # (r, n) to the fitted rows, where fit was given distances
    ) -> Array:  # (r, c)
        """The probability of each class for each row.

        A row is attached to the fitted rows nearest to it and passes through the layers as they did; it changes nothing
        for them, and rows do not see each other. A row that was fitted is recognised (it has distance 0 to itself), so
        that ``predict(X)`` on the X of ``fit`` is ``transduction_``. Where several fitted rows are equal, one of them
        answers for all.
        """
        return self._unseen(X, distances)[1]

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Array:  # (n, width)
        """Fit, and the embedding of the rows it was fitted on."""
        return self.fit(X, y, **fit_params).embedding_

    def transform(self, X: Any, *, distances: Any = None) -> Array:  # (r, width)
        """The last hidden layer, or the propagated features: features in which rows of a class lie together."""
        return self._unseen(X, distances)[0]

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, distances: Any = None) -> float:
        """Accuracy on the rows whose label is known."""
        check_is_fitted(self)
        labels = encode_labels(y)
        predicted = self.predict(X, distances=distances)
        check_same_rows(len(labels.codes), len(predicted), "y", "X")
        known = labels.codes != UNLABELLED
        if not known.any():
            raise ValueError("y must label a few rows to score on, got every row unlabelled; pass the true labels")
        truth = labels.classes[labels.codes[known]]
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(accuracy_score(truth, predicted[known], sample_weight=weight))

    def _unseen(self, X: Any, distances: Any) -> tuple[Array, Array]:  # (r, width), (r, c)
        """Embedding and probabilities of rows, new or fitted."""
        check_is_fitted(self)
        fitted = self._fitted
        X = self._checked_features(X, reset=False)
        if scipy.sparse.issparse(X) and not scipy.sparse.issparse(fitted.rows):
            raise ValueError(
                "X must be dense as it was in fit, got a sparse matrix; call toarray(), or fit on a sparse X"
            )
        if scipy.sparse.issparse(fitted.rows):
            X = scipy.sparse.csr_array(X)
        rows = fitted.scaled(X.astype(fitted.rows.dtype, copy=False))
        if (fitted.metric == "precomputed") != (distances is not None):
            raise ValueError(
                "distances from each row to each fitted row must be passed exactly where fit was given distances, got "
                f"{'none' if distances is None else 'some'}; pass distances= to both or to neither"
            )
        if distances is not None:
            distances = self._checked_distances(as_distances(distances), rows.shape[0])
        n_candidates = self.neighborhood_.n_candidates
        if (
            distances is None
            and self.recall < 1
            and rows.shape[0] * len(self._codes) > EXACT_PAIRS
            and has_index(len(self._codes))
        ):
            options: Any = {"recall": self.recall, "random_state": self._seed}
            near = approximate_fitted(fitted.rows, rows, n_candidates, fitted.metric, **options)
        else:
            given = rows if distances is None else distances
            near = nearest_fitted(fitted.rows, given, n_candidates, fitted.metric, random_state=self._seed)
        return fitted.unseen(rows, *near)

    def _checked_distances(self, distances: Any, n_new: int) -> Any:
        if scipy.sparse.issparse(distances):
            raise ValueError(
                "distances of new rows must be a dense matrix, new rows by fitted rows, got a sparse graph; write it "
                "out with toarray() where it holds all distances"
            )
        expected = n_new, self.neighborhood_.n_rows
        if distances.shape != expected:
            raise ValueError(
                f"distances must have shape {expected}, new rows by fitted rows, got {distances.shape}; pass a column "
                "for each fitted row"
            )
        check_not_negative(distances)
        return distances

    @cached_property
    def embedding_(self) -> Array:  # (n, width)
        """The last hidden layer, or the propagated features, of the fitted rows."""
        return self._after_fit("embedding_").embedding()

    @cached_property
    def layer_graphs_(self) -> list[scipy.sparse.csr_array]:
        """The learnt S of each layer, or of the first and the last round."""
        return self._after_fit("layer_graphs_").graphs()

    def _after_fit(self, name: str) -> FittedNetwork | FittedCommittee:
        if "_fitted" not in self.__dict__:
            raise AttributeError(f"{name} is there after fit, got none before it; call fit")
        return self._fitted

    @property
    def graph_(self) -> scipy.sparse.csr_array:
        """The learnt S of the last layer."""
        return self.layer_graphs_[-1]

    def explain(self, i: int, n: int = 10) -> list[Influence]:
        """The ``n`` rows that carried most to the label of fitted row ``i`` (a position, not an index), heaviest first.

        Each layer, and each hop of a committee's member, mixes a row with its neighbours, P = alpha S + (1 - alpha) I
        (or the symmetric S); row i of the product of all P, in a committee of the members' mean, says how much of each
        row has reached row i. What is missing to 1 is the row itself, the rows not listed and, for direction
        "normalized", the degrees. Where the labels asked for no propagation (alpha 0), no row carried another.
        """
        check_is_fitted(self)
        rows = len(self._codes)
        if not -rows <= i < rows:
            raise ValueError(
                f"i must be a row of the fit, {-rows} to {rows - 1}, got {i}; new rows cannot be explained"
            )
        i %= rows
        (others,), (weights,) = heaviest(np.array([i]), n, self._fitted.paths(self.layer_graphs_), rows)
        given = self._codes != UNLABELLED
        names = np.where(given, self.classes_[self._codes], self.transduction_)
        found = [(int(row), float(weight)) for row, weight in zip(others, weights, strict=True) if row >= 0]
        return [Influence(row, weight, names[row], bool(given[row])) for row, weight in found]

    def influences(self, n: int = 10) -> tuple[Array, Array]:  # (rows, n) positions, -1 where fewer, and their weights
        """What :meth:`explain` says of every fitted row, as arrays, heaviest first."""
        check_is_fitted(self)
        blocks = np.array_split(np.arange(len(self._codes)), max(1, len(self._codes) // ROWS_AT_ONCE))
        paths = self._fitted.paths(self.layer_graphs_)
        parts = [heaviest(block, n, paths, len(self._codes)) for block in blocks]
        return np.concatenate([rows for rows, _ in parts]), np.concatenate([weights for _, weights in parts])

    def uncertain(self, n: int = 10) -> Array:
        """The positions of the ``n`` unlabelled rows most worth labelling next.

        Those with the smallest margin between the two most probable classes come first; a row that is a neighbour of
        one already on the list waits until no other is left, since one label will probably settle both.
        """
        check_is_fitted(self)
        if n < 1:
            raise ValueError(f"n must be at least 1, got {n}; it is how many rows you want")
        top = np.sort(self.label_distributions_, axis=1)[:, -2:]
        order = np.argsort(top[:, 1] - top[:, 0], kind="stable")
        order = order[self._codes[order] == UNLABELLED]
        near = self.graph_ + self.graph_.T
        chosen: list[int] = []
        waiting: list[int] = []
        settled = np.zeros(len(self._codes), dtype=bool)
        for row in order:
            if len(chosen) == n:
                break
            (waiting if settled[row] else chosen).append(int(row))
            if chosen and chosen[-1] == row:
                settled[near[[row]].indices] = True
        return np.array((chosen + waiting)[:n], dtype=np.int64)

    # Persistence

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file (safetensors, no pickle). A file already there is replaced as a whole."""
        check_is_fitted(self)
        save_model(self.__dict__, self.get_params(deep=False), path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that :meth:`save` wrote. Nothing in the file is executed.

        Where the device it was fitted on is missing, it is put on the CPU.
        """
        state, parameters = load_model(path)
        unknown = parameters.keys() - cls().get_params().keys()
        if unknown:
            raise ValueError(
                f"{os.fspath(path)} must hold only parameters that this version has, got {', '.join(sorted(unknown))}; "
                "use the version that wrote it, or a newer one"
            )
        model = cls(**parameters)
        model.__dict__.update(state)
        try:
            device = find_device(model.device, scipy.sparse.issparse(model._fitted.rows))
        except ValueError:
            device = torch.device("cpu")
        if "module_" in model.__dict__:
            model.module_.to(device)
        return model

    # scikit-learn's protocols

    @property
    def _n_features_out(self) -> int:
        return self._fitted.width

    def __sklearn_is_fitted__(self) -> bool:
        return "_fitted" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
