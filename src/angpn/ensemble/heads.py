"""The base learner that classifies propagated features: logistic regression, linear or with a Gaussian kernel."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from angpn.ensemble.config import EnsembleConfig, Family, HopCount
from angpn.ensemble.folds import Labels, TrainingSet, given_labels
from angpn.ensemble.logistic import fit_logistic
from angpn.ensemble.nystroem import GaussianKernel
from angpn.ensemble.propagated_features import Problem, PropagatedFeatures, PropagationParameters
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

    @property
    def learner(self) -> "type[PropagatedHead]":
        """What has these hyper-parameters."""
        return PropagatedHead

    @property
    def is_expensive(self) -> bool:
        """Whether a fit takes many times as long as the cheapest."""
        return self.width is not None

    @property
    def family(self) -> Family:
        """Those that err on much the same rows."""
        if self.n_hops < _FAR:
            return "near linear" if self.width is None else "near kernel"
        return "far linear" if self.width is None else "far kernel"

    def bonus(self, config: EnsembleConfig, *, of_table: bool) -> float:
        """Return how much likelier held-out labels would have to be under others, as a sum of logarithms."""
        return 0.0 if of_table else config.hops_bonus * math.log2(1 + self.n_hops)


class HeadState(Saved, tag_field="kind", tag="head", omit_defaults=True, frozen=True):
    """What a file keeps of a :class:`PropagatedHead` beside its arrays."""

    parameters: tuple[Share, HopCount, Positive | None, Positive]
    scale: Positive
    rate: Positive | None = None  # of the kernel, where there is one


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
        """Fit a head with each of these hyper-parameters to each problem."""
        _fit_kernels(candidates, [problem.features for problem in problems], centers, parallel_map)
        tasks, untrained = [], []
        for features, training, starts in problems:
            inputs = {hops: features.scaled(hops, training.rows) for hops in {c.hops: None for c in candidates}}
            for candidate in candidates:
                hops, kernel = candidate.hops, features.kernels.get((candidate.hops, candidate.width))
                at_hand = None if kernel is None else features.nystroem(hops, kernel, training.rows)
                untrained.append(partial(cls, candidate, features.scales[hops], kernel))
                data = inputs[hops], kernel, at_hand, training
                tasks.append(partial(_fit_weights, *data, candidate.C, n_classes, config, starts.get(candidate)))
        # Expensive fits first, to balance processes.
        order = sorted(range(len(tasks)), key=lambda place: not candidates[place % len(candidates)].is_expensive)
        found = dict(zip(order, parallel_map([tasks[place] for place in order]), strict=True))
        heads = [make(*found[place]) for place, make in enumerate(untrained)]
        return [heads[start : start + len(candidates)] for start in range(0, len(heads), len(candidates))]

    @classmethod
    def cross_validate(
        cls,
        candidates: Sequence[HeadParameters],
        features: PropagatedFeatures,
        labels: Labels,
        *,
        config: EnsembleConfig,
    ) -> list[Tensor]:  # (h, c) each
        """Return the log-probabilities of the held-out rows of all folds, each predicted by the head of its fold.

        A kernel is centred on the labelled rows themselves, or on some of them, and all folds share its features.
        """
        rows = np.unique(np.concatenate([rows for fold in labels.folds for rows in fold]))
        folds = [(np.searchsorted(rows, fold.held), given_labels(labels, fold.training)) for fold in labels.folds]
        found = []
        for candidate in candidates:
            inputs = features.scaled(candidate.hops, rows)
            if candidate.width is not None:
                step = math.ceil(len(rows) / config.n_centers)
                kernel = GaussianKernel.fit(inputs[::step], candidate.width)
                inputs = kernel.root if step == 1 else kernel.features(inputs)
            of_folds = []
            for held, training in folds:
                trained = inputs[np.searchsorted(rows, training.rows)]
                linear = _fit_logistic(trained, training, candidate.C, labels.n_classes, config)
                of_folds.append(_log_softmax(inputs[held], *linear))
            found.append(torch.cat(of_folds))
        return found

    def log_proba(self, features: PropagatedFeatures) -> Tensor:  # (n, c)
        """Return the log-probabilities of the rows of this process."""
        if self.kernel is not None and self.kernel in features.kernel_features:
            return _log_softmax(features.kernel_features[self.kernel], self._weight_on_features, self.bias)
        return self._log_proba(features.by_hops[self.parameters.hops])

    def log_proba_of(self, features: PropagatedFeatures, rows: Array) -> Tensor:  # (r, c)
        """Return the log-probabilities of some rows of the data."""
        hops = self.parameters.hops
        at_hand = None if self.kernel is None else features.nystroem(hops, self.kernel, rows)
        if at_hand is not None:
            return _log_softmax(at_hand, self._weight_on_features, self.bias)
        return self._log_proba(features.partition.gather_rows(features.by_hops[hops], rows))

    def log_proba_new(self, new: Any) -> Tensor:  # (r, c)
        """Return the log-probabilities of :class:`~angpn.ensemble.inductive.NewRows`."""
        return self._log_proba(new.propagated(self.parameters.hops))

    @property
    def _weight_on_features(self) -> Tensor:  # (m, c)
        """The weights on the Nystroem features of the kernel."""
        assert self.kernel is not None
        return self.kernel.root.T @ self.weight

    def _log_proba(self, propagated: Tensor) -> Tensor:
        parts = (self.scale * part for part in propagated.split(_ROWS_AT_ONCE))
        inputs = parts if self.kernel is None else map(self.kernel, parts)
        return torch.cat([_log_softmax(part, self.weight, self.bias) for part in inputs])

    def in_data_order(self, partition: Partition) -> Self:
        """Return the same head: it holds nothing by row."""
        return self

    def state(self) -> tuple[HeadState, dict[str, Array]]:
        """Return what a file keeps of it: plain values, and arrays."""
        arrays = {"weight": self.weight.numpy(), "bias": self.bias.numpy()}
        if self.kernel is not None:
            arrays["centers"] = self.kernel.centers.numpy()
        rate = None if self.kernel is None else self.kernel.rate
        return HeadState(parameters=astuple(self.parameters), scale=self.scale, rate=rate), arrays

    @classmethod
    def from_state(cls, state: HeadState, arrays: Mapping[str, Array], *, width: int, n_classes: int, **_: int) -> Self:
        """Return the head that :meth:`state` described, after a check of its arrays."""
        parameters = HeadParameters(*state.parameters)
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


def _fit_kernels(
    candidates: Sequence[HeadParameters],
    several: Sequence[PropagatedFeatures],
    centers: Array,
    parallel_map: ParallelMap,
) -> None:
    """Fit the kernels that these candidates need, where the features do not have them yet."""
    wanted = {(candidate.hops, candidate.width) for candidate in candidates if candidate.width is not None}
    missing, tasks = [], []
    for features in {id(features): features for features in several}.values():
        for hops, width in sorted(wanted - features.kernels.keys()):
            missing.append((features, (hops, width)))
            tasks.append(partial(GaussianKernel.fit, features.scaled(hops, centers), width))
    for (features, key), kernel in zip(missing, parallel_map(tasks), strict=True):
        features.kernels[key] = kernel


def _fit_weights(
    inputs: Tensor,  # (n, p)
    kernel: GaussianKernel | None,
    at_hand: Tensor | None,  # (n, m) features of the inputs under the kernel, where they are known
    training: TrainingSet,
    C: float,
    n_classes: int,
    config: EnsembleConfig,
    start: PropagatedHead | None,
) -> tuple[Tensor, Tensor]:  # (p or m, c), (c,)
    """Fit the weights of a head, those of a kernel on its centres, from those of an earlier head."""
    if kernel is None:
        begin = None if start is None else (start.weight, start.bias)
        return _fit_logistic(inputs, training, C, n_classes, config, start=begin)
    inputs = kernel.features(inputs) if at_hand is None else at_hand
    begin = None if start is None else (kernel.root.T @ start.weight, start.bias)
    weight, bias = _fit_logistic(inputs, training, C, n_classes, config, start=begin)
    return (kernel.whitening.double() @ weight.double()).float(), bias


def _fit_logistic(
    inputs: Tensor, training: TrainingSet, C: float, n_classes: int, config: EnsembleConfig, **options: Any
) -> tuple[Tensor, Tensor]:
    codes, weights, tol = training.codes, training.weights, config.head_tol
    return fit_logistic(inputs, codes, weights, C, n_classes, tol=tol, max_iter=config.head_max_iter, **options)


def _log_softmax(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:  # (n, c)
    """Return Eq. (14), as logarithms."""
    return torch.log_softmax(inputs @ weight + bias, dim=1)
