"""The progress bar of a network's training. rich is imported only when it is shown."""

from types import TracebackType
from typing import Any, Self

from angpn.network.training_loop import Epoch, Training


class EpochBar:
    """Show epoch, loss, validation accuracy and the time left on standard error.

    Early stopping has no fixed end: the bar runs to the epoch that will be the last if nothing improves any more, and
    that moves on with every improvement; so does the time left.
    """

    def __init__(self, training: Training, *, enabled: bool) -> None:
        self._training = training
        self._progress: Any = None
        if enabled:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = TextColumn(f"{'epoch':>10}"), MofNCompleteColumn(), BarColumn(), TimeRemainingColumn()
            self._progress = Progress(*columns, TextColumn("{task.fields[status]}"), console=Console(stderr=True))

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
            self._task = self._progress.add_task("", total=self._training.last_epoch, status="")
        return self

    def update(self, epoch: Epoch) -> None:
        """Show an epoch."""
        if self._progress is None:
            return
        status = f"loss {epoch.loss:.4f}"
        if epoch.validation_accuracy is not None:
            status += f"  validation accuracy {epoch.validation_accuracy:.3f}"
        self._progress.update(self._task, completed=epoch.number, total=self._training.last_epoch, status=status)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
