"""Hostile calls in a worker process, until time is up: ``make fuzz MINUTES=10``. Saves what broke, counts the rest.

A kind is a module of ``fuzz.kinds`` with ``make(seed, folder)``, which writes a hostile input and depends on the seed
alone, and ``run(case)``, which returns whether the call accepted it and raises where neither a valid result nor a
refusal of our own came back. ``EVERY`` (default 1) is in which rounds it takes part, ``SECONDS`` a limit of its own.
"""

import argparse
import importlib
import itertools
import multiprocessing
import os
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Self

from fuzz.summary import Summary
from fuzz.worker import Limits, Outcome, serve

SECONDS_TO_MAKE = 180.0  # the first case of a kind fits the models that later ones damage


class Worker:
    """A worker process, replaced where it ended."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._folder, self._limits = folder, limits
        self._process: multiprocessing.process.BaseProcess | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._process is not None:
            self._end(signal.SIGKILL)

    def run(self, kind: str, seed: int) -> Outcome:
        """Run a case in the process; it ends where a limit is exceeded."""
        if self._process is None or not self._process.is_alive():
            self._start()
        seconds = getattr(importlib.import_module(kind), "SECONDS", self._limits.seconds)
        try:
            self._connection.send((kind, seed))
            for limit in (SECONDS_TO_MAKE, seconds):
                if not self._connection.poll(limit):
                    return Outcome("hang", f"no answer within {limit} s\n{self._end(signal.SIGABRT)}")
                answer = self._connection.recv()
                if isinstance(answer, Outcome):
                    if answer.bytes > self._limits.bytes / 2:
                        self._end(signal.SIGKILL)  # what it keeps must not count as memory of the next case
                    return answer
        except (EOFError, OSError):
            log = self._end(signal.SIGKILL)
            return Outcome("crash", f"{log}\nthe process ended with exit code {self._exit_code}")
        raise AssertionError("a case is made once")

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, child_end = context.Pipe()
        self._process = context.Process(target=serve, args=(child_end, self._folder, self._limits))
        self._process.start()
        child_end.close()

    def _end(self, number: int) -> str:
        """End the process and what it started; return what it wrote to standard error, such as where it hung."""
        assert self._process is not None
        assert self._process.pid is not None
        if self._process.is_alive():
            os.kill(self._process.pid, number)
            self._process.join(5)
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # all have ended, or it had no group of its own yet
            self._process.kill()
        self._process.join()
        self._exit_code, self._process = self._process.exitcode, None
        self._connection.close()
        log = self._folder / "stderr.txt"
        told = log.read_text(errors="replace") if log.exists() else ""
        return told.partition("\nExtension modules:")[0][-4000:]


def kind_names() -> list[str]:
    """Return the names of all kinds."""
    return sorted(path.stem for path in (Path(__file__).parent / "kinds").glob("[a-z]*.py"))


def schedule(kinds: Sequence[str], seed: int, rounds: int | None) -> Iterator[tuple[str, int]]:
    """Yield kind and seed of each case: all kinds in turn, the slow ones in some rounds only."""
    for number in itertools.count() if rounds is None else range(rounds):
        for kind in kinds:
            if number % getattr(importlib.import_module(kind), "EVERY", 1) == 0:
                yield kind, seed + number


def fuzz(
    kinds: Sequence[str],  # modules
    folder: Path,
    *,
    seed: int = 0,
    rounds: int | None = None,
    minutes: float | None = None,
    jobs: int = 1,
    limits: Limits | None = None,
) -> Summary:
    """Run cases until the rounds are done or time is up; save what broke below the folder."""
    summary, lock, cases = Summary(folder), Lock(), schedule(kinds, seed, rounds)
    end = None if minutes is None else time.monotonic() + 60 * minutes

    def loop(number: int) -> None:
        with (
            tempfile.TemporaryDirectory(prefix="work", ignore_cleanup_errors=True) as made,
            Worker(Path(made), limits or Limits()) as worker,
        ):
            while end is None or time.monotonic() < end:
                with lock:
                    case = next(cases, None)
                if case is None:
                    return
                start = time.monotonic()
                outcome = worker.run(*case)
                with lock:
                    summary.add(*case, outcome, time.monotonic() - start, inputs=Path(made) / "case")

    os.environ.setdefault("OMP_NUM_THREADS", "1")  # of the workers: waiting threads would spin
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(loop, range(jobs)))
    return summary


def main() -> int:
    """Run the command; return 1 where something broke."""
    parser = argparse.ArgumentParser(prog="make fuzz", description="Hostile calls; what broke is saved.")
    parser.add_argument("--minutes", type=float, help="how long")
    parser.add_argument("--rounds", type=int, help="how many cases of each kind, instead of minutes")
    parser.add_argument("--kinds", default="", help=f"comma-separated, of {', '.join(kind_names())}; default all")
    parser.add_argument("--seed", type=int, help="that of the first round; default a random one")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes")
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"), help="where to save what broke")
    options = parser.parse_args()
    kinds = [name for name in options.kinds.split(",") if name] or kind_names()
    unknown = sorted(set(kinds) - set(kind_names()))
    if unknown:
        parser.error(f"--kinds knows {', '.join(kind_names())}; got {', '.join(unknown)}")
    if options.rounds is None and options.minutes is None:
        parser.error("pass --minutes or --rounds")
    seed = secrets.randbelow(10**9) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    modules = [f"fuzz.kinds.{name}" for name in kinds]
    minutes = options.minutes if options.rounds is None else None
    summary = fuzz(modules, options.folder, seed=seed, rounds=options.rounds, minutes=minutes, jobs=options.jobs)
    print(summary)
    if summary.faults:
        print(f"faults are saved in {options.folder}: inputs, traceback, and the command that repeats them")
    return 1 if summary.faults else 0


if __name__ == "__main__":
    sys.exit(main())
