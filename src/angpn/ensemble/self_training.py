"""The rounds in which a committee learns: graph, features, readouts, and again with what it now believes.

These are the two steps of Algorithm 1 with the committee's own predictions as F: the graph is learnt from the distances
and from what is believed of each row (Eq. (8)), the features are propagated on it (Eq. (13)), and the readouts learn
from the given labels (Eq. (15)) and from the rows that the round before was sure of.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from angpn.ensemble.base_learners import GraphOptions, PropagationMatrix, Reach, Setting, learnt_graph, propagated
from angpn.ensemble.calibration import Calibration, best_temperature
from angpn.ensemble.heads import Radial, Readout, fit_linear, mean_log_probabilities, scale_of
from angpn.ensemble.label_spreading import Spread, SpreadSetting
from angpn.ensemble.selection import Fold, is_cheap
from angpn.neighbors.distributed import ParallelMap, serial_map
from angpn.neighbors.neighborhood import Neighborhood
from angpn.utils.typing import Array

SURE = 0.8  # a row teaches the others when its class is at least so probable
_TAUGHT_AT_MOST = 20_000  # rows that a readout learns from beside the labelled ones
_ENOUGH_TO_ELECT = 2000  # of them to judge a setting by
_JUDGES = 3  # students that judge
ENOUGH_JUDGED = 100  # labels; fewer would elect by chance


class Problem(NamedTuple):
    """What all rounds share."""

    features: Tensor  # (n, p), of the rows that the lists are of
    neighborhood: Neighborhood  # the rows of the data, or those of this process; these have the (n, c) tensors below
    options: GraphOptions
    settings: Sequence[Setting | SpreadSetting]
    codes: Array  # of all rows of the data, -1 where unlabelled; folds are rows of the data too
    weights: Array | None  # of all rows
    centers: Array  # rows that radial readouts are centred on
    n_classes: int
    seed: int
    parallel_map: ParallelMap = serial_map


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

    neighborhood: Neighborhood
    propagation_matrix: PropagationMatrix  # normalized, for labels that spread
    features: dict[Reach, Tensor]
    scales: dict[Reach, float]
    radials: dict[tuple[Reach, float], Radial] = field(default_factory=dict)

    def rows(self, reach: Reach, rows: Array) -> Tensor:
        """The features of these rows of the data, as readouts have them."""
        return self.scales[reach] * self.neighborhood.partition.gather_rows(self.features[reach], rows)

    def radial(self, setting: Setting) -> Radial | None:
        return None if setting.width is None else self.radials[setting.reach, setting.width]


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
        opinions = [opinion for group in self._grouped(self._students) for opinion in self._teach(group)]
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
            said.append(problem.neighborhood.partition.gather_rows(opinion, rows))
            judged.append(rows)
        rows = np.concatenate(judged)
        if not len(rows):
            return Calibration.unknown(problem.n_classes), 0.0, 0
        judge = partial(Calibration.by, torch.cat(said), problem.codes[rows], _part(problem.weights, rows))
        calibration, mean = problem.parallel_map([judge])[0]  # that of one process for all
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
        for group in self._grouped(judges):
            pupils = [(seen, self._lesson(student, _ENOUGH_TO_ELECT)) for student in group]
            for student, members in zip(group, self._members(self._candidates, pupils), strict=True):
                pairs = zip(self._candidates, members, strict=True)
                opinions.append([self._opinion_of(student.fold.held, *pair, seen) for pair in pairs])
        said = (torch.cat(candidate) for candidate in zip(*opinions, strict=True))
        found = self._problem.parallel_map([partial(best_temperature, candidate, truth, weights) for candidate in said])
        scores = [likelihood for _, likelihood in found]
        order = np.argsort(scores)[::-1][: len(self.settings)]
        self.settings = [self._candidates[place] for place in order]

    def _grouped(self, students: Sequence[Student]) -> Iterator[Sequence[Student]]:
        """As many at a time as there are processes: each has so many times fewer rows, and more readouts to share."""
        at_once = self._problem.neighborhood.partition.n_processes
        return (students[start : start + at_once] for start in range(0, len(students), at_once))

    def _seen(self, beliefs: Tensor | None, settings: Sequence[Setting | SpreadSetting]) -> _Seen:
        """What members with these settings see, on the graph that follows from these beliefs."""
        problem = self._problem
        graph = learnt_graph(problem.neighborhood, problem.options, beliefs)
        reaches = [setting.reach for setting in settings if isinstance(setting, Setting)]
        propagation_matrix = PropagationMatrix(graph, problem.options.direction, problem.neighborhood.partition)
        features = propagated(problem.features, propagation_matrix, reaches)
        scales = {reach: scale_of(found, problem.neighborhood.partition) for reach, found in features.items()}
        if problem.options.direction != "normalized":
            propagation_matrix = PropagationMatrix(graph, "normalized", problem.neighborhood.partition)
        return _Seen(problem.neighborhood, propagation_matrix, features, scales)

    def _teach(self, students: Sequence[Student]) -> list[Tensor]:  # (n, c) each
        """Train the members of some students anew; the logarithm of their mean probability."""
        guides = [student.beliefs if self._problem.options.beta > 0 else None for student in students]
        pupils = [
            (self._seen_with(guide), self._lesson(student, _TAUGHT_AT_MOST))
            for student, guide in zip(students, guides, strict=True)
        ]
        opinions = []
        for student, guide, (seen, _), members in zip(
            students, guides, pupils, self._members(self.settings, pupils), strict=True
        ):
            student.readouts, student.graph_beliefs = members, guide
            said = [self._opinion(*pair, seen) for pair in zip(self.settings, members, strict=True)]
            opinions.append(mean_log_probabilities(said))
        return opinions

    def _seen_with(self, guide: Tensor | None) -> _Seen:
        """What members see that believe this; the same for all while nothing is believed."""
        if guide is None:
            assert self._first is not None
            return self._first
        self._first = None
        return self._seen(guide, self.settings)

    def _members(
        self, settings: Sequence[Setting | SpreadSetting], pupils: Sequence[tuple[_Seen, _Lesson]]
    ) -> list[list[Readout | Spread]]:
        """For each pupil members with these settings, who learnt from its lesson."""
        readouts = iter(self._readouts([setting for setting in settings if isinstance(setting, Setting)], pupils))
        alphas = [setting.alpha for setting in settings if isinstance(setting, SpreadSetting)]
        members: list[list[Readout | Spread]] = []
        for seen, lesson in pupils:
            spreads = iter(Spread.of(seen.propagation_matrix, *lesson, alphas, self._problem.n_classes))
            members.append(
                [next(spreads) if isinstance(setting, SpreadSetting) else next(readouts) for setting in settings]
            )
        return members

    def _readouts(self, settings: Sequence[Setting], pupils: Sequence[tuple[_Seen, _Lesson]]) -> list[Readout]:
        """One pupil's after the other's, in the order of the settings."""
        problem, untaught, tasks = self._problem, [], []
        self._make_radials(settings, [seen for seen, _ in pupils])
        for seen, lesson in pupils:
            inputs = {reach: seen.rows(reach, lesson.rows) for reach in {setting.reach: None for setting in settings}}
            for setting in settings:
                radial = seen.radial(setting)
                untaught.append((seen.scales[setting.reach], radial))
                tasks.append(partial(_fit, setting, inputs[setting.reach], radial, lesson, problem.n_classes))
        order = sorted(range(len(tasks)), key=lambda place: is_cheap(settings[place % len(settings)]))
        found = dict(zip(order, problem.parallel_map([tasks[place] for place in order]), strict=True))
        linear = (found[place] for place in range(len(tasks)))
        pairs = zip(untaught, linear, strict=True)
        return [Readout(scale, weight, bias, radial) for (scale, radial), (weight, bias) in pairs]

    def _make_radials(self, settings: Sequence[Setting], views: Sequence[_Seen]) -> None:
        """Those that these settings need, where they are not there yet."""
        missing, tasks = [], []
        for seen in {id(seen): seen for seen in views}.values():
            widths = {(setting.reach, setting.width) for setting in settings if setting.width is not None}
            for reach, width in sorted(widths - set(seen.radials)):
                missing.append((seen, (reach, width)))
                tasks.append(partial(Radial.around, seen.rows(reach, self._problem.centers), width))
        for (seen, key), radial in zip(missing, self._problem.parallel_map(tasks), strict=True):
            seen.radials[key] = radial

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
            return seen.neighborhood.partition.gather_rows(member.log_probabilities(), rows)
        assert isinstance(setting, Setting)
        return member(seen.neighborhood.partition.gather_rows(seen.features[setting.reach], rows))

    def _lesson(self, student: Student, most: int) -> _Lesson:
        """What a student's members learn from: the labels, and about so many sure rows at most."""
        problem, training = self._problem, student.fold.training
        given = _part(problem.weights, training)
        if student.beliefs is None:
            return _Lesson(training, problem.codes[training], given)
        surest, classes = student.beliefs.max(dim=1)
        sure = self._some(surest >= SURE, training, most)
        codes = np.concatenate(
            [problem.codes[training], problem.neighborhood.partition.gather_rows(classes, sure).numpy()]
        )
        weights = None if given is None else np.concatenate([given, np.ones(len(sure))])
        return _Lesson(np.concatenate([training, sure]), codes, weights)

    def _some(self, sure: Tensor, training: Array, most: int) -> Array:
        """Rows of the data that are sure, without these; where there are more, each with the chance that it takes."""
        neighborhood = self._problem.neighborhood
        sure[neighborhood.partition.local_index(training)[0]] = False
        count = float(neighborhood.partition.all_reduce_sum(sure.sum()))
        rows = neighborhood.partition.global_ids(sure.nonzero().squeeze(1))
        if count > most:
            rows = rows[chances(rows.numpy(), self._problem.seed) < most / count]
        return np.sort(neighborhood.partition.all_gather(rows).numpy())


def _part(weights: Array | None, rows: Array) -> Array | None:
    return None if weights is None else weights[rows]


def _fit(
    setting: Setting, inputs: Tensor, radial: Radial | None, lesson: _Lesson, n_classes: int
) -> tuple[Tensor, Tensor]:
    inputs = inputs if radial is None else radial(inputs)
    return fit_linear(inputs, lesson.codes, lesson.weights, setting.C, n_classes)


def chances(rows: Array, seed: int) -> Array:
    """For each row a number in [0, 1) that depends on the row and the seed alone (SplitMix64's mixing)."""
    mixed = (rows.astype(np.uint64) + np.uint64(seed)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return (mixed ^ (mixed >> np.uint64(31))) / 2.0**64
