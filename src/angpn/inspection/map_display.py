"""The map of the rows as a figure."""

from typing import Any, Self

import numpy as np

from angpn.inspection.axes import axes_for
from angpn.inspection.fitted_classifier import FittedClassifier
from angpn.inspection.map_layout import map_layout
from angpn.utils.checks import check_same_rows
from angpn.utils.inputs import as_array
from angpn.utils.labels import UNLABELLED
from angpn.utils.palette import INK, PALETTE
from angpn.utils.typing import Array

_SHAPES = "osDv^P"
_MOST_NAMED, _LONGEST_NAMED = 12, 14  # classes, and characters of their names, that have room on the map
_LONGEST = 40  # characters of a name in the legend
_IN_COLUMN = 30  # classes in a column of it


class MapDisplay:
    """A map of rows in the plane, coloured by class; like rows are close, distances between clusters mean little.

    Args:
        positions: Position of each row.
        labels: Label of each row, by which it is coloured.
        given: Which labels were given; these rows are ringed.
        y_true: True labels, where known: rows without a given label that have another one are crossed.

    Attributes:
        ax_: The axes that were drawn in.
        figure_: Their figure.
    """

    def __init__(
        self,
        positions: Array,  # (n, 2)
        labels: Array,  # (n,)
        given: Array,  # (n,) bool
        y_true: Array | None = None,  # (n,)
    ) -> None:
        self.positions, self.labels, self.given, self.y_true = positions, labels, given, y_true

    @classmethod
    def from_estimator(
        cls,
        estimator: FittedClassifier,
        *,
        y_true: Any = None,  # (n,)
        random_state: int = 0,
        ax: Any = None,
    ) -> Self:
        """Lay out the fitted rows by t-SNE of their embedding, and draw them.

        Args:
            estimator: A fitted classifier of angpn.
            y_true: True labels, where known; wrong predictions are crossed.
            random_state: Seed of t-SNE.
            ax: Axes of matplotlib; None makes a figure.

        Returns:
            The display.

        Raises:
            ValueError: If there is not one true label for each fitted row.
        """
        codes = estimator._codes
        given = codes != UNLABELLED
        labels = np.where(given, estimator.classes_[codes], estimator.transduction_)
        if y_true is not None:
            y_true = as_array(y_true)
            check_same_rows(len(y_true), len(codes), "y_true", "X")
        return cls(map_layout(estimator.embedding_, random_state), labels, given, y_true).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the map.

        Args:
            ax: Axes of matplotlib; None makes a figure.

        Returns:
            The display.
        """
        ax = axes_for(ax, (8, 6.4))
        given, (x, y) = self.given, self.positions.T
        names = np.unique(self.labels)
        for number, name in enumerate(names):
            rows, look = self.labels == name, {"color": _hue(number), "marker": _shape(number)}
            ax.scatter(x[rows & ~given], y[rows & ~given], s=12, linewidths=0, label=_shortened(name), **look)
            ax.scatter(x[rows & given], y[rows & given], s=40, edgecolors=INK, linewidths=0.9, zorder=2, **look)
        if len(names) <= _MOST_NAMED and max(len(str(name)) for name in names) <= _LONGEST_NAMED:
            self._name_classes(ax, names)
        else:
            columns = -(-len(names) // _IN_COLUMN)
            ax.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize=8, markerscale=2, ncols=columns)
        title = f"{_counted(len(given), 'row')}, {_counted(given.sum(), 'label')} given (ringed)"
        if self.y_true is not None:
            wrong = (self.labels != self.y_true) & ~given
            ax.scatter(x[wrong], y[wrong], s=28, marker="x", color=INK, linewidths=1.0, zorder=3)
            title += f", {_counted(wrong.sum(), 'error')} (crossed)"
        ax.set_title(title)
        ax.set_axis_off()
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _name_classes(self, ax: Any, names: Array) -> None:
        """Write the name of each class into the midst of its rows."""
        for number, name in enumerate(names):
            box = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": _hue(number), "alpha": 0.85}
            place = np.median(self.positions[self.labels == name], axis=0)
            style = {"color": INK, "fontsize": 12, "fontweight": "bold", "bbox": box, "zorder": 4}
            ax.text(*place, str(name), ha="center", va="center", **style)


def _hue(number: int) -> str:
    return PALETTE[number % len(PALETTE)]


def _shape(number: int) -> str:
    """Return another shape where hues repeat; grey has the next one, since some readers confuse it with rose."""
    is_grey = number % len(PALETTE) == len(PALETTE) - 1
    return _SHAPES[(number // len(PALETTE) + is_grey) % len(_SHAPES)]


def _shortened(name: Any) -> str:
    text = str(name)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
