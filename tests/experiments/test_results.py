import json

import pytest

from angpn.experiments import ResultsFile, Run
from angpn.experiments.results import latest_records, outstanding


def line(run, **measures):
    names = {"dataset": run.dataset, "rate": run.rate, "split": run.split, "method": run.method}
    candidates = list(run.hyperparameters)
    return {**names, "hyperparameters": candidates, "error": None, "parameters": run.parameters()[0], **measures}


RUNS = [Run("digits", 10, split, "NGPN") for split in range(3)]


def test_a_line_that_was_half_written_is_truncated(tmp_path):
    path = tmp_path / "grid.jsonl"
    with ResultsFile(path) as results:
        results.append(line(RUNS[0]))
    path.write_bytes(path.read_bytes() + b'{"dataset": "dig')
    assert len(ResultsFile(path).read()) == 1
    with ResultsFile(path) as results:
        results.append(line(RUNS[1]))
        assert [record["split"] for record in results.read()] == [0, 1]


def test_two_processes_do_not_write_at_once(tmp_path):
    with (
        ResultsFile(tmp_path / "grid.jsonl"),
        pytest.raises(BlockingIOError, match="must be written by one process, got a second; wait"),
        ResultsFile(tmp_path / "grid.jsonl"),
    ):
        pass
    with ResultsFile(tmp_path / "grid.jsonl") as results:  # free again
        results.append(line(RUNS[0]))


def test_an_invalid_line_is_named(tmp_path):
    path = tmp_path / "grid.jsonl"
    path.write_text(json.dumps(line(RUNS[0])) + "\nnot json\n")
    with pytest.raises(ValueError, match="in line 2; delete that line"):
        ResultsFile(path).read()


def test_compact_keeps_the_last_line_of_each_run_in_order_and_those_of_other_runs(tmp_path):
    other = Run("wine", 20, 0, "GCN")
    with ResultsFile(tmp_path / "grid.jsonl") as results:
        for record in (line(other), line(RUNS[2]), line(RUNS[0], error="no"), line(RUNS[0], test_accuracy=1)):
            results.append(record)
        results.compact(RUNS)
        found = results.read()
        results.append(line(RUNS[1]))  # still open
    assert [(record["dataset"], record["split"]) for record in found] == [("digits", 0), ("digits", 2), ("wine", 0)]
    assert found[0]["test_accuracy"] == 1
    assert len(ResultsFile(tmp_path / "grid.jsonl").read()) == 4


def test_latest_records_are_the_last_lines_of_the_runs():
    stale = line(Run("digits", 10, 0, "NGPN", ({"alpha": 0.2},)), test_accuracy=11)
    records = [line(RUNS[1], test_accuracy=1), stale, line(RUNS[0], test_accuracy=2), line(RUNS[1], test_accuracy=3)]
    assert [record["test_accuracy"] for record in latest_records(records, RUNS)] == [2, 3]


def test_outstanding_runs_failed_or_had_other_parameters():
    stale = {**RUNS[1].parameters()[0], "alpha": 0.123}
    records = [line(RUNS[0]), line(RUNS[1], parameters=stale), line(RUNS[2], error="Traceback")]
    assert outstanding(RUNS, records) == [RUNS[1], RUNS[2]]
    assert outstanding(RUNS, []) == RUNS
    # The same method with other hyper-parameters is another run.
    assert outstanding([Run("digits", 10, 0, "NGPN", ({"alpha": 0.2},))], records) != []


def test_lines_of_version_0_1_0_are_read(tmp_path):
    old = line(RUNS[0])
    old["settings"] = old.pop("hyperparameters")
    (tmp_path / "grid.jsonl").write_text(json.dumps(old) + "\n")
    assert ResultsFile(tmp_path / "grid.jsonl").read() == [line(RUNS[0])]
