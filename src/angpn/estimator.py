"""ANGPNClassifier: the method as a scikit-learn estimator."""

import os
import traceback
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
import scipy.sparse
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits
from torch import Tensor

from angpn.approximate import (
    EXACT_PAIRS,
    EXACT_ROWS,
    approximate_candidates,
    approximate_fitted,
    has_index,
    part_search,
)
from angpn.callbacks import CallbackSupportMixin, EpochCallbacks, with_callbacks
from angpn.carriers import ROWS_AT_ONCE, Carrier, heaviest
from angpn.checkpoint import Checkpoint
from angpn.checks import as_sparse_rows, check_alpha, check_choice, check_same_rows, warn
from angpn.committee.committee import Committee
from angpn.committee.fitting import Labels, Request, State, best_round, choose
from angpn.committee.fitting import train as train_committee
from angpn.committee.members import GraphOptions
from angpn.committee.search import make_folds
from angpn.committee.view import Scaling
from angpn.coverage import Coverage, candidate_coverage
from angpn.distances import Metric, nearest_candidates, nearest_fitted, neighbors_from_graph
from angpn.fitted import FittedCommittee, FittedNetwork
from angpn.graph import Gamma, Rule, check_graph_options
from angpn.inputs import (
    Array,
    as_array,
    as_distances,
    as_weights,
    as_widths,
    check_not_negative,
    check_scales,
    equal_rows,
    few_enough_neighbors,
    find_device,
    on_device,
    plain,
    plain_seed,
    prepared_rows,
)
from angpn.labels import UNLABELLED, EncodedLabels, check_enough_classes, encode_labels
from angpn.neighborhood import Neighborhood
from angpn.network import ANGPN
from angpn.persistence import load_model, save_model
from angpn.progress import EpochBar, count_bar
from angpn.propagation import Direction
from angpn.sharding import Shard, agreed, is_first, join, share_out
from angpn.training import Epoch, Training, check_task, checked_mask, checked_weights, hold_out, train

CANDIDATES_PER_NEIGHBOR = 4
_WHOLES = ("joblib.", "sklearn.model_selection.", "angpn.labelling.", "angpn.experiments.")
ALPHA_OF_LAYERS = 0.7
_MANY_ROUNDS = 20
_MANY_ROWS = 10_000

# A fit may be taken up with other values of these: they change how long it runs, not what an epoch does.
_HOW_LONG = ("max_iter", "n_iter_no_change", "tol")
_NETWORK_OPTIONS = (
    "normalize_hidden",
    "dropout",
    "alpha",
    "beta",
    "gamma",
    "rule",
    "num_steps",
    "direction",
    "graph_gradient",
)

# Every parameter that the result depends on, so that a new default never changes what the paper's configuration is.
_PAPER: Mapping[str, Any] = {
    "hidden_layer_sizes": (50, 50),
    "n_neighbors": 30,  # not in the paper; of 10, 15, 20, 30, 40 the best on validation labels, docs/results.md
    "n_candidates": None,
    "recall": 0.95,
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


class _Task(NamedTuple):
    """What a fit was asked, checked."""

    X: Any
    y: Any
    labels: EncodedLabels
    mask: Array | None
    weights: Array | None
    distances: Any
    n_neighbors: int
    previous: Mapping[str, Any] | None  # the attributes of the last fit, for a warm start


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
        recall: float = 0.95,
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
        task = _Task(X, y, labels, mask, weights, distances, n_neighbors, previous)
        for derived in ("layer_graphs_", "embedding_", "module_", "committee_"):
            self.__dict__.pop(derived, None)
        if self.hidden_layer_sizes is None:
            # Many small products: threads of BLAS and OpenMP that wait for each other cost more than they give.
            with threadpool_limits(1, "blas" if X.shape[0] > _MANY_ROWS else None):
                self.label_distributions_ = self._fit_committee(task)
        else:
            self.label_distributions_ = self._fit_network(task)
        self.classes_, self._codes, self.n_neighbors_ = labels.classes, labels.codes, n_neighbors
        self.neighborhood_ = self._fitted.hood
        self.transduction_ = self.classes_[self.label_distributions_.argmax(axis=1)]
        self.validation_transduction_ = self.classes_[self._held_out_codes()]
        self.n_iter_ = len(self.loss_curve_)
        return self

    def _fit_network(self, task: "_Task") -> Array:  # (n, c)
        """Train a network with hidden layers end to end; what it says of each row."""
        X, labels, mask, weights, previous = task.X, task.labels, task.mask, task.weights, task.previous
        if previous is not None and "module_" not in previous:
            previous = None  # a committee has no weights that a network could take over
        check_scales(X)
        features = prepared_rows(X, self.normalize)
        device = find_device(self.device, scipy.sparse.issparse(features))
        problem = {name: getattr(self, name) for name in _PAPER if name not in _HOW_LONG}
        problem |= {
            "hidden_layer_sizes": as_widths(self.hidden_layer_sizes),
            "random_state": plain_seed(self.random_state),
        }
        problem |= {"X": features, "y": labels.codes, "mask": mask, "weights": weights, "distances": task.distances}
        if previous is not None:  # a warm start begins, and holds out, as the fit before it left things
            problem |= {"known": previous["_codes"], "held": previous["validation_mask_"]}
        checkpoint = Checkpoint(self.checkpoint, resume=self.resume, problem=problem)
        seed = self._drawn_seed() if checkpoint.seed is None else checkpoint.seed

        metric: Metric = "chord" if self.metric == "auto" else self.metric
        together = join()
        same_rows = previous if previous is not None and equal_rows(previous["_fitted"].rows, features) else None
        if same_rows is not None and task.distances is None and _serves(same_rows, metric, self._count(task)):
            hood = same_rows["neighborhood_"]
        elif together:
            hood = self._shard(features, metric, task, seed)
        else:
            hood = self._neighbors(features, metric, task, seed)
        if mask is None:
            mask = self._held_out(labels.codes, weights, seed, same_rows)
        network = self._network(features, labels.classes, task.n_neighbors, seed, previous).to(device)
        training = train(
            network,
            on_device(features, device),
            hood,
            labels.codes,
            validation_mask=mask,
            sample_weight=self._with_class_weights(weights, labels, mask, features.dtype),
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            max_epochs=self.max_iter,
            patience=self.n_iter_no_change,
            tol=self.tol,
            warm_start=previous is not None,
            class_names=labels.classes.tolist(),
            random_state=seed,
        )
        epochs = self._run(training, checkpoint, seed, EpochCallbacks(self, self.max_iter, X, task.y))

        self.module_, self._seed, self.validation_mask_ = network, seed, mask
        found_by = metric if task.distances is None else "precomputed"
        known = None
        if isinstance(hood, Shard):
            with torch.no_grad():
                own = on_device(features[hood.rows.numpy()], device)
                known = hood.gathered(network.probabilities(own, hood.to(device)).cpu()).numpy()
            hood = hood.whole()
        fitted = FittedNetwork(network, features, hood.to("cpu"), found_by, bool(self.normalize))
        self._fitted: FittedNetwork | FittedCommittee = fitted
        self.loss_curve_ = [epoch.loss for epoch in epochs]
        scores = [epoch.validation_accuracy for epoch in epochs if epoch.validation_accuracy is not None]
        self.validation_scores_ = scores or None
        best = [epoch.validation_accuracy for epoch in epochs if epoch.is_best]
        self.best_validation_score_ = best[-1] if best else None
        self.best_iter_ = max((epoch.number for epoch in epochs if epoch.is_best), default=len(epochs))
        self.coverage_ = None if together else self._coverage(task.distances)
        self._held_codes: Array | None = None
        return fitted.distributions() if known is None else known

    def _fit_committee(self, task: "_Task") -> Array:  # (n, c)
        """Choose a view and settings by the labels, then train in rounds; what the committee says of each row."""
        codes, mask, seed = task.labels.codes, task.mask, self._drawn_seed()
        known = torch.from_numpy(codes)
        masked = torch.zeros(len(codes), dtype=torch.bool) if mask is None else checked_mask(mask, known)
        check_task(known, masked, checked_weights(task.weights, known, torch.float64), task.labels.classes.tolist())
        mask = None if mask is None else masked.numpy()
        X = prepared_rows(task.X, False)
        weights = self._with_class_weights(task.weights, task.labels, mask, np.dtype(np.float64))
        options = GraphOptions(
            task.n_neighbors, *(plain(getattr(self, name)) for name in ("beta", "gamma", "rule", "direction"))
        )
        previous = None if task.previous is None else task.previous.get("committee_")
        request = Request(
            views=self._views(X, previous),
            alpha=None if self.alpha == "auto" else float(self.alpha),
            options=options,
            neighbors=lambda rows, metric: self._neighbors(rows, metric, task, seed),
            given_distances=task.distances is not None,
            settings=None if previous is None else previous.settings,
            bar=lambda what, total: count_bar(what, total, enabled=bool(self.verbose) and is_first()),
            seed=seed,
        )
        counting = codes if weights is None else np.where(weights > 0, codes, UNLABELLED)
        given = Labels(codes, weights, make_folds(counting, mask, seed), bool(masked.any()))
        chosen = choose(X, given, request)
        history = self._rounds(train_committee(chosen, given, request), X, task.y)

        best = best_round(history)
        kept, view = history[best], chosen.look.view
        self.committee_, self._seed = kept.committee, seed
        distributions = kept.beliefs.numpy().astype(X.dtype)
        found_by = view.metric if task.distances is None else "precomputed"
        self._fitted = FittedCommittee(self.committee_, view.rows(X), chosen.look.hood, found_by, distributions)
        held = np.full(len(codes), UNLABELLED, dtype=np.int64)
        for rows, beliefs in kept.held:
            held[rows] = beliefs.argmax(dim=1).numpy()
        self.validation_mask_ = held != UNLABELLED
        self._held_codes = held[self.validation_mask_]
        self.loss_curve_ = [state.loss for state in history]
        self.validation_scores_ = [state.accuracy for state in history] if self.validation_mask_.any() else None
        self.best_validation_score_ = self.validation_scores_[best] if self.validation_scores_ else None
        self.best_iter_ = best + 1
        self.coverage_ = None
        return distributions

    def _rounds(self, training: Iterator[State], X: Any, y: Any) -> list[State]:
        """The rounds of a committee, told to all who watch."""
        most = 1 + (_MANY_ROUNDS if self.num_steps is None else int(self.num_steps))
        callbacks = EpochCallbacks(self, most, X, y)
        history: list[State] = []
        try:
            with count_bar("rounds", most, enabled=bool(self.verbose) and is_first()) as advance:
                for state in training:
                    history.append(state)
                    advance(1)
                    said = [found.beliefs.argmax(dim=1) for found in history[-2:]]
                    settled = self.num_steps is None and len(said) == 2 and torch.equal(*said)
                    if callbacks.stop_after_epoch() or len(history) == most or settled:
                        break
        except KeyboardInterrupt:
            if not history or _is_part_of_a_whole():
                raise
            warn(f"training was interrupted after round {len(history)} and keeps what that one learnt; fit again")
        callbacks.end()
        return history

    def _views(self, X: Any, previous: Committee | None) -> list[tuple[Scaling, Metric]]:
        """The ways to look at the rows among which the labels decide, or the one that they did decide for."""
        views: list[tuple[Scaling, Metric]]
        if self.metric != "auto":
            views = [("unit" if self.normalize else "none", self.metric)]
        elif scipy.sparse.issparse(X):  # standardising would fill it
            views = [("unit", "chord"), ("rare", "chord")]
        else:
            views = [("unit", "chord"), ("standard", "euclidean"), ("both", "chord")]
        last = None if previous is None else (previous.view.scaling, previous.view.metric)
        return [last] if last in views else views

    def _drawn_seed(self) -> int:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return agreed(seed) if join() else seed

    def _held_out_codes(self) -> Array:
        """What was predicted for the validation rows while their labels were held out."""
        if self._held_codes is not None:
            return self._held_codes
        return self.label_distributions_[self.validation_mask_].argmax(axis=1)

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
            raise ValueError(f"recall must lie in (0, 1], got {self.recall}; the default is 0.95, 1 searches exactly")
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

    def _network(
        self, features: Any, classes: Array, n_neighbors: int, seed: int, previous: Mapping[str, Any] | None
    ) -> ANGPN:
        options = {name: plain(getattr(self, name)) for name in _NETWORK_OPTIONS}
        options["alpha"] = ALPHA_OF_LAYERS if self.alpha == "auto" else options["alpha"]
        with torch.random.fork_rng(devices=[]):  # making layers draws weights, which are drawn again by our own seed
            network = ANGPN(
                features.shape[1], as_widths(self.hidden_layer_sizes), len(classes), n_neighbors=n_neighbors, **options
            ).to(getattr(torch, features.dtype.name))
        network.reset_parameters(torch.Generator().manual_seed(seed))
        if previous is not None:
            _take_over(network, classes, previous["module_"], previous["classes_"])
        return network

    def _run(self, training: Training, checkpoint: Checkpoint, seed: int, callbacks: EpochCallbacks) -> list[Epoch]:
        """The epochs: those of a checkpoint, then the rest, told to all who watch."""
        epochs = checkpoint.restore(training)
        try:
            with EpochBar(training, enabled=bool(self.verbose) and is_first()) as bar:
                for epoch in training:
                    epochs.append(epoch)
                    bar.update(epoch)
                    if is_first():
                        checkpoint.save(training, epochs, seed)
                    if callbacks.stop_after_epoch():
                        break
        except KeyboardInterrupt:
            if not epochs or _is_part_of_a_whole():
                raise
            warn(
                f"training was interrupted after epoch {len(epochs)} and keeps the best weights so far; fit again, "
                "with resume=True where there is a checkpoint, to go on"
            )
            # The checkpoint of a moment ago is of a whole epoch; what is in hand now may not be.
        else:
            if is_first():
                checkpoint.save(training, epochs, seed, now=True, finished=True)
            if len(epochs) == training.last_epoch == self.max_iter and epochs[-1].validation_loss is not None:
                warn(
                    f"training did not settle within max_iter={self.max_iter} epochs; raise max_iter, or learning_rate",
                    ConvergenceWarning,
                )
        callbacks.end()
        return epochs

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

    def _count(self, task: "_Task") -> int:
        """How many candidates a row has, where there are so many rows."""
        return int(self.n_candidates or CANDIDATES_PER_NEIGHBOR * task.n_neighbors)

    def _neighbors(self, rows: Any, metric: Metric, task: "_Task", seed: int) -> Neighborhood:
        n, distances = rows.shape[0], task.distances
        self.recall_ = 1.0
        if distances is not None:
            check_same_rows(distances.shape[0], task.X.shape[0], "distances", "X")
        if scipy.sparse.issparse(distances):
            return neighbors_from_graph(distances, task.n_neighbors, self.n_candidates, random_state=seed)
        count = min(self._count(task), n - 1)
        if distances is not None:
            check_not_negative(distances)
            return nearest_candidates(distances, count, "precomputed", random_state=seed)
        with count_bar("neighbours", n, enabled=bool(self.verbose) and is_first()) as advance:
            if n <= EXACT_ROWS or self.recall == 1 or not has_index(n):
                return nearest_candidates(rows, count, metric, random_state=seed, on_rows=advance)
            options: Any = {"recall": self.recall, "random_state": seed, "on_rows": advance}
            hood, self.recall_ = approximate_candidates(rows, count, metric, **options)
            return hood

    def _shard(self, rows: Any, metric: Metric, task: "_Task", seed: int) -> Shard:
        """This process's rows, where several work together."""
        if task.distances is not None or scipy.sparse.issparse(rows):
            raise ValueError(
                "several processes share dense rows whose distances they compute, got "
                f"{'a sparse X' if task.distances is None else 'distances'}; run one process, or pass a dense X alone"
            )
        self.recall_ = float(self.recall)
        count = min(self._count(task), rows.shape[0] - 1)
        find = part_search(rows, count, metric, recall=self.recall, random_state=seed)
        return share_out(rows.shape[0], count, find, seed)

    def _held_out(
        self, codes: Array, weights: Array | None, seed: int, previous: Mapping[str, Any] | None
    ) -> Array:  # (n,) bool
        """Rows to validate on. After a warm start a label that was trained on is never among them, nor the reverse."""
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(
                f"validation_fraction must lie in [0, 1), got {self.validation_fraction}; 0 trains on every label"
            )
        free = codes if weights is None else np.where(weights > 0, codes, UNLABELLED)
        kept = np.zeros(len(codes), dtype=bool)
        if previous is not None:
            free = np.where(previous["_codes"] == UNLABELLED, free, UNLABELLED)
            kept = previous["validation_mask_"] & (codes != UNLABELLED)
        generator = torch.Generator().manual_seed(seed)
        return kept | hold_out(torch.from_numpy(free), self.validation_fraction, generator).numpy()

    def _with_class_weights(
        self, weights: Array | None, labels: EncodedLabels, mask: Array | None, dtype: np.dtype[Any]
    ) -> Array | None:
        """How much each row counts. Balance is that of the training labels: validation labels have no say in it."""
        if self.class_weight is None:
            return None if weights is None else weights.astype(dtype)
        known = labels.codes != UNLABELLED
        training = known  # a mask that does not fit is refused further on
        if mask is not None and mask.dtype == bool and mask.shape == known.shape:
            training = known & ~mask
        seen = np.unique(labels.codes[training])
        of_class = np.ones(len(labels.classes))
        of_class[seen] = compute_class_weight(
            self.class_weight, classes=labels.classes[seen], y=labels.classes[labels.codes[training]]
        )
        weights = np.ones(len(known)) if weights is None else weights
        return np.where(known, weights * of_class[labels.codes], 1.0).astype(dtype)

    def _coverage(self, distances: Any) -> Coverage | None:
        hood = self._fitted.hood
        if scipy.sparse.issparse(distances) or hood.n_candidates == hood.n_rows - 1:
            return None
        return candidate_coverage(
            self.module_,
            self._fitted.rows,
            self._fitted.hood,
            self._fitted.metric,
            distances=distances,
            random_state=self._seed,
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

    def explain(self, i: int, n: int = 10) -> list[Carrier]:
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
        return [Carrier(row, weight, names[row], bool(given[row])) for row, weight in found]

    def carriers(self, n: int = 10) -> tuple[Array, Array]:  # (rows, n) positions, -1 where fewer, and their weights
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


def _serves(previous: Mapping[str, Any], metric: Metric, count: int) -> bool:
    """Whether the neighbours of the last fit are those of this one."""
    return previous["_fitted"].metric == metric and previous["neighborhood_"].n_candidates == count


def _take_over(network: ANGPN, classes: Array, previous: ANGPN, previous_classes: Array) -> None:
    """Start from the weights of the last fit; a class that it did not know starts afresh."""
    if network.config | {"out_channels": 0} != previous.config | {"out_channels": 0}:
        raise ValueError(
            "warm_start needs the features and the network of the last fit, got others; fit with warm_start=False"
        )
    with torch.no_grad():
        network.convs.load_state_dict(previous.convs.state_dict())
        for place, name in enumerate(classes):
            known = np.flatnonzero(previous_classes == name)
            if len(known):
                network.perceptron.weight[place] = previous.perceptron.weight[known[0]]


def _is_part_of_a_whole() -> bool:
    """Whether fit was called by something larger, which an interrupt should end as a whole."""
    callers = (frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_stack(None))
    return any(name.startswith(_WHOLES) for name in callers)
