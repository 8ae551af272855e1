"""The results file of a study: one JSON line for each run."""

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from angpn.experiments.record_format import Record as Record
from angpn.experiments.record_format import parse_record
from angpn.experiments.studies import Run
from angpn.utils.checks import warn
from angpn.utils.files import replacing


class _DamagedLine(NamedTuple):
    number: int  # from 1
    line: bytes
    reason: str


class ResultsFile:
    """A file of results to which one process at a time appends lines.

    As a context manager it holds a lock, and truncates a line that a killed process left half-written at the end. Lines
    that are damaged otherwise are left out with a warning, and moved to a file beside it when it is compacted.

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
        """Read all complete lines; warn of those that are damaged, and leave them out.

        Returns:
            The records, in the order of the file.
        """
        records, damaged = self._parse()
        if damaged:
            numbers = ", ".join(str(each.number) for each in damaged[:10]) + (", ..." if len(damaged) > 10 else "")
            warn(
                f"{self.path} must hold the record of a run on each line, got {damaged[0].reason} in line "
                f"{damaged[0].number}; damaged lines ({numbers}) are left out, and `angpn reproduce` repeats their "
                f"runs and moves them to {self._damaged_path.name}"
            )
        return records

    def _parse(self) -> tuple[list[Record], list[_DamagedLine]]:
        records: list[Record] = []
        damaged: list[_DamagedLine] = []
        if not self.path.exists():
            return records, damaged
        *lines, tail = self.path.read_bytes().split(b"\n")
        if _is_record(tail):  # whole, but for its line break
            lines.append(tail)
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                records.append(parse_record(line))
            except ValueError as error:
                damaged.append(_DamagedLine(number, line, str(error)))
        return records, damaged

    @property
    def _damaged_path(self) -> Path:
        return self.path.with_name(f"{self.path.name}.damaged")

    def compact(self, runs: Sequence[Run]) -> None:
        """Rewrite the file with the last line of each run; damaged lines are moved to ``<name>.damaged``.

        Args:
            runs: Runs whose lines come first, in this order; those of other runs follow.
        """
        records, damaged = self._parse()
        self._set_aside([each.line for each in damaged])
        latest = {record_key(record): record for record in records}
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
        content = self.path.read_bytes()
        end = content.rfind(b"\n") + 1
        if _is_record(content[end:]):
            os.write(self._handle, b"\n")
        else:
            os.ftruncate(self._handle, end)

    def _set_aside(self, lines: Sequence[bytes]) -> None:
        """Append lines to the file of damaged ones, on the disk before they leave this file."""
        if not lines:
            return
        path = self._damaged_path
        known = set(path.read_bytes().split(b"\n")) if path.exists() else set()  # by a compaction that was killed
        with path.open("ab") as file:
            file.write(b"".join(line + b"\n" for line in lines if line not in known))
            file.flush()
            os.fsync(file.fileno())


def _is_record(line: bytes) -> bool:
    try:
        parse_record(line)
    except ValueError:
        return False
    return True


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
