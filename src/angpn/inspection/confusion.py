"""The confusion of classes as scikit-learn's display."""

from typing import Any, Literal

from sklearn.metrics import ConfusionMatrixDisplay

from angpn.inspection.axes import axes_for
from angpn.inspection.fitted_classifier import FittedClassifier

Normalize = Literal["true", "pred", "all"]

_MOST_LEVEL = 5  # characters of names of classes that have room beside each other


def confusion_display(estimator: FittedClassifier, normalize: Normalize | None, ax: Any) -> ConfusionMatrixDisplay:
    """Draw the confusion of classes on the labels that ``fit`` held out.

    Args:
        estimator: A fitted classifier of angpn.
        normalize: Shares of the true class, of the predicted class or of all instead of counts.
        ax: Axes of matplotlib; None makes a figure.

    Returns:
        scikit-learn's display.

    Raises:
        ValueError: If no label was held out.
    """
    held, classes = estimator.validation_mask_, estimator.classes_
    if not held.any():
        raise ValueError(
            "confusion is measured on labels that fit held out, got none; label at least two rows of a class, or pass "
            "a validation_mask to fit"
        )
    side = max(4.0, 1.6 + 0.5 * len(classes))
    is_level = max(len(str(name)) for name in classes) <= _MOST_LEVEL
    display = ConfusionMatrixDisplay.from_predictions(
        classes[estimator._codes[held]],
        estimator.validation_transduction_,
        labels=classes,
        normalize=normalize,
        values_format="d" if normalize is None else ".2f",
        cmap="Blues",
        colorbar=False,
        xticks_rotation="horizontal" if is_level else "vertical",
        ax=axes_for(ax, (side, side)),
    )
    for text, value in zip(display.text_.ravel(), display.confusion_matrix.ravel(), strict=True):
        text.set_text("·" if value == 0 else text.get_text())  # so that errors stand out
    display.ax_.set_title(f"{int(held.sum()):,} held-out labels")
    return display
