"""The report's section on clustering: a summary, and each measure by kind of set."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from angpn.experiments.clustering import CLUSTERERS, KINDS, OURS
from angpn.experiments.results import Record
from angpn.experiments.statistics import Cell, Grid, cells
from angpn.experiments.studies import TITLES
from angpn.experiments.table_markup import Table, Text


class _Measure(NamedTuple):
    key: str  # in a record
    title: str
    decimals: int


MEASURES = (_Measure("accuracy", "accuracy in %", 2), _Measure("nmi", "NMI", 3), _Measure("ari", "ARI", 3))


def among_the_best(grid: Grid, method: str) -> tuple[int, int]:
    """Return on how many sets a method is best or within one standard error of the best, and how many sets it has.

    The standard error is that of the best method's mean over the seeds. Sets that no other method has do not count.

    Args:
        grid: One measure by method and set.
        method: Its name.

    Returns:
        Both numbers.
    """
    near, compared = 0, 0
    for condition, own in grid.get(method, {}).items():
        found = [by_set[condition] for by_set in grid.values() if condition in by_set]
        if len(found) > 1:
            best = max(found, key=lambda cell: cell.mean)
            compared += 1
            near += own.mean >= best.mean - best.std / np.sqrt(len(best.accuracies))
    return near, compared


def summary_line(records: Sequence[Record]) -> str:
    """Return the sentence that says how often ours is best or within one standard error of the best."""
    parts = []
    for measure in MEASURES:
        near, compared = among_the_best(cells(records, measure.key), OURS)
        parts.append(f"in {measure.title.removesuffix(' in %')} on {near} of {compared} sets")
    return f"{OURS} is best, or within one standard error of the best, " + ", ".join(parts[:-1]) + f" and {parts[-1]}."


def clustering_tables(records: Sequence[Record]) -> Iterator[Table]:
    """Yield the summary, then a table for each kind of set and each measure."""
    yield _summary(records)
    for kind, sets in KINDS.items():
        for measure in MEASURES:
            grid = cells(records, measure.key)
            found = [name for name in sets if any((name, 0) in grid.get(method, {}) for method in CLUSTERERS)]
            if found:
                yield _table(grid, records, kind, found, measure)


def _summary(records: Sequence[Record]) -> Table:
    good = [record for record in records if record["error"] is None]
    grids = [cells(good, measure.key) for measure in MEASURES]
    rows = []
    for method in CLUSTERERS:
        if method in grids[0]:
            counts = [among_the_best(grid, method) for grid in grids]
            seconds = [record["seconds"] for record in good if record["method"] == method]
            rows.append(
                [
                    Text(method),
                    Text(str(len(grids[0][method]))),
                    *(Text(str(near)) for near, _ in counts),
                    Text(f"{np.median(seconds):.2f}"),
                    Text(f"{max(seconds):.1f}"),
                ]
            )
    head = ["method", "sets", "accuracy", "NMI", "ARI", "median s", "longest s"]
    return Table("On how many sets a method is best or within one standard error of the best", head, rows)


def _table(grid: Grid, records: Sequence[Record], kind: str, sets: Sequence[str], measure: _Measure) -> Table:
    failed = {(record["method"], record["dataset"]) for record in records if record["error"] is not None}
    best = {name: max(by_set[name, 0].mean for by_set in grid.values() if (name, 0) in by_set) for name in sets}
    rows = []
    for method, clusterer in CLUSTERERS.items():
        if kind not in clusterer.kinds:
            continue
        row = [Text(method)]
        for name in sets:
            cell = grid.get(method, {}).get((name, 0))
            if cell is None:
                row.append(Text("failed" if (method, name) in failed else ""))
            else:
                row.append(Text(_pm(cell, measure.decimals), bold=cell.mean == best[name]))
        rows.append(row)
    return Table(f"{kind.capitalize()}: {measure.title}", ["method", *(TITLES[name] for name in sets)], rows)


def _pm(cell: Cell, decimals: int) -> str:
    spread = f" ± {cell.std:.{decimals}f}" if len(cell.accuracies) > 1 else ""
    return f"{cell.mean:z.{decimals}f}{spread}"  # z: an ARI of -0.0001 is 0.000
