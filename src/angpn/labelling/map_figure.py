"""The map of the report as a matplotlib figure, for notebooks and examples."""

from typing import TYPE_CHECKING

import numpy as np

from angpn.utils.palette import INK, PALETTE

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def map_figure(
    positions: np.ndarray,  # (n, 2)
    predicted: np.ndarray,  # (n,)
    given: np.ndarray,  # (n,) bool
    truth: np.ndarray | None = None,  # (n,)
) -> "Figure":
    """Draw the rows at their positions, coloured by predicted class.

    Args:
        positions: Position of each row, see :func:`~angpn.labelling.map_layout.map_layout`.
        predicted: Predicted label of each row.
        given: Whether the label of the row was given; those rows are ringed.
        truth: True labels, where known; errors on rows without a given label are crossed.

    Returns:
        A figure that needs no display; save it with ``figure.savefig(path)``.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    x, y = positions.T
    for number, name in enumerate(np.unique(predicted)):
        rows = predicted == name
        colour = PALETTE[number % len(PALETTE)]
        axes.scatter(x[rows & ~given], y[rows & ~given], s=9, color=colour, linewidths=0)
        axes.scatter(x[rows & given], y[rows & given], s=34, color=colour, edgecolors=INK, linewidths=0.8)
        box = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": colour, "alpha": 0.85}
        centre_x, centre_y = np.median(positions[rows], axis=0)
        axes.text(
            centre_x, centre_y, str(name), color=INK, fontsize=13, fontweight="bold", ha="center", va="center", bbox=box
        )
    wrong = np.zeros(len(positions), dtype=bool) if truth is None else (predicted != truth) & ~given
    axes.scatter(x[wrong], y[wrong], s=26, marker="x", color=INK, linewidths=0.8)
    title = f"{len(positions)} rows by predicted class, {int(given.sum())} labels given (ringed)"
    axes.set_title(f"{title}, {int(wrong.sum())} errors (crossed)" if wrong.any() else title)
    axes.set_axis_off()
    return figure
