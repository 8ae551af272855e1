"""The progress bar of a network's training."""

from types import TracebackType
from typing import Self

from angpn.network.training_loop import Epoch, Training
from angpn.utils.progress import progress_bar


class EpochBar:
    """Show epoch, loss, validation accuracy and the time left on standard error.

    Early stopping has no fixed end: the bar runs to the epoch that will be the last if nothing improves any more, and
    that moves on with every improvement; so does the time left.
    """

    def __init__(self, training: Training, *, enabled: bool) -> None:
        self._training = training
        self._bar = progress_bar("epoch", training.last_epoch) if enabled else None

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def update(self, epoch: Epoch) -> None:
        """Show an epoch."""
        if self._bar is None:
            return
        status = f"loss {epoch.loss:.4f}"
        if epoch.validation_accuracy is not None:
            status += f"  validation accuracy {epoch.validation_accuracy:.3f}"
        self._bar.show(epoch.number, self._training.last_epoch, status)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
