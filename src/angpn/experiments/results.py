"""The results file of a study: one JSON line for each run."""

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
    """A file of results to which one process at a time appends lines.

    As a context manager it holds a lock, and truncates a line that a killed process left half-written at the end.

    Args:
        path: The file, which need not exist.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._handle: int | None = None

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._open()
        self._truncate_partial_line()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close()

    def append(self, record: Record) -> None:
        """Append a line and flush it to disk.

        Args:
            record: The result of a run, as :func:`~angpn.experiments.runner.perform` returns it.
        """
        assert self._handle is not None
        line = (json.dumps(record) + "\n").encode()
        while line:
            line = line[os.write(self._handle, line) :]
        os.fsync(self._handle)

    def read(self) -> list[Record]:
        """Read all complete lines.

        Returns:
            The records, in the order of the file.

        Raises:
            ValueError: If a line is no JSON object.
        """
        if not self.path.exists():
            return []
        records = []
        for number, line in enumerate(self.path.read_bytes().split(b"\n")[:-1], start=1):
            try:
                record = json.loads(line)
            except ValueError as error:
                raise ValueError(
                    f"{self.path} must hold a JSON object on each line, got {error} in line {number}; "
                    "delete that line, or name another folder"
                ) from None
            if "settings" in record:  # the key until version 0.1.0
                record["hyperparameters"] = record.pop("settings")
            records.append(record)
        return records

    def compact(self, runs: Sequence[Run]) -> None:
        """Rewrite the file with the last line of each run.

        Args:
            runs: Runs whose lines come first, in this order; those of other runs follow.
        """
        latest = {record_key(record): record for record in self.read()}
        first = [record for run in runs if (record := latest.pop(run_key(run), None)) is not None]
        with replacing(self.path) as temporary:
            temporary.write_text("".join(json.dumps(record) + "\n" for record in [*first, *latest.values()]))
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

    def _truncate_partial_line(self) -> None:
        assert self._handle is not None
        end = self.path.read_bytes().rfind(b"\n") + 1
        os.ftruncate(self._handle, end)


def record_key(record: Record) -> str:
    """Return a key that is equal for all records of the same run."""
    names = ("dataset", "rate", "split", "method", "hyperparameters")
    return json.dumps([record[name] for name in names], sort_keys=True)


def run_key(run: Run) -> str:
    """Return the :func:`record_key` of the records of a run."""
    return json.dumps([*run[:4], list(run.hyperparameters)], sort_keys=True)


def latest_records(records: Iterable[Record], runs: Iterable[Run]) -> list[Record]:
    """Return the last record of each run that has one, in the order of the runs."""
    latest = {record_key(record): record for record in records}
    return [latest[run_key(run)] for run in runs if run_key(run) in latest]


def outstanding(runs: Iterable[Run], records: Iterable[Record]) -> list[Run]:
    """Return the runs without a valid record: none, a failure, or one with other parameters."""
    done = {record_key(record): record["parameters"] for record in records if record["error"] is None}
    return [run for run in runs if done.get(run_key(run)) not in run.parameters()]


def reusable_records(runs: Iterable[Run], records: Iterable[Record]) -> list[Record]:
    """Return records of other studies for these runs: same data, split, method and parameters."""
    known = {_fit_key(record): record for record in records if record["error"] is None}
    reused = []
    for run in runs:
        if len(run.hyperparameters) == 1:  # a selection among several is not the result of one fit
            key = json.dumps([*run[:4], run.parameters()[0]], sort_keys=True)
            if key in known:
                reused.append({**known[key], "hyperparameters": [dict(values) for values in run.hyperparameters]})
    return reused


def _fit_key(record: Record) -> str:
    return json.dumps([record[name] for name in ("dataset", "rate", "split", "method", "parameters")], sort_keys=True)
