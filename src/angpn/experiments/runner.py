"""Execution of runs in parallel processes, each result appended to a file as it comes.

A killed study resumes where it was, with the same results: a run depends on its data, split, method and seed alone. A
run that fails, or whose process dies, is recorded with its traceback and does not stop the others.
"""

import importlib.metadata
import multiprocessing
import multiprocessing.connection
import os
import platform
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.preprocessing import scale
from threadpoolctl import threadpool_limits

from angpn.baselines import shared_graph
from angpn.baselines.base import GraphBaseline
from angpn.datasets import SETS
from angpn.experiments import clustering
from angpn.experiments.results import Record, ResultsFile, latest_records, outstanding, reusable_records
from angpn.experiments.splits import SPLITS, Protocol
from angpn.experiments.studies import Run, plain_parameters
from angpn.utils.memory import forget_peak, peak_bytes, resident_bytes

_VERSIONED = ("angpn", "torch", "torch_geometric", "scikit-learn", "numpy", "scipy", "gensim", "evoc")


class Progress(NamedTuple):
    """Progress of a study."""

    done: int
    total: int
    failed: int
    seconds_left: float | None  # by the mean duration of each method so far


def execute(
    runs: Sequence[Run],
    path: str | os.PathLike[str],
    *,
    workers: int | None = None,
    cache_folder: str | os.PathLike[str] | None = None,
    others: Sequence[str | os.PathLike[str]] = (),
    on_progress: Callable[[Progress, Record | None], None] = lambda progress, record: None,
) -> list[Record]:
    """Execute the runs that have no valid result in a file yet, and return the last result of each.

    Each process has one thread, so that processes do not compete for cores and results do not depend on their number.

    Args:
        runs: The runs.
        path: Results file of the study.
        workers: Number of processes; None is one for each core.
        cache_folder: Folder for embeddings that do not depend on labels.
        others: Results files of other studies, whose results are reused where all parameters agree.
        on_progress: Called at the start, and after each run with its record.

    Returns:
        The last record of each run, in the order of ``runs``.

    Raises:
        BlockingIOError: If another process writes the same file.
    """
    workers = workers or os.cpu_count() or 1
    with ResultsFile(path) as results:
        elsewhere = [record for other in others if Path(other) != results.path for record in ResultsFile(other).read()]
        for record in reusable_records(outstanding(runs, results.read()), elsewhere):
            results.append(record)
        before = results.read()
        waiting = outstanding(runs, before)
        durations = _Durations(before, workers)
        done, failed = len(runs) - len(waiting), 0
        on_progress(Progress(done, len(runs), failed, durations.remaining(waiting)), None)
        pool = [_Worker(cache_folder) for _ in range(min(workers, len(waiting)))]
        try:
            idle, busy = list(pool), dict[Any, _Worker]()
            while waiting or busy:
                while idle and waiting:
                    worker = idle.pop()
                    worker.submit(waiting.pop(0))
                    busy[worker.connection] = worker
                for connection in multiprocessing.connection.wait(list(busy)):
                    worker = busy.pop(connection)
                    record = worker.result()
                    results.append(record)
                    idle.append(worker)
                    done, failed = done + 1, failed + (record["error"] is not None)
                    durations.add(record)
                    running = [worker.run for worker in busy.values()]
                    on_progress(Progress(done, len(runs), failed, durations.remaining([*waiting, *running])), record)
        finally:
            for worker in pool:
                worker.end()
        results.compact(runs)
        return latest_records(results.read(), runs)


class _Durations:
    """Estimate of the remaining time by the mean duration of each method so far."""

    def __init__(self, records: Sequence[Record], workers: int) -> None:
        self._seconds: dict[tuple[str, str], list[float]] = {}
        self._workers = workers
        for record in records:
            self.add(record)

    def add(self, record: Record) -> None:
        if record["error"] is None:
            self._seconds.setdefault((record["method"], record["dataset"]), []).append(record["wall_seconds"])

    def remaining(self, runs: Sequence[Run]) -> float | None:
        if not self._seconds:
            return None
        overall = float(np.mean(np.concatenate([np.array(seconds) for seconds in self._seconds.values()])))
        means = {key: float(np.mean(seconds)) for key, seconds in self._seconds.items()}
        return sum(means.get((run.method, run.dataset), overall) for run in runs) / self._workers


class _Worker:
    """A process that executes one run after another, and is restarted where it dies."""

    def __init__(self, cache_folder: str | os.PathLike[str] | None) -> None:
        self._cache_folder = cache_folder
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would inherit torch's threads in an unknown state
        self.connection, child_end = context.Pipe()
        self._process = context.Process(target=_serve, args=(child_end, self._cache_folder), daemon=True)
        self._process.start()
        child_end.close()

    def submit(self, run: Run) -> None:
        self.run = run
        if not self._process.is_alive():  # it died between two runs
            self._start()
        self.connection.send(run)

    def result(self) -> Record:
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            self._process.join()
            error = f"the process of this run ended with exit code {self._process.exitcode}"
            self._start()
            return _record(self.run, error=error)

    def end(self) -> None:
        self._process.kill()
        self._process.join()


def _serve(connection: Any, cache_folder: str | os.PathLike[str] | None) -> None:
    """Execute runs from a pipe until it is closed: the main loop of a worker process."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()  # type: ignore[func-returns-value]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    torch.set_num_threads(1)
    with threadpool_limits(1):
        while True:
            try:
                run = connection.recv()
            except EOFError:
                return
            connection.send(perform(run, cache_folder))


def perform(run: Run, cache_folder: str | os.PathLike[str] | None = None) -> Record:
    """Execute one run in this process and return its record; test labels are used once, after the selection."""
    started = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if isinstance(run, clustering.ClusteringRun):
                measures = clustering.measure(run)
            else:
                measures = _measure(run, cache_folder)
    except Exception:
        return _record(run, error=traceback.format_exc())
    return _record(run, **measures, wall_seconds=round(time.perf_counter() - started, 3))


def _measure(run: Run, cache_folder: str | os.PathLike[str] | None) -> Record:
    X, truth = _data(run.dataset, run.protocol)
    split = SPLITS[run.protocol](truth, run.rate, run.split)
    y = np.where(split.training | split.validation, truth, -1)
    models = run.models()
    for model in models:  # the first run of a process must not seem to need more than the others
        if isinstance(model, GraphBaseline):
            _graph(run.dataset, run.protocol, model.n_neighbors)
    forget_peak()
    before = resident_bytes()
    best: tuple[tuple[float, float], Any] | None = None
    seconds = 0.0
    for model in models:
        seconds += _fit(model, run, X, y, split.validation, cache_folder)
        correct = model.transduction_[split.validation] == y[split.validation]
        of_truth = model.label_distributions_[split.validation, np.searchsorted(model.classes_, y[split.validation])]
        score = float(np.mean(correct)), float(np.log(of_truth + 1e-12).mean())
        if best is None or score > best[0]:
            best = score, model
    assert best is not None
    (val_accuracy, _), model = best
    peak = peak_bytes()
    measures: Record = {
        "test_accuracy": round(100 * float(np.mean((model.transduction_ == truth)[split.test])), 4),
        "val_accuracy": round(100 * val_accuracy, 4),
        "seconds": round(seconds, 3),
        "peak_mb": None if peak is None or before is None else round((peak - before) / 2**20, 1),
        "n_iter": getattr(model, "n_iter_", None),
        "parameters": plain_parameters(model),
    }
    if hasattr(model, "layer_graphs_"):
        measures["purity"] = [round(_purity(graph, truth), 4) for graph in model.layer_graphs_]
    return measures


def _fit(model: Any, run: Run, X: Any, y: Any, validation: Any, cache_folder: str | os.PathLike[str] | None) -> float:
    """Fit, and return the duration, including that of a graph and an embedding that were cached by an earlier run."""
    options: dict[str, Any] = {"validation_mask": validation if validation.any() else None}
    cached_seconds = 0.0
    if isinstance(model, GraphBaseline):
        options["graph"], cached_seconds = _graph(run.dataset, run.protocol, model.n_neighbors)
    if "cache_folder" in model.get_params():
        model.set_params(cache_folder=cache_folder)
    start = time.perf_counter()
    model.fit(X, y, **options)
    return time.perf_counter() - start + cached_seconds + getattr(model, "cached_seconds_", 0.0)


@cache
def _data(name: str, protocol: Protocol) -> tuple[Any, Any]:
    bunch = SETS[name].load()
    tables = protocol == "lds" and name in ("wine", "breast_cancer")  # standardised there, for all methods
    return scale(bunch.data) if tables else bunch.data, bunch.target


@cache
def _graph(name: str, protocol: Protocol, n_neighbors: int) -> tuple[Any, float]:
    start = time.perf_counter()
    return shared_graph(_data(name, protocol)[0], n_neighbors), time.perf_counter() - start


def _purity(graph: Any, truth: Any) -> float:
    """Return the share of the weights of S between rows of the same class."""
    entries = graph.tocoo()
    rows, columns = entries.coords
    return float(entries.data[truth[rows] == truth[columns]].sum() / entries.data.sum())


def _record(run: Run, *, error: str | None = None, **measures: Any) -> Record:
    names = {"dataset": run.dataset, "rate": run.rate, "split": run.split, "method": run.method}
    labelled = ("test_accuracy", "val_accuracy", "seconds", "peak_mb", "n_iter", "parameters")
    missing = dict.fromkeys(() if isinstance(run, clustering.ClusteringRun) else labelled)
    return {
        **names,
        **missing,
        **measures,
        "hyperparameters": [dict(values) for values in run.hyperparameters],
        "error": error,
        "versions": _versions(),
    }


@cache
def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in _VERSIONED:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def results_path(folder: str | os.PathLike[str], study: str) -> Path:
    """Return the path of the results file of a study."""
    return Path(folder) / f"{study}.jsonl"
