"""What all base learners of the ensemble have in common, and how several kinds of them are fitted together.

To add a kind: a class with the methods of :class:`BaseLearner`, a frozen dataclass of its hyper-parameters with the
properties of :class:`HyperParameters`, a schema of its saved state that bears its name as the tag, both in ``KINDS``
and ``LearnerState``, and candidates of it in :mod:`angpn.ensemble.model_selection`.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol, Self

from torch import Tensor

from angpn.ensemble.config import EnsembleConfig, Family, Hops
from angpn.ensemble.extra_trees import ExtraTrees, TreesState
from angpn.ensemble.folds import Labels
from angpn.ensemble.heads import HeadState, PropagatedHead
from angpn.ensemble.label_spreading import LabelSpreading, SpreadingState
from angpn.ensemble.propagated_features import Problem, PropagatedFeatures
from angpn.neighbors.distributed import ParallelMap
from angpn.neighbors.partition import Partition
from angpn.utils.schema import Saved
from angpn.utils.typing import Array


class HyperParameters(Protocol):
    """The hyper-parameters of a base learner: hashable, and equal to the same ones of the same kind only."""

    @property
    def learner(self) -> "type[BaseLearner]":
        """The kind of base learner that has these."""

    @property
    def hops(self) -> Hops | None:
        """The hops of the features it is trained on; None where features play no part."""

    @property
    def inputs(self) -> Hashable:
        """What it is trained on beside the labels: those of one kind with the same inputs are scored together."""

    @property
    def influence_hops(self) -> Hops:
        """The hops over which other rows influence a prediction."""

    @property
    def is_expensive(self) -> bool:
        """Whether a fit takes many times as long as the cheapest."""

    @property
    def family(self) -> Family:
        """Those that err on much the same rows have one name."""

    def bonus(self, config: EnsembleConfig, *, of_table: bool) -> float:
        """Return how much likelier held-out labels would have to be under others, as a sum of logarithms."""


class BaseLearner(Protocol):
    """A classifier on propagated features or on the graph itself."""

    @property
    def parameters(self) -> HyperParameters:
        """Its hyper-parameters."""

    @classmethod
    def fit(
        cls,
        candidates: Sequence[Any],
        problems: Sequence[Problem],
        *,
        centers: Array,
        n_classes: int,
        config: EnsembleConfig,
        parallel_map: ParallelMap,
    ) -> list[list[Self]]:
        """For each problem fit one with each of these hyper-parameters, of its kind; compute what they share once."""

    @classmethod
    def cross_validate(
        cls,
        candidates: Sequence[Any],
        features: PropagatedFeatures,
        labels: Labels,
        folds: slice,
        *,
        config: EnsembleConfig,
    ) -> list[Tensor]:  # (h, c) each
        """Return the log-probabilities of the held-out rows of some folds for each candidate, by this process alone.

        All candidates have the same inputs."""

    @classmethod
    def log_proba(cls, learners: Sequence[Any], features: PropagatedFeatures) -> list[Tensor]:  # (n, c) each
        """Return the log-probabilities of the rows of this process by each of these, which have the same inputs."""

    def log_proba_of(self, features: PropagatedFeatures, rows: Array) -> Tensor:  # (r, c)
        """Return the log-probabilities of some rows of the data."""

    def log_proba_new(self, new: Any) -> Tensor:  # (r, c)
        """Return the log-probabilities of new rows, see :class:`angpn.ensemble.inductive.NewRows`."""

    def in_data_order(self, partition: Partition) -> Self:
        """Return it for all rows in the order of the data, where it was trained on those of a partition."""

    def state(self) -> tuple[Saved, dict[str, Array]]:
        """Return what a file keeps of it: plain values, and arrays."""

    @classmethod
    def from_state(cls, state: Any, arrays: Mapping[str, Array], *, n_rows: int, width: int, n_classes: int) -> Self:
        """Return the base learner that :meth:`state` described, after a check of its arrays.

        The keywords say how many rows were fitted, how wide their propagated features are, and how many classes there
        are.
        """


LearnerState = HeadState | SpreadingState | TreesState
KINDS: dict[str, type[BaseLearner]] = {
    "head": PropagatedHead,
    "label_spreading": LabelSpreading,
    "extra_trees": ExtraTrees,
}


def fit_base_learners(
    candidates: Sequence[HyperParameters],
    problems: Sequence[Problem],
    *,
    centers: Array,  # rows of the data that kernels are centred on
    n_classes: int,
    config: EnsembleConfig,
    parallel_map: ParallelMap,
) -> list[list[BaseLearner]]:
    """For each problem return base learners with these hyper-parameters, in their order."""
    found: list[dict[HyperParameters, BaseLearner]] = [{} for _ in problems]
    for kind in KINDS.values():
        own = [candidate for candidate in candidates if candidate.learner == kind]
        if not own:
            continue
        fitted = kind.fit(own, problems, centers=centers, n_classes=n_classes, config=config, parallel_map=parallel_map)
        for by_candidate, learners in zip(found, fitted, strict=True):
            by_candidate.update(zip(own, learners, strict=True))
    return [[by_candidate[candidate] for candidate in candidates] for by_candidate in found]
