"""Progress bars on standard error. rich is imported only when a bar is shown."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Protocol

_CELLS = 30  # of a bar of plain text
_LINE = 100  # characters of a line: it covers what was there before, also that of a bar around this one
_SECONDS = 0.2  # between two states of it: each is a message to the notebook


class ProgressBar(Protocol):
    """A bar that is shown from ``start`` to ``stop``."""

    def start(self) -> None:
        """Show the bar."""

    def show(self, completed: int, total: int, status: str = "") -> None:
        """Show how many are done, of how many, and a few words."""

    def stop(self) -> None:
        """Leave the last state on the screen."""


def progress_bar(what: str, total: int) -> ProgressBar:
    """Return a bar by rich, or of plain text in a notebook without ipywidgets, where rich can show none.

    Args:
        what: What is counted, in a word.
        total: How many there are.

    Returns:
        The bar, not shown yet.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_jupyter and find_spec("ipywidgets") is None:
        return TextBar(what, total)
    return RichBar(what, total, console)


@contextmanager
def count_bar(what: str, total: int, *, enabled: bool) -> Iterator[Callable[[int], None]]:
    """Show a progress bar; what it yields is called with how many more are done."""
    if not enabled:
        yield lambda count: None
        return
    bar, done = progress_bar(what, total), 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        bar.show(done, total)

    bar.start()
    try:
        yield advance
    finally:
        bar.stop()


class RichBar:
    """A bar by rich."""

    def __init__(self, what: str, total: int, console: Any) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = TextColumn("{task.description:>10}"), MofNCompleteColumn(), BarColumn(), TimeRemainingColumn()
        self._progress = Progress(*columns, TextColumn("{task.fields[status]}"), console=console)
        self._what, self._total = what, total

    def start(self) -> None:
        """Show the bar."""
        self._progress.start()
        self._task = self._progress.add_task(self._what, total=self._total, status="")

    def show(self, completed: int, total: int, status: str = "") -> None:
        """Show how many are done, of how many, and a few words."""
        self._progress.update(self._task, completed=completed, total=total, status=status)

    def stop(self) -> None:
        """Leave the last state on the screen."""
        self._progress.stop()


class TextBar:
    """A bar of plain text: one line of standard error, which a carriage return begins anew."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._state = what, (0, total, "")
        self._last = -1.0

    def start(self) -> None:
        """Show the bar."""
        self._begin = time.monotonic()
        self._write()

    def show(self, completed: int, total: int, status: str = "") -> None:
        """Show how many are done, of how many, and a few words."""
        self._state = completed, total, status
        if time.monotonic() - self._last >= _SECONDS:
            self._write()

    def stop(self) -> None:
        """Leave the last state on the screen."""
        self._write()
        sys.stderr.write("\n")
        sys.stderr.flush()

    def _write(self) -> None:
        self._last = time.monotonic()
        completed, total, status = self._state
        share = min(1.0, completed / total) if total else 1.0
        filled = round(share * _CELLS)
        elapsed = self._last - self._begin
        left = _clock(elapsed / share - elapsed) if share else "-:--"
        line = f"{self._what:>10} {completed}/{total} {'█' * filled}{'░' * (_CELLS - filled)} {left} {status}".rstrip()
        sys.stderr.write("\r" + line.ljust(_LINE))
        sys.stderr.flush()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
