"""The base learner for tables: extremely randomised trees on propagated features, or on the columns as they are."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from angpn import kernels
from angpn.ensemble.config import EnsembleConfig, Family, HopCount
from angpn.ensemble.folds import Labels, TrainingSet, given_labels
from angpn.ensemble.propagated_features import Problem, PropagatedFeatures, PropagationParameters
from angpn.kernels.threads import over_rows
from angpn.neighbors.distributed import ParallelMap
from angpn.neighbors.partition import Partition
from angpn.utils.array_checks import check_arrays, integers, singles
from angpn.utils.schema import Saved, Share, Size
from angpn.utils.typing import Array

_LARGEST = float(np.finfo(np.float32).max)
_BETWEEN_SEEDS = 2**32  # far more than a tree draws numbers


@dataclass(frozen=True)
class TreesParameters(PropagationParameters):
    """The hyper-parameters of :class:`ExtraTrees`."""

    min_leaf: int  # rows in a leaf at least: one finds the exceptions, more smooth the noise

    @property
    def learner(self) -> "type[ExtraTrees]":
        """What has these hyper-parameters."""
        return ExtraTrees

    @property
    def is_expensive(self) -> bool:
        """Whether a fit takes many times as long as the cheapest."""
        return True

    @property
    def family(self) -> Family:
        """Those that err on much the same rows."""
        return "trees" if self.min_leaf == 1 else "smooth trees"

    def bonus(self, config: EnsembleConfig, *, of_table: bool) -> float:
        """Return how much likelier held-out labels would have to be under others, as a sum of logarithms."""
        return 0.0


class TreesState(Saved, tag_field="kind", tag="extra_trees", frozen=True):
    """What a file keeps of :class:`ExtraTrees` beside its arrays."""

    parameters: tuple[Share, HopCount, Size]


@dataclass(frozen=True)
class ExtraTrees:
    """Extremely randomised trees (Geurts et al., 2006) on features propagated over some hops.

    Trees do not mind how columns are scaled, find what only a few columns tell, and have thresholds where a table has
    them: what a distance between rows cannot say. They are trained on given labels alone: with pseudo-labels they are
    no better, and take twice the time.
    """

    parameters: TreesParameters
    column: Array  # (nodes,) on which a node decides, -1 in a leaf
    threshold: Array  # (nodes,) up to which rows go left
    left: Array  # (nodes,) the left child, which the right one follows; of a leaf its number
    shares: Array  # (leaves, c) of the classes in each leaf
    roots: Array  # (trees,)

    @classmethod
    def fit(
        cls,
        candidates: Sequence[TreesParameters],
        problems: Sequence[Problem],
        *,
        n_classes: int,
        config: EnsembleConfig,
        parallel_map: ParallelMap,
        **_: Any,  # what other base learners need
    ) -> list[list[Self]]:
        """Grow trees with each of these hyper-parameters for each problem."""
        tasks = [
            partial(cls._grow, each, _inputs(features, each, given.rows), given, n_classes, config)
            for features, given in ((features, training.given()) for features, training in problems)
            for each in candidates
        ]
        found = list(parallel_map(tasks))
        return [found[start : start + len(candidates)] for start in range(0, len(found), len(candidates))]

    @classmethod
    def cross_validate(
        cls,
        candidates: Sequence[TreesParameters],
        features: PropagatedFeatures,
        labels: Labels,
        folds: slice,
        *,
        config: EnsembleConfig,
    ) -> list[Tensor]:  # (h, c) each
        """Return the log-probabilities of the held-out rows of some folds, each predicted by the trees of its fold."""
        found = []
        for candidate in candidates:
            of_folds = []
            for fold in labels.folds[folds]:
                training = given_labels(labels, fold.training)
                inputs = _inputs(features, candidate, training.rows)
                trees = cls._grow(candidate, inputs, training, labels.n_classes, config)
                of_folds.append(trees.log_proba_of(features, fold.held))
            found.append(torch.cat(of_folds))
        return found

    @classmethod
    def _grow(
        cls,
        parameters: TreesParameters,
        inputs: Tensor,  # (n, p)
        training: TrainingSet,
        n_classes: int,
        config: EnsembleConfig,
    ) -> Self:
        columns, codes = inputs.numpy(), training.codes
        weights = np.ones(len(codes)) if training.weights is None else training.weights
        rows = np.flatnonzero(weights > 0)
        if len(rows) > config.max_rows_of_trees:
            rows = np.sort(np.random.default_rng(0).choice(rows, config.max_rows_of_trees, replace=False))
        columns, codes, weights = columns[rows], codes[rows], weights[rows].astype(np.float64)
        n_drawn = max(1, round(columns.shape[1] ** 0.5))
        seeds = np.arange(config.n_trees, dtype=np.uint64) * np.uint64(_BETWEEN_SEEDS)
        trees = kernels.extra_trees.grow_trees(columns, codes, weights, n_classes, n_drawn, parameters.min_leaf, seeds)
        return cls(parameters, *trees)

    @classmethod
    def log_proba(cls, learners: Sequence[Self], features: PropagatedFeatures) -> list[Tensor]:  # (n, c) each
        """Return the log-probabilities of the rows of this process by each of these."""
        return [learner._log_proba(features.by_hops[learner.parameters.hops]) for learner in learners]

    def log_proba_of(self, features: PropagatedFeatures, rows: Array) -> Tensor:  # (r, c)
        """Return the log-probabilities of some rows of the data."""
        return self._log_proba(_inputs(features, self.parameters, rows))

    def log_proba_new(self, new: Any) -> Tensor:  # (r, c)
        """Return the log-probabilities of :class:`~angpn.ensemble.inductive.NewRows`."""
        return self._log_proba(new.propagated(self.parameters.hops))

    def _log_proba(self, inputs: Tensor) -> Tensor:
        out = np.empty((len(inputs), self.shares.shape[1]), np.float32)
        columns = np.ascontiguousarray(inputs.numpy())
        forest = self.column, self.threshold, self.left, self.shares, self.roots
        over_rows(kernels.extra_trees.descend_rows, len(out), columns, *forest, out)
        # A tree more that knows nothing: no class is impossible.
        found = torch.from_numpy(out)
        return found.mul_(len(self.roots)).add_(1 / out.shape[1]).div_(len(self.roots) + 1).log_()

    def in_data_order(self, partition: Partition) -> Self:
        """Return the same trees: they hold nothing by row."""
        return self

    def state(self) -> tuple[TreesState, dict[str, Array]]:
        """Return what a file keeps of it: plain values, and arrays."""
        names = ("column", "threshold", "left", "shares", "roots")
        return TreesState(parameters=astuple(self.parameters)), {name: getattr(self, name) for name in names}

    @classmethod
    def from_state(
        cls, state: TreesState, arrays: Mapping[str, Array], *, width: int, n_classes: int, **_: int
    ) -> Self:
        """Return the trees that :meth:`state` described, after a check of their arrays.

        Every way down must end: a child comes after its parent.
        """
        most = np.iinfo(np.int32).max
        specs = {
            "column": integers("nodes", low=-1, high=width - 1),
            "threshold": singles("nodes", low=-_LARGEST, high=_LARGEST),
            "left": integers("nodes", low=0, high=most),
            "shares": singles("leaves", n_classes, low=0, high=1),
            "roots": integers("trees", low=0, high=most),
        }
        sizes = check_arrays(arrays, specs)
        is_leaf, left = arrays["column"] < 0, arrays["left"].astype(np.int64)
        n_nodes, n_leaves = sizes["nodes"], sizes["leaves"]
        in_order = np.where(is_leaf, left < n_leaves, (left > np.arange(n_nodes)) & (left + 1 < n_nodes))
        if not in_order.all() or not sizes["trees"] or int(arrays["roots"].max()) >= n_nodes:
            raise ValueError("the nodes of a tree must lead to leaves")
        return cls(TreesParameters(*state.parameters), *(arrays[name] for name in specs))


def _inputs(features: PropagatedFeatures, parameters: TreesParameters, rows: Array) -> Tensor:  # (r, p)
    return features.partition.gather_rows(features.by_hops[parameters.hops], rows)
