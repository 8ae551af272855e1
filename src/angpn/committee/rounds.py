"""The rounds in which a committee learns: graph, features, readouts, and again with what it now believes.

These are the two steps of Algorithm 1 with the committee's own predictions as F: the graph is learnt from the distances
and from what is believed of each row (Eq. (8)), the features are propagated on it (Eq. (13)), and the readouts learn
from the given labels (Eq. (15)) and from the rows that the round before was sure of.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from angpn.committee.calibration import Calibration, best_temperature
from angpn.committee.members import GraphOptions, Mixing, Reach, Setting, learnt_graph, propagated
from angpn.committee.readout import Radial, Readout, fit_linear, mean_log_probabilities, scale_of
from angpn.committee.search import Fold, is_cheap
from angpn.committee.spread import Spread, SpreadSetting
from angpn.neighborhood import Neighborhood
from angpn.sharding import Deal, alone

Array = np.ndarray[Any, Any]

SURE = 0.8  # a row teaches the others when its class is at least so probable
_TAUGHT_AT_MOST = 20_000  # rows that a readout learns from beside the labelled ones
_ENOUGH_TO_ELECT = 2000  # of them to judge a setting by
_JUDGES = 3  # students that judge
ENOUGH_JUDGED = 100  # labels; fewer would elect by chance


class Problem(NamedTuple):
    """What all rounds share."""

    features: Tensor  # (n, p), of the rows that the lists are of
    hood: Neighborhood  # the rows of the data, or those of this process; these have the (n, c) tensors below
    options: GraphOptions
    settings: Sequence[Setting | SpreadSetting]
    codes: Array  # of all rows of the data, -1 where unlabelled; folds are rows of the data too
    weights: Array | None  # of all rows
    centers: Array  # rows that radial readouts are centred on
    n_classes: int
    seed: int
    deal: Deal = alone


@dataclass(eq=False)
class Student:
    """A committee in training on the labels of one fold."""

    fold: Fold
    beliefs: Tensor | None = None  # (n, c) calibrated, after the last round
    graph_beliefs: Tensor | None = None  # (n, c) what the last round's graph was learnt from
    readouts: list[Readout | Spread] = field(default_factory=list)


@dataclass(eq=False)
class _Seen:
    """A graph, the features propagated on it, and what all readouts of a kind share."""

    hood: Neighborhood
    mixing: Mixing  # normalized, for labels that spread
    features: dict[Reach, Tensor]
    scales: dict[Reach, float]
    _radials: dict[tuple[Reach, float], Radial] = field(default_factory=dict)

    def rows(self, reach: Reach, rows: Array) -> Tensor:
        """The features of these rows of the data, as readouts have them."""
        return self.scales[reach] * self.hood.taken(self.features[reach], rows)

    def radial(self, setting: Setting, centers: Array) -> Radial | None:
        if setting.width is None:
            return None
        key = setting.reach, setting.width
        if key not in self._radials:
            self._radials[key] = Radial.around(self.rows(setting.reach, centers), setting.width)
        return self._radials[key]


class _Lesson(NamedTuple):
    """Rows of the data to learn from, their classes, and how much each counts."""

    rows: Array
    codes: Array
    weights: Array | None


class Rounds:
    """Trains students side by side; their held-out labels together calibrate them all."""

    def __init__(
        self, problem: Problem, students: Sequence[Student], candidates: Sequence[Setting | SpreadSetting]
    ) -> None:
        self._problem, self._students, self._candidates = problem, students, candidates
        self.settings = list(problem.settings)
        # What members see while nothing is believed yet, the same for all; much memory, given back when it has served.
        self._first: _Seen | None = self._seen(None, [*candidates, *self.settings])

    def __next__(self) -> tuple[Calibration, float, int]:
        """One more round: its calibration, the log-likelihood of held-out labels, and how many these are."""
        opinions = [self._teach(student) for student in self._students]
        calibration, likelihood, n_judged = self._calibration(opinions)
        for student, opinion in zip(self._students, opinions, strict=True):
            student.beliefs = calibration(opinion)
        return calibration, likelihood, n_judged

    def _calibration(self, opinions: Sequence[Tensor]) -> tuple[Calibration, float, int]:
        """By the labels that students did not see; a class that a student did not learn is not held against it."""
        problem = self._problem
        said, judged = [], []
        for student, opinion in zip(self._students, opinions, strict=True):
            fold = student.fold
            rows = fold.held[np.isin(problem.codes[fold.held], problem.codes[fold.training])]
            said.append(problem.hood.taken(opinion, rows))
            judged.append(rows)
        rows = np.concatenate(judged)
        if not len(rows):
            return Calibration.unknown(problem.n_classes), 0.0, 0
        calibration, mean = Calibration.by(torch.cat(said), problem.codes[rows], _part(problem.weights, rows))
        return calibration, mean * len(rows), len(rows)

    def elect(self) -> None:
        """Choose the members anew by the held-out labels: the settings that serve few labels may not serve many.

        Each candidate learns from what the students were sure of after the last round, as the next round will.
        """
        judges = [student for student in self._students if len(student.fold.held)][:_JUDGES]
        rows = np.concatenate([student.fold.held for student in judges] or [np.array([], dtype=np.int64)])
        if len(rows) < ENOUGH_JUDGED or not self._candidates:
            return
        truth, weights = self._problem.codes[rows], _part(self._problem.weights, rows)
        seen = self._first
        assert seen is not None  # it is before the second round
        opinions = []
        for student in judges:
            members = self._members(self._candidates, seen, self._lesson(student, _ENOUGH_TO_ELECT))
            pairs = zip(self._candidates, members, strict=True)
            opinions.append([self._opinion_of(student.fold.held, *pair, seen) for pair in pairs])
        said = (torch.cat(candidate) for candidate in zip(*opinions, strict=True))
        scores = [best_temperature(candidate, truth, weights)[1] for candidate in said]
        order = np.argsort(scores)[::-1][: len(self.settings)]
        self.settings = [self._candidates[place] for place in order]

    def _seen(self, beliefs: Tensor | None, settings: Sequence[Setting | SpreadSetting]) -> _Seen:
        """What members with these settings see, on the graph that follows from these beliefs."""
        problem = self._problem
        graph = learnt_graph(problem.hood, problem.options, beliefs)
        reaches = [setting.reach for setting in settings if isinstance(setting, Setting)]
        mixing = Mixing(graph, problem.options.direction, problem.hood)
        features = propagated(problem.features, mixing, reaches)
        scales = {reach: scale_of(found, problem.hood) for reach, found in features.items()}
        if problem.options.direction != "normalized":
            mixing = Mixing(graph, "normalized", problem.hood)
        return _Seen(problem.hood, mixing, features, scales)

    def _teach(self, student: Student) -> Tensor:  # (n, c)
        """Train a student's members anew; the logarithm of their mean probability."""
        guide = student.beliefs if self._problem.options.beta > 0 else None
        if guide is None:
            assert self._first is not None
            seen = self._first
        else:
            self._first = None
            seen = self._seen(guide, self.settings)
        student.readouts = self._members(self.settings, seen, self._lesson(student, _TAUGHT_AT_MOST))
        student.graph_beliefs = guide
        members = zip(self.settings, student.readouts, strict=True)
        return mean_log_probabilities([self._opinion(*member, seen) for member in members])

    def _members(
        self, settings: Sequence[Setting | SpreadSetting], seen: _Seen, lesson: _Lesson
    ) -> list[Readout | Spread]:
        """Members that learnt from these rows."""
        problem, n_classes = self._problem, self._problem.n_classes
        taught = sorted((setting for setting in settings if isinstance(setting, Setting)), key=is_cheap)
        inputs = {reach: seen.rows(reach, lesson.rows) for reach in {setting.reach: None for setting in taught}}
        radials = [seen.radial(setting, problem.centers) for setting in taught]

        def fit(setting: Setting, radial: Radial | None) -> tuple[Tensor, Tensor]:
            rows = inputs[setting.reach] if radial is None else radial(inputs[setting.reach])
            return fit_linear(rows, lesson.codes, lesson.weights, setting.C, n_classes)

        found = problem.deal([partial(fit, *pair) for pair in zip(taught, radials, strict=True)])
        readouts = {
            setting: Readout(seen.scales[setting.reach], weight, bias, radial)
            for setting, (weight, bias), radial in zip(taught, found, radials, strict=True)
        }
        return [
            Spread.of(seen.mixing, *lesson, setting.alpha, n_classes)
            if isinstance(setting, SpreadSetting)
            else readouts[setting]
            for setting in settings
        ]

    def _opinion(self, setting: Setting | SpreadSetting, member: Readout | Spread, seen: _Seen) -> Tensor:  # (n, c)
        """What a member says of the rows here."""
        if isinstance(member, Spread):
            return member.log_probabilities()
        assert isinstance(setting, Setting)
        return member(seen.features[setting.reach])

    def _opinion_of(
        self, rows: Array, setting: Setting | SpreadSetting, member: Readout | Spread, seen: _Seen
    ) -> Tensor:  # (r, c)
        """What a member says of some rows of the data."""
        if isinstance(member, Spread):
            return seen.hood.taken(member.log_probabilities(), rows)
        assert isinstance(setting, Setting)
        return member(seen.hood.taken(seen.features[setting.reach], rows))

    def _lesson(self, student: Student, most: int) -> _Lesson:
        """What a student's members learn from: the labels, and about so many sure rows at most."""
        problem, training = self._problem, student.fold.training
        given = _part(problem.weights, training)
        if student.beliefs is None:
            return _Lesson(training, problem.codes[training], given)
        surest, classes = student.beliefs.max(dim=1)
        sure = self._some(surest >= SURE, training, most)
        codes = np.concatenate([problem.codes[training], problem.hood.taken(classes, sure).numpy()])
        weights = None if given is None else np.concatenate([given, np.ones(len(sure))])
        return _Lesson(np.concatenate([training, sure]), codes, weights)

    def _some(self, sure: Tensor, training: Array, most: int) -> Array:
        """Rows of the data that are sure, without these; where there are more, each with the chance that it takes."""
        hood = self._problem.hood
        sure[hood.here(training)[0]] = False
        count = float(hood.total(sure.sum()))
        rows = hood.named(sure.nonzero().squeeze(1))
        if count > most:
            rows = rows[chances(rows.numpy(), self._problem.seed) < most / count]
        return np.sort(hood.joined(rows).numpy())


def _part(weights: Array | None, rows: Array) -> Array | None:
    return None if weights is None else weights[rows]


def chances(rows: Array, seed: int) -> Array:
    """For each row a number in [0, 1) that depends on the row and the seed alone (SplitMix64's mixing)."""
    mixed = (rows.astype(np.uint64) + np.uint64(seed)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return (mixed ^ (mixed >> np.uint64(31))) / 2.0**64
