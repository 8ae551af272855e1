"""The process in which cases run, one after another, within limits of time and memory."""

import faulthandler
import importlib
import os
import resource
import shutil
import sys
import tempfile
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

_STATUS, _REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Limits(NamedTuple):
    """What a case may take."""

    seconds: float = 20.0  # of the call; a kind that starts processes of its own has SECONDS
    bytes: int = 2 * 10**9  # that the process holds at its peak
    address_bytes: int = 12 * 10**9  # of its own memory, touched or not: the safety net of the machine


class Outcome(NamedTuple):
    """What came of a case: "accepted", "refused", or the kind of fault and what is known about it."""

    name: str
    details: str = ""
    bytes: int = 0  # at the peak


def serve(connection: Connection, folder: Path, limits: Limits) -> None:
    """Run the cases that come by the pipe, until it is closed; say "made" when a call begins."""
    os.setsid()  # so that it and all it starts can be ended at once
    with (folder / "stderr.txt").open("wb", buffering=0) as log:
        os.dup2(log.fileno(), sys.stderr.fileno())
        os.dup2(log.fileno(), sys.stdout.fileno())
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)  # the driver removes it, however this process ends
    os.environ["ANGPN_CACHE"] = str(folder / "cache")
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_DATA, (limits.address_bytes,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        try:
            kind, seed = connection.recv()
        except EOFError:
            return
        connection.send(run_case(kind, seed, folder / "case", limits, connection))


def run_case(kind: str, seed: int, folder: Path, limits: Limits, connection: Connection) -> Outcome:
    """Make a case in an empty folder, run it, and judge what came of it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    module = importlib.import_module(kind)
    try:
        case = module.make(seed, folder)
    except Exception:
        return Outcome("broken kind", traceback.format_exc())
    connection.send("made")
    if _REFS.exists():
        _REFS.write_text("5")  # the peak begins anew
    try:
        name, details = "accepted" if module.run(case) else "refused", ""
    except BaseException as error:  # a panic in Rust is no Exception
        name, details = getattr(error, "kind", "traceback"), traceback.format_exc()
    peak = _bytes("VmHWM")
    if peak > limits.bytes:
        name, details = "memory", f"took {peak / 1e9:.1f} GB, then {name}\n{details}"
    return Outcome(name, details, peak)


def _bytes(field: str) -> int:
    """Return a figure of this process; 0 where the system does not tell."""
    lines = _STATUS.read_text().splitlines() if _STATUS.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field)), 0)
