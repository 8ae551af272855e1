import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from angpn.cli import app
from angpn.experiments import CLUSTERING, CLUSTERING_SMOKE, STUDIES, ResultsFile, execute
from angpn.experiments.clustering import (
    CLUSTERERS,
    KINDS,
    OURS,
    SETS_BY_TIME,
    TABLE_CLASSES,
    ClusteringRun,
    clustering_accuracy,
    load,
    scores,
)
from angpn.experiments.clustering_tables import among_the_best, clustering_tables, summary_line
from angpn.experiments.report import sections, write_report
from angpn.experiments.runner import perform
from angpn.experiments.statistics import cells

TRUTH = np.repeat([0, 1, 2], 4)


@pytest.mark.parametrize(
    ("labels", "right"),
    [
        (np.repeat([2, 0, 1], 4), 12),  # other names
        (np.zeros(12, dtype=int), 4),
        (np.arange(12), 3),  # a class has one cluster
        ([0, 0, 0, 1, 1, 1, 1, 0, 2, 2, 2, 2], 10),
        ([0, 0, -1, -1, 1, 1, 1, 1, -1, -1, -1, 2], 9),  # noise is a cluster, here the third class's
    ],
)
def test_accuracy_is_that_of_the_best_matching(labels, right):
    assert clustering_accuracy(TRUTH, np.asarray(labels)) == pytest.approx(right / 12)


def test_the_matching_is_not_greedy():
    """The largest overlap, 5 rows, would leave 0 to the other class; without it 4 + 4 are right."""
    truth = np.repeat([0, 1], [9, 4])
    labels = np.repeat([0, 1, 0], [5, 4, 4])
    assert clustering_accuracy(truth, labels) == pytest.approx(8 / 13)


def test_scores_of_known_partitions():
    assert scores(TRUTH, np.repeat([5, 9, 7], 4)) == {"accuracy": 100.0, "nmi": 1.0, "ari": 1.0}
    assert scores(TRUTH, np.zeros(12, dtype=int)) == {"accuracy": pytest.approx(100 / 3, abs=1e-3), "nmi": 0, "ari": 0}
    # Two classes of two rows, one split: I = ln 2, H of the clusters 1.5 ln 2, so NMI = 2 / 2.5; 1 pair of 6 in both.
    found = scores(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 2]))
    assert found["nmi"] == pytest.approx(0.8)
    assert found["ari"] == pytest.approx((1 - 2 / 6) / (1.5 - 2 / 6), abs=1e-6)


def test_the_study_has_every_set_and_prepares_rivals_by_its_kind():
    runs = CLUSTERING.runs()
    assert len(set(map(str, runs))) == len(runs)
    assert [dataset for kind in KINDS.values() for dataset in kind if dataset not in SETS_BY_TIME] == []
    methods = {name: {run.method for run in runs if run.dataset == name} for name in SETS_BY_TIME}
    assert "KMeans (standardised)" in methods["splice"]
    assert "KMeans (unit rows)" in methods["20news"]
    assert methods["digits"] == {OURS, "KMeans", "SpectralClustering", "HDBSCAN", "EVoC"}
    assert {run.split for run in runs if run.method == OURS} == {0, 1, 2, 3, 4}
    assert {run.split for run in runs if run.method == "HDBSCAN"} == {0}
    assert runs[0].dataset == "wine"
    assert "clustering" not in STUDIES  # whose data everybody can have
    (model,) = ClusteringRun("digits", 0, 3, OURS).models()
    assert (model.n_clusters, model.random_state) == (10, 3)


def test_a_run_is_scored_and_prepared_as_it_says():
    plain = perform(ClusteringRun("wine", 0, 0, "KMeans"))
    standardised = perform(ClusteringRun("wine", 0, 0, "KMeans (standardised)"))
    assert plain["error"] is standardised["error"] is None
    assert standardised["accuracy"] > 94 > 75 > plain["accuracy"]
    assert standardised["n_clusters"] == 3
    assert standardised["parameters"]["preparation"] == "standardised"
    noisy = perform(ClusteringRun("wine", 0, 0, "HDBSCAN (standardised)"))
    assert noisy["noise"] > 0


def test_tables_are_read_with_names_one_hot(tmp_path, monkeypatch):
    monkeypatch.setenv("ANGPN_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"splice.csv must hold a table .* or leave the set out by --datasets"):
        load("splice")
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "splice.csv").write_text("a,b,label\n1,x,N\n2.5,y,EI\n3,x,IE\n")
    X, y = load("splice")
    assert X.tolist() == [[1, 1, 0], [2.5, 0, 1], [3, 1, 0]]
    assert y.tolist() == [2, 0, 1]
    (tmp_path / "tables" / "splice.csv").write_text("a,b,label\n1,x,N\n")
    with pytest.raises(ValueError, match="must have 3 classes in its last column, got 1; replace it"):
        load("splice")
    assert TABLE_CLASSES["splice"] == 3


@pytest.mark.slow
def test_the_study_resumes_and_repeats_failures_alone(tmp_path, monkeypatch):
    runs = CLUSTERING.runs(datasets=["wine"], n_splits=2, methods=["KMeans", "HDBSCAN"])
    path = tmp_path / "clustering.jsonl"
    with ResultsFile(path) as results:
        results.append(perform(runs[0]))
        monkeypatch.setitem(CLUSTERERS, "HDBSCAN", CLUSTERERS["HDBSCAN"]._replace(make=lambda c, seed: None))
        failed = perform(runs[1]._replace(method="HDBSCAN"))
        results.append(failed)
    monkeypatch.undo()
    assert "Traceback" in failed["error"]
    first = path.read_text().splitlines()[0]
    path.write_text(path.read_text() + '{"dataset": "wi')  # killed while it wrote
    done = []
    records = execute(runs, path, workers=1, on_progress=lambda progress, record: done.append(progress.done))
    assert done == [1, 2, 3]
    assert [record["error"] for record in records] == [None, None, None]
    assert path.read_text().splitlines()[0] == first  # seconds too: it was not run again
    damaged = {**json.loads(first), "nmi": 1.5}
    path.write_text(json.dumps(damaged) + "\n")
    with pytest.warns(match="'nmi' that is not a number from 0 to 1"):
        assert ResultsFile(path).read() == []


def synthetic(method, dataset, accuracies, error=None):
    return [
        {
            **{"dataset": dataset, "rate": 0, "split": seed, "method": method, "error": error, "seconds": 2.0},
            **{"accuracy": accuracy, "nmi": accuracy / 100, "ari": accuracy / 200},
        }
        for seed, accuracy in enumerate(accuracies)
    ]


RECORDS = [
    *synthetic(OURS, "wine", [90.0, 91.0, 92.0]),
    *synthetic("KMeans", "wine", [90.5, 91.5, 93.5]),  # its standard error is 0.88: ours is within it
    *synthetic("HDBSCAN", "wine", [40.0]),
    *synthetic("SpectralClustering", "wine", [-0.001]),
    *synthetic(OURS, "digits", [80.0, 81.0]),
    *synthetic("KMeans", "digits", [85.0, 85.2]),
    *synthetic("EVoC", "digits", [0.0], error="Traceback"),
    *synthetic(OURS, "coraml", [50.0, 51.0]),  # alone: not counted
]


def test_best_within_one_standard_error():
    grid = cells(RECORDS, "accuracy")
    assert among_the_best(grid, OURS) == (1, 2)
    assert among_the_best(grid, "KMeans") == (2, 2)
    assert among_the_best(grid, "HDBSCAN") == (0, 1)
    assert "in accuracy on 1 of 2 sets, in NMI on 1 of 2 sets and in ARI on 1 of 2 sets." in summary_line(RECORDS)


def test_tables_have_mean_and_deviation_best_in_bold(tmp_path):
    summary, *tables = clustering_tables(RECORDS)
    assert [cell.text for cell in summary.rows[0]] == [OURS, "3", "1", "1", "1", "2.00", "2.0"]
    accuracy = next(table for table in tables if table.caption == "Tables: accuracy in %")
    rows = {row[0].text: row[1] for row in accuracy.rows}
    assert rows[OURS].text == "91.00 ± 1.00"
    assert rows["HDBSCAN"].text == "40.00"
    assert rows["SpectralClustering"].text == "0.00"
    assert [name for name, cell in rows.items() if cell.bold] == ["KMeans"]
    assert rows["EVoC"].text == ""
    (digits,) = [table for table in tables if table.caption == "Images: ARI"]
    assert {row[0].text: row[1].text for row in digits.rows}["EVoC"] == "failed"
    (section,) = sections({"clustering": RECORDS})
    assert "1 runs failed" in section.text
    write_report({"clustering": RECORDS}, tmp_path)
    for name in ("report.md", "report.html"):
        content = (tmp_path / name).read_text()
        assert "91.00 ± 1.00" in content
        assert "within one standard error of the best, in accuracy on 1 of 2 sets" in content
    assert sections({"clustering": synthetic(OURS, "wine", [0.0], error="Traceback")}) == []


@pytest.mark.slow
def test_smoke_runs_on_bundled_data_and_reports(tmp_path):
    arguments = ["reproduce", "--suite", "clustering", "--smoke", "--workers", "1", "-o", str(tmp_path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.stderr
    found = ResultsFile(tmp_path / "clustering.jsonl").read()
    assert len(found) == len(CLUSTERING_SMOKE.runs()) == 2 * (2 + 2 + 1)
    ours = [record["accuracy"] for record in found if record["method"] == OURS]
    assert min(ours) > 85
    assert "## Clustering" in (tmp_path / "report.md").read_text()


def test_options_of_the_study(tmp_path):
    arguments = ["reproduce", "--suite", "clustering", "-o", str(tmp_path / "new"), "--methods"]
    result = CliRunner().invoke(app, [*arguments, "GCN"], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert "no run is in all of these" in result.stderr
    result = CliRunner().invoke(app, [*arguments, "kmeans"], env={"COLUMNS": "300"})
    assert "KMeans (standardised)" in result.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.slow  # it compiles for half a minute
def test_evoc_comes_near_the_number_of_clusters():
    pytest.importorskip("evoc")
    found = perform(ClusteringRun("digits", 0, 0, "EVoC"))
    assert found["error"] is None
    assert found["n_clusters"] == 10
    assert found["accuracy"] > 85


def test_evoc_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "evoc", None)
    found = perform(ClusteringRun("wine", 0, 0, "EVoC"))
    assert 'this needs evoc, which is not installed; pip install "angpn[baselines]"' in found["error"]
