"""``model.save`` and ``write_output``, killed at a random file operation or moment: old or new, whole."""

import csv
import os
import signal
import sys
import time
from functools import cache

import numpy as np

from angpn import ANGPNClassifier
from angpn.labelling import write_output
from fuzz import good_files
from fuzz.checks import Fault, listing
from fuzz.mutations import pick

EVENTS = ("open", "os.", "shutil.", "tempfile.")
EVERY = 2


def make(seed, folder):
    """Write the old result, and draw where to kill the writer of the new one."""
    generator = np.random.default_rng(seed)
    write = pick(generator, [_save, _output])
    write("array", folder)
    moment = None if generator.random() < 0.7 else float(generator.random() * _duration(write))
    return write, folder, int(generator.integers(_n_operations(write))), moment


def run(case):
    """Kill a child that writes; return whether the new result is there. The next good run must leave nothing else."""
    write, folder, operation, moment = case
    ended = _in_child(write, folder, operation if moment is None else None, moment)
    if ended not in (0, -signal.SIGKILL):
        raise Fault("crash", f"the writer ended with {ended}")
    try:
        found = _found(write, folder)
    except OSError as error:
        raise Fault("result", f"the old or the new result must be whole, got {error}") from error
    old, new = (_expected(write, kind) for kind in ("array", "table"))
    if found not in (old, new):
        raise Fault("result", f"the old or the new result must be whole, got {found} (killed: {ended != 0})")
    write("table", folder)
    if left := listing(folder) ^ listing(good_files.folder() / f"{write.__name__}-table"):
        raise Fault("leftovers", f"a good run must clean what a killed one left, got {sorted(left)}")
    return found == new


def _save(kind, folder):
    good_files.labelled(kind).model.save(folder / "model.angpn")


def _output(kind, folder):
    write_output(good_files.labelled(kind), folder / "out")


def _found(write, folder):
    """Return by what each file was written: the ids of the predictions, the shape of the model, the report's input."""
    if write is _save:
        return [ANGPNClassifier.load(folder / "model.angpn").n_features_in_]
    out = folder / "out"
    with (out / "predictions.csv").open(newline="") as file:
        first = next(csv.DictReader(file))["id"]
    page = (out / "report.html").read_text()
    model = ANGPNClassifier.load(out / "model" / "classifier.angpn")
    size = (out / "model" / "encoder.angpn").stat().st_size
    return [first, model.n_features_in_, size, "table.csv" in page, page.rstrip().endswith("</html>")]


@cache
def _expected(write, kind):
    folder = good_files.folder() / f"{write.__name__}-{kind}"
    folder.mkdir()
    write(kind, folder)
    return _found(write, folder)


@cache
def _n_operations(write):
    """Count the file operations of a whole run, in a child whose answer is its exit code."""
    folder = good_files.folder() / f"{write.__name__}-count"
    folder.mkdir()
    write("array", folder)
    return _in_child(write, folder, -1, None)


@cache
def _duration(write):
    _expected(write, "table")
    folder = good_files.folder() / f"{write.__name__}-table"
    start = time.monotonic()
    write("table", folder)
    return time.monotonic() - start


def _in_child(write, folder, operation, moment):
    """Write the new result in a fork that is killed; return its exit code. Operation -1 counts them."""
    good_files.labelled("table")
    child = os.fork()
    if not child:
        count = 0

        def kill(event, arguments):
            nonlocal count
            if event.startswith(EVENTS) and str(folder) in "".join(map(str, arguments)):
                if count == operation:
                    os.kill(os.getpid(), signal.SIGKILL)
                count += 1

        try:
            if operation is not None:
                sys.addaudithook(kill)
            write("table", folder)
        except BaseException:
            os._exit(111)
        os._exit(count if operation == -1 else 0)
    if moment is not None:
        time.sleep(moment)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
