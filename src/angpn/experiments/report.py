"""The report on the experiments: tables and figures as HTML and Markdown."""

import base64
import os
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from angpn.experiments import figures
from angpn.experiments.clustering_tables import clustering_tables, summary_line
from angpn.experiments.published import PUBLISHED_GRAPH_FREE
from angpn.experiments.results import Record
from angpn.experiments.statistics import Grid, cells
from angpn.experiments.table_markup import Table
from angpn.experiments.tables import counted_tables, rank_table, table_1, table_2, time_table, tuned_table
from angpn.utils.files import replacing


class Section(NamedTuple):
    """A section of the report."""

    title: str
    text: str  # one paragraph of plain text
    tables: Sequence[Table] = ()
    figure: str | None = None  # file name of a figure without its suffix


def write_report(records: Mapping[str, Sequence[Record]], folder: str | os.PathLike[str]) -> Path:
    """Write ``report.html``, ``report.md`` and the figures.

    Args:
        records: The records of each study, by its name.
        folder: The folder of the report.

    Returns:
        The path of ``report.html``.
    """
    folder = Path(folder)
    found = sections(records)
    for name, figure in figures.study_figures(records).items():
        figures.save_figure(figure, folder / "figures" / f"{name}.svg")
    for name, content in (("report.md", _markdown(found)), ("report.html", _html(found, folder))):
        with replacing(folder / name) as temporary:
            temporary.write_text(content, encoding="utf-8")
    return folder / "report.html"


def sections(records: Mapping[str, Sequence[Record]]) -> list[Section]:
    """Return the sections of the report for the studies that have results."""
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
    if any(record["error"] is None for record in records.get("clustering", ())):
        found.append(_clustering_section(records["clustering"]))
    for name in figures.study_figures(records):
        title, text = figures.CAPTIONS[name]
        found.append(Section(title, text, figure=name))
    return found


def _grid_sections(grid: Grid, records: Sequence[Record]) -> list[Section]:
    splits = {record["split"] for record in records}
    failed = sum(record["error"] is not None for record in records)
    text = (
        f"Mean and standard deviation over {len(splits)} random splits that all methods share: of each class the "
        "share named is labelled for training, 5 % more for validation, the rest is tested. Every method has its "
        "authors' hyper-parameters on the graph of the 10 nearest neighbours (ANGPN and NGPN: 30, chosen once); for "
        "logistic regression, SVM, kNN, self-training, LabelSpreading and the classifiers on DeepWalk and DGI a few "
        "values are compared on the validation labels. "
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


def _tuned_section(tuned: Grid, grid: Grid) -> Section:
    text = (
        "A second, smaller grid: the hyper-parameters of each method are selected among four candidates by accuracy on "
        "the validation labels. The gain is that over its published hyper-parameters on the same splits, in points."
    )
    return Section("Tuned hyper-parameters", text, [tuned_table(tuned, grid)])


def _clustering_section(records: Sequence[Record]) -> Section:
    text = (
        "Clusters of all rows without labels, compared with the classes: accuracy by the best matching of clusters and "
        "classes (the Hungarian method), normalised mutual information and the adjusted Rand index. Mean and standard "
        "deviation over 5 seeds; HDBSCAN has no random part and is run once. KMeans, SpectralClustering "
        "(nearest neighbours) and ANGPNClusterer have the true number of clusters, EVoC has it as the number to come "
        "near, HDBSCAN takes none; noise counts as one cluster more. Every method has each set as it is; the others "
        "also have tables standardised and texts with rows of unit length, or for EVoC, which takes no sparse rows, "
        "their first 100 singular components. The best of a column is bold. "
    )
    failed = sum(record["error"] is not None for record in records)
    left_out = f" {failed} runs failed and are left out." if failed else ""
    return Section("Clustering", text + summary_line(records) + left_out, list(clustering_tables(records)))


_COUNTED = {
    "graphfree": Section(
        "Sets without a graph, as later papers have them",
        "Wine and Cancer with 10 training and 20 validation labels, Digits with 50 and 100, in the splits of LDS "
        "(Franceschi et al., 2019); MNIST, 1,000 images of each digit, with the number of training labels named and "
        "1,000 validation labels. Mean and standard deviation over 10 splits, of MNIST over 3. The published "
        "figures are for splits of the same kind.",
    ),
    "few": Section(
        "Very few labels",
        "So many labels of each class, drawn at random, and no validation labels: mean and standard deviation "
        "over 10 draws, of MNIST over 3. All graph methods but ours have the 10 nearest neighbours.",
    ),
}


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
