"""Pictures of a fit. matplotlib is imported here and nowhere else, without a display."""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from angpn.utils.files import replacing
from angpn.utils.palette import INK, PALETTE


def map_figure(
    points: np.ndarray,  # (n, 2)
    predicted: np.ndarray,  # (n,) class names or numbers
    given: np.ndarray,  # (n,) bool: rows whose label the method saw
    truth: np.ndarray | None = None,  # (n,) to mark mistakes
) -> Figure:
    """The rows as a map, coloured by predicted class."""
    figure = Figure(figsize=(8, 6.2), layout="constrained")
    FigureCanvasAgg(figure)
    names, numbers = np.unique(predicted, return_inverse=True)
    wrong = np.zeros(len(points), dtype=bool) if truth is None else predicted != truth
    axes = figure.subplots()
    _draw_map(axes, points, numbers, np.where(wrong, -1, numbers), given, [str(name) for name in names], "Map")
    return figure


def _draw_map(axes, points, predicted, truth, given, class_names, method):  # type: ignore[no-untyped-def]
    for label, name in enumerate(class_names):
        rows = predicted == label
        colour = PALETTE[label % len(PALETTE)]
        axes.scatter(*points[rows & ~given].T, s=9, color=colour, linewidths=0)
        axes.scatter(*points[rows & given].T, s=34, color=colour, edgecolors=INK, linewidths=0.8)
        if rows.any():
            at = np.median(points[rows], axis=0)
            box = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": colour, "alpha": 0.85}
            axes.text(*at, name, color=INK, fontsize=13, fontweight="bold", ha="center", va="center", bbox=box)
    wrong = (predicted != truth) & ~given
    axes.scatter(*points[wrong].T, s=26, marker="x", color=INK, linewidths=0.8)
    title = f"{method}: {len(points)} rows by predicted class, {int(given.sum())} labels given (ringed)"
    axes.set_title(f"{title}, {int(wrong.sum())} mistakes (crossed)" if wrong.any() else title)
    axes.set_axis_off()


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a PNG or SVG under a temporary name, then rename: an interrupted run leaves no half picture.

    The same figure gives the same file: no date is in it, nor random names.
    """
    svg = Path(path).suffix == ".svg"
    with replacing(path) as temporary, matplotlib.rc_context({"svg.hashsalt": "angpn"}):
        figure.savefig(temporary, dpi=110, metadata={"Date": None} if svg else None)
