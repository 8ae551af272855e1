"""Figures of the report; every line has its own colour and marker, for print and for colour-blind readers."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from angpn.experiments.results import Record
from angpn.experiments.studies import TITLES
from angpn.utils.files import replacing
from angpn.utils.palette import INK

# Okabe and Ito's hues.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")

CAPTIONS = {
    "depth": (
        "Depth",
        "Accuracy by the number of hidden layers at 10 % labels, mean and standard deviation over three splits. GCN "
        "has as many hidden layers of its own width, 16.",
    ),
    "sensitivity": (
        "Sensitivity",
        "Change of test accuracy with one hyper-parameter at 10 % labels, in points against the value used (ringed), "
        "over three splits (k), two (alpha, beta) or one (T); the other hyper-parameters are the paper's. T = ∞ is "
        "Algorithm 1 run to convergence.",
    ),
    "neighbors": (
        "Number of neighbours",
        "Accuracy by k at 10 % labels, mean over three splits: test rows solid, validation rows dotted. k was chosen "
        "once, by the mean validation accuracy of ANGPN over the four sets.",
    ),
    "purity": (
        "Purity of the graph",
        "The share of the graph's weight between rows of the same class, with the fewest labels, mean over splits: "
        "the fixed graph of NGPN, and the learnt graph of each layer of ANGPN after training.",
    ),
    "time": (
        "Accuracy against time",
        "Mean test accuracy over data sets and rates against the median time of a fit on one thread.",
    ),
}


def study_figures(records: Mapping[str, Sequence[Record]]) -> dict[str, Figure]:
    """Return the figures of the studies that have results, by their file name."""
    valid = {name: [record for record in of_study if record["error"] is None] for name, of_study in records.items()}
    drawn: dict[str, Figure] = {}
    if valid.get("depth"):
        drawn["depth"] = depth_figure(valid["depth"])
    if valid.get("neighbors"):
        drawn["neighbors"] = neighbors_figure(valid["neighbors"])
    varied = {name: valid[name] for name in ("alpha", "beta", "steps") if valid.get(name)}
    if valid.get("neighbors"):
        varied = {"neighbors": [r for r in valid["neighbors"] if r["method"] == "ANGPN"], **varied}
    if varied:
        drawn["sensitivity"] = sensitivity_figure(varied)
    grid = valid.get("grid", [])
    if any("purity" in record for record in grid):
        drawn["purity"] = purity_figure(grid)
    if grid:
        drawn["time"] = time_figure(grid)
    return drawn


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a PNG or SVG as a whole or not at all; the same figure gives the same bytes.

    Args:
        figure: The figure.
        path: The file, whose suffix is the format; an existing one is replaced.
    """
    svg = Path(path).suffix == ".svg"
    with replacing(path) as temporary, matplotlib.rc_context({"svg.hashsalt": "angpn"}):
        figure.savefig(temporary, dpi=110, metadata={"Date": None} if svg else None)


def depth_figure(records: Sequence[Record]) -> Figure:
    """Draw the accuracy of ANGPN and GCN by depth, a panel for each set."""

    def depth(record: Record) -> int:
        (values,) = record["hyperparameters"]
        return len(values["hidden_layer_sizes"]) if record["method"] == "ANGPN" else values["num_layers"] - 1

    figure, panels = _panels(records)
    for panel, dataset in panels:
        for number, method in enumerate(("ANGPN", "GCN")):
            own = [record for record in records if record["dataset"] == dataset and record["method"] == method]
            x, mean, std = _curve(own, depth)
            panel.errorbar(
                x, mean, yerr=std, color=COLOURS[number], marker=MARKERS[number], label=method, capsize=3, linewidth=1.8
            )
        panel.set(xlabel="hidden layers", title=TITLES[dataset])
        panel.margins(y=0.15)
    _finish(figure, [panel for panel, _ in panels], "test accuracy, %")
    return figure


def neighbors_figure(records: Sequence[Record]) -> Figure:
    """Draw the accuracy of each method by k, a panel for each set."""
    methods = list(dict.fromkeys(record["method"] for record in records))
    figure, panels = _panels(records)
    for panel, dataset in panels:
        for number, method in enumerate(methods):
            own = [record for record in records if record["dataset"] == dataset and record["method"] == method]
            x, mean, _ = _curve(own, lambda record: record["hyperparameters"][0]["n_neighbors"])
            panel.plot(x, mean, color=COLOURS[number], marker=MARKERS[number], label=method, linewidth=1.8)
            _, validation, _ = _curve(own, lambda record: record["hyperparameters"][0]["n_neighbors"], "val_accuracy")
            panel.plot(x, validation, color=COLOURS[number], marker=MARKERS[number], markersize=3, linestyle=":")
        panel.set(xlabel="k", title=TITLES[dataset])
    _finish(figure, [panel for panel, _ in panels], "accuracy, %")
    return figure


# The hyper-parameter that a study varies, its label, and the paper's value.
VARIED: dict[str, tuple[str, str, Any]] = {
    "neighbors": ("n_neighbors", "$k$", 30),
    "alpha": ("alpha", r"$\alpha$", 0.5),
    "beta": ("beta", r"$\beta$", 0.3),
    "steps": ("num_steps", "$T$", 2),
}


def sensitivity_figure(studies: Mapping[str, Sequence[Record]]) -> Figure:
    """Draw the change of accuracy, a panel for each hyper-parameter and a line for each set."""
    figure = Figure(figsize=(3.4 * len(studies), 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(studies), sharey=True, squeeze=False)[0]
    for panel, (name, records) in zip(panels, studies.items(), strict=True):
        parameter, label, standard = VARIED[name]
        values = sorted(
            {record["hyperparameters"][0][parameter] for record in records},
            key=lambda value: float("inf") if value is None else value,
        )
        for number, dataset in enumerate(_datasets(records)):
            own = [record for record in records if record["dataset"] == dataset]
            means = [_mean(own, parameter, value) for value in values]
            base = means[values.index(standard)] if standard in values else means[0]
            change = [mean - base for mean in means]
            x = range(len(values))
            panel.plot(
                x,
                change,
                color=COLOURS[number],
                marker=MARKERS[number],
                label=TITLES[dataset],
                linewidth=1.8,
            )
        if standard in values:
            at = values.index(standard)
            panel.plot(at, 0, "o", markersize=14, markerfacecolor="none", markeredgecolor=INK)
        panel.set_xticks(range(len(values)), ["∞" if value is None else f"{value:g}" for value in values])
        panel.set(xlabel=label)
        panel.axhline(0, color=INK, linewidth=0.6)
    _finish(figure, list(panels), "change of test accuracy, points")
    return figure


def purity_figure(records: Sequence[Record]) -> Figure:
    """Draw bars of the purity of the fixed graph and of the learnt graph of each layer."""
    known = [record for record in records if "purity" in record]
    rate = min(record["rate"] for record in known)
    own = [record for record in known if record["rate"] == rate]
    datasets = _datasets(own)
    bars: dict[str, list[float]] = {}
    for dataset in datasets:
        fixed = [r["purity"][0] for r in own if r["dataset"] == dataset and r["method"] == "NGPN"]
        learnt = [r["purity"] for r in own if r["dataset"] == dataset and r["method"] == "ANGPN"]
        bars.setdefault("fixed graph (NGPN)", []).append(float(np.mean(fixed)) if fixed else np.nan)
        for layer in range(2):
            mean = float(np.mean([purity[layer] for purity in learnt])) if learnt else np.nan
            bars.setdefault(f"ANGPN, layer {layer + 1}", []).append(mean)
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    width = 0.26
    for number, ((label, heights), hatch) in enumerate(zip(bars.items(), ("", "//", ".."), strict=True)):
        x = np.arange(len(datasets)) + (number - 1) * width
        axes.bar(x, heights, width, label=label, color=COLOURS[number], hatch=hatch, edgecolor="white")
        for at, height in zip(x, heights, strict=True):
            axes.text(at, height + 0.01, f"{height:.2f}", ha="center", fontsize=8, color=INK)
    axes.set_xticks(range(len(datasets)), [TITLES[dataset] for dataset in datasets])
    axes.set(ylabel=f"same-class share of S, {rate} % labels", ylim=(0, 1.12))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, 1.18))
    return figure


def time_figure(records: Sequence[Record]) -> Figure:
    """Draw each method as a point, by duration and accuracy."""
    figure = Figure(figsize=(8, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    ours = ("ANGPN", "ANGPN-auto", "NGPN")
    points = {}
    for method in dict.fromkeys(record["method"] for record in records):
        own = [record for record in records if record["method"] == method]
        points[method] = (
            float(np.median([r["seconds"] for r in own])),
            float(np.mean([r["test_accuracy"] for r in own])),
        )
    for method, (x, y) in points.items():
        mine = method in ours
        axes.plot(x, y, "D" if mine else "o", color=COLOURS[1] if mine else COLOURS[0], markersize=7)
    axes.set(xscale="log", xlabel="seconds a fit, median", ylabel="mean test accuracy, %")
    axes.margins(x=0.12, y=0.1)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    _label(axes, points, ours)
    return figure


def _label(axes: Any, points: Mapping[str, tuple[float, float]], ours: Sequence[str]) -> None:
    """Write the name beside each point: right, left, above or below, where it covers no other name or point."""
    axes.figure.draw_without_rendering()  # computes the positions
    taken = [Bbox.from_extents(x - 5, y - 5, x + 5, y + 5) for x, y in axes.transData.transform(list(points.values()))]
    own = dict(zip(points, taken, strict=True))
    spots = [((7, 0), "left", "center"), ((-7, 0), "right", "center")]
    spots += [((0, 7), "center", "bottom"), ((0, -7), "center", "top")]
    for method, position in sorted(points.items(), key=lambda item: -item[1][1]):
        name = axes.annotate(method, position, textcoords="offset points", xytext=(0, 0), fontsize=9, color=INK)
        name.set_fontweight("bold" if method in ours else "normal")
        for offset, across, along in [*spots, spots[0]]:  # where all overlap, the first
            name.xyann = offset
            name.set(ha=across, va=along)
            box = name.get_window_extent()
            if not any(box.overlaps(other) for other in taken if other is not own[method]):
                break
        taken.append(box)


def _panels(records: Sequence[Record]) -> tuple[Figure, list[tuple[Any, str]]]:
    datasets = _datasets(records)
    figure = Figure(figsize=(3.4 * len(datasets), 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, list(zip(figure.subplots(1, len(datasets), squeeze=False)[0], datasets, strict=True))


def _datasets(records: Sequence[Record]) -> list[str]:
    found = {record["dataset"] for record in records}
    return [name for name in TITLES if name in found]


def _curve(
    records: Sequence[Record], value: Callable[[Record], int], measure: str = "test_accuracy"
) -> tuple[list[int], list[float], list[float]]:
    """Return the distinct values, and mean and standard deviation of a measure at each."""
    groups: dict[int, list[float]] = {}
    for record in records:
        groups.setdefault(value(record), []).append(record[measure])
    x = sorted(groups)
    return x, [float(np.mean(groups[at])) for at in x], [_std(groups[at]) for at in x]


def _std(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _mean(records: Sequence[Record], parameter: str, value: Any) -> float:
    own = [r["test_accuracy"] for r in records if r["hyperparameters"][0][parameter] == value]
    return float(np.mean(own)) if own else np.nan


def _finish(figure: Figure, panels: Sequence[Any], label: str) -> None:
    panels[0].set_ylabel(label)
    for panel in panels:
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False)
