"""Which labels are trained on, and which are held out: cross-validation folds."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from angpn.ensemble.config import EnsembleConfig
from angpn.utils.labels import UNLABELLED
from angpn.utils.typing import Array


class Fold(NamedTuple):
    """Labelled rows of the data to train on, and those held out."""

    training: Array  # row numbers
    held: Array


class Labels(NamedTuple):
    """The labels, and how they are held out."""

    codes: Array  # (n,) -1 where unlabelled
    weights: Array | None  # (n,)
    folds: Sequence[Fold]
    masked: bool  # the first fold holds out what the user's validation mask names

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return int(self.codes.max()) + 1

    @property
    def rows_of_folds(self) -> Array:
        """Rows of the data that are trained on or held out in any fold."""
        return np.unique(np.concatenate([rows for fold in self.folds for rows in fold]))

    def are_few(self, config: EnsembleConfig) -> bool:
        """Tell whether there are too few to select hyper-parameters by."""
        known = self.codes[self.codes != UNLABELLED]
        return not self.folds or len(known) <= config.few_labels_per_class * len(np.unique(known))

    def can_reselect(self, config: EnsembleConfig) -> bool:
        """Tell whether enough are held out to select hyper-parameters again once there are pseudo-labels."""
        return sum(len(fold.held) for fold in self.folds) >= config.min_reselection_labels


class TrainingSet(NamedTuple):
    """Rows of the data to train on, their classes (given or pseudo-labels), and how much each counts."""

    rows: Array
    codes: Array
    weights: Array | None
    n_given: int | None = None  # the first so many labels were given, all by default; pseudo-labels follow

    def given(self) -> "TrainingSet":
        """Return the given labels of it."""
        weights = None if self.weights is None else self.weights[: self.n_given]
        return TrainingSet(self.rows[: self.n_given], self.codes[: self.n_given], weights)


def given_labels(labels: Labels, rows: Array) -> TrainingSet:
    """Return the given labels of these rows as a training set."""
    return TrainingSet(rows, labels.codes[rows], rows_of(labels.weights, rows))


def rows_of(weights: Array | None, rows: Array) -> Array | None:
    """Return the weights of these rows, where there are weights."""
    return None if weights is None else weights[rows]


def make_folds(codes: Array, validation: Array | None, seed: int, config: EnsembleConfig) -> list[Fold]:
    """Return the folds: the rows of ``validation`` held out first, then others in turn until enough were.

    The only label of a class is never held out. Where validation has more labels than training has left, no others are
    held out: a model trained on even fewer would be no guide.
    """
    labelled = np.flatnonzero(codes != UNLABELLED)
    folds = []
    if validation is not None and validation.any():
        labelled, held = labelled[~validation[labelled]], np.flatnonzero(validation)
        folds = [Fold(labelled, held)]
        if len(held) >= min(config.min_held_out, len(labelled)):
            return folds
    return folds + _stratified_folds(labelled, codes, seed, config.min_held_out)


def _stratified_folds(labelled: Array, codes: Array, seed: int, min_held_out: int) -> list[Fold]:
    counts = np.bincount(codes[labelled])
    free = labelled[counts[codes[labelled]] > 1]
    if not len(free):
        return []
    n_folds = 5 if len(free) <= 100 else 3
    if len(free) > 3 * min_held_out:
        n_folds = int(np.ceil(len(free) / max(1, min_held_out)))
    generator = np.random.default_rng(seed)
    fold_of = np.zeros(len(codes), dtype=np.int64)
    start = 0
    for code in np.unique(codes[free]):
        rows = generator.permutation(free[codes[free] == code])
        fold_of[rows] = (start + np.arange(len(rows))) % min(n_folds, len(rows))
        start += len(rows)
    held_out = (free[fold_of[free] == number] for number in range(n_folds))
    folds = [Fold(np.setdiff1d(labelled, held), held) for held in held_out if len(held)]
    return folds[:1] if len(free) > 3 * min_held_out else folds


def limit_labels(labels: Labels, seed: int, config: EnsembleConfig) -> Labels:
    """Return the labels with no more in each fold than selection needs, and every class still among them."""
    generator, codes, most = np.random.default_rng(seed), labels.codes, config.max_selection_labels

    def some(rows: Array) -> Array:
        if len(rows) <= most:
            return rows
        rows = generator.permutation(rows)
        firsts = np.unique(codes[rows], return_index=True)[1]
        others = np.setdiff1d(np.arange(len(rows)), firsts)
        return np.sort(rows[np.concatenate([firsts, others])[:most]])

    return labels._replace(folds=[Fold(some(fold.training), some(fold.held)) for fold in labels.folds])


def subsample(n_rows: int, labels: Labels, seed: int, most: int) -> tuple[Array, Labels]:
    """Return so many rows, or more if the folds name more, and the labels of these."""
    named = labels.rows_of_folds
    others = np.random.default_rng(seed).permutation(np.setdiff1d(np.arange(n_rows), named))
    kept = np.sort(np.concatenate([named, others[: max(0, most - len(named))]]))
    folds = [Fold(*(np.searchsorted(kept, rows) for rows in fold)) for fold in labels.folds]
    return kept, Labels(labels.codes[kept], rows_of(labels.weights, kept), folds, labels.masked)
