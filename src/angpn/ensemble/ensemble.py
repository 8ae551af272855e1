"""A trained ensemble: its predictions for the rows it was trained on, and for rows that come later."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import scipy.sparse
import torch
from msgspec import Meta
from torch import Tensor

from angpn.ensemble.adaptive_temperature import AdaptiveTemperature
from angpn.ensemble.base_learners import KINDS, BaseLearner, LearnerState
from angpn.ensemble.calibration import Calibration
from angpn.ensemble.config import Hops
from angpn.ensemble.extra_trees import ExtraTrees
from angpn.ensemble.mixture import Mixture
from angpn.ensemble.scaling import Scaling, ScalingName
from angpn.ensemble.user_options import GraphOptions
from angpn.neighbors.exact import Metric
from angpn.neighbors.neighborhood import Neighborhood
from angpn.neighbors.partition import Partition
from angpn.utils.array_checks import check_arrays, singles
from angpn.utils.schema import Saved, Temperature
from angpn.utils.typing import Array

_HOPS_WITHOUT_HEAD: Hops = (0.5, 2)  # of the embedding, where label spreading alone was selected


class EnsembleState(Saved, frozen=True):
    """What a file keeps of an :class:`Ensemble` beside its arrays."""

    scaling: ScalingName
    metric: Metric
    options: GraphOptions
    temperature: Temperature
    learners: Annotated[list[LearnerState], Meta(min_length=1)]
    weights: list[Annotated[float, Meta(ge=1e-9, le=1)]] | None = (
        None  # of the learners, which count alike in a file of before
    )
    temperatures: list[Temperature] | None = None
    base_temperature: Temperature = 1.0  # of the adaptive temperature, which a file of before had in its temperature
    entropy_slope: Annotated[float, Meta(ge=-5, le=5)] = 0.0
    mean_entropy: Annotated[float, Meta(ge=0, le=1)] = 0.0


@dataclass(frozen=True)
class Ensemble:
    """Base learners that share a scaling of the rows and a graph; each has its own hyper-parameters."""

    scaling: Scaling
    options: GraphOptions
    learners: Sequence[BaseLearner]  # the heaviest first
    mixture: Mixture  # of them
    calibration: Calibration
    adaptive_temperature: AdaptiveTemperature  # after the calibration
    graph_probabilities: Tensor | None  # (n, c) what the graph was learnt from beside the distances

    def calibrate(self, log_proba: Tensor) -> Tensor:  # (n, c)
        """Return the probabilities to show for what the mixture gives."""
        return self.adaptive_temperature(self.calibration(log_proba))

    def in_data_order(self, partition: Partition) -> "Ensemble":
        """Return it for all rows in the order of the data; it was trained on those of this partition."""
        learners = [learner.in_data_order(partition) for learner in self.learners]
        probabilities = self.graph_probabilities
        probabilities = None if probabilities is None else partition.gather_in_data_order(probabilities)
        return replace(self, learners=learners, graph_probabilities=probabilities)

    def graphs(self, neighborhood: Neighborhood) -> list[scipy.sparse.csr_array]:
        """Return S of the first round, and of the last."""
        rounds = [None] if self.graph_probabilities is None else [None, self.graph_probabilities]
        return [self.options.learn_graph(neighborhood, probabilities) for probabilities in rounds]

    @property
    def embedding_hops(self) -> Hops:
        """The hops of the heaviest head; trees want columns, which are no embedding."""
        hops = (learner.parameters.hops for learner in self.learners if not isinstance(learner, ExtraTrees))
        return next((found for found in hops if found is not None), _HOPS_WITHOUT_HEAD)

    def state(self) -> tuple[EnsembleState, dict[str, Array]]:
        """Return what a file keeps of it: plain values, and arrays; those of a base learner begin with its number."""
        states: list[Any] = []
        arrays = {"shift": self.calibration.shift.numpy()} | self.scaling.to_arrays()
        if self.graph_probabilities is not None:
            arrays["graph_probabilities"] = self.graph_probabilities.numpy()
        for number, learner in enumerate(self.learners):
            state, own = learner.state()
            states.append(state)
            arrays |= {f"{number}.{name}": array for name, array in own.items()}
        state = EnsembleState(
            scaling=self.scaling.name,
            metric=self.scaling.metric,
            options=self.options,
            temperature=self.calibration.temperature,
            learners=states,
            weights=list(self.mixture.weights),
            temperatures=list(self.mixture.temperatures),
            base_temperature=self.adaptive_temperature.base,
            entropy_slope=self.adaptive_temperature.slope,
            mean_entropy=self.adaptive_temperature.mean_entropy,
        )
        return state, arrays

    @classmethod
    def from_state(
        cls, state: EnsembleState, arrays: Mapping[str, Array], *, n_rows: int, n_features: int, n_classes: int
    ) -> Self:
        """Return the ensemble that :meth:`state` described, after a check of its arrays.

        The keywords say how many rows were fitted, with how many features, and how many classes there are.
        """
        by_owner: dict[str, dict[str, Array]] = {"": {}}
        for name, array in arrays.items():
            owner, _, part = name.rpartition(".")
            by_owner.setdefault(owner, {})[part] = array
        own = by_owner.pop("")
        specs = Scaling.specs(state.scaling, n_features, own)
        specs["shift"] = singles(n_classes)
        if "graph_probabilities" in own:
            specs["graph_probabilities"] = singles(n_rows, n_classes, low=0, high=1.001)  # and rounding
        width = check_arrays(own, specs).get("p", n_features)
        learners = []
        for number, of_learner in enumerate(state.learners):
            kind, parts = KINDS[str(of_learner.__struct_config__.tag)], by_owner.pop(str(number), {})
            learners.append(kind.from_state(of_learner, parts, n_rows=n_rows, width=width, n_classes=n_classes))
        if by_owner:
            raise ValueError(f"there are arrays of {next(iter(by_owner))!r}, which is none of {len(learners)} learners")
        probabilities = arrays.get("graph_probabilities")
        return cls(
            Scaling.from_arrays(state.scaling, state.metric, own),
            state.options,
            learners,
            _mixture(state),
            Calibration(state.temperature, torch.from_numpy(arrays["shift"])),
            AdaptiveTemperature(state.base_temperature, state.entropy_slope, state.mean_entropy),
            None if probabilities is None else torch.from_numpy(probabilities),
        )


def _mixture(state: EnsembleState) -> Mixture:
    count = len(state.learners)
    if state.weights is None or state.temperatures is None:
        return Mixture.equal(count)
    if not len(state.weights) == len(state.temperatures) == count:
        raise ValueError(f"each of {count} learners must have a weight and a temperature")
    return Mixture(tuple(state.weights), tuple(state.temperatures))
