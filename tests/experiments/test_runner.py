import multiprocessing
import os
import signal
import threading

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from angpn.baselines import embedding_cache
from angpn.experiments import SMOKE, ResultsFile, Run, execute, runner
from angpn.experiments.runner import perform
from angpn.experiments.splits import paper_split

MEASURED = ("seconds", "wall_seconds", "peak_mb")


def without_measures(records):
    return [{name: value for name, value in record.items() if name not in MEASURED} for record in records]


def test_a_run_sees_no_test_label_and_scores_on_them_alone(monkeypatch):
    seen = {}

    class Spy:
        def __init__(self, random_state):
            self.random_state = random_state

        def get_params(self):
            return {"random_state": self.random_state}

        def fit(self, X, y, *, validation_mask):
            seen.update(y=y, validation=validation_mask)
            self.classes_ = np.arange(10)
            self.transduction_ = np.where(y >= 0, y, 0)
            self.label_distributions_ = np.full((len(y), 10), 0.1)

    monkeypatch.setitem(runner.Run.models.__globals__["METHODS"], "GCN", Spy)
    record = perform(Run("digits", 10, 3, "GCN"))
    truth = runner._data("digits", "paper")[1]
    split = paper_split(truth, 10, 3)
    assert record["error"] is None
    assert_array_equal(seen["y"][split.test], -1)
    assert_array_equal(seen["y"][~split.test], truth[~split.test])
    assert_array_equal(seen["validation"], split.validation)
    assert record["test_accuracy"] == pytest.approx(100 * np.mean(truth[split.test] == 0), abs=1e-3)
    assert record["val_accuracy"] == 100.0
    assert record["parameters"] == {"random_state": 3}


@pytest.mark.slow
def test_hyperparameters_are_selected_on_the_validation_labels():
    few, many = {"max_iter": 1}, {"max_iter": 150}
    record = perform(Run("digits", 10, 0, "NGPN", (few, many)))
    alone = [perform(Run("digits", 10, 0, "NGPN", (values,))) for values in (few, many)]
    best = max(alone, key=lambda found: found["val_accuracy"])
    assert best["parameters"]["max_iter"] == 150
    for name in ("parameters", "val_accuracy", "test_accuracy", "purity"):
        assert record[name] == best[name]
    assert 0 <= min(record["purity"]) <= max(record["purity"]) <= 1


def test_seconds_include_a_cached_embedding(tmp_path):
    run = Run("wine", 10, 0, "DeepWalk", ({"n_walks": 2},))
    first = perform(run, tmp_path)
    (file,) = tmp_path.iterdir()
    embedding_cache._memory.clear()  # another process
    with np.load(file) as saved:
        parts = dict(saved)
    np.savez(file, **{**parts, "seconds": 1000.0})
    second = perform(run, tmp_path)
    assert first["seconds"] < 1000 < second["seconds"]
    assert second["wall_seconds"] < 1000
    assert without_measures([first]) == without_measures([second])


@pytest.mark.slow
def test_failed_runs_and_dead_processes_are_recorded_and_do_not_stop_the_others(tmp_path):
    impossible = Run("digits", 10, 0, "NGPN", ({"alpha": 7.0},))
    killed = Run("digits", 10, 1, "NGPN", ({"n_iter_no_change": 5000},))
    good = Run("wine", 10, 0, "LogisticRegression")
    events = []

    def kill():
        (child,) = multiprocessing.active_children()
        os.kill(child.pid, signal.SIGKILL)

    def watch(progress, record):
        events.append(progress)
        if progress.done == 1:
            threading.Timer(1.0, kill).start()  # by then the next run has started

    records = execute([impossible, killed, good], tmp_path / "grid.jsonl", workers=1, on_progress=watch)
    assert [record["error"] is None for record in records] == [False, False, True]
    assert "alpha" in records[0]["error"]
    assert "Traceback" in records[0]["error"]
    assert "exit code -9" in records[1]["error"]
    assert records[0]["test_accuracy"] is None
    assert (events[-1].done, events[-1].total, events[-1].failed) == (3, 3, 2)
    assert events[0].seconds_left is None
    assert events[-1].seconds_left == 0
    # Failed runs are repeated, the others are not.
    events.clear()
    again = execute([impossible, good], tmp_path / "grid.jsonl", workers=1, on_progress=lambda *e: events.append(e[0]))
    assert [progress.done for progress in events] == [1, 2]
    assert again[1] == records[2]
    assert len(again) == 2


@pytest.mark.slow
def test_one_worker_and_two_give_the_same_results(tmp_path):
    runs = SMOKE.runs(datasets=["wine"], n_splits=2)
    found = [execute(runs, tmp_path / f"{workers}.jsonl", workers=workers) for workers in (1, 2)]
    assert without_measures(found[0]) == without_measures(found[1])


@pytest.mark.slow
def test_records_of_other_studies_are_reused(tmp_path):
    (default,) = SMOKE.runs(datasets=["wine"], n_splits=1, methods=["LogisticRegression"])
    execute([default], tmp_path / "grid.jsonl", workers=1)
    spelt_out = default._replace(hyperparameters=({"Cs": (10.0, 1.0, 100.0, 1000.0)},))
    other = default._replace(hyperparameters=({"Cs": (1.0,)},))
    events = []
    records = execute(
        [spelt_out, other],
        tmp_path / "study.jsonl",
        workers=1,
        others=[tmp_path / "grid.jsonl", tmp_path / "study.jsonl", tmp_path / "none.jsonl"],
        on_progress=lambda progress, record: events.append(progress.done),
    )
    assert events == [1, 2]
    assert records[0]["hyperparameters"] == [{"Cs": [10.0, 1.0, 100.0, 1000.0]}]
    assert records[0]["seconds"] == ResultsFile(tmp_path / "grid.jsonl").read()[0]["seconds"]
    assert records[1]["parameters"]["Cs"] == [1.0]
