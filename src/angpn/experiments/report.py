"""The report on the experiments: the paper's tables beside its own figures, and the plots."""

import base64
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np

from angpn.baselines import METHODS
from angpn.experiments import study_figures
from angpn.experiments.figures import save_figure
from angpn.experiments.published import PUBLISHED, PUBLISHED_GRAPH_FREE, Figure
from angpn.experiments.results import Record
from angpn.experiments.statistics import Cell, Place, average_ranks, cells, corrected_t, wilcoxon_over_places
from angpn.experiments.studies import TABLE_1, TITLES
from angpn.experiments.tables import Table, Text
from angpn.utils.files import replacing

SIGNIFICANT = 0.05


class Section(NamedTuple):
    """A part of the report."""

    title: str
    text: str  # one paragraph, plain
    tables: Sequence[Table] = ()
    figure: str | None = None  # name of a picture without its suffix


def write_report(records: Mapping[str, Sequence[Record]], folder: str | os.PathLike[str]) -> Path:
    """Write ``report.html``, ``report.md`` and the pictures; ``records`` are the results by study."""
    folder = Path(folder)
    found = sections(records)
    for name, figure in study_figures.figures(records).items():
        save_figure(figure, folder / "figures" / f"{name}.svg")
    for name, content in (("report.md", _markdown(found)), ("report.html", _html(found, folder))):
        with replacing(folder / name) as temporary:
            temporary.write_text(content, encoding="utf-8")
    return folder / "report.html"


def sections(records: Mapping[str, Sequence[Record]]) -> list[Section]:
    """What the report says, of the studies that have results."""
    found = []
    grid = cells(records.get("grid", ()))
    if grid:
        found += _grid_sections(grid, records["grid"])
    tuned = cells(records.get("tuned", ()))
    if tuned:
        found.append(_tuned_section(tuned, grid))
    for name, about in _COUNTED.items():
        if records.get(name):
            published = PUBLISHED_GRAPH_FREE if name == "graphfree" else {}
            found.append(about._replace(tables=list(counted_tables(cells(records[name]), published))))
    drawn = study_figures.CAPTIONS
    for name in study_figures.figures(records):
        title, text = drawn[name]
        found.append(Section(title, text, figure=name))
    return found


def table_1(grid: Mapping[str, Mapping[Place, Cell]]) -> Iterator[Table]:
    """Accuracy by method and rate, a table for each data set; beside each figure the published one."""
    places = [place for method in grid for place in grid[method]]
    methods = ordered(grid)
    for dataset in dict.fromkeys(dataset for dataset, _ in _in_paper_order(places)):
        rates = sorted({rate for name, rate in places if name == dataset})
        published = (dataset, rates[0]) in PUBLISHED["ANGPN"]
        head = ["method"]
        for rate in rates:
            head += [f"{rate} %", *(["paper"] if published else [])]
        here_best = {
            rate: max(grid[m][dataset, rate].mean for m in methods if (dataset, rate) in grid[m]) for rate in rates
        }
        rows = []
        for method in methods:
            row = [Text(method)]
            for rate in rates:
                place = dataset, rate
                row.append(_accuracy(grid, method, place, here_best[rate]))
                if published:
                    row.append(_published(method, place))
            rows.append(row)
        yield Table(f"{TITLES[dataset]}: test accuracy in %", head, rows)


def table_2(grid: Mapping[str, Mapping[Place, Cell]]) -> Table:
    """ANGPN against NGPN."""
    rows = []
    for place in _in_paper_order([place for place in grid["ANGPN"] if place in grid["NGPN"]]):
        adaptive, fixed = grid["ANGPN"][place], grid["NGPN"][place]
        p = corrected_t(adaptive, fixed, place[1])
        published = [_published(method, place, ("NGPN", "ANGPN")) for method in ("NGPN", "ANGPN")]
        rows.append(
            [
                Text(f"{TITLES[place[0]]}, {place[1]} %"),
                Text(_pm(fixed), bold=fixed.mean > adaptive.mean),
                Text(_pm(adaptive), bold=adaptive.mean > fixed.mean),
                Text(f"{adaptive.mean - fixed.mean:+.2f}"),
                Text("" if p is None else f"{p:.2f}"),
                *published,
            ]
        )
    head = ["set", "NGPN", "ANGPN", "difference", "p", "NGPN, paper", "ANGPN, paper"]
    return Table("ANGPN against NGPN, the same with the graph fixed: test accuracy in %", head, rows)


def rank_table(grid: Mapping[str, Mapping[Place, Cell]]) -> Table:
    """How the methods compare over all places."""
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
        places = [place for place in grid[method] if place in grid["ANGPN"]]
        above = sum(grid[method][place].mean > grid["ANGPN"][place].mean for place in places)
        p = wilcoxon_over_places(grid[method], grid["ANGPN"])
        rows.append([*row, Text(f"{above} of {len(places)}"), _number(p, ".4f")])
    head = ["method", "mean rank", "among Table I", "above ANGPN", "Wilcoxon p"]
    return Table("Ranks over data sets and rates (1 is best), and each method against ANGPN", head, rows)


def time_table(records: Sequence[Record]) -> Table:
    """Seconds a fit, beside GAT's; hours in all."""
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


def tuned_table(tuned: Mapping[str, Mapping[Place, Cell]], grid: Mapping[str, Mapping[Place, Cell]]) -> Table:
    """Accuracy with settings chosen on the validation labels, and what the choice gained over the same splits."""
    methods = ordered(tuned)
    places = _in_paper_order({place for method in tuned for place in tuned[method]})
    best = {place: max(tuned[m][place].mean for m in methods if place in tuned[m]) for place in places}
    rows = []
    for method in methods:
        row = [Text(method)]
        for place in places:
            cell = tuned[method].get(place)
            if cell is None:
                row += [Text(""), Text("")]
                continue
            base = grid.get(method, {}).get(place)
            gains = [] if base is None else [cell.accuracies[s] - base.accuracies[s] for s in _shared(cell, base)]
            gain = float(np.mean(gains)) if gains else None
            row += [Text(_pm(cell), bold=cell.mean == best[place]), _number(gain, "+.1f")]
        rows.append(row)
    head = ["method"]
    for dataset, rate in places:
        head += [f"{TITLES[dataset]}, {rate} %", "gain"]
    return Table("Settings chosen on the validation labels, four for each method: test accuracy in %", head, rows)


def counted_tables(
    found: Mapping[str, Mapping[Place, Cell]], published: Mapping[str, Mapping[Place, Figure]]
) -> Iterator[Table]:
    """Accuracy by method and number of labels, the small tables in one and each other set in its own."""
    places = _in_paper_order({place for method in found for place in found[method]})
    sets = list(dict.fromkeys(dataset for dataset, _ in places))
    single = [dataset for dataset in sets if sum(place[0] == dataset for place in places) == 1]
    for group in ([single] if single else []) + [[dataset] for dataset in sets if dataset not in single]:
        columns = [place for place in places if place[0] in group]
        best = {place: max(found[m][place].mean for m in found if place in found[m]) for place in columns}
        rows = []
        for method in ordered(found):
            known = [found[method].get(place) for place in columns]
            if any(known):
                cells_of_row = zip(known, columns, strict=True)
                rows.append(
                    [Text(method), *(Text(_pm(c), c.mean == best[p]) if c else Text("") for c, p in cells_of_row)]
                )
        for method, figures in published.items():
            if any(place in figures for place in columns):
                rows.append([Text(f"{method}, published"), *(_printed(figures.get(place)) for place in columns)])
        head = [f"{TITLES[dataset]}, {count}" if len(group) > 1 else str(count) for dataset, count in columns]
        names = " and ".join([", ".join(TITLES[name] for name in group[:-1]), TITLES[group[-1]]]).removeprefix(" and ")
        yield Table(f"{names}: test accuracy in % by the number of labels", ["method", *head], rows)


def ordered(methods: Mapping[str, object]) -> list[str]:
    """As the paper lists them, then the others."""
    rest = [method for method in ("NGPN", *METHODS) if method not in TABLE_1]
    known = [*TABLE_1, *dict.fromkeys(rest)]
    return [method for method in known if method in methods]


def _grid_sections(grid: Mapping[str, Mapping[Place, Cell]], records: Sequence[Record]) -> list[Section]:
    splits = {record["split"] for record in records}
    failed = sum(record["error"] is not None for record in records)
    text = (
        f"Mean and standard deviation over {len(splits)} random splits that all methods share: of each class the "
        "share named is labelled, 5 % more validate, the rest is tested. Every method has its "
        "authors' settings on the graph of the 10 nearest neighbours (ANGPN and NGPN: 30, chosen once); logistic "
        "regression, SVM, kNN, self-training, LabelSpreading and the classifiers on DeepWalk and DGI choose among a "
        "few values on the validation labels. "
        "Beside each figure is the paper's; its SVHN and CIFAR descriptors are not known, so on those two only the "
        "order of methods compares. The best is bold; arrows mark what is better (↑) or worse (↓) than ANGPN with "
        "p < 0.05 by the corrected t-test over the shared splits."
    )
    if failed:
        text += f" {failed} runs failed and are left out."
    found = [Section("Table I", text, list(table_1(grid)))]
    if {"ANGPN", "NGPN"} <= grid.keys():
        about = "p is that of the corrected t-test over the shared splits."
        found.append(Section("Table II", about, [table_2(grid)]))
    about = (
        "The mean rank is over the data sets and rates that all methods have. Wilcoxon's test compares the means of a "
        "method with those of ANGPN over the same; the rates of a set share rows, and the p of so many comparisons are "
        "not corrected, so read them as an order, not as proof."
    )
    found.append(Section("Ranks", about, [rank_table(grid)]))
    about = (
        "Each process has one thread, and there is one for each core. The ratio to GAT is the geometric mean over the "
        "sets. An embedding (DeepWalk, DGI) is computed once for a graph: it counts in every fit, but once in the "
        "minutes."
    )
    found.append(Section("Time", about, [time_table(records)]))
    return found


def _tuned_section(tuned: Mapping[str, Mapping[Place, Cell]], grid: Mapping[str, Mapping[Place, Cell]]) -> Section:
    text = (
        "A second, smaller grid: here each method chooses among four settings by its accuracy on the validation "
        "labels. The gain is that over its published settings on the same splits, in points."
    )
    return Section("With settings chosen", text, [tuned_table(tuned, grid)])


_COUNTED = {
    "graphfree": Section(
        "Sets without a graph, as later papers have them",
        "Wine and Cancer with 10 labels to learn from and 20 to choose settings by, Digits with 50 and 100, in the "
        "splits of LDS (Franceschi et al., 2019); MNIST, 1,000 images of each digit, with the number of labels named "
        "and 1,000 more to choose by. Mean and standard deviation over 10 splits, of MNIST over 3. The published "
        "figures are for splits of the same kind.",
    ),
    "few": Section(
        "Very few labels",
        "So many labels of each class, drawn at random, and none to choose settings by: mean and standard deviation "
        "over 10 draws, of MNIST over 3. All graph methods but ours have the 10 nearest neighbours.",
    ),
}


def _accuracy(grid: Mapping[str, Mapping[Place, Cell]], method: str, place: Place, best: float) -> Text:
    cell = grid[method].get(place)
    if cell is None:
        return Text("")
    mark = ""
    reference = grid.get("ANGPN", {}).get(place)
    if method != "ANGPN" and reference is not None:
        p = corrected_t(cell, reference, place[1])
        if p is not None and p < SIGNIFICANT:
            mark = " ↑" if cell.mean > reference.mean else " ↓"
    return Text(_pm(cell) + mark, bold=cell.mean == best)


def _published(method: str, place: Place, rivals: Sequence[str] = TABLE_1) -> Text:
    figure = PUBLISHED.get(method, {}).get(place)
    if figure is None:
        return Text("")
    best = max(PUBLISHED[name][place].mean for name in rivals)
    return Text(_printed(figure).text, bold=figure.mean == best)


def _printed(figure: Figure | None) -> Text:
    if figure is None:
        return Text("")
    return Text(f"{figure.mean:.2f}" + ("" if figure.std is None else f" ± {figure.std:.2f}"))


def _shared(first: Cell, second: Cell) -> list[int]:
    return [split for split in first.accuracies if split in second.accuracies]


def _pm(cell: Cell) -> str:
    return f"{cell.mean:.2f} ± {cell.std:.2f}"


def _number(value: float | None, form: str) -> Text:
    return Text("" if value is None else f"{value:{form}}")


def _in_paper_order(places: Iterable[Place]) -> list[Place]:
    return sorted(places, key=lambda place: (list(TITLES).index(place[0]), place[1]))


def _markdown(found: Sequence[Section]) -> str:
    lines = ["# The paper's experiments", ""]
    for section in found:
        lines += [f"## {section.title}", "", section.text, ""]
        lines += [table.to_markdown() for table in section.tables]
        if section.figure is not None:
            lines += [f"![{section.title}](figures/{section.figure}.svg)", ""]
    return "\n".join(lines)


def _html(found: Sequence[Section], folder: Path) -> str:
    body = ["<h1>The paper's experiments</h1>"]
    for section in found:
        body += [f"<h2>{escape(section.title)}</h2>", f"<p>{escape(section.text)}</p>"]
        body += [f'<div class="wide">{table.to_html()}</div>' for table in section.tables]
        if section.figure is not None:
            data = base64.b64encode((folder / "figures" / f"{section.figure}.svg").read_bytes()).decode()
            body.append(f'<img alt="{escape(section.title)}" src="data:image/svg+xml;base64,{data}">')
    return _PAGE.replace("BODY", "\n".join(body))


_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The paper's experiments</title>
<style>
:root { color-scheme: light dark; --ink: #222; --ground: #fff; --rule: #ccc; --band: #f4f4f6; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --ground: #17181a; --rule: #444; --band: #202226; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground); margin: 2rem auto;
  max-width: 75rem; padding: 0 1rem; }
p { max-width: 46rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1.5rem 0; font-size: 0.875rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: 0.4rem; }
th, td { padding: 0.25rem 0.7rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--rule);
  font-weight: normal; }
thead th { border-bottom: 2px solid var(--rule); font-weight: 600; }
th:first-child { text-align: left; }
tbody tr:nth-child(even) { background: var(--band); }
img { max-width: 100%; background: #fff; border-radius: 6px; }
@media print { body { max-width: none; margin: 0; } h2, table, img { break-inside: avoid; } }
</style>
<body>
BODY
</body>
</html>
"""
