"""What a fit learnt of its rows: embedding, graphs, influences, accuracy, and which rows to label next."""

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from angpn.estimators.eligible_rows import eligible_rows
from angpn.estimators.fitted_models import Fitted
from angpn.estimators.influence import ROWS_AT_ONCE, Influence, strongest_influences
from angpn.estimators.suggestion import (
    Strategy,
    Suggestion,
    checked_candidates,
    choose,
    explained_share,
    pool_with_model,
)
from angpn.estimators.unreliable_rows import UnreliableRows, conflicting_rows, empty_rows, unreached_rows
from angpn.inspection.accuracy_estimate import Estimate, EstimateKind, estimate_from
from angpn.inspection.fitted_classifier import Unit
from angpn.utils.inputs import as_mask
from angpn.utils.labels import UNLABELLED
from angpn.utils.typing import Array


class InspectionMixin(BaseEstimator):
    """The fitted rows, and why they were labelled as they were."""

    _validated_by: ClassVar[EstimateKind]  # how ``fit`` uses the labels that it holds out
    _unit: ClassVar[Unit]  # what ``n_iter_`` counts

    @cached_property
    def embedding_(self) -> Array:  # (n, width)
        """The last hidden layer, or the propagated features, of the fitted rows."""
        return self._after_fit("embedding_").embedding()

    @cached_property
    def layer_graphs_(self) -> list[scipy.sparse.csr_array]:
        """The learnt S of each layer, or of the first and the last round."""
        return self._after_fit("layer_graphs_").graphs

    @cached_property
    def unreliable_rows_(self) -> UnreliableRows:
        """Positions of rows whose label means little: no label reaches them, they are empty, or labels conflict."""
        fitted = self._after_fit("unreliable_rows_")
        rows, empty = fitted.rows, np.zeros(0, dtype=np.int64)
        if self.metric != "precomputed":  # a row of distances is not empty where all are 0
            nothing = np.zeros((1, rows.shape[1]), rows.dtype)
            empty = empty_rows(rows, None if scipy.sparse.issparse(rows) else fitted.scale(nothing))
        return UnreliableRows(
            unreached_rows(self.layer_graphs_, self._codes), empty, conflicting_rows(rows, self._codes)
        )

    @property
    def class_prior_(self) -> Array:  # (c,)
        """The share of each class among the given labels: what is known of a row that says nothing."""
        self._after_fit("class_prior_")
        counts = np.bincount(self._codes[self._codes != UNLABELLED], minlength=len(self.classes_))
        return counts / counts.sum()

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

    def uncertain(self, n: int = 10, *, candidates: Any = None) -> Array:
        """Return the unlabelled rows most worth labelling next: those of :meth:`suggestions`.

        Args:
            n: how many rows to return.
            candidates: marks the rows of X that can be labelled, all by default.

        Returns:
            Positions of the rows in the X of ``fit``, best first; fewer than ``n`` where fewer can be suggested.
        """
        return np.array([found.row for found in self.suggestions(n, candidates=candidates)], dtype=np.int64)

    def suggestions(
        self,
        n: int = 10,
        *,
        strategy: Strategy = "herding",
        candidates: Any = None,  # (n,) bool
    ) -> list[Suggestion]:
        """Return the unlabelled rows most worth labelling next, and why.

        While the model predicts held-out labels no better than their base rate, typical rows that no label covers come
        first; the more it knows, the more those where it hesitates between classes. An empty row is never among them,
        nor one that equals another suggestion. One that equals a labelled row comes after all others, and only until
        the labels of equal rows settle theirs: two that agree do. But where there are at least three times as many rows
        as kinds of rows, as in a table of few values, a frequent kind may come again before a rare one.

        Args:
            n: how many rows to return.
            strategy: "herding" (Uncertainty Herding) covers the rows by how uncertain they are; "typiclust" and
                "probcover" cover them whatever the model thinks, "margin" takes the smallest margins between two
                classes, and "random" is for labels by which accuracy is measured.
            candidates: marks the rows of X that can be labelled, all by default. The others are covered, but never
                suggested: a suggestion that nobody can label would leave the rows that it covers without a label.

        Returns:
            The rows, best first; fewer than ``n`` where fewer can be suggested.
        """
        check_is_fitted(self)
        codes, unreliable = self._codes, self.unreliable_rows_
        mask = checked_candidates(candidates, len(codes))
        eligible = eligible_rows(self._fitted.rows, unreliable.empty, codes, mask)
        knowledge = explained_share(
            self.validation_distributions_, codes[self.validation_mask_], codes[codes != UNLABELLED]
        )
        pool = pool_with_model(
            self.embedding_, eligible, codes, self.label_distributions_, unreliable.unreached, knowledge
        )
        return choose(pool, n, strategy, self._seed)

    def estimate_accuracy(
        self,
        *,
        labelled_at_random: Any = None,  # (n,) bool
    ) -> Estimate | None:
        """Estimate the accuracy of the predicted labels by the given labels that ``fit`` held out.

        Labels of rows that :meth:`uncertain` or a person chose are no random sample: such rows are harder than others,
        or easier, and accuracy on them says little about the rest. So tell which rows were drawn at random. Their
        labels alone are then counted; each was predicted by a model that was trained on others of all kinds.

        Args:
            labelled_at_random: marks the rows of X whose label was given because they were drawn at random; it does not
                matter what it says of unlabelled rows. Without it ``sample`` of the result is "unknown". Where it marks
                none of the labels that were held out, all of them are counted, and ``sample`` is "not random".

        Returns:
            The estimate, or None where no label was held out.

        Raises:
            ValueError: if the mask does not have one bool for each row of X.
        """
        check_is_fitted(self)
        n_rows, what = len(self._codes), "whose label was drawn at random"
        at_random = as_mask(labelled_at_random, n_rows, "labelled_at_random", what)
        held = self.validation_mask_
        if not held.any():
            return None
        predicted = np.asarray(np.searchsorted(self.classes_, self.validation_transduction_))
        of_held = None if at_random is None else at_random[held]
        return estimate_from(self._validated_by, self._codes[held], predicted, len(self.classes_), of_held)
