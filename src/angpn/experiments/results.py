"""The results file: a JSON line for each run, whole or not there."""

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from angpn.experiments.studies import Run
from angpn.utils.files import replacing

Record = dict[str, Any]


class ResultsFile:
    """Results that are appended a line at a time, by one process at a time.

    Used as a context manager it is locked, and what a killed process left half-written at the end is cut off.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._handle: int | None = None

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._open()
        self._cut_torn_line()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close()

    def append(self, record: Record) -> None:
        """Add a line; it is on the disk when this returns."""
        assert self._handle is not None
        line = (json.dumps(record) + "\n").encode()
        while line:
            line = line[os.write(self._handle, line) :]
        os.fsync(self._handle)

    def read(self) -> list[Record]:
        """All whole lines."""
        if not self.path.exists():
            return []
        records = []
        for number, line in enumerate(self.path.read_bytes().split(b"\n")[:-1], start=1):
            try:
                records.append(json.loads(line))
            except ValueError as error:
                raise ValueError(
                    f"{self.path} must hold a JSON object on each line, got {error} in line {number}; "
                    "delete that line, or name another folder"
                ) from None
        return records

    def tidy(self, runs: Sequence[Run]) -> None:
        """Write the file anew: of each run the last line, those of ``runs`` in their order and before all others."""
        latest = {identity(record): record for record in self.read()}
        wanted = [found for run in runs if (found := latest.pop(run_identity(run), None)) is not None]
        with replacing(self.path) as temporary:
            temporary.write_text("".join(json.dumps(record) + "\n" for record in [*wanted, *latest.values()]))
        self._close()
        self._open()

    def _open(self) -> None:
        self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        with suppress(ImportError):  # no such locks on Windows
            import fcntl

            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self._close()
                raise BlockingIOError(
                    f"{self.path} must be written by one process, got a second; wait for the other or end it"
                ) from None

    def _close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _cut_torn_line(self) -> None:
        assert self._handle is not None
        whole = self.path.read_bytes().rfind(b"\n") + 1
        os.ftruncate(self._handle, whole)


def identity(record: Record) -> str:
    """What two lines of the same run have in common."""
    return json.dumps([record[name] for name in ("dataset", "rate", "split", "method", "settings")], sort_keys=True)


def run_identity(run: Run) -> str:
    """:func:`identity` of a run that may not have a line yet."""
    return json.dumps([*run[:4], list(run.settings)], sort_keys=True)


def of_runs(records: Iterable[Record], runs: Iterable[Run]) -> list[Record]:
    """The last result of each of these runs, in their order; lines of other runs and older ones are left out."""
    latest = {identity(record): record for record in records}
    return [latest[run_identity(run)] for run in runs if run_identity(run) in latest]


def outstanding(runs: Iterable[Run], records: Iterable[Record]) -> list[Run]:
    """The runs without a result: none yet, a failure, or one that was made with other parameters."""
    done = {identity(record): record["parameters"] for record in records if record["error"] is None}
    return [run for run in runs if done.get(run_identity(run)) not in run.parameters()]


def borrowed(runs: Iterable[Run], records: Iterable[Record]) -> list[Record]:
    """The results of other studies that answer these runs too: same data, split, method and parameters."""
    known = {_place(record): record for record in records if record["error"] is None}
    found = []
    for run in runs:
        if len(run.settings) == 1:  # else it is a choice among several, which no single fit answers
            place = json.dumps([*run[:4], run.parameters()[0]], sort_keys=True)
            if place in known:
                found.append({**known[place], "settings": [dict(setting) for setting in run.settings]})
    return found


def _place(record: Record) -> str:
    return json.dumps([record[name] for name in ("dataset", "rate", "split", "method", "parameters")], sort_keys=True)
