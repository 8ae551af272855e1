"""Which settings, and which view of the rows, the labels ask for."""

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from angpn.ensemble.base_learners import PropagationMatrix, Reach, Setting
from angpn.ensemble.calibration import best_temperature
from angpn.ensemble.heads import Radial, fit_linear, log_probabilities, scale_of
from angpn.ensemble.label_spreading import Spread, SpreadSetting
from angpn.neighbors.distributed import ParallelMap, serial_map
from angpn.utils.labels import UNLABELLED
from angpn.utils.typing import Array

# From no propagation to a tenth of the graph: the first where neighbours mislead, the last where labels are few.
REACHES: tuple[Reach, ...] = ((0.0, 0), (0.2, 1), (0.2, 3), (0.5, 2), (0.5, 5), (0.8, 5), (0.9, 10), (0.9, 20))
# Width and C of the readouts: two with every reach, the others with the reaches that did best with these.
FIRST_READOUTS = ((None, 10.0), (1.0, 100.0))
MORE_READOUTS = ((None, 1.0), (None, 100.0), (3.0, 100.0))
SPREADS = (SpreadSetting(0.9), SpreadSetting(0.97))
# So few labels a class must reach far, and cannot choose. The graph alone decides, except that in a table, where a
# column is a measurement, a linear readout of a few labels is worth as much.
FEW_A_CLASS = 5
FEW_LABELS = (SpreadSetting(0.97), SpreadSetting(0.99))
FEW_LABELS_OF_TABLE = (SpreadSetting(0.97), Setting(0.9, 20, None, 10.0))
REACHES_KEPT = 4
MEMBERS = 5
CANDIDATES = 15
N_CENTERS = 500
_WORTH_OF_DOUBLING = 0.5  # the hops; in units of log-likelihood
_DOUBLINGS_OF_SPREAD = 4.4  # as if by 20 hops
_LABELS_AT_MOST = 2000  # more say nothing new about settings
_ENOUGH_HELD_OUT = 400


class Fold(NamedTuple):
    """Rows to learn from, and labelled rows to judge by."""

    training: Array  # row numbers
    held: Array


class Scored(NamedTuple):
    """A setting, and the mean log-likelihood of held-out labels under it."""

    setting: Setting | SpreadSetting
    score: float


def make_folds(codes: Array, validation: Array | None, seed: int) -> list[Fold]:
    """How labels are held out to judge by: those of ``validation`` first, then others in turn until there are enough.

    The only label of a class is never held out. Where more were set apart than are left, those who learn from even
    fewer would be poor judges.
    """
    labelled = np.flatnonzero(codes != UNLABELLED)
    folds = []
    if validation is not None and validation.any():
        labelled, held = labelled[~validation[labelled]], np.flatnonzero(validation)
        folds = [Fold(labelled, held)]
        if len(held) >= min(_ENOUGH_HELD_OUT, len(labelled)):
            return folds
    return folds + _in_turn(labelled, codes, seed)


def _in_turn(labelled: Array, codes: Array, seed: int) -> list[Fold]:
    counts = np.bincount(codes[labelled])
    free = labelled[counts[codes[labelled]] > 1]
    if not len(free):
        return []
    n_folds = 5 if len(free) <= 100 else 3
    if len(free) > 3 * _ENOUGH_HELD_OUT:
        n_folds = int(np.ceil(len(free) / _ENOUGH_HELD_OUT))
    generator = np.random.default_rng(seed)
    place = np.zeros(len(codes), dtype=np.int64)
    start = 0
    for code in np.unique(codes[free]):
        rows = generator.permutation(free[codes[free] == code])
        place[rows] = (start + np.arange(len(rows))) % min(n_folds, len(rows))
        start += len(rows)
    held_out = (free[place[free] == number] for number in range(n_folds))
    folds = [Fold(np.setdiff1d(labelled, held), held) for held in held_out if len(held)]
    return folds[:1] if len(free) > 3 * _ENOUGH_HELD_OUT else folds


def fewer_labels(folds: Sequence[Fold], codes: Array, seed: int) -> list[Fold]:
    """The folds with as many labels as a search needs, and every class still among them."""
    generator = np.random.default_rng(seed)

    def some(rows: Array) -> Array:
        if len(rows) <= _LABELS_AT_MOST:
            return rows
        rows = generator.permutation(rows)
        firsts = np.unique(codes[rows], return_index=True)[1]
        others = np.setdiff1d(np.arange(len(rows)), firsts)
        return np.sort(rows[np.concatenate([firsts, others])[:_LABELS_AT_MOST]])

    return [Fold(some(fold.training), some(fold.held)) for fold in folds]


def pick_centers(codes: Array, seed: int) -> Array:  # row numbers
    """Centres of radial readouts: some labelled rows, and others to make up the number."""
    generator = np.random.default_rng(seed)
    labelled = generator.permutation(np.flatnonzero(codes != UNLABELLED))[: N_CENTERS * 3 // 5]
    others = generator.permutation(np.setdiff1d(np.arange(len(codes)), labelled))
    return np.sort(np.concatenate([labelled, others[: N_CENTERS - len(labelled)]]))


class Judge:
    """Judges settings on the features of one view."""

    def __init__(
        self,
        propagation_matrix: PropagationMatrix,  # normalized
        features: dict[Reach, Tensor],
        folds: Sequence[Fold],
        codes: Array,
        weights: Array | None,
        centers: Array,
    ) -> None:
        self._propagation_matrix = propagation_matrix
        self._folds, self._codes, self._weights = folds, codes, weights
        self._n_classes = int(codes.max()) + 1
        self._seen = np.unique(np.concatenate([rows for fold in folds for rows in fold]))
        self._n_judged = len(np.unique(np.concatenate([fold.held for fold in folds])))
        self._features = {}
        for reach, found in features.items():
            scaled = scale_of(found) * found[np.concatenate([self._seen, centers])]
            self._features[reach] = scaled[: len(self._seen)], scaled[len(self._seen) :]
        self._inputs: dict[tuple[Reach, float | None], Tensor] = {}
        self.scores: dict[Setting | SpreadSetting, float] = {}

    def best(self, n: int) -> list[Scored]:
        """The best settings so far, best first."""
        order = sorted(self.scores, key=lambda setting: self.scores[setting] + self._bonus(setting), reverse=True)
        return [Scored(setting, self.scores[setting]) for setting in order[:n]]

    def _bonus(self, setting: Setting | SpreadSetting) -> float:
        """To reach far is the safer guess while few labels judge; it hardly counts once many do."""
        doublings = _DOUBLINGS_OF_SPREAD if isinstance(setting, SpreadSetting) else np.log2(1 + setting.hops)
        return float(_WORTH_OF_DOUBLING * doublings / self._n_judged)

    def score(self, setting: Setting | SpreadSetting) -> float:
        """The mean log-likelihood of held-out labels."""
        opinions = torch.cat([self._opinion(setting, fold) for fold in self._folds])
        held = np.concatenate([fold.held for fold in self._folds])
        return best_temperature(opinions, self._codes[held], None if self._weights is None else self._weights[held])[1]

    def _opinion(self, setting: Setting | SpreadSetting, fold: Fold) -> Tensor:  # (h, c)
        """What a member that learnt from the one part of a fold says of the other."""
        codes = self._codes[fold.training]
        weights = None if self._weights is None else self._weights[fold.training]
        if isinstance(setting, SpreadSetting):
            spread = Spread.of(
                self._propagation_matrix, fold.training, codes, weights, [setting.alpha], self._n_classes
            )[0]
            return spread.log_probabilities()[fold.held]
        inputs = self._readout_inputs(setting)
        training, held = (torch.from_numpy(np.searchsorted(self._seen, rows)) for rows in fold)
        linear = fit_linear(inputs[training], codes, weights, setting.C, self._n_classes)
        return log_probabilities(inputs[held], *linear)

    def _readout_inputs(self, setting: Setting) -> Tensor:
        key = setting.reach, setting.width
        if key not in self._inputs:
            seen, centers = self._features[setting.reach]
            radial = None if setting.width is None else Radial.around(centers, setting.width)
            self._inputs[key] = seen if radial is None else radial(seen)
        return self._inputs[key]


def score_all(
    judges: Sequence[Judge], settings: Iterable[Setting | SpreadSetting], parallel_map: ParallelMap = serial_map
) -> None:
    """Let each judge score these too; a score is worked out once."""
    new = [(judge, setting) for setting in settings for judge in judges if setting not in judge.scores]
    dear_first = sorted(new, key=lambda pair: is_cheap(pair[1]))
    found = dict(
        zip(dear_first, parallel_map([partial(judge.score, setting) for judge, setting in dear_first]), strict=True)
    )
    for judge, setting in new:
        judge.scores[setting] = found[judge, setting]


def is_cheap(setting: Setting | SpreadSetting) -> bool:
    """Whether it learns in a fraction of the time that others take: all should have their share of the dear ones."""
    return isinstance(setting, Setting) and setting.width is None


def first_settings(reaches: Collection[Reach], spreads: Collection[SpreadSetting]) -> list[Setting | SpreadSetting]:
    """Every reach with a linear and a radial readout, and labels that spread by themselves."""
    return [*(Setting(*reach, *readout) for reach in reaches for readout in FIRST_READOUTS), *spreads]


def more_settings(judge: Judge) -> list[Setting]:
    """More readouts for the best reaches so far."""
    found = (scored.setting for scored in judge.best(len(judge.scores)))
    order = list(dict.fromkeys(setting.reach for setting in found if isinstance(setting, Setting)))
    return [Setting(*reach, *readout) for reach in order[:REACHES_KEPT] for readout in MORE_READOUTS]
