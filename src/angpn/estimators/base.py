"""What both estimators share: input checks, predictions for new rows, explanations, one file a model."""

import os
from abc import abstractmethod
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from angpn.anfp.neighbor_graph import check_graph_options
from angpn.estimators.fitted_models import Fitted
from angpn.estimators.influence import ROWS_AT_ONCE, Influence, strongest_influences
from angpn.estimators.memory_estimate import check_memory, check_memory_for_new
from angpn.estimators.neighbor_search import fitted_search
from angpn.estimators.new_rows import Answer, in_batches
from angpn.estimators.persistence import check_can_save, load_model, save_model
from angpn.estimators.task import Fit, Task
from angpn.estimators.uncertainty import most_uncertain
from angpn.neighbors.distributed import join_process_group
from angpn.utils.callbacks import CallbackSupportMixin, with_callbacks
from angpn.utils.checks import as_sparse_rows, check_number, check_same_rows
from angpn.utils.inputs import (
    as_array,
    as_distances,
    as_weights,
    check_not_far,
    check_not_negative,
    check_sizes,
    few_enough_neighbors,
)
from angpn.utils.labels import UNLABELLED, check_enough_classes, encode_labels
from angpn.utils.schema import MAX_BETA, MAX_GAMMA, MIN_GAMMA
from angpn.utils.typing import Array
from angpn.utils.validation import check_class_weight, check_some_weight, checked_weights


class BaseANGPNClassifier(
    CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, BaseEstimator
):
    """A semi-supervised classifier and transformer; subclasses say how it is fitted."""

    ESTIMATORS: ClassVar[dict[str, type["BaseANGPNClassifier"]]] = {}  # by name, for load

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__.startswith("angpn."):  # a user's own subclass is loaded by the user's own class
            BaseANGPNClassifier.ESTIMATORS[cls.__name__] = cls

    # What subclasses have

    @abstractmethod
    def _fit_task(self, task: Task) -> Fit:
        """Fit the model."""

    @abstractmethod
    def _needed_bytes(self, task: Task) -> int:
        """Estimate the memory of a fit."""

    @abstractmethod
    def _set_fitted(self, fitted: Any) -> None:
        """Set the attributes that this estimator alone has."""

    @property
    @abstractmethod
    def _units_kept_by(self) -> str | None:
        """The parameter that leaves X in its own units, or None where rows or columns are scaled."""

    def _check_parameters(self) -> None:
        check_graph_options(n_neighbors=1, beta=self.beta, gamma=self.gamma, rule=self.rule)
        if self.beta > MAX_BETA:
            raise ValueError(f"beta must be at most {MAX_BETA:g}, got {self.beta}; 0.3 is the paper's")
        if not isinstance(self.gamma, str) and not MIN_GAMMA <= self.gamma <= MAX_GAMMA:
            raise ValueError(
                f"gamma must lie between {MIN_GAMMA:g} and {MAX_GAMMA:g}, got {self.gamma}; gamma='auto' derives one "
                "from the distances"
            )
        if not isinstance(self.n_neighbors, int | np.integer) or self.n_neighbors < 1:
            raise ValueError(f"n_neighbors must be a whole number >= 1, got {self.n_neighbors!r}; the default is 20")
        check_number(self.recall, "recall")
        if not 0 < self.recall <= 1:
            raise ValueError(f"recall must lie in (0, 1], got {self.recall}; the default is 0.9, 1 searches exactly")
        if self.n_candidates is not None:
            check_number(self.n_candidates, "n_candidates")
        if self.n_candidates is not None and self.n_candidates < self.n_neighbors + 1:
            raise ValueError(
                f"n_candidates must be at least n_neighbors + 1 = {self.n_neighbors + 1}, got {self.n_candidates}; "
                "raise it, or leave it None"
            )

    # Fitting

    @with_callbacks
    def fit(
        self,
        X: Any,  # (n, d)
        y: Any,  # (n,)
        *,
        validation_mask: Any = None,  # (n,) bool
        sample_weight: Any = None,  # (n,)
        distances: Any = None,  # (n, n)
    ) -> Self:
        """Learn from the labelled rows, and label all.

        Ctrl-C ends training early with the best weights (or the last whole round) so far and a warning; inside a search
        it ends the search. A fit that fails leaves the estimator as it was.

        Args:
            X: features: numpy, pandas, polars or torch, dense or sparse; with ``metric="precomputed"`` the full matrix
                of distances between all rows.
            y: labels; -1, None or NaN where a row is unlabelled.
            validation_mask: marks labelled rows whose labels serve only to select hyper-parameters, to calibrate and to
                stop; no model is trained on them. Without it labels are held out as the class describes.
            sample_weight: how much each labelled row counts; a pseudo-label of the ensemble counts 1.
            distances: replaces the distances that ``metric`` would compute: a full matrix, or a sparse graph as
                KNeighborsTransformer gives.

        Returns:
            The fitted estimator.

        Raises:
            ValueError: if the input cannot be labelled; the message says what to change.
            MemoryError: if the fit would not fit into the memory that is free.
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
                f"{type(self).__name__} requires y to be passed, but the target y is None; mark unlabelled rows by -1"
            )
        distributed = join_process_group(self.distributed)
        previous = dict(self.__dict__) if self.warm_start and "_fitted" in self.__dict__ else None
        labels = encode_labels(y)
        self._check_parameters()
        X = self._checked_features(X, reset=True)
        check_sizes(X, self._units_kept_by, self._column_name)
        distances = self._checked_fit_distances(X, distances)
        check_same_rows(len(labels.codes), X.shape[0], "y", "X")
        check_enough_classes(labels)
        check_class_weight(self.class_weight, labels.classes.tolist())
        names = getattr(self, "feature_names_in_", None)
        check_can_save(self._saved_name, self.get_params(deep=False), labels.classes, names)
        mask = None if validation_mask is None else as_array(validation_mask)
        weights = None if sample_weight is None else as_weights(sample_weight, labels.codes)
        n_neighbors = few_enough_neighbors(int(self.n_neighbors), X.shape[0])
        task = Task(self, X, y, labels, mask, weights, distances, n_neighbors, previous, distributed)
        check_memory(task, self._needed_bytes(task))
        for derived in ("layer_graphs_", "embedding_"):
            self.__dict__.pop(derived, None)
        fit = self._fit_task(task)
        self._fitted, self._seed, self._codes = fit.fitted, fit.seed, labels.codes
        self._set_fitted(fit.fitted)
        self.classes_, self.n_neighbors_, self.neighborhood_ = labels.classes, n_neighbors, fit.fitted.neighborhood
        self.label_distributions_ = fit.distributions
        self.transduction_ = self.classes_[fit.distributions.argmax(axis=1)]
        self.validation_mask_, self.validation_transduction_ = fit.validation_mask, self.classes_[fit.held_codes]
        self.loss_curve_, self.validation_scores_, self.n_iter_ = fit.losses, fit.scores, len(fit.losses)
        self.best_iter_, self.best_validation_score_ = fit.best_iter, fit.best_score
        self.recall_, self.neighbor_seconds_ = fit.recall, fit.neighbor_seconds
        return self

    def _checked_features(self, X: Any, *, reset: bool) -> Any:
        if isinstance(X, Tensor):
            X = X.float() if X.dtype == torch.bfloat16 else X  # numpy has no such type
            sparse = as_sparse_rows(X, X.dtype if X.is_floating_point() else torch.float64)
            X = X.detach().cpu().numpy() if sparse is None else sparse
        if self.metric == "precomputed" and scipy.sparse.issparse(X):
            raise ValueError(
                "metric='precomputed' needs the full matrix of distances, got a sparse graph; pass the features as X "
                "and the graph as distances="
            )
        return validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_min_samples=3 if reset else 1,
        )

    def _column_name(self, place: int) -> str:
        names = getattr(self, "feature_names_in_", None)
        return str(place) if names is None else repr(str(names[place]))

    def _checked_fit_distances(self, X: Any, distances: Any) -> Any:
        if self.metric != "precomputed":
            return as_distances(distances)
        if distances is not None:
            raise ValueError("metric='precomputed' takes the distances as X, got distances= as well; pass one of them")
        if X.shape[0] != X.shape[1]:
            raise ValueError(
                f"X must be a square matrix of distances with metric='precomputed', got shape {X.shape}; pass features "
                "with another metric, or a row and a column for each sample"
            )
        return X

    # Predictions

    def predict(self, X: Any, *, distances: Any = None) -> Array:  # (r,)
        """Return the most probable label of each row.

        Args:
            X: as for :meth:`predict_proba`.
            distances: as for :meth:`predict_proba`.

        Returns:
            One of ``classes_`` for each row.
        """
        check_is_fitted(self)
        return self.classes_[self._answer_new(X, distances, self._most_probable, 1)]

    def _most_probable(self, *new: Any) -> Array:  # (r,)
        return self._fitted.predict_new(*new).argmax(axis=1)

    def predict_proba(
        self,
        X: Any,  # (r, d)
        *,
        distances: Any = None,  # (r, n)
    ) -> Array:  # (r, c)
        """Return the probability of each class for each row.

        A row is attached to the fitted rows nearest to it and propagated as they were; it changes nothing for them, and
        rows do not see each other. A row that was fitted is recognised (it has distance 0 to itself), so that
        ``predict(X)`` on the X of ``fit`` is ``transduction_``. Where several fitted rows are equal, one of them
        answers for all.

        Args:
            X: features of new or fitted rows; with ``metric="precomputed"`` their distances to the fitted rows.
            distances: distances to the fitted rows, where ``fit`` was given distances.

        Returns:
            The columns are in the order of ``classes_``; rows sum to 1.

        Raises:
            ValueError: if the rows are not like those of the fit.
            MemoryError: if the result and what it takes would not fit into the memory that is free. Rows are predicted
                in batches, so beside X and the result that is a bounded amount.
        """
        check_is_fitted(self)
        return self._answer_new(X, distances, self._fitted.predict_new, len(self.classes_))

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Array:  # (n, width)
        """Fit, and return the embedding of the rows it was fitted on.

        Args:
            X: as for :meth:`fit`.
            y: as for :meth:`fit`.
            **fit_params: as for :meth:`fit`.

        Returns:
            ``embedding_``.
        """
        return self.fit(X, y, **fit_params).embedding_

    def transform(self, X: Any, *, distances: Any = None) -> Array:  # (r, width)
        """Return the embedding of each row: features in which rows of a class lie together.

        Args:
            X: as for :meth:`predict_proba`.
            distances: as for :meth:`predict_proba`.

        Returns:
            The last hidden layer of a network, the propagated features of an ensemble.
        """
        check_is_fitted(self)
        return self._answer_new(X, distances, self._fitted.embed_new, self._fitted.width)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, distances: Any = None) -> float:
        """Return the accuracy on the rows whose label is known.

        Args:
            X: as for :meth:`predict_proba`.
            y: true labels; -1, None or NaN where unknown.
            sample_weight: how much each row counts.
            distances: as for :meth:`predict_proba`.

        Returns:
            A share of 1.
        """
        check_is_fitted(self)
        labels = encode_labels(y)
        predicted = self.predict(X, distances=distances)
        check_same_rows(len(labels.codes), len(predicted), "y", "X")
        known = labels.codes != UNLABELLED
        if not known.any():
            raise ValueError("y must label a few rows to score on, got every row unlabelled; pass the true labels")
        truth, predicted, weights = labels.classes[labels.codes[known]], predicted[known], None
        if truth.dtype.kind == predicted.dtype.kind == "S":  # which scikit-learn's scores refuse
            truth, predicted = np.char.decode(truth, "latin-1"), np.char.decode(predicted, "latin-1")
        if sample_weight is not None:
            weights = as_weights(sample_weight, labels.codes)[known]
            weights = checked_weights(weights, torch.from_numpy(labels.codes[known]), torch.float64)
            assert weights is not None
            check_some_weight(weights, "scored")
        return float(accuracy_score(truth, predicted, sample_weight=weights))

    def _answer_new(self, X: Any, distances: Any, answer: Answer, width: int) -> Array:  # (r,) or (r, width)
        """Return what ``answer`` gives for rows, new or fitted: so many numbers for each."""
        fitted: Fitted = self._fitted
        X = self._checked_features(X, reset=False)
        if self.metric == "precomputed":
            distances = X if distances is None else distances
        if scipy.sparse.issparse(X) and not scipy.sparse.issparse(fitted.rows):
            raise ValueError(
                "X must be dense as it was in fit, got a sparse matrix; call toarray(), or fit on a sparse X"
            )
        if scipy.sparse.issparse(fitted.rows):
            X = scipy.sparse.csr_array(X)
        check_sizes(X, None, self._column_name)
        check_not_far(fitted.far_columns(X), self._column_name)
        if (fitted.metric == "precomputed") != (distances is not None):
            raise ValueError(
                "distances from each row to each fitted row must be passed exactly where fit was given distances, got "
                f"{'none' if distances is None else 'some'}; pass distances= to both or to neither"
            )
        if distances is not None:
            distances = self._checked_new_distances(as_distances(distances), X.shape[0])
        check_memory_for_new(fitted, X, width, recall=self.recall)
        search = fitted_search(fitted, X.shape[0], recall=self.recall, seed=self._seed)
        return in_batches(answer, fitted, search, X, distances)

    def _checked_new_distances(self, distances: Any, n_new: int) -> Any:
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

    # The fitted rows

    @cached_property
    def embedding_(self) -> Array:  # (n, width)
        """The last hidden layer, or the propagated features, of the fitted rows."""
        return self._after_fit("embedding_").embedding()

    @cached_property
    def layer_graphs_(self) -> list[scipy.sparse.csr_array]:
        """The learnt S of each layer, or of the first and the last round."""
        return self._after_fit("layer_graphs_").graphs

    def _after_fit(self, name: str) -> Fitted:
        if "_fitted" not in self.__dict__:
            raise AttributeError(f"{name} is there after fit, got none before it; call fit")
        return self._fitted

    @property
    def graph_(self) -> scipy.sparse.csr_array:
        """The last learnt S."""
        return self.layer_graphs_[-1]

    def explain(self, i: int, n: int = 10) -> list[Influence]:
        """Return the rows that influenced the prediction for a fitted row most.

        Each layer of a network, and each hop of a base learner, multiplies by a propagation matrix,
        P = alpha A + (1 - alpha) I; row i of the product of all P, averaged over base learners, says how much of each
        row is in row i. What is missing to 1 is the row itself, the rows not listed and, for direction "normalized",
        the degrees. Where no propagation was selected (alpha 0), no row has an influence.

        Args:
            i: position of the row in the X of ``fit``.
            n: how many rows to list.

        Returns:
            The rows, the strongest influence first.

        Raises:
            ValueError: if there is no such row.
        """
        check_is_fitted(self)
        rows = len(self._codes)
        if not -rows <= i < rows:
            raise ValueError(
                f"i must be a row of the fit, {-rows} to {rows - 1}, got {i}; new rows cannot be explained"
            )
        paths = self._fitted.propagation_paths()
        (others,), (weights,) = strongest_influences(np.array([i % rows]), n, paths, rows)
        given = self._codes != UNLABELLED
        names = np.where(given, self.classes_[self._codes], self.transduction_)
        found = [(int(row), float(weight)) for row, weight in zip(others, weights, strict=True) if row >= 0]
        return [Influence(row, weight, names[row], bool(given[row])) for row, weight in found]

    def influences(self, n: int = 10) -> tuple[Array, Array]:  # (rows, n) each
        """Return what :meth:`explain` finds for every fitted row, as arrays.

        Args:
            n: how many rows to list for each.

        Returns:
            Positions of the rows, -1 where there are fewer, and their weights; the strongest influence first.
        """
        check_is_fitted(self)
        blocks = np.array_split(np.arange(len(self._codes)), max(1, len(self._codes) // ROWS_AT_ONCE))
        paths = self._fitted.propagation_paths()
        parts = [strongest_influences(block, n, paths, len(self._codes)) for block in blocks]
        return np.concatenate([rows for rows, _ in parts]), np.concatenate([weights for _, weights in parts])

    def uncertain(self, n: int = 10) -> Array:
        """Return the unlabelled rows most worth labelling next: small margin first, no two neighbours.

        Args:
            n: how many rows to return.

        Returns:
            Positions of the rows in the X of ``fit``.
        """
        check_is_fitted(self)
        if n < 1:
            raise ValueError(f"n must be at least 1, got {n}; it is how many rows you want")
        return most_uncertain(self.label_distributions_, self._codes == UNLABELLED, self.graph_, n)

    # Persistence

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file (safetensors, no pickle), replacing a file already there as a whole.

        Args:
            path: where to write it.
        """
        check_is_fitted(self)
        save_model(self._saved_name, self.__dict__, self.get_params(deep=False), path)

    @property
    def _saved_name(self) -> str:
        """The estimator of this package that this one is, or is derived from."""
        return next(kind.__name__ for kind in type(self).__mro__ if kind.__name__ in BaseANGPNClassifier.ESTIMATORS)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "BaseANGPNClassifier":
        """Read a model that :meth:`save` wrote; either estimator opens the files of both.

        Nothing in the file is executed. Where the device it was fitted on is missing, it is put on the CPU.

        Args:
            path: the file.

        Returns:
            The fitted estimator, of the class that was saved.

        Raises:
            ValueError: if the file is not a whole model that this version knows.
        """
        saved = load_model(path)
        kind = BaseANGPNClassifier.ESTIMATORS[saved.estimator]
        kind = cls if issubclass(cls, kind) else kind
        unknown = saved.parameters.keys() - kind._get_param_names()
        if unknown:
            raise ValueError(
                f"{os.fspath(path)} must hold only parameters that this version has, got {', '.join(sorted(unknown))}; "
                "use the version that wrote it, or a newer one"
            )
        model = kind(**saved.parameters)
        model.__dict__.update(saved.attributes)
        model._set_fitted(model._fitted)
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
        tags.input_tags.pairwise = self.metric == "precomputed"
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
