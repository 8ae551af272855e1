"""What both estimators share: input checks, the frame of a fit, one file a model."""

import os
from abc import abstractmethod
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from angpn.anfp.neighbor_graph import check_graph_options
from angpn.estimators.displays import DisplayMixin
from angpn.estimators.fold_checks import warn_of_folds
from angpn.estimators.inspection import InspectionMixin
from angpn.estimators.memory_estimate import check_memory
from angpn.estimators.persistence import check_can_save, load_model, save_model
from angpn.estimators.prediction import PredictionMixin
from angpn.estimators.task import Fit, Task
from angpn.neighbors.distributed import join_process_group
from angpn.utils.callbacks import CallbackSupportMixin, with_callbacks
from angpn.utils.checks import check_number, check_same_rows
from angpn.utils.inputs import (
    as_array,
    as_distances,
    as_weights,
    check_sizes,
    few_enough_neighbors,
    naming_table_encoder,
    without_torch,
)
from angpn.utils.labels import UNLABELLED, check_enough_classes, encode_labels
from angpn.utils.schema import MAX_BETA, MAX_GAMMA, MIN_GAMMA
from angpn.utils.validation import check_class_weight


class BaseANGPNClassifier(
    PredictionMixin,
    InspectionMixin,
    DisplayMixin,
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    ClassifierMixin,
    BaseEstimator,
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

        Ctrl-C ends it early with a warning and keeps the best so far. The ensemble keeps the last whole round; where
        Ctrl-C comes before there is one, it trains one with the hyper-parameters that were best so far, and a second
        Ctrl-C ends that, too. The network has something to keep from the end of its first epoch on. Before that, while
        the input is checked, and always inside a search, ``angpn label`` or a job of several processes, it raises
        KeyboardInterrupt. A fit that fails or ends without a result leaves the estimator as it was.

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
        if (labels.codes == UNLABELLED).any():
            warn_of_folds()
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
        for derived in ("layer_graphs_", "embedding_", "unreliable_rows_"):
            self.__dict__.pop(derived, None)
        fit = self._fit_task(task)
        self._fitted, self._seed, self._codes = fit.fitted, fit.seed, labels.codes
        self._warm_state = fit.warm_state
        self._set_fitted(fit.fitted)
        self.classes_, self.n_neighbors_, self.neighborhood_ = labels.classes, n_neighbors, fit.fitted.neighborhood
        self.label_distributions_ = fit.distributions
        self.transduction_ = self.classes_[fit.distributions.argmax(axis=1)]
        self.validation_mask_, self.validation_distributions_ = fit.validation_mask, fit.held_distributions
        self.validation_transduction_ = self.classes_[fit.held_distributions.argmax(axis=1)]
        self.loss_curve_, self.validation_scores_, self.n_iter_ = fit.losses, fit.scores, len(fit.losses)
        self.best_iter_, self.best_validation_score_ = fit.best_iter, fit.best_score
        self.recall_, self.neighbor_seconds_ = fit.recall, fit.neighbor_seconds
        return self

    def _checked_features(self, X: Any, *, reset: bool) -> Any:
        X = without_torch(X)
        if self.metric == "precomputed" and scipy.sparse.issparse(X):
            raise ValueError(
                "metric='precomputed' needs the full matrix of distances, got a sparse graph; pass the features as X "
                "and the graph as distances="
            )
        with naming_table_encoder(X):
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

    def __getstate__(self) -> dict[str, Any]:
        # Without what a warm start begins with: it is much memory, and the next fit makes it again.
        return {name: value for name, value in super().__getstate__().items() if name != "_warm_state"}

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        # A notebook shows the estimator after each fit, with all attributes: those that the fit has set are enough.
        # Others are computed on demand, and an embedding of many rows takes time and memory.
        shown = BaseEstimator._get_fitted_attr_html(SimpleNamespace(**self.__dict__), doc_link)
        shown.estimator_class = type(self)
        return shown

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
