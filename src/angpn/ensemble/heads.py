"""The base learner that classifies propagated features: logistic regression, linear or with a Gaussian kernel."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from angpn.ensemble.config import EnsembleConfig, Family, HopCount
from angpn.ensemble.folds import Labels, given_labels
from angpn.ensemble.logistic import Linear, Regression, fit_logistic
from angpn.ensemble.nystroem import GaussianKernel
from angpn.ensemble.principal_features import PrincipalFeatures
from angpn.ensemble.propagated_features import (
    Inputs,
    Problem,
    PropagatedFeatures,
    PropagationParameters,
    same_features,
)
from angpn.ensemble.softmax import log_softmax_
from angpn.neighbors.distributed import ParallelMap
from angpn.neighbors.partition import Partition
from angpn.utils.array_checks import check_arrays, singles
from angpn.utils.schema import Positive, Saved, Share
from angpn.utils.typing import Array

_FAR = 5  # hops, from which on a row is what its neighbourhood is
_ROWS_AT_ONCE = 2**12  # so that the kernel of rows and centres stays in the cache


@dataclass(frozen=True)
class HeadParameters(PropagationParameters):
    """The hyper-parameters of a :class:`PropagatedHead`."""

    width: float | None  # of the Gaussian kernel, see Nystroem.fit; None is a linear head
    C: float  # inverse of the penalty
    whitening: float = 0.0  # by what power of its variance a direction of the inputs is divided

    @property
    def learner(self) -> "type[PropagatedHead]":
        """What has these hyper-parameters."""
        return PropagatedHead

    @property
    def inputs(self) -> Inputs:
        """What the head is a linear function of: heads with the same inputs are fitted together."""
        return self.hops, self.width

    @property
    def is_expensive(self) -> bool:
        """Whether a fit takes many times as long as the cheapest."""
        return self.width is not None

    @property
    def family(self) -> Family:
        """Those that err on much the same rows."""
        is_near = self.n_hops < _FAR
        if self.whitening:
            return "near whitened" if is_near else "far whitened"
        if self.width is None:
            return "near linear" if is_near else "far linear"
        return "near kernel" if is_near else "far kernel"

    def bonus(self, config: EnsembleConfig, *, of_table: bool) -> float:
        """Return how much likelier held-out labels would have to be under others, as a sum of logarithms."""
        return 0.0 if of_table else config.hops_bonus * math.log2(1 + self.n_hops)


class HeadState(Saved, tag_field="kind", tag="head", omit_defaults=True, frozen=True):
    """What a file keeps of a :class:`PropagatedHead` beside its arrays."""

    parameters: tuple[Share, HopCount, Positive | None, Positive]
    scale: Positive
    rate: Positive | None = None  # of the kernel, where there is one
    whitening: Share = 0.0


@dataclass(frozen=True)
class PropagatedHead:
    """Logistic regression on features propagated over some hops, or on a Gaussian kernel of them."""

    parameters: HeadParameters
    scale: float  # brings the propagated features to length 1 on average
    kernel: GaussianKernel | None
    weight: Tensor  # (p, c), or (m, c) on the centres of the kernel
    bias: Tensor  # (c,) far below zero for a class without labels

    @classmethod
    def fit(
        cls,
        candidates: Sequence[HeadParameters],
        problems: Sequence[Problem],
        *,
        centers: Array,
        n_classes: int,
        config: EnsembleConfig,
        parallel_map: ParallelMap,
    ) -> list[list[Self]]:
        """Fit a head with each of these hyper-parameters to each problem; those on the same inputs side by side."""
        _fit_maps(candidates, [problem.features for problem in problems], centers, parallel_map)
        by_inputs: dict[Inputs, list[HeadParameters]] = {}
        for candidate in sorted(candidates, key=lambda each: not each.is_expensive):  # first, to balance processes
            by_inputs.setdefault(candidate.inputs, []).append(candidate)
        tasks, fitted = [], []
        for places in _side_by_side(problems):
            features = problems[places[0]].features
            sets = [problems[place].training for place in places]
            rows = np.unique(np.concatenate([training.rows for training in sets]))
            for inputs, own in by_inputs.items():
                regressions = []
                for place, training in zip(places, sets, strict=True):
                    positions = np.searchsorted(rows, training.rows)
                    for candidate in own:
                        regressions.append(Regression(positions, *training[1:3], candidate.C, candidate.whitening))
                        fitted.append((place, candidate))
                columns = features.columns(inputs, rows)
                tasks.append(partial(_fit_weights, columns, features.maps[inputs], regressions, n_classes, config))
        linear = (found for several in parallel_map(tasks) for found in several)
        heads: list[dict[HeadParameters, Self]] = [{} for _ in problems]
        for (place, candidate), (weight, bias) in zip(fitted, linear, strict=True):
            features = problems[place].features
            kernel = features.maps[candidate.inputs].kernel
            heads[place][candidate] = cls(candidate, features.scales[candidate.hops], kernel, weight, bias)
        return [[by_candidate[candidate] for candidate in candidates] for by_candidate in heads]

    @classmethod
    def cross_validate(
        cls,
        candidates: Sequence[HeadParameters],
        features: PropagatedFeatures,
        labels: Labels,
        folds: slice,
        *,
        config: EnsembleConfig,
    ) -> list[Tensor]:  # (h, c) each
        """Return the log-probabilities of the held-out rows of some folds, each predicted by the head of its fold.

        All candidates have the same inputs. A kernel is centred on the labelled rows themselves, or on some of them,
        and all folds share its features.
        """
        (inputs,) = {candidate.inputs for candidate in candidates}
        rows = labels.rows_of_folds
        if inputs not in features.labelled:
            scaled = features.scaled(inputs[0], rows)
            step = 1 if inputs[1] is None else math.ceil(len(rows) / config.n_centers)
            mapped = PrincipalFeatures.fit(scaled[::step], inputs[1])
            features.labelled[inputs] = mapped(scaled), mapped.variances
        columns, variances = features.labelled[inputs]
        sets = [given_labels(labels, fold.training) for fold in labels.folds[folds]]
        regressions = [
            Regression(np.searchsorted(rows, training.rows), *training[1:3], candidate.C, candidate.whitening)
            for candidate in candidates
            for training in sets
        ]
        linear = iter(_fit_regressions(columns, variances, regressions, labels.n_classes, config))
        held = [np.searchsorted(rows, fold.held) for fold in labels.folds[folds]]
        return [torch.cat([_log_softmax(columns[each], *next(linear))[:, 0] for each in held]) for _ in candidates]

    @classmethod
    def log_proba(cls, learners: Sequence[Self], features: PropagatedFeatures) -> list[Tensor]:  # (n, c) each
        """Return the log-probabilities of the rows of this process by each of these, which have the same inputs.

        One by one they would be too narrow products for the machine, and a kernel would be computed for each.
        """
        heads, parameters, kernel = learners, learners[0].parameters, learners[0].kernel
        mapped = None if kernel is None else features.maps.get(parameters.inputs)
        if mapped is not None and mapped.kernel is kernel and mapped in features.columns_of_all:
            inputs = features.columns_of_all[mapped]
            weights, biases = zip(*(mapped.from_features(head.weight, head.bias) for head in heads), strict=True)
            found = _log_softmax(inputs, torch.cat(weights, dim=1), torch.cat(biases), len(heads))
        else:
            weight, bias = torch.cat([head.weight for head in heads], dim=1), torch.cat([head.bias for head in heads])
            together = cls(parameters, heads[0].scale, kernel, weight, bias)
            found = together._log_proba(features.by_hops[parameters.hops], len(heads))
        return list(found.unbind(dim=1))

    def log_proba_of(self, features: PropagatedFeatures, rows: Array) -> Tensor:  # (r, c)
        """Return the log-probabilities of some rows of the data."""
        inputs = features.partition.gather_rows(features.by_hops[self.parameters.hops], rows)
        return self._log_proba(inputs)[:, 0]

    def log_proba_new(self, new: Any) -> Tensor:  # (r, c)
        """Return the log-probabilities of :class:`~angpn.ensemble.inductive.NewRows`."""
        return self._log_proba(new.propagated(self.parameters.hops))[:, 0]

    def _log_proba(self, propagated: Tensor, count: int = 1) -> Tensor:  # (n, count, c)
        """Return the log-probabilities of so many heads, whose weights stand side by side."""
        if self.kernel is None:
            return _log_softmax(propagated, self.scale * self.weight, self.bias, count)
        kernels = (self.kernel(self.scale * part) for part in propagated.split(_ROWS_AT_ONCE))
        return torch.cat([_log_softmax(part, self.weight, self.bias, count) for part in kernels])

    def in_data_order(self, partition: Partition) -> Self:
        """Return the same head: it holds nothing by row."""
        return self

    def state(self) -> tuple[HeadState, dict[str, Array]]:
        """Return what a file keeps of it: plain values, and arrays."""
        arrays = {"weight": self.weight.numpy(), "bias": self.bias.numpy()}
        if self.kernel is not None:
            arrays["centers"] = self.kernel.centers.numpy()
        rate = None if self.kernel is None else self.kernel.rate
        *parameters, whitening = astuple(self.parameters)
        return HeadState(parameters=tuple(parameters), scale=self.scale, rate=rate, whitening=whitening), arrays

    @classmethod
    def from_state(cls, state: HeadState, arrays: Mapping[str, Array], *, width: int, n_classes: int, **_: int) -> Self:
        """Return the head that :meth:`state` described, after a check of its arrays."""
        parameters = HeadParameters(*state.parameters, state.whitening)
        if (parameters.width is None) != (state.rate is None):
            raise ValueError("a head must have a kernel exactly where it has the width of one")
        specs = {"weight": singles(width, n_classes), "bias": singles(n_classes)}
        if state.rate is not None:
            specs |= {"centers": singles("m", width), "weight": singles("m", n_classes)}
        if state.rate is not None and "whitening" in arrays:  # a file of before, with weights on whitened features
            specs |= {"whitening": singles("m", "r"), "weight": singles("r", n_classes)}
        check_arrays(arrays, specs)
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        kernel = None if state.rate is None else GaussianKernel(tensors["centers"], state.rate)
        weight = tensors["weight"]
        if "whitening" in tensors:
            weight = (tensors["whitening"].double() @ weight.double()).float()
        return cls(parameters, state.scale, kernel, weight, tensors["bias"])


def _fit_maps(
    candidates: Sequence[HeadParameters],
    several: Sequence[PropagatedFeatures],
    centers: Array,
    parallel_map: ParallelMap,
) -> None:
    """Fit the maps to inputs that these candidates need, where the features do not have them yet."""
    wanted = list(dict.fromkeys(candidate.inputs for candidate in candidates))  # in one order in all processes
    missing, tasks = [], []
    for features in {id(features): features for features in several}.values():
        for hops, width in (inputs for inputs in wanted if inputs not in features.maps):
            rows = features.scaled(hops, features.sample if width is None else centers)
            missing.append((features, (hops, width)))
            tasks.append(partial(PrincipalFeatures.fit, rows, width))
    for (features, inputs), mapped in zip(missing, parallel_map(tasks), strict=True):
        features.maps[inputs] = mapped


def _side_by_side(problems: Sequence[Problem]) -> list[list[int]]:
    """Return the places of the problems that are solved side by side; each process has a part of them."""
    size = problems[0].features.partition.n_processes
    parts = (places[number::size] for places in same_features(problems) for number in range(size))
    return [part for part in parts if part]


def _fit_weights(
    columns: Callable[[], Tensor],
    mapped: PrincipalFeatures,
    regressions: Sequence[Regression],
    n_classes: int,
    config: EnsembleConfig,
) -> list[Linear]:
    """Return the weights of heads, those of a kernel on its centres."""
    found = _fit_regressions(columns(), mapped.variances, regressions, n_classes, config)
    return [mapped.to_features(*linear) for linear in found]


def _fit_regressions(
    columns: Tensor, variances: Tensor, regressions: Sequence[Regression], n_classes: int, config: EnsembleConfig
) -> list[Linear]:
    return fit_logistic(columns, variances, regressions, n_classes, tol=config.head_tol, max_iter=config.head_max_iter)


def _log_softmax(inputs: Tensor, weight: Tensor, bias: Tensor, count: int = 1) -> Tensor:  # (n, count, c)
    """Return Eq. (14), as logarithms, for so many heads whose weights stand side by side."""
    return log_softmax_(torch.addmm(bias, inputs, weight).unflatten(1, (count, -1)))
