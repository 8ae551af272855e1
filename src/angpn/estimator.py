"""ANGPNClassifier: the method as a scikit-learn estimator."""

import os
import traceback
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from angpn.callbacks import CallbackSupportMixin, EpochCallbacks, with_callbacks
from angpn.checkpoint import Checkpoint
from angpn.checks import as_sparse_rows, check_choice, check_same_rows, warn
from angpn.coverage import Coverage, candidate_coverage
from angpn.distances import Metric, nearest_candidates, nearest_fitted, neighbors_from_graph
from angpn.graph import Gamma, Rule
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
from angpn.kernels.sparse import mixing_matrix
from angpn.labels import UNLABELLED, EncodedLabels, check_enough_classes, encode_labels
from angpn.neighborhood import Neighborhood
from angpn.network import ANGPN
from angpn.persistence import load_model, save_model
from angpn.progress import EpochBar, count_bar
from angpn.propagation import Direction
from angpn.training import Epoch, Training, hold_out, train
from angpn.unseen import embed_unseen

CANDIDATES_PER_NEIGHBOR = 4
_WHOLES = ("joblib.", "sklearn.model_selection.", "angpn.labelling.", "angpn.experiments.")
_ROWS_AT_ONCE = 2000  # of the product of all layers' graphs, which is denser than each

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


class Carrier(NamedTuple):
    """A row that helped to label another one, see :meth:`ANGPNClassifier.explain`."""

    row: int
    weight: float  # its share in what the explained row is made of
    label: Any  # the label it has itself
    given: bool  # by the user, not predicted


class ANGPNClassifier(
    CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, BaseEstimator
):
    """Label the unlabelled rows by an Adaptive Neighborhood Graph Propagation Network.

    Args:
        hidden_layer_sizes: width of each hidden propagation layer.
        n_neighbors: k of Eq. (9), about how many neighbours a row has. Lowered, with a warning, where there are fewer
            than k + 2 rows.
        n_candidates: among how many nearest rows a row learns to choose its neighbours; None is 4 k.
        metric: "chord" (Euclidean between rows of unit length, for text and embeddings), "euclidean" or "sqeuclidean".
        normalize: scale the rows of X to unit length before all else.
        normalize_hidden: let the graphs of the hidden layers see rows of unit length.
        alpha: fraction that a row takes from its neighbours, Eq. (13).
        beta: weight of the features in the graph, Eq. (8); 0 fixes the graph (NGPN).
        gamma: "auto", "local" or a number, see :func:`angpn.neighbor_graph`.
        rule: "simplex" or "printed", see :func:`angpn.neighbor_graph`; "knn", with beta 0, is a plain k-NN graph.
        num_steps: T of Algorithm 1; None runs it to convergence.
        direction: "directed", "symmetric" or "normalized", see :class:`angpn.ANGPNConv`.
        graph_gradient: let the gradient flow through the learnt graph.
        dropout: share of a hidden layer's numbers that an epoch leaves out.
        learning_rate: of Adam.
        weight_decay: of Adam.
        max_iter: epochs at most.
        n_iter_no_change: stop after so many epochs in which the validation loss did not improve.
        tol: what counts as an improvement.
        validation_fraction: of the labels of each class, held out to know when to stop.
        class_weight: None, "balanced", or the weight of each class.
        device: "auto" (CUDA where there is one and X is dense, else the CPU) or what torch takes.
        random_state: an int gives the same result every time.
        warm_start: fit again from the weights of the last fit, and with its neighbours if X is the same.
        checkpoint: a file that a fit keeps about every second, so that it can be taken up again.
        resume: take up the fit whose ``checkpoint`` this is (perhaps with another ``max_iter``); where there is none,
            or that of another fit that had ended, begin.
        verbose: show progress bars.

    Attributes:
        classes_: the labels, sorted.
        transduction_: the most probable label of every row of X; for a row whose label was given it may be another one.
        label_distributions_: the probability of each class for every row.
        n_iter_: how many epochs ran.
        loss_curve_: the training loss before each one's update.
        validation_scores_: the accuracy on the held-out labels before each, or None where none were held out.
        best_validation_score_: that accuracy for the weights kept, or None.
        best_iter_: the epoch, from 1, whose weights were kept.
        validation_mask_: the rows whose labels were held out.
        module_: the network.
        neighborhood_: each row's candidates and their distances.
        layer_graphs_: the learnt S of each layer, sparse.
        graph_: that of the last layer.
        embedding_: the last hidden layer for every row of X.
        coverage_: what the restriction to candidates cost, on a sample, or None where every row was a candidate or only
            a graph of neighbours was given.
        n_features_in_, feature_names_in_: as everywhere in scikit-learn.

    It computes in float32 where X is float32, else in float64. Columns should be of like scale: standardise those of a
    table first.

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
        hidden_layer_sizes: Sequence[int] = (50, 50),
        n_neighbors: int = 10,
        n_candidates: int | None = None,
        metric: Metric = "chord",
        normalize: bool = True,
        normalize_hidden: bool = True,
        alpha: float = 0.7,
        beta: float = 0.3,
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

        ``validation_mask`` marks labelled rows whose labels serve only to know when to stop; without it,
        ``validation_fraction`` of the labels of each class is held out, at least one where a class has more.
        ``sample_weight`` says how much each labelled row counts. ``distances`` replaces those that ``metric`` would
        compute: a full matrix, or a sparse graph as KNeighborsTransformer gives.

        Ctrl-C ends training early with the best weights so far and a warning; inside a search it ends the search. A
        fit that fails leaves the estimator as it was.
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
        previous = dict(self.__dict__) if self.warm_start and "module_" in self.__dict__ else None
        labels = encode_labels(y)
        self._check_parameters()
        distances = as_distances(distances)
        X = self._checked_features(X, reset=True)
        check_same_rows(len(labels.codes), X.shape[0], "y", "X")
        check_enough_classes(labels)
        check_scales(X)
        features = prepared_rows(X, self.normalize)
        device = find_device(self.device, scipy.sparse.issparse(features))
        n_neighbors = few_enough_neighbors(int(self.n_neighbors), X.shape[0])

        mask = None if validation_mask is None else as_array(validation_mask)
        weights = None if sample_weight is None else as_weights(sample_weight, labels.codes)
        problem = {name: getattr(self, name) for name in _PAPER if name not in _HOW_LONG}
        problem |= {
            "hidden_layer_sizes": as_widths(self.hidden_layer_sizes),
            "random_state": plain_seed(self.random_state),
        }
        problem |= {"X": features, "y": labels.codes, "mask": mask, "weights": weights, "distances": distances}
        if previous is not None:  # a warm start begins, and holds out, as the fit before it left things
            problem |= {"known": previous["_codes"], "held": previous["validation_mask_"]}
        checkpoint = Checkpoint(self.checkpoint, resume=self.resume, problem=problem)
        seed = checkpoint.seed
        if seed is None:
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))

        same_rows = previous if previous is not None and equal_rows(previous["_features"], features) else None
        hood = self._neighbors(features, distances, n_neighbors, seed, same_rows)
        if mask is None:
            mask = self._held_out(labels.codes, weights, seed, same_rows)
        network = self._network(features, labels.classes, n_neighbors, seed, previous).to(device)
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
        epochs = self._run(training, checkpoint, seed, EpochCallbacks(self, self.max_iter, X, y))

        self.classes_, self._codes, self.validation_mask_ = labels.classes, labels.codes, mask
        self._features, self._normalize = features, bool(self.normalize)
        self._metric = self.metric if distances is None else "precomputed"
        self.neighborhood_, self.module_, self._seed = hood.to("cpu"), network, seed
        self.n_neighbors_, self.n_iter_ = n_neighbors, len(epochs)
        self.loss_curve_ = [epoch.loss for epoch in epochs]
        scores = [epoch.validation_accuracy for epoch in epochs if epoch.validation_accuracy is not None]
        self.validation_scores_ = scores or None
        best = [epoch.validation_accuracy for epoch in epochs if epoch.is_best]
        self.best_validation_score_ = best[-1] if best else None
        self.best_iter_ = max((epoch.number for epoch in epochs if epoch.is_best), default=len(epochs))
        for derived in ("layer_graphs_", "embedding_"):
            self.__dict__.pop(derived, None)
        with torch.no_grad():
            probabilities = network.probabilities(on_device(features, device), hood.to(device))
        self.label_distributions_ = probabilities.cpu().numpy()
        self.transduction_ = self.classes_[self.label_distributions_.argmax(axis=1)]
        self.coverage_ = self._coverage(distances)
        return self

    def _check_parameters(self) -> None:
        check_choice(self.metric, "metric", ("chord", "euclidean", "sqeuclidean"), "or pass distances to fit")
        if self.max_iter < 1 or self.n_iter_no_change < 1:
            raise ValueError(
                f"max_iter and n_iter_no_change must be at least 1, got {self.max_iter} and {self.n_iter_no_change}; "
                "the defaults are 10000 and 100"
            )
        if not isinstance(self.n_neighbors, int | np.integer) or self.n_neighbors < 1:
            raise ValueError(f"n_neighbors must be a whole number >= 1, got {self.n_neighbors!r}; the default is 10")
        if self.n_candidates is not None and self.n_candidates < self.n_neighbors + 1:
            raise ValueError(
                f"n_candidates must be at least n_neighbors + 1 = {self.n_neighbors + 1}, got {self.n_candidates}; "
                "raise it, or leave it None"
            )

    def _network(
        self, features: Any, classes: Array, n_neighbors: int, seed: int, previous: Mapping[str, Any] | None
    ) -> ANGPN:
        options = {name: plain(getattr(self, name)) for name in _NETWORK_OPTIONS}
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
            with EpochBar(training, enabled=bool(self.verbose)) as bar:
                for epoch in training:
                    epochs.append(epoch)
                    bar.update(epoch)
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

    def _neighbors(
        self, features: Any, distances: Any, n_neighbors: int, seed: int, previous: Mapping[str, Any] | None
    ) -> Neighborhood:
        n = features.shape[0]
        count = self.n_candidates or CANDIDATES_PER_NEIGHBOR * n_neighbors
        if scipy.sparse.issparse(distances):
            check_same_rows(distances.shape[0], n, "distances", "X")
            return neighbors_from_graph(distances, n_neighbors, self.n_candidates, random_state=seed)
        count = min(count, n - 1)
        if distances is not None:
            check_same_rows(len(distances), n, "distances", "X")
            check_not_negative(distances)
            return nearest_candidates(distances, count, "precomputed", random_state=seed)
        if previous is not None and previous["_metric"] == self.metric:
            known = previous["neighborhood_"]
            if known.n_candidates == count:
                return known
        with count_bar("neighbours", n, enabled=bool(self.verbose)) as advance:
            return nearest_candidates(features, count, self.metric, random_state=seed, on_rows=advance)

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
        self, weights: Array | None, labels: EncodedLabels, mask: Array, dtype: np.dtype[Any]
    ) -> Array | None:
        """How much each row counts. Balance is that of the training labels: validation labels have no say in it."""
        if self.class_weight is None:
            return None if weights is None else weights.astype(dtype)
        known = labels.codes != UNLABELLED
        training = known & ~mask if mask.dtype == bool and mask.shape == known.shape else known  # else train refuses it
        seen = np.unique(labels.codes[training])
        of_class = np.ones(len(labels.classes))
        of_class[seen] = compute_class_weight(
            self.class_weight, classes=labels.classes[seen], y=labels.classes[labels.codes[training]]
        )
        weights = np.ones(len(known)) if weights is None else weights
        return np.where(known, weights * of_class[labels.codes], 1.0).astype(dtype)

    def _coverage(self, distances: Any) -> Coverage | None:
        if scipy.sparse.issparse(distances) or self.neighborhood_.n_candidates == self.neighborhood_.n_rows - 1:
            return None
        return candidate_coverage(
            self.module_,
            self._features,
            self.neighborhood_,
            self._metric,
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
        embedded = self._embed(X, distances)
        with torch.no_grad():
            return self.module_.perceptron(embedded).softmax(dim=1).cpu().numpy()

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Array:  # (n, width)
        """Fit, and the last hidden layer for the rows it was fitted on."""
        return self.fit(X, y, **fit_params).embedding_

    def transform(self, X: Any, *, distances: Any = None) -> Array:  # (r, width)
        """The last hidden layer for each row: features in which rows of a class lie together."""
        return self._embed(X, distances).cpu().numpy()

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

    def _embed(self, X: Any, distances: Any) -> Tensor:
        check_is_fitted(self)
        rows = self._checked_features(X, reset=False).astype(self._features.dtype, copy=False)
        rows = prepared_rows(rows, self._normalize)
        if scipy.sparse.issparse(self._features):
            rows = scipy.sparse.csr_array(rows)
        elif scipy.sparse.issparse(rows):
            raise ValueError(
                "X must be dense as it was in fit, got a sparse matrix; call toarray(), or fit on a sparse X"
            )
        if (self._metric == "precomputed") != (distances is not None):
            raise ValueError(
                "distances from each row to each fitted row must be passed exactly where fit was given distances, got "
                f"{'none' if distances is None else 'some'}; pass distances= to both or to neither"
            )
        if distances is not None:
            distances = as_distances(distances)
            if scipy.sparse.issparse(distances):
                raise ValueError(
                    "distances of new rows must be a dense matrix, new rows by fitted rows, got a sparse graph; write "
                    "it out with toarray() where it holds all distances"
                )
            if distances.shape != (rows.shape[0], self._features.shape[0]):
                raise ValueError(
                    f"distances must have shape {(rows.shape[0], self._features.shape[0])}, new rows by fitted rows, "
                    f"got {distances.shape}; pass a column for each fitted row"
                )
            check_not_negative(distances)
        indices, near = nearest_fitted(
            self._features,
            rows if distances is None else distances,
            self.neighborhood_.n_candidates,
            self._metric,
            random_state=self._seed,
        )
        device = self.module_.perceptron.weight.device
        hood = self.neighborhood_.to(device)
        return embed_unseen(
            self.module_,
            on_device(self._features, device),
            hood,
            on_device(rows, device),
            indices.to(device),
            near.to(device),
            match_empty=self._metric == "chord",
        )

    @cached_property
    def embedding_(self) -> Array:  # (n, width)
        """The last hidden layer for the fitted rows."""
        if "module_" not in self.__dict__:
            raise AttributeError("embedding_ is there after fit, got none before it; call fit")
        device = self.module_.perceptron.weight.device
        with torch.no_grad():
            return self.module_.embed(on_device(self._features, device), self.neighborhood_.to(device)).cpu().numpy()

    @cached_property
    def layer_graphs_(self) -> list[scipy.sparse.csr_array]:
        """The learnt S of each layer."""
        if "module_" not in self.__dict__:
            raise AttributeError("layer_graphs_ is there after fit, got none before it; call fit")
        device = self.module_.perceptron.weight.device
        with torch.no_grad():
            return self.module_.graph_matrices(on_device(self._features, device), self.neighborhood_.to(device))

    @property
    def graph_(self) -> scipy.sparse.csr_array:
        """The learnt S of the last layer."""
        return self.layer_graphs_[-1]

    def explain(self, i: int, n: int = 10) -> list[Carrier]:
        """The ``n`` rows that carried most to the label of fitted row ``i`` (a position, not an index), heaviest first.

        Each layer mixes a row with its neighbours, P = alpha S + (1 - alpha) I (or the symmetric S); row i of the
        product of all layers' P says how much of each row has reached row i. What is missing to 1 is the row itself,
        the rows not listed and, for direction "normalized", the degrees.
        """
        check_is_fitted(self)
        rows = len(self._codes)
        if not -rows <= i < rows:
            raise ValueError(
                f"i must be a row of the fit, {-rows} to {rows - 1}, got {i}; new rows cannot be explained"
            )
        i %= rows
        (others,), (weights,) = _heaviest(np.array([i]), n, self._mixing())
        given = self._codes != UNLABELLED
        names = np.where(given, self.classes_[self._codes], self.transduction_)
        found = [(int(row), float(weight)) for row, weight in zip(others, weights, strict=True) if row >= 0]
        return [Carrier(row, weight, names[row], bool(given[row])) for row, weight in found]

    def carriers(self, n: int = 10) -> tuple[Array, Array]:  # (rows, n) positions, -1 where fewer, and their weights
        """What :meth:`explain` says of every fitted row, as arrays, heaviest first."""
        check_is_fitted(self)
        blocks = np.array_split(np.arange(len(self._codes)), max(1, len(self._codes) // _ROWS_AT_ONCE))
        mixing = self._mixing()
        parts = [_heaviest(block, n, mixing) for block in blocks]
        return np.concatenate([rows for rows, _ in parts]), np.concatenate([weights for _, weights in parts])

    def _mixing(self) -> list[scipy.sparse.csr_array]:
        """P of each layer, the last first."""
        alpha, direction = self.module_.config["alpha"], self.module_.config["direction"]
        return [mixing_matrix(graph, alpha, direction) for graph in reversed(self.layer_graphs_)]

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
            device = find_device(model.device, scipy.sparse.issparse(model._features))
        except ValueError:
            device = torch.device("cpu")
        model.module_.to(device)
        return model

    # scikit-learn's protocols

    @property
    def _n_features_out(self) -> int:
        return self.module_.perceptron.in_features

    def __sklearn_is_fitted__(self) -> bool:
        return "module_" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _heaviest(rows: Array, n: int, mixing: Sequence[scipy.sparse.csr_array]) -> tuple[Array, Array]:  # (r, n) each
    """Which other rows have reached each of these through all layers, and how much of them."""
    reached = scipy.sparse.csr_array(
        (np.ones(len(rows)), (np.arange(len(rows)), rows)), shape=(len(rows), mixing[0].shape[0])
    )
    for matrix in mixing:
        reached = reached @ matrix
    entries = reached.tocoo()
    (places, columns), values = entries.coords, entries.data
    other = (columns != rows[places]) & (values > 0)
    places, columns, values = places[other], columns[other], values[other]
    order = np.lexsort((columns, -values, places))
    places, columns, values = places[order], columns[order], values[order]
    rank = np.arange(len(places)) - np.searchsorted(places, places)  # within its row
    kept = rank < n
    found, weights = np.full((len(rows), n), -1, dtype=np.int64), np.zeros((len(rows), n))
    found[places[kept], rank[kept]], weights[places[kept], rank[kept]] = columns[kept], values[kept]
    return found, weights


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
