"""Kill real writes: ``python killed_output.py operations|saves FOLDER [NUMBER]`` prints what was found as JSON.

A process of its own with one thread, since forks of a process with threads may hang in numerical libraries.
"""

import functools
import json
import os
import random
import shutil
import sys
import time
from pathlib import Path

import numpy as np

import angpn
from angpn.inspection import model_report
from angpn.inspection.map_layout import map_layout
from angpn.labelling import (
    LabellingOptions,
    LabellingTask,
    Rows,
    output_folder,
    run_task,
    write_output,
)
from angpn.labelling.output import predict_file
from kills import run_and_kill
from saved_files import read_saved

NAMES = ["model", "next.csv", "predictions.csv", "report.html"]
SAVED = ("model/classifier.angpn", "model/encoder.angpn")


def make_result(seed):
    """A result on 60 rows of two classes, whose names tell results apart."""
    generator = np.random.default_rng(seed)
    features = (generator.normal(size=(60, 4)) + np.where(np.arange(60) % 2, 3, -3)[:, None]).astype(np.float32)
    y = np.array([f"class {seed} {row % 2}" if row < 20 else None for row in range(60)], dtype=object)
    rows = Rows("array", [f"row {seed} {row}" for row in range(60)], features, None)
    return run_task(LabellingTask(LabellingOptions(input=f"rows {seed}", seed=seed), rows, y))


def seen(folder):
    """What a reader of the three outputs finds in their files; None where there is none of them.

    The rows to label next are a file of their own, which is written after the result.
    """
    found = [(folder / name).read_bytes() if (folder / name).exists() else None for name in NAMES[2:]]
    found += [contents(folder / path) if (folder / path).exists() else None for path in SAVED]
    return None if found == [None] * 4 else found


def contents(path):
    """What a file holds; its bytes may differ, since safetensors writes metadata in any order."""
    saved = read_saved(path)
    return saved.header, {name: (array.dtype, array.shape, array.tobytes()) for name, array in saved.arrays.items()}


def downgrade(folder):
    """Turn a result into one as version 0.1.0 wrote it."""
    for name in ("predictions.csv", "report.html"):
        (folder / name).unlink()
        (folder / "model" / name).rename(folder / name)


def kill_at_every_operation(folder):
    """Kill ``write_output`` at each of its file operations, and count what is then in the folder."""
    old, new = make_result(1), make_result(2)
    positions = {id(result.model): map_layout(result.model.embedding_) for result in (old, new)}
    model_report.map_layout = lambda embedding, seed: positions[id((old if seed == 1 else new).model)]
    os.fsync = lambda handle: None  # a kill loses nothing that the system has
    expected = {}
    for name, result in (("old", old), ("new", new)):
        write_output(result, folder / name)
        expected[name] = seen(folder / name)
    exchange, found = output_folder.exchange, {}
    for before in ("nothing", "result", "0.1.0", "no exchange"):
        output_folder.exchange = (lambda first, second: False) if before == "no exchange" else exchange
        counts = found[before] = {"old": 0, "new": 0, "mixed": 0, "leftovers": 0, "kills": 0}
        killed = True
        while killed:
            out = folder / "out"
            shutil.rmtree(out, ignore_errors=True)
            if before != "nothing":
                write_output(old, out)
            if before == "0.1.0":
                downgrade(out)
            killed = run_and_kill(functools.partial(write_output, new, out), at=counts["kills"])
            if before == "no exchange":
                output_folder.recover_output(out)
            state = seen(out)
            whole = {"new": expected["new"], "old": None if before == "nothing" else expected["old"]}
            counts[next((name for name, content in whole.items() if state == content), "mixed")] += 1
            write_output(new, out)
            counts["leftovers"] += sorted(os.listdir(out)) != NAMES or seen(out) != expected["new"]
            counts["kills"] += killed
    np.save(folder / "rows.npy", new.task.rows.content)
    lines = predict_file(folder / "out" / "model", folder / "rows.npy").csv
    found["labels of the model"] = sorted({line.split(",")[1] for line in lines.splitlines()[1:]})
    return found


def kill_saves(folder, number):
    """Kill ``save`` at random moments over an earlier file, and look at what is then in the folder."""
    generator, random_state = np.random.default_rng(0), random.Random(0)
    X = generator.normal(size=(2000, 2000)).astype(np.float32)
    y = np.where(np.arange(2000) < 200, (X[:, 0] > 0).astype(int), -1)
    model = angpn.ANGPNNetworkClassifier(max_iter=2, random_state=0).fit(X, y)
    path = folder / "model.angpn"
    start = time.perf_counter()
    model.save(path)
    seconds, content = time.perf_counter() - start, contents(path)
    kills = most = broken = 0
    while kills < number:
        kills += run_and_kill(functools.partial(model.save, path), after=random_state.uniform(0, 1.2 * seconds))
        most = max(most, len(os.listdir(folder)) - 1)
        broken += contents(path) != content
    model.save(path)
    return {"kills": kills, "broken": broken, "most leftovers": most, "left": os.listdir(folder), "seconds": seconds}


if __name__ == "__main__":
    what, folder = sys.argv[1], Path(sys.argv[2])
    print(json.dumps(kill_at_every_operation(folder) if what == "operations" else kill_saves(folder, int(sys.argv[3]))))
