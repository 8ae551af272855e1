"""scikit-learn's callback protocol (1.9 and later), notified of every epoch or round."""

from collections.abc import Callable
from typing import Any, TypeVar

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # an older scikit-learn has no callbacks to set
    Method = TypeVar("Method", bound=Callable[..., Any])

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing to support."""

    def with_callbacks(method: Method) -> Method:
        """The method as it is."""
        return method


__all__ = ["CallbackSupportMixin", "EpochCallbacks", "with_callbacks"]


class EpochCallbacks:
    """Notifies the callbacks set on an estimator; costs nothing where none are set."""

    def __init__(self, estimator: Any, max_iter: int, X: Any, y: Any) -> None:
        self._about = {"estimator": estimator, "X": X, "y": y}
        self._context = None
        if getattr(estimator, "_skl_callbacks", None):
            self._context = estimator._init_callback_context(max_subtasks=max_iter)
            self._context.call_on_fit_task_begin(**self._about)

    def stop_after_epoch(self) -> bool:
        """Report an epoch; True if a callback asks to stop."""
        if self._context is None:
            return False
        epoch = self._context.subcontext(task_name="epoch").call_on_fit_task_begin(**self._about)
        return bool(epoch.call_on_fit_task_end(**self._about))

    def end(self) -> None:
        """Report the end of the fit."""
        if self._context is not None:
            self._context.call_on_fit_task_end(**self._about)
