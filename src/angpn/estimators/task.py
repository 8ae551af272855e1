"""What a fit is asked, and what it gives."""

import traceback
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight

from angpn.estimators.fitted import FittedCommittee, FittedNetwork
from angpn.neighbors.distributed import broadcast_from_main, is_main_process, n_processes
from angpn.network.coverage import Coverage
from angpn.utils.labels import UNLABELLED, EncodedLabels
from angpn.utils.typing import Array

_WHOLES = ("joblib.", "sklearn.model_selection.", "angpn.labelling.", "angpn.experiments.")


class Task(NamedTuple):
    """What is asked, checked."""

    model: Any  # the estimator, for its parameters
    X: Any
    y: Any
    labels: EncodedLabels
    mask: Array | None
    weights: Array | None
    distances: Any
    n_neighbors: int
    previous: Mapping[str, Any] | None  # the attributes of the last fit, for a warm start
    distributed: bool = False  # whether several processes fit together

    @property
    def n_processes(self) -> int:
        """The number of processes that fit together."""
        return n_processes() if self.distributed else 1

    @property
    def is_main_process(self) -> bool:
        """Whether this process shows progress and writes checkpoints."""
        return not self.distributed or is_main_process()

    def drawn_seed(self) -> int:
        """A seed by ``random_state``; processes that work together have the same."""
        seed = int(check_random_state(self.model.random_state).randint(2**31 - 1))
        return broadcast_from_main(seed) if self.distributed else seed

    def row_weights(self, mask: Array | None, dtype: np.dtype[Any]) -> Array | None:  # (n,)
        """How much each row counts. Balance is that of the training labels: validation labels have no say in it."""
        labels, weights, class_weight = self.labels, self.weights, self.model.class_weight
        if class_weight is None:
            return None if weights is None else weights.astype(dtype)
        known = labels.codes != UNLABELLED
        training = known  # a mask that does not fit is refused further on
        if mask is not None and mask.dtype == bool and mask.shape == known.shape:
            training = known & ~mask
        seen = np.unique(labels.codes[training])
        of_class = np.ones(len(labels.classes))
        of_class[seen] = compute_class_weight(
            class_weight, classes=labels.classes[seen], y=labels.classes[labels.codes[training]]
        )
        weights = np.ones(len(known)) if weights is None else weights
        return np.where(known, weights * of_class[labels.codes], 1.0).astype(dtype)


class Fit(NamedTuple):
    """What a fit gives; see the attributes of the estimator."""

    fitted: FittedNetwork | FittedCommittee
    seed: int
    distributions: Array  # (n, c)
    losses: list[float]  # by epoch or round
    scores: list[float] | None
    best_iter: int  # from 1
    best_score: float | None
    validation_mask: Array  # (n,) bool
    held_codes: Array  # what was predicted for these while their labels were held out
    recall: float
    neighbor_seconds: float
    coverage: Coverage | None


def is_part_of_a_whole() -> bool:
    """Whether fit was called by something larger, which an interrupt should end as a whole."""
    callers = (frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_stack(None))
    return any(name.startswith(_WHOLES) for name in callers)
