"""The rounds in which a committee learns: graph, features, readouts, and again with what it now believes.

These are the two steps of Algorithm 1 with the committee's own predictions as F: the graph is learnt from the distances
and from what is believed of each row (Eq. (8)), the features are propagated on it (Eq. (13)), and the readouts learn
from the given labels (Eq. (15)) and from the rows that the round before was sure of.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from angpn.committee.calibration import Calibration, best_temperature
from angpn.committee.members import GraphOptions, Reach, Setting, learnt_graph, propagated
from angpn.committee.readout import Radial, Readout, fit_linear, mean_log_probabilities, scale_of
from angpn.committee.search import Fold
from angpn.committee.spread import Spread, SpreadSetting
from angpn.neighborhood import Neighborhood

Array = np.ndarray[Any, Any]

SURE = 0.8  # a row teaches the others when its class is at least so probable
_TAUGHT_AT_MOST = 20_000  # rows that a readout learns from beside the labelled ones
_ENOUGH_TO_ELECT = 2000  # of them to judge a setting by
_JUDGES = 3  # students that judge
ENOUGH_JUDGED = 100  # labels; fewer would elect by chance


class Problem(NamedTuple):
    """What all rounds share."""

    features: Tensor  # (n, p)
    hood: Neighborhood
    options: GraphOptions
    settings: Sequence[Setting | SpreadSetting]
    codes: Array  # (n,) -1 where unlabelled
    weights: Array | None  # (n,)
    centers: Array  # rows that radial readouts are centred on
    n_classes: int
    seed: int


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

    graph: scipy.sparse.csr_array
    features: dict[Reach, Tensor]
    scales: dict[Reach, float]
    _radials: dict[tuple[Reach, float], Radial] = field(default_factory=dict)

    def radial(self, setting: Setting, centers: Array) -> Radial | None:
        if setting.width is None:
            return None
        key = setting.reach, setting.width
        if key not in self._radials:
            around = self.scales[setting.reach] * self.features[setting.reach][centers]
            self._radials[key] = Radial.around(around, setting.width)
        return self._radials[key]


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
            said.append(opinion[rows])
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
        lessons = [self._lesson(student, _ENOUGH_TO_ELECT) for student in judges]
        seen, scores = self._first, []
        assert seen is not None  # it is before the second round
        for setting in self._candidates:
            opinions = [
                self._opinion(setting, self._member(setting, seen, *lesson), seen, student.fold.held)
                for student, lesson in zip(judges, lessons, strict=True)
            ]
            scores.append(best_temperature(torch.cat(opinions), truth, weights)[1])
        order = np.argsort(scores)[::-1][: len(self.settings)]
        self.settings = [self._candidates[place] for place in order]

    def _seen(self, beliefs: Tensor | None, settings: Sequence[Setting | SpreadSetting]) -> _Seen:
        """What members with these settings see, on the graph that follows from these beliefs."""
        problem = self._problem
        graph = learnt_graph(problem.hood, problem.options, beliefs)
        reaches = [setting.reach for setting in settings if isinstance(setting, Setting)]
        features = propagated(problem.features, graph, problem.options.direction, reaches)
        return _Seen(graph, features, {reach: scale_of(found) for reach, found in features.items()})

    def _teach(self, student: Student) -> Tensor:  # (n, c)
        """Train a student's members anew; the logarithm of their mean probability."""
        guide = student.beliefs if self._problem.options.beta > 0 else None
        if guide is None:
            assert self._first is not None
            seen = self._first
        else:
            self._first = None
            seen = self._seen(guide, self.settings)
        lesson = self._lesson(student, _TAUGHT_AT_MOST)
        student.readouts = [self._member(setting, seen, *lesson) for setting in self.settings]
        student.graph_beliefs = guide
        members = zip(self.settings, student.readouts, strict=True)
        return mean_log_probabilities([self._opinion(*member, seen, slice(None)) for member in members])

    def _member(
        self, setting: Setting | SpreadSetting, seen: _Seen, rows: Array, codes: Array, weights: Array | None
    ) -> Readout | Spread:
        """A member that learnt from these rows."""
        n_classes = self._problem.n_classes
        if isinstance(setting, SpreadSetting):
            return Spread.of(seen.graph, rows, codes, weights, setting.alpha, n_classes)
        scale, radial = seen.scales[setting.reach], seen.radial(setting, self._problem.centers)
        lesson = scale * seen.features[setting.reach][rows]
        lesson = lesson if radial is None else radial(lesson)
        return Readout(scale, *fit_linear(lesson, codes, weights, setting.C, n_classes), radial)

    def _opinion(
        self, setting: Setting | SpreadSetting, member: Readout | Spread, seen: _Seen, rows: Any
    ) -> Tensor:  # (r, c)
        """What a member says of some rows."""
        if isinstance(member, Spread):
            return member.log_probabilities()[rows]
        assert isinstance(setting, Setting)
        return member(seen.features[setting.reach][rows])

    def _lesson(self, student: Student, most: int) -> tuple[Array, Array, Array | None]:
        """Rows to learn from, their classes, and how much each counts: the labels, and at most so many sure rows."""
        problem, training = self._problem, student.fold.training
        given = _part(problem.weights, training)
        if student.beliefs is None:
            return training, problem.codes[training], given
        surest, classes = (found.numpy() for found in student.beliefs.max(dim=1))
        sure = np.setdiff1d(np.flatnonzero(surest >= SURE), training)
        if len(sure) > most:
            sure = np.random.default_rng(problem.seed).choice(sure, most, replace=False)
        rows, codes = np.concatenate([training, sure]), np.concatenate([problem.codes[training], classes[sure]])
        return rows, codes, None if given is None else np.concatenate([given, np.ones(len(sure))])


def _part(weights: Array | None, rows: Array) -> Array | None:
    return None if weights is None else weights[rows]
