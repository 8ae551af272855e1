from html.parser import HTMLParser

import pytest

from angpn.experiments import STUDIES
from angpn.experiments.report import sections, write_report
from angpn.experiments.statistics import cells
from angpn.experiments.tables import rank_table, table_1, table_2, time_table, tuned_table


def record(run, accuracy, **more):
    (values, *_) = run.hyperparameters
    found = {
        "dataset": run.dataset,
        "rate": run.rate,
        "split": run.split,
        "method": run.method,
        "hyperparameters": [dict(values)],
        "test_accuracy": accuracy,
        "val_accuracy": accuracy + 1,
        "seconds": 10.0 if run.method == "GAT" else 2.0,
        "wall_seconds": 3.0,
        "peak_mb": 5.0,
        "error": None,
    }
    if run.method in ("ANGPN", "NGPN"):
        found["purity"] = [0.5, 0.6]
    return {**found, **more}


def synthetic_records(study, **restriction):
    """Return accuracies that are easy to compute: a base for each method, plus terms of split and rate."""
    base = {"ANGPN": 70.0, "GCN": 65.0, "NGPN": 69.0}
    return [
        record(run, base.get(run.method, 60.0) + run.rate / 10 + 0.1 * run.split * (1 + len(run.method)))
        for run in STUDIES[study].runs(**restriction)
    ]


@pytest.fixture(scope="module")
def records():
    return {name: synthetic_records(name, datasets=["20news", "coraml"]) for name in STUDIES}


def texts(table, method):
    (row,) = [row for row in table.rows if row[0].text == method]
    return [cell.text for cell in row]


def bold(table, column):
    return [row[0].text for row in table.rows if row[column].bold]


def test_table_1_has_ours_beside_the_published_figures_best_in_bold(records):
    news, cora = table_1(cells(records["grid"]))
    assert news.caption.startswith("20News")
    assert texts(cora, "ANGPN")[:3] == ["ANGPN", "72.20 ± 0.95", "65.53 ± 1.25"]
    assert texts(cora, "LogisticRegression")[2] == ""
    assert bold(cora, 1) == bold(cora, 2) == ["ANGPN"]
    assert [row[0].text for row in cora.rows][:9] == [
        *["ManiReg", "LP", "DeepWalk", "DGI", "GraphSAGE", "GCN", "GAT", "ANGPN"],
        "NGPN",
    ]


def test_marks_show_significant_differences_from_angpn():
    runs = STUDIES["grid"].runs(datasets=["coraml"], rates=[30], methods=["ANGPN", "GCN", "NGPN"])
    noise = [0.0, 0.01, -0.01, 0.02, 0.0]
    lead = {"ANGPN": 0, "GCN": -10, "NGPN": 10}
    scale = {"ANGPN": 1, "GCN": 2, "NGPN": 3}
    found = [record(run, 70 + lead[run.method] + scale[run.method] * noise[run.split]) for run in runs]
    (table,) = table_1(cells(found))
    assert texts(table, "GCN")[1].endswith("↓")
    assert texts(table, "NGPN")[1].endswith("↑")
    assert texts(table, "ANGPN")[1].endswith("0.01")


def test_table_2_ranks_and_times(records):
    grid = cells(records["grid"])
    first = table_2(grid).rows[0]
    assert [cell.text for cell in first[:4]] == ["20News, 10 %", "71.00 ± 0.79", "72.20 ± 0.95", "+1.20"]
    assert [cell.bold for cell in first[1:3]] == [False, True]
    ranks = rank_table(grid)
    assert ranks.rows[0][0].text == "ANGPN"
    assert texts(ranks, "GCN")[3] == "0 of 6"
    assert float(texts(ranks, "GCN")[4]) == pytest.approx(2 / 2**6, abs=1e-4)
    times = time_table(records["grid"])
    assert texts(times, "GCN")[1:] == ["2.0", "2.0", "0.20", "5", "1.5"]


def test_tuned_gains_are_over_the_same_splits(records):
    tuned, grid = cells(records["tuned"]), cells(records["grid"])
    assert texts(tuned_table(tuned, grid), "GAT")[2] == "+0.0"


def test_failures_and_missing_runs_are_reported_and_do_not_break_the_report(records):
    grid = [found for found in records["grid"] if found["method"] != "GAT" or found["rate"] != 20]
    grid[0] = {**grid[0], "error": "Traceback", "test_accuracy": None, "seconds": None}
    found = sections({"grid": grid})
    assert "1 runs failed" in found[0].text
    assert {section.title for section in found} >= {"Table I", "Table II", "Ranks", "Time"}
    assert sections({}) == []


def test_a_partial_grid_is_reported(tmp_path):
    part = synthetic_records("grid", datasets=["coraml"], rates=[10], methods=["GCN"])
    part += synthetic_records("grid", datasets=["coraml"], rates=[20], methods=["ANGPN"])
    assert write_report({"grid": part}, tmp_path).exists()


def test_the_report_is_one_file_without_network(records, tmp_path):
    path = write_report(records, tmp_path)
    page = path.read_text()
    sources = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attributes):
            sources.extend(value for name, value in attributes if name in ("src", "href"))

    Reader().feed(page)
    assert len(sources) == 5  # depth, sensitivity, neighbours, purity, time
    assert all(source.startswith("data:image/svg+xml") for source in sources)
    for name in ("depth", "sensitivity", "neighbors", "purity", "time"):
        drawing = (tmp_path / "figures" / f"{name}.svg").read_text()
        assert drawing.count("<path") > 20
        assert f"figures/{name}.svg" in (tmp_path / "report.md").read_text()
    before = (tmp_path / "figures" / "depth.svg").read_bytes()
    write_report(records, tmp_path)
    assert (tmp_path / "figures" / "depth.svg").read_bytes() == before
