"""Pictures of a fit. matplotlib is imported here and nowhere else, without a display."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from sklearn.manifold import TSNE

from angpn.files import replacing
from angpn.training import Epoch

# Paul Tol's muted scheme and grey: ten hues that colour-blind readers can tell apart.
PALETTE = ("#332288", "#88CCEE", "#44AA99", "#117733", "#999933", "#DDCC77", "#CC6677", "#882255", "#AA4499", "#777777")
INK = "#222222"


def planar_map(embedding: np.ndarray, random_state: int = 0) -> np.ndarray:  # (n, 2)
    """Rows in the plane by t-SNE: neighbours stay neighbours, distances between groups mean little."""
    return TSNE(init="pca", metric="cosine", perplexity=30, random_state=random_state).fit_transform(embedding)


def fit_figure(
    curves: Mapping[str, Sequence[Epoch]],
    points: np.ndarray,  # (n, 2)
    predicted: np.ndarray,  # (n,) class numbers
    truth: np.ndarray,  # (n,)
    given: np.ndarray,  # (n,) bool: rows whose label the method saw
    class_names: Sequence[str],
    method: str,
) -> Figure:
    """Learning curves on the left; on the right the rows as a map, coloured by predicted class, mistakes marked."""
    figure = Figure(figsize=(13, 6.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=[2, 3])
    _draw_curves(left, curves)
    _draw_map(right, points, predicted, truth, given, class_names, method)
    return figure


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


def _draw_curves(axes, curves):  # type: ignore[no-untyped-def]
    for (name, epochs), colour in zip(curves.items(), ("#CC6677", "#332288"), strict=False):
        numbers = [epoch.number for epoch in epochs]
        axes.plot(numbers, [epoch.loss for epoch in epochs], color=colour, linestyle=":", label=f"{name}, training")
        if epochs[0].validation_loss is None:
            continue
        losses = [epoch.validation_loss for epoch in epochs]
        axes.plot(numbers, losses, color=colour, label=f"{name}, held-out labels")
        best = max((epoch for epoch in epochs if epoch.is_best), key=lambda epoch: epoch.number)
        axes.plot(best.number, best.validation_loss, "o", color=colour, markersize=7, label=f"{name}, weights kept")
    axes.set(xlabel="epoch", ylabel="cross-entropy, Eq. (15)", yscale="log", title="Learning curve")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)


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
