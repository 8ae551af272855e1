"""Damaged results files through ``angpn reproduce``."""

import json
import multiprocessing

import numpy as np

from angpn.experiments import SMOKE, runner
from angpn.experiments.results import ResultsFile, run_key
from fuzz.checks import Fault
from fuzz.mutations import damaged, pick
from fuzz.verdict import accepts_command

EVERY = 4  # each writes a report with its figures
VALUES = (
    *(None, True, 0, -1, 1e308, float("nan"), float("inf"), "", "x", "\x1b[2J", "a" * 10_000),
    *([], [1], [[]], {}, {"a": 1}),
)
LINES = (
    *("{}", "5", "[]", "null", "true", '"text"', "", " ", "{", "NaN", "\x00"),
    *('{"dataset": "wine"}', "[" * 5000, "\ufeff{}"),
)


def make(seed, folder):
    """Write the results of all runs of the smoke test, with hostile lines among them."""
    generator = np.random.default_rng(seed)
    lines = [json.dumps(record) for record in map(_record, SMOKE.runs())]
    for _ in range(generator.integers(0, 4)):
        row = generator.integers(len(lines))
        action = generator.integers(5)
        if action == 0:
            lines.insert(row, pick(generator, LINES))
        elif action == 1:
            lines[row] = lines[row][: generator.integers(len(lines[row]) + 1)]
        elif lines[row].startswith('{"'):
            record = json.loads(lines[row]) if lines[row].endswith("}") else {"dataset": "wine"}
            name = pick(generator, sorted(record))
            changed = {**record, name: pick(generator, VALUES)}
            if action == 2:
                del changed[name]
            lines.insert(row, json.dumps(changed))
    content = "".join(f"{line}\n" for line in lines).encode(errors="replace")
    (folder / "grid.jsonl").write_bytes(damaged(content, generator) if generator.random() < 0.2 else content)
    return folder


def run(folder):
    """Reproduce; runs without a good line are computed anew, here by a stand-in that answers at once."""
    path, workers = folder / "grid.jsonl", runner._Worker
    good = _whole_records(path.read_bytes())
    runner._Worker = _AtOnce
    try:
        accepted = accepts_command("reproduce", "--smoke", "--workers", 1, "-o", folder, names=path.name)
    finally:
        runner._Worker = workers
    if lost := good - _whole_records(path.read_bytes()):
        raise Fault("result", f"good lines must be kept, got none of {sorted(lost)}")
    if not accepted:
        return False
    found = {
        json.dumps([record[name] for name in ("dataset", "rate", "split", "method")])
        for record in ResultsFile(path).read()
    }
    if len(found) < len(SMOKE.runs()) or not (folder / "report.html").exists():
        raise Fault(
            "result",
            f"a result of every run and a report must be there, got {len(found)} and {sorted(folder.iterdir())}",
        )
    return True


def _whole_records(content):
    """Return the lines that are whole records of a run of this study, as they are."""
    good = {json.dumps(_record(run)) for run in SMOKE.runs()}
    return {line for line in content.decode(errors="replace").split("\n")[:-1] if line in good}


def _record(run):
    measures = {
        "test_accuracy": 90.0,
        "val_accuracy": 91.0,
        "seconds": 0.5,
        "wall_seconds": 0.6,
        "peak_mb": 1.0,
        "n_iter": 20,
    }
    return runner._record(run, **measures, parameters=run.parameters()[0])


class _AtOnce:
    """A worker that has every result already."""

    def __init__(self, cache_folder):
        self.connection, self._other = multiprocessing.Pipe()

    def submit(self, run):
        self.run = run
        self._other.send(run_key(run))

    def result(self):
        self.connection.recv()
        return _record(self.run)

    def end(self):
        self.connection.close()
