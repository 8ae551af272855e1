import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from angpn.cli import app

MEASURED = ("seconds", "wall_seconds", "peak_mb")


def command(*arguments):
    return [sys.executable, "-m", "angpn", "reproduce", *map(str, arguments)]


def lines(path):
    records = [json.loads(line) for line in Path(path).read_text().splitlines()]
    return [{name: value for name, value in record.items() if name not in MEASURED} for record in records]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken")
    done = subprocess.run(command("--smoke", "-o", folder), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"report: {folder / 'report.html'}"
    return folder


@pytest.mark.slow
def test_smoke_runs_two_sets_two_splits_three_methods_and_reports(unbroken):
    found = lines(unbroken / "grid.jsonl")
    assert len(found) == 2 * 2 * 3
    assert {record["dataset"] for record in found} == {"digits", "wine"}
    assert {record["method"] for record in found} == {"ANGPN", "NGPN", "LogisticRegression"}
    assert all(record["error"] is None and 0 < record["test_accuracy"] <= 100 for record in found)
    assert {"parameters", "versions", "val_accuracy"} <= found[0].keys()
    assert "Table I" in (unbroken / "report.html").read_text()
    assert "| ANGPN |" in (unbroken / "report.md").read_text()


@pytest.mark.skipif(os.name != "posix", reason="kills a process group by a POSIX signal")
@pytest.mark.slow
def test_killed_and_restarted_it_ends_with_the_same_results(unbroken, tmp_path):
    path = tmp_path / "grid.jsonl"
    process = subprocess.Popen(command("--smoke", "-o", tmp_path, "--workers", 1), start_new_session=True)
    deadline = time.monotonic() + 200
    while not (path.exists() and path.read_bytes().count(b"\n") >= 4):
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    half = path.read_bytes().count(b"\n")
    assert 4 <= half < 12
    before = path.read_text().splitlines()[:half]
    done = subprocess.run(command("--smoke", "-o", tmp_path), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert lines(path) == lines(unbroken / "grid.jsonl")
    assert set(before) <= set(path.read_text().splitlines())  # seconds too: these were not run again
    assert (tmp_path / "report.md").exists()


@pytest.mark.slow
def test_a_worker_ends_with_its_parent(tmp_path):
    slow = command("--smoke", "-o", tmp_path, "--workers", 1)
    process = subprocess.Popen(slow, start_new_session=True, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 200
    while not (tmp_path / "grid.jsonl").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)  # the parent alone
    process.wait()
    while True:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        assert time.monotonic() < deadline, "a worker outlived its parent"
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--methods", "GNN"], "knows ANGPN, "),
        (["--datasets", "mnist"], "mnist10k; got 'mnist'"),
        (["--rates", "15"], "--rates knows 1, 2, 3, 5, 10, 20, 30, "),
        (["--suite", ","], "--suite names nothing"),
        (["--table", "3"], "--table must be 1 or 2, got 3"),
        (["--seeds", "11"], "--seeds"),
        (["--table", "2", "--methods", "GCN"], "no run is in all of these"),
    ],
)
def test_bad_options_are_named(arguments, message, tmp_path):
    result = CliRunner().invoke(app, ["reproduce", *arguments, "-o", str(tmp_path / "new")], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "new").exists()


def test_missing_data_is_a_one_line_error_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("ANGPN_DATA", str(tmp_path / "empty"))
    result = CliRunner().invoke(app, ["reproduce", "--datasets", "coraml", "-o", str(tmp_path / "new")])
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert "coraml.npz" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "new").exists()


def test_a_locked_results_file_is_an_error(tmp_path):
    from angpn.experiments import ResultsFile

    with ResultsFile(tmp_path / "grid.jsonl"):
        result = CliRunner().invoke(app, ["reproduce", "--smoke", "-o", str(tmp_path)])
    assert result.exit_code == 1
    assert "must be written by one process" in result.stderr


def test_damaged_lines_of_a_results_file_are_named_and_kept_aside(tmp_path):
    from angpn.experiments import SMOKE
    from angpn.experiments.runner import perform

    (run,) = SMOKE.runs(datasets=["wine"], n_splits=1, methods=["LogisticRegression"])
    good = json.dumps(perform(run)).encode() + b"\n"
    damaged = b"{}\n5\n[]\nnull\n\xff\xfe\n" + good[:50] + b"\n"
    path = tmp_path / "grid.jsonl"
    path.write_bytes(damaged + good)
    arguments = ["--smoke", "--datasets", "wine", "--methods", "LogisticRegression", "--seeds", 1, "-o", tmp_path]
    result = CliRunner().invoke(app, ["reproduce", *map(str, arguments)])
    assert result.exit_code == 0, result.stderr
    (warning,) = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert f"{path} must hold the record of a run on each line, got no 'dataset' in line 1; " in warning
    assert "(1, 2, 3, 4, 5, 6)" in warning
    assert path.read_bytes() == good
    assert (tmp_path / "grid.jsonl.damaged").read_bytes() == damaged
