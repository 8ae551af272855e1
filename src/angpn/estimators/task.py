"""What an estimator is asked to fit, and what a fit returns."""

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight

from angpn.estimators.fitted_models import Fitted
from angpn.neighbors.distributed import broadcast_from_main, is_main_process, n_processes
from angpn.utils.checks import warn
from angpn.utils.labels import UNLABELLED, EncodedLabels
from angpn.utils.typing import Array

Result = TypeVar("Result")

_OUTER_LOOPS = ("joblib.", "sklearn.model_selection.", "angpn.inspection.", "angpn.labelling.", "angpn.experiments.")


class Task(NamedTuple):
    """A fit that was asked for, checked."""

    model: Any  # the estimator, for its parameters
    X: Any
    y: Any
    labels: EncodedLabels
    mask: Array | None
    weights: Array | None
    distances: Any
    n_neighbors: int
    previous: Mapping[str, Any] | None  # the attributes of the last fit, for a warm start
    distributed: bool  # whether several processes fit together

    @property
    def n_processes(self) -> int:
        """How many processes fit together."""
        return n_processes() if self.distributed else 1

    @property
    def is_main_process(self) -> bool:
        """Whether this process writes, warns and shows progress for all."""
        return not self.distributed or is_main_process()

    def draw_seed(self) -> int:
        """Draw a seed by ``random_state``; processes that fit together get the same."""
        seed = int(check_random_state(self.model.random_state).randint(2**31 - 1))
        return broadcast_from_main(seed) if self.distributed else seed

    def row_weights(self, mask: Array | None) -> Array | None:  # (n,) float64
        """Return how much each row counts; classes are balanced by the training labels alone."""
        labels, weights, class_weight = self.labels, self.weights, self.model.class_weight
        if class_weight is None:
            return weights
        known = labels.codes != UNLABELLED
        training = known  # a mask that does not fit is refused further on
        if mask is not None and mask.dtype == bool and mask.shape == known.shape:
            training = known & ~mask
        seen = np.unique(labels.codes[training])
        of_class, names = np.ones(len(labels.classes)), labels.classes
        if names.dtype.kind in "SmM":  # scikit-learn knows weights of numbers and text only
            if isinstance(class_weight, Mapping):
                class_weight = {code: class_weight[name] for code, name in enumerate(names) if name in class_weight}
            names = np.arange(len(names))
        of_class[seen] = compute_class_weight(class_weight, classes=names[seen], y=names[labels.codes[training]])
        weights = np.ones(len(known)) if weights is None else weights
        with np.errstate(over="ignore"):  # what is infinite is refused further on
            return np.where(known, weights * of_class[labels.codes], 1.0)


class Fit(NamedTuple):
    """What a fit returns; see the attributes of the estimators."""

    fitted: Fitted
    seed: int
    distributions: Array  # (n, c)
    losses: list[float]  # by epoch or round
    scores: list[float] | None
    best_iter: int  # from 1
    best_score: float | None
    validation_mask: Array  # (n,) bool
    held_distributions: Array  # (h, c) of these while their labels were held out
    recall: float
    neighbor_seconds: float
    warm_state: Any = None  # what a warm start begins with, beside the fitted model


@contextmanager
def interrupts() -> Iterator[None]:
    """Let Ctrl-C be a KeyboardInterrupt also where it came while C code called Python, which made a SystemError of it.

    numba's loading of what it compiled is such a place. Each call on the way out adds a SystemError to the chain.
    """
    try:
        yield
    except SystemError as error:
        cause: BaseException | None = error
        while isinstance(cause, SystemError):
            cause = cause.__cause__
        if not isinstance(cause, KeyboardInterrupt):
            raise
        raise KeyboardInterrupt from error


def finish(task: Task, step: Callable[[], Result]) -> Result:
    """Run the last step of a fit; Ctrl-C starts it again, since it is short and all that was trained would be lost."""
    try:
        with interrupts():
            return step()
    except KeyboardInterrupt:
        if task.n_processes > 1 or is_inside_outer_loop():
            raise
        warn("the fit was interrupted after training, and finishes; press Ctrl-C again to end it without a result")
        return step()


def is_inside_outer_loop() -> bool:
    """Tell whether fit was called by something larger, such as a search, which an interrupt should end as a whole."""
    callers = (frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_stack(None))
    return any(name.startswith(_OUTER_LOOPS) for name in callers)
