import json
import re

import pytest

from angpn.experiments import ResultsFile, Run
from angpn.experiments.results import latest_records, outstanding


def line(run, **measures):
    names = {"dataset": run.dataset, "rate": run.rate, "split": run.split, "method": run.method}
    candidates, parameters = list(run.hyperparameters), run.parameters()[0]
    measured = dict.fromkeys(("test_accuracy", "val_accuracy", "seconds", "wall_seconds", "peak_mb"), 9.5)
    return {**names, **measured, "hyperparameters": candidates, "error": None, "parameters": parameters, **measures}


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


GOOD = json.dumps(line(RUNS[0])).encode()


def without(name):
    return json.dumps({key: value for key, value in line(RUNS[1]).items() if key != name}).encode()


def changed(**measures):
    return json.dumps(line(RUNS[1], **measures)).encode()


DAMAGED = {
    b"not json": "text that is no JSON",
    b"{}": "no 'dataset'",
    b"5": "JSON that is no object",
    b"[]": "JSON that is no object",
    b"null": "JSON that is no object",
    GOOD[:40]: "text that is no JSON",
    b"\xff\xfe\x00\x9f": "text that is no JSON",
    b"\x00" * 100: "text that is no JSON",
    b"[" * 100_000: "text that is no JSON",
    without("method"): "no 'method'",
    without("error"): "no 'error'",
    without("parameters"): "no 'parameters'",
    without("wall_seconds"): "no 'wall_seconds'",
    changed(error=5): "'error' that is not null or a text",
    changed(error=" "): "'error' that is not null or a text",
    changed(parameters=[]): "'parameters' that is not an object",
    changed(hyperparameters={}): "'hyperparameters' that is not a list of objects",
    changed(hyperparameters=[5]): "'hyperparameters' that is not a list of objects",
    changed(dataset=["digits"]): "'dataset' that is not a text",
    changed(rate=True): "'rate' that is not a whole number >= 0",
    changed(split=-1): "'split' that is not a whole number >= 0",
    changed(test_accuracy=float("nan")): "'test_accuracy' that is not a number from 0 to 100",
    changed(test_accuracy=101): "'test_accuracy' that is not a number from 0 to 100",
    changed(test_accuracy=10**400): "'test_accuracy' that is not a number from 0 to 100",
    changed(seconds="1"): "'seconds' that is not a number >= 0",
    changed(wall_seconds=float("inf")): "'wall_seconds' that is not a number >= 0",
    changed(peak_mb=[]): "'peak_mb' that is not null or a number",
    changed(purity=0.5): "'purity' that is not a list of numbers",
}


@pytest.mark.parametrize(("bad", "reason"), DAMAGED.items(), ids=range(len(DAMAGED)))
def test_a_damaged_line_is_named_and_the_good_lines_are_kept(bad, reason, tmp_path):
    path = tmp_path / "grid.jsonl"
    path.write_bytes(GOOD + b"\n" + bad + b"\n" + json.dumps(line(RUNS[2])).encode() + b"\n")
    message = (
        f"{path} must hold the record of a run on each line, got {reason} in line 2; damaged lines (2) are left out, "
        "and `angpn reproduce` repeats their runs and moves them to grid.jsonl.damaged"
    )
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}$"):
        records = ResultsFile(path).read()
    assert [record["split"] for record in records] == [0, 2]


def test_compact_moves_damaged_lines_aside_and_loses_none(tmp_path):
    path, aside = tmp_path / "grid.jsonl", tmp_path / "grid.jsonl.damaged"
    path.write_bytes(b"\n".join([b"{}", GOOD, b"\xff\x00", b"", b"5", b""]))
    with ResultsFile(path) as results:
        results.append(line(RUNS[1]))
        with pytest.warns(UserWarning, match=r"damaged lines \(1, 3, 5\)"):
            assert [record["split"] for record in results.read()] == [0, 1]
        results.compact(RUNS)
        results.append(line(RUNS[2]))
    assert [record["split"] for record in ResultsFile(path).read()] == [0, 1, 2]  # and no warning any more
    assert aside.read_bytes() == b"{}\n\xff\x00\n5\n"
    # A compaction that was killed after it had set lines aside, and a line that came later.
    path.write_bytes(path.read_bytes() + b"5\nnull\n")
    with ResultsFile(path) as results:
        results.compact(RUNS)
    assert aside.read_bytes() == b"{}\n\xff\x00\n5\nnull\n"


def test_a_record_without_a_line_break_at_the_end_is_kept(tmp_path):
    path = tmp_path / "grid.jsonl"
    path.write_bytes(GOOD)
    assert len(ResultsFile(path).read()) == 1
    with ResultsFile(path) as results:
        results.append(line(RUNS[1]))
        assert [record["split"] for record in results.read()] == [0, 1]


def test_a_study_without_validation_labels_has_nan_for_their_accuracy(tmp_path):
    with ResultsFile(tmp_path / "few.jsonl") as results:
        results.append(line(RUNS[0], val_accuracy=float("nan")))
        assert len(results.read()) == 1


def test_a_failed_run_has_no_measures(tmp_path):
    with ResultsFile(tmp_path / "grid.jsonl") as results:
        results.append(line(RUNS[0], error="Traceback", parameters=None, test_accuracy=None, seconds=None))
        assert len(results.read()) == 1


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
