"""How far confidence can be trusted, as a figure."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from angpn.inspection.accuracy_estimate import wilson_interval
from angpn.inspection.axes import axes_for
from angpn.inspection.ensemble_choice import ConfidenceBin, reliability_bins
from angpn.inspection.fitted_classifier import FittedClassifier
from angpn.utils.palette import PALETTE


class ReliabilityDisplay:
    """Accuracy of predictions by their confidence: a reliability diagram.

    Args:
        bins: Held-out labels by the confidence of their predictions.

    Attributes:
        ax_: The axes that were drawn in.
        figure_: Their figure.
    """

    def __init__(self, bins: Sequence[ConfidenceBin]) -> None:
        self.bins = bins

    @classmethod
    def from_estimator(cls, estimator: FittedClassifier, *, ax: Any = None) -> Self:
        """Compare confidence with accuracy on the labels that ``fit`` held out, and draw both.

        Args:
            estimator: A fitted classifier of angpn.
            ax: Axes of matplotlib; None makes a figure.

        Returns:
            The display.

        Raises:
            ValueError: If no label was held out.
        """
        held, distributions = estimator.validation_mask_, estimator.validation_distributions_
        if not held.any():
            raise ValueError(
                "reliability is measured on labels that fit held out, got none; label at least two rows of a class, or "
                "pass a validation_mask to fit"
            )
        if distributions is None:
            raise ValueError(
                "reliability needs the probabilities of the held-out labels, got a model of an older version, which "
                "saved none; fit it again"
            )
        return cls(reliability_bins(distributions, estimator._codes[held])).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the diagram: confidence can be trusted where it lies within the interval of accuracy.

        Args:
            ax: Axes of matplotlib; None makes a figure.

        Returns:
            The display.
        """
        ax = axes_for(ax, (6.4, 4.4))
        places = np.arange(len(self.bins))
        accuracy = np.array([each.accuracy for each in self.bins])
        low, high = np.transpose([wilson_interval(each.accuracy, each.n_labels) for each in self.bins])
        spans = np.maximum(0, [accuracy - low, high - accuracy])
        look = {"fmt": "o", "color": PALETTE[0], "markersize": 8, "capsize": 5, "zorder": 2}
        ax.errorbar(places, accuracy, yerr=spans, label="accuracy, with 95 % interval", **look)
        confidence = [each.confidence for each in self.bins]
        ax.scatter(
            places, confidence, s=260, marker="_", linewidths=3, color=PALETTE[6], label="mean confidence", zorder=3
        )
        names = [f"{each.low:.0%} to {each.high:.0%}\n{_counted(each.n_labels)}" for each in self.bins]
        ax.set_xticks(places, names)
        ax.set(xlim=(-0.6, len(places) - 0.4), ylim=(0, 1.04), xlabel="Confidence", ylabel="Share of the labels")
        ax.set_title("Is it as often right as it is confident?")
        ax.yaxis.grid(visible=True, color=PALETTE[-1], alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(loc="lower right")
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _counted(n_labels: int) -> str:
    return f"{n_labels:,} label{'' if n_labels == 1 else 's'}"
