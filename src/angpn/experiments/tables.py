"""Tables of the report: Tables I and II beside the published ones, ranks, durations, tuned runs, few labels."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from angpn.baselines import METHODS
from angpn.experiments.published import PUBLISHED, PublishedAccuracy
from angpn.experiments.results import Record
from angpn.experiments.statistics import (
    Cell,
    Condition,
    Grid,
    average_ranks,
    corrected_t,
    wilcoxon_over_conditions,
)
from angpn.experiments.studies import TABLE_1, TITLES
from angpn.experiments.table_markup import Table, Text

SIGNIFICANT = 0.05


def table_1(grid: Grid) -> Iterator[Table]:
    """Yield Table I: accuracy by method and rate, one table for each data set, beside the published accuracies."""
    conditions = [condition for method in grid for condition in grid[method]]
    methods = ordered(grid)
    for dataset in dict.fromkeys(dataset for dataset, _ in _in_paper_order(conditions)):
        rates = sorted({rate for name, rate in conditions if name == dataset})
        published = (dataset, rates[0]) in PUBLISHED["ANGPN"]
        head = ["method"]
        for rate in rates:
            head += [f"{rate} %", *(["paper"] if published else [])]
        best = {rate: max(grid[m][dataset, rate].mean for m in methods if (dataset, rate) in grid[m]) for rate in rates}
        rows = []
        for method in methods:
            row = [Text(method)]
            for rate in rates:
                condition = dataset, rate
                row.append(_accuracy(grid, method, condition, best[rate]))
                if published:
                    row.append(_published(method, condition))
            rows.append(row)
        yield Table(f"{TITLES[dataset]}: test accuracy in %", head, rows)


def table_2(grid: Grid) -> Table:
    """Return Table II: ANGPN against NGPN."""
    rows = []
    for condition in _in_paper_order([condition for condition in grid["ANGPN"] if condition in grid["NGPN"]]):
        adaptive, fixed = grid["ANGPN"][condition], grid["NGPN"][condition]
        p = corrected_t(adaptive, fixed, condition[1])
        published = [_published(method, condition, ("NGPN", "ANGPN")) for method in ("NGPN", "ANGPN")]
        rows.append(
            [
                Text(f"{TITLES[condition[0]]}, {condition[1]} %"),
                Text(_pm(fixed), bold=fixed.mean > adaptive.mean),
                Text(_pm(adaptive), bold=adaptive.mean > fixed.mean),
                Text(f"{adaptive.mean - fixed.mean:+.2f}"),
                Text("" if p is None else f"{p:.2f}"),
                *published,
            ]
        )
    head = ["set", "NGPN", "ANGPN", "difference", "p", "NGPN, paper", "ANGPN, paper"]
    return Table("ANGPN against NGPN, the same with the graph fixed: test accuracy in %", head, rows)


def rank_table(grid: Grid) -> Table:
    """Return the mean rank of each method, and its comparison with ANGPN over all conditions."""
    methods = ordered(grid)
    overall = average_ranks(grid, methods)
    compared = [method for method in TABLE_1 if method in grid]
    among = average_ranks(grid, compared) if compared else {}
    rows = []
    for method in sorted(methods, key=lambda name: overall.get(name, np.inf)):
        row = [Text(method), _number(overall.get(method), ".1f"), _number(among.get(method), ".1f")]
        if "ANGPN" not in grid or method == "ANGPN":
            rows.append([*row, Text(""), Text("")])
            continue
        conditions = [condition for condition in grid[method] if condition in grid["ANGPN"]]
        above = sum(grid[method][condition].mean > grid["ANGPN"][condition].mean for condition in conditions)
        p = wilcoxon_over_conditions(grid[method], grid["ANGPN"])
        rows.append([*row, Text(f"{above} of {len(conditions)}"), _number(p, ".4f")])
    head = ["method", "mean rank", "among Table I", "above ANGPN", "Wilcoxon p"]
    return Table("Ranks over data sets and rates (1 is best), and each method against ANGPN", head, rows)


def time_table(records: Sequence[Record]) -> Table:
    """Return the median duration of a fit by data set, its ratio to GAT's, peak memory and total duration."""
    good = [record for record in records if record["error"] is None]
    datasets = list(dict.fromkeys(name for name, _ in _in_paper_order([(r["dataset"], 0) for r in good])))
    medians = {
        (method, dataset): float(
            np.median([r["seconds"] for r in good if r["method"] == method and r["dataset"] == dataset] or [np.nan])
        )
        for method in ordered({r["method"]: () for r in good})
        for dataset in datasets
    }
    rows = []
    for method in ordered({record["method"]: () for record in good}):
        own = [medians[method, dataset] for dataset in datasets]
        gat = [medians.get(("GAT", dataset), np.nan) for dataset in datasets]
        ratio = float(np.exp(np.nanmean(np.log(np.array(own) / np.array(gat))))) if np.isfinite(gat).any() else None
        total = sum(r["wall_seconds"] for r in good if r["method"] == method) / 60
        peak = [r["peak_mb"] for r in good if r["method"] == method and r["peak_mb"] is not None]
        rows.append(
            [
                Text(method),
                *(Text("" if np.isnan(value) else f"{value:.1f}") for value in own),
                _number(ratio, ".2f"),
                Text(f"{np.median(peak):.0f}" if peak else ""),
                Text(f"{total:.1f}"),
            ]
        )
    head = [
        "method",
        *(f"{TITLES[name]}, s" for name in datasets),
        "of GAT's time",
        "peak MB",
        "minutes in all",
    ]
    return Table("Time of a fit on one thread: median, its graph and embedding included", head, rows)


def tuned_table(tuned: Grid, grid: Grid) -> Table:
    """Return the accuracy with tuned hyper-parameters, and the gain over the published ones on the same splits."""
    methods = ordered(tuned)
    conditions = _in_paper_order({condition for method in tuned for condition in tuned[method]})
    best = {
        condition: max(tuned[m][condition].mean for m in methods if condition in tuned[m]) for condition in conditions
    }
    rows = []
    for method in methods:
        row = [Text(method)]
        for condition in conditions:
            cell = tuned[method].get(condition)
            if cell is None:
                row += [Text(""), Text("")]
                continue
            base = grid.get(method, {}).get(condition)
            gains = [] if base is None else [cell.accuracies[s] - base.accuracies[s] for s in _shared(cell, base)]
            gain = float(np.mean(gains)) if gains else None
            row += [Text(_pm(cell), bold=cell.mean == best[condition]), _number(gain, "+.1f")]
        rows.append(row)
    head = ["method"]
    for dataset, rate in conditions:
        head += [f"{TITLES[dataset]}, {rate} %", "gain"]
    return Table(
        "Hyper-parameters selected among four candidates on the validation labels: test accuracy in %", head, rows
    )


def counted_tables(found: Grid, published: Mapping[str, Mapping[Condition, PublishedAccuracy]]) -> Iterator[Table]:
    """Yield the accuracy by method and number of labels: one table for sets with one number, one for each other set."""
    conditions = _in_paper_order({condition for method in found for condition in found[method]})
    sets = list(dict.fromkeys(dataset for dataset, _ in conditions))
    single = [dataset for dataset in sets if sum(condition[0] == dataset for condition in conditions) == 1]
    for group in ([single] if single else []) + [[dataset] for dataset in sets if dataset not in single]:
        columns = [condition for condition in conditions if condition[0] in group]
        best = {
            condition: max(found[m][condition].mean for m in found if condition in found[m]) for condition in columns
        }
        rows = []
        for method in ordered(found):
            known = [found[method].get(condition) for condition in columns]
            if any(known):
                cells_of_row = zip(known, columns, strict=True)
                rows.append(
                    [Text(method), *(Text(_pm(c), c.mean == best[p]) if c else Text("") for c, p in cells_of_row)]
                )
        for method, figures in published.items():
            if any(condition in figures for condition in columns):
                rows.append(
                    [Text(f"{method}, published"), *(_printed(figures.get(condition)) for condition in columns)]
                )
        head = [f"{TITLES[dataset]}, {count}" if len(group) > 1 else str(count) for dataset, count in columns]
        names = " and ".join([", ".join(TITLES[name] for name in group[:-1]), TITLES[group[-1]]]).removeprefix(" and ")
        yield Table(f"{names}: test accuracy in % by the number of labels", ["method", *head], rows)


def ordered(methods: Mapping[str, object]) -> list[str]:
    """Return the names of the methods in the order of the paper, then the others."""
    rest = [method for method in ("NGPN", *METHODS) if method not in TABLE_1]
    known = [*TABLE_1, *dict.fromkeys(rest)]
    return [method for method in known if method in methods]


def _accuracy(grid: Grid, method: str, condition: Condition, best: float) -> Text:
    cell = grid[method].get(condition)
    if cell is None:
        return Text("")
    mark = ""
    reference = grid.get("ANGPN", {}).get(condition)
    if method != "ANGPN" and reference is not None:
        p = corrected_t(cell, reference, condition[1])
        if p is not None and p < SIGNIFICANT:
            mark = " ↑" if cell.mean > reference.mean else " ↓"
    return Text(_pm(cell) + mark, bold=cell.mean == best)


def _published(method: str, condition: Condition, rivals: Sequence[str] = TABLE_1) -> Text:
    figure = PUBLISHED.get(method, {}).get(condition)
    if figure is None:
        return Text("")
    best = max(PUBLISHED[name][condition].mean for name in rivals)
    return Text(_printed(figure).text, bold=figure.mean == best)


def _printed(figure: PublishedAccuracy | None) -> Text:
    if figure is None:
        return Text("")
    return Text(f"{figure.mean:.2f}" + ("" if figure.std is None else f" ± {figure.std:.2f}"))


def _shared(first: Cell, second: Cell) -> list[int]:
    return [split for split in first.accuracies if split in second.accuracies]


def _pm(cell: Cell) -> str:
    return f"{cell.mean:.2f} ± {cell.std:.2f}"


def _number(value: float | None, form: str) -> Text:
    return Text("" if value is None else f"{value:{form}}")


def _in_paper_order(conditions: Iterable[Condition]) -> list[Condition]:
    return sorted(conditions, key=lambda condition: (list(TITLES).index(condition[0]), condition[1]))
