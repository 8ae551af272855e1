"""Predictions for rows, new or fitted: labels, probabilities, embedding, score."""

from typing import Any

import numpy as np
import scipy.sparse
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from angpn.estimators.fitted_models import Fitted
from angpn.estimators.memory_estimate import check_memory_for_new
from angpn.estimators.neighbor_search import fitted_search
from angpn.estimators.new_rows import Answer, in_batches
from angpn.utils.checks import check_same_rows
from angpn.utils.inputs import as_distances, as_weights, check_not_far, check_not_negative, check_sizes
from angpn.utils.labels import UNLABELLED, encode_labels
from angpn.utils.typing import Array
from angpn.utils.validation import check_some_weight, checked_weights


class PredictionMixin(TransformerMixin, BaseEstimator):  # a transformer, so that set_output wraps transform
    """What a fitted estimator says of rows."""

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
        from sklearn.metrics import accuracy_score  # here, since it takes longer to import than to compute

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
