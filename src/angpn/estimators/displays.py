"""What a notebook shows of a classifier: figures as scikit-learn displays, and the report.

A method imports what it draws with: a fit needs no matplotlib.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

if TYPE_CHECKING:
    from sklearn.metrics import ConfusionMatrixDisplay
    from sklearn.model_selection import LearningCurveDisplay

    from angpn.inspection.confusion import Normalize
    from angpn.inspection.map_display import MapDisplay
    from angpn.inspection.reliability_display import ReliabilityDisplay
    from angpn.inspection.report_view import Report


class DisplayMixin(BaseEstimator):
    """Figures and the report of a classifier."""

    def plot_map(
        self,
        *,
        y_true: Any = None,  # (n,)
        random_state: int = 0,
        ax: Any = None,
    ) -> "MapDisplay":
        """Draw a map of the fitted rows, coloured by their label; like rows are close.

        Args:
            y_true: true labels, where known; wrong predictions are crossed.
            random_state: seed of t-SNE, which lays out the map.
            ax: axes of matplotlib; None makes a figure.

        Returns:
            The display, with ``ax_`` and ``figure_``.

        Raises:
            ValueError: if there is not one true label for each fitted row.
        """
        from angpn.inspection.map_display import MapDisplay

        check_is_fitted(self)
        return MapDisplay.from_estimator(self, y_true=y_true, random_state=random_state, ax=ax)

    def plot_confusion(self, *, normalize: "Normalize | None" = None, ax: Any = None) -> "ConfusionMatrixDisplay":
        """Draw which classes are taken for which others, on the labels that ``fit`` held out.

        With other labels, use ``ConfusionMatrixDisplay.from_predictions`` of scikit-learn.

        Args:
            normalize: "true", "pred" or "all" for shares of the true class, of the predicted class or of all labels;
                None counts.
            ax: axes of matplotlib; None makes a figure.

        Returns:
            scikit-learn's display, with ``ax_`` and ``figure_``.

        Raises:
            ValueError: if no label was held out.
        """
        from angpn.inspection.confusion import confusion_display

        check_is_fitted(self)
        return confusion_display(self, normalize, ax)

    def plot_reliability(self, *, ax: Any = None) -> "ReliabilityDisplay":
        """Draw accuracy by confidence, on the labels that ``fit`` held out.

        Args:
            ax: axes of matplotlib; None makes a figure.

        Returns:
            The display, with ``ax_`` and ``figure_``.

        Raises:
            ValueError: if no label was held out.
        """
        from angpn.inspection.reliability_display import ReliabilityDisplay

        check_is_fitted(self)
        return ReliabilityDisplay.from_estimator(self, ax=ax)

    def plot_learning_curve(
        self,
        X: Any,  # (n, d)
        y: Any,  # (n,)
        *,
        train_sizes: Sequence[float] = (0.125, 0.25, 0.5, 1.0),
        cv: int = 5,
        n_jobs: int | None = None,
        random_state: int = 0,
        ax: Any = None,
    ) -> "LearningCurveDisplay":
        """Draw accuracy by the number of labels, to see what more labels would give.

        Copies of the estimator are fitted to all rows with ever more of the labels: ``cv`` fits for each size, each
        measured on labels that were held out. The estimator itself is left as it is, and need not be fitted.

        Args:
            X: features, as for ``fit``.
            y: labels; -1, None or NaN where a row is unlabelled.
            train_sizes: how many labels to fit to: floats are shares of what a fold leaves, ints are numbers. Every
                size has a label of each class.
            cv: how many folds of the labels.
            n_jobs: how many fits at a time, as everywhere in scikit-learn.
            random_state: seed of the folds, and of which labels come first.
            ax: axes of matplotlib; None makes a figure.

        Returns:
            scikit-learn's display, with ``train_sizes``, ``test_scores``, ``ax_`` and ``figure_``.

        Raises:
            ValueError: if there are too few labels for the folds or sizes.
        """
        from angpn.inspection.learning_curve import learning_curve, learning_curve_display

        curve = learning_curve(self, X, y, train_sizes=train_sizes, cv=cv, n_jobs=n_jobs, random_state=random_state)
        return learning_curve_display(curve, ax)

    def report(
        self,
        path: str | os.PathLike[str] | None = "angpn-report.html",
        *,
        title: str = "Labels by angpn",
        ids: Sequence[Any] | None = None,  # (n,)
        texts: Sequence[str] | None = None,  # (n,)
        images: Any = None,  # (n, h, w[, 3])
        labelled_at_random: Any = None,  # (n,) bool
        random_state: int = 0,
    ) -> "Report":
        """Write the report of the fitted rows, the page of ``angpn label``; a notebook shows it as well.

        The page has a map of the rows and what influenced each, estimated accuracy, confusion, rows to label next and
        given labels that are probably wrong. It is one file, which needs no network.

        Args:
            path: the file to write; one that is there is replaced. None writes none.
            title: heading of the page.
            ids: a name of each row; None numbers them.
            texts: a text to show for each row.
            images: an image to show for each row, grey or in colour.
            labelled_at_random: marks rows whose label was given because they were drawn at random, see
                :meth:`estimate_accuracy`.
            random_state: seed of the map.

        Returns:
            The report, with ``path`` and ``html``.

        Raises:
            ValueError: if there is not one id, text or image for each fitted row.
        """
        from angpn.inspection.report_view import make_report

        check_is_fitted(self)
        return make_report(
            self,
            path,
            title=title,
            ids=ids,
            texts=texts,
            images=images,
            labelled_at_random=labelled_at_random,
            random_state=random_state,
        )
