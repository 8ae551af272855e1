"""What is read of a fitted classifier: both estimators have it."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from angpn.inspection.accuracy_estimate import Estimate
from angpn.utils.typing import Array

Unit = Literal["round", "epoch"]  # of self-training, or of the training of a network


class FittedClassifier(Protocol):
    """A fitted classifier; its attributes are described at :class:`angpn.ANGPNClassifier`."""

    classes_: Array  # (c,)
    transduction_: Array  # (n,)
    label_distributions_: Array  # (n, c)
    validation_mask_: Array  # (n,) bool
    validation_distributions_: Array | None  # (h, c)
    validation_transduction_: Array  # (h,)
    validation_scores_: Sequence[float] | None
    loss_curve_: Sequence[float]
    n_iter_: int
    best_iter_: int
    n_features_in_: int
    _codes: Array  # (n,) the class number of the given label, -1 where none was given
    _unit: Unit  # that n_iter_ counts

    @property
    def embedding_(self) -> Array:  # (n, width)
        """The propagated features, or the last hidden layer."""

    @property
    def unreliable_rows_(self) -> Any:
        """Positions of rows whose label means little, by reason."""

    def influences(self, n: int) -> tuple[Array, Array]:  # (rows, n) each
        """Return the rows that influenced each row most, and their weights."""

    def suggestions(self, n: int) -> Sequence[Any]:
        """Return the rows most worth labelling next."""

    def estimate_accuracy(self, *, labelled_at_random: Any) -> Estimate | None:
        """Estimate accuracy by the labels that were held out."""
