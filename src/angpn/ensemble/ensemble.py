"""A trained ensemble: its predictions for the rows it was trained on, and for rows that come later."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import scipy.sparse
import torch
from torch import Tensor

from angpn.ensemble.base_learners import KINDS, BaseLearner
from angpn.ensemble.calibration import Calibration
from angpn.ensemble.config import Hops
from angpn.ensemble.scaling import Scaling
from angpn.ensemble.user_options import GraphOptions
from angpn.neighbors.neighborhood import Neighborhood
from angpn.neighbors.partition import Partition
from angpn.utils.typing import Array

_HOPS_WITHOUT_HEAD: Hops = (0.5, 2)  # of the embedding, where label spreading alone was selected


@dataclass(frozen=True)
class Ensemble:
    """Base learners that share a scaling of the rows and a graph; each has its own hyper-parameters."""

    scaling: Scaling
    options: GraphOptions
    learners: Sequence[BaseLearner]  # best first
    calibration: Calibration
    graph_probabilities: Tensor | None  # (n, c) what the graph was learnt from beside the distances

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
        """The hops of the best base learner that has any."""
        hops = (learner.parameters.hops for learner in self.learners)
        return next((found for found in hops if found is not None), _HOPS_WITHOUT_HEAD)

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what a file keeps of it: plain values, and arrays."""
        kinds = {kind: name for name, kind in KINDS.items()}
        states = [learner.state() for learner in self.learners]
        header = {
            "scaling": self.scaling.name,
            "metric": self.scaling.metric,
            "options": list(self.options),
            "temperature": self.calibration.temperature,
            "learners": [
                {"kind": kinds[type(learner)], **plain}
                for learner, (plain, _) in zip(self.learners, states, strict=True)
            ],
        }
        arrays: dict[str, Any] = {"shift": self.calibration.shift.numpy()}
        arrays |= {name: getattr(self.scaling, name) for name in ("center", "scale", "basis")}
        if self.graph_probabilities is not None:
            arrays["graph_probabilities"] = self.graph_probabilities.numpy()
        for number, (_, of_learner) in enumerate(states):
            arrays |= {f"{number}.{name}": array for name, array in of_learner.items()}
        return header, {name: array for name, array in arrays.items() if array is not None}

    @classmethod
    def from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Return the ensemble that :meth:`state` described."""
        learners = []
        for number, plain in enumerate(header["learners"]):
            prefix = f"{number}."
            own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
            learners.append(KINDS[plain["kind"]].from_state(plain, own))
        probabilities = arrays.get("graph_probabilities")
        return cls(
            Scaling(header["scaling"], header["metric"], *(arrays.get(n) for n in ("center", "scale", "basis"))),
            GraphOptions(*header["options"]),
            learners,
            Calibration(header["temperature"], torch.from_numpy(arrays["shift"])),
            None if probabilities is None else torch.from_numpy(probabilities),
        )
