"""From rows and a few labels to a committee: a view of the rows, settings for its members, and rounds of training."""

import itertools
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from torch import Tensor

from angpn.ensemble.base_learners import GraphOptions, PropagationMatrix, Reach, Setting, learnt_graph, propagated
from angpn.ensemble.calibration import softened
from angpn.ensemble.ensemble import Committee
from angpn.ensemble.label_spreading import SpreadSetting
from angpn.ensemble.scaling import Scaling, View
from angpn.ensemble.selection import (
    CANDIDATES,
    FEW_A_CLASS,
    FEW_LABELS,
    FEW_LABELS_OF_TABLE,
    MEMBERS,
    REACHES,
    SPREADS,
    Fold,
    Judge,
    fewer_labels,
    first_settings,
    more_settings,
    pick_centers,
    score_all,
)
from angpn.ensemble.self_training import ENOUGH_JUDGED, Problem, Rounds, Student
from angpn.neighbors.distributed import ParallelMap, serial_map
from angpn.neighbors.exact import Metric
from angpn.neighbors.neighborhood import Neighborhood
from angpn.utils.labels import UNLABELLED
from angpn.utils.typing import Array

Bar = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]

ROWS_COMPARED = 10_000  # views are compared on so many rows; the search goes on with the best on all
_FOR_VIEWS = ((0.0, 0), (0.5, 2), (0.8, 5))  # reaches that tell views apart
# A further round nearly always serves; while few labels judge, it must show that it does. In units of log-likelihood.
_WORTH_OF_ROUND = 3.0
_COST_OF_ROUND = 2.0
STUDENTS = 5  # folds that go through the rounds; the others only judged settings


class Request(NamedTuple):
    """What the user decided; the rest is chosen."""

    views: Sequence[tuple[Scaling, Metric]]
    alpha: float | None  # None: chosen
    options: GraphOptions
    neighbors: Callable[[Any, Metric], Neighborhood]  # of scaled rows
    arranged: Callable[[Any, Metric], Neighborhood]  # the same for training: in an order, or part of them, that suits
    given_distances: bool  # then neighbours are those of all rows
    settings: Sequence[Setting | SpreadSetting] | None  # those of an earlier fit, kept
    bar: Bar
    seed: int
    parallel_map: ParallelMap = serial_map


class Labels(NamedTuple):
    """The labels, and how they are held out to judge by."""

    codes: Array  # (n,) -1 where unlabelled
    weights: Array | None  # (n,)
    folds: Sequence[Fold]
    masked: bool  # the first fold holds out what the user named

    @property
    def few(self) -> bool:
        """Whether there are too few to choose by."""
        known = self.codes[self.codes != UNLABELLED]
        return not self.folds or len(known) <= FEW_A_CLASS * len(np.unique(known))


class Look(NamedTuple):
    """What a view makes of the rows."""

    view: View
    neighborhood: Neighborhood
    features: Tensor  # (n, p) of the rows that the lists are of


class Chosen(NamedTuple):
    """What the labels decided."""

    look: Look
    settings: list[Setting | SpreadSetting]
    candidates: list[Setting | SpreadSetting]  # for another choice after the first round, best first


class State(NamedTuple):
    """Where training is after a round."""

    committee: Committee
    accuracy: float  # on held-out labels, NaN where there are none
    likelihood: float  # of them all: its logarithm
    n_judged: int  # how many they are
    beliefs: Tensor  # (n, c) calibrated, of the rows that the lists are of
    held: list[tuple[Array, Tensor]]  # rows that were held out, and what was believed of them then
    loss: float  # of the labels it learnt from


def best_round(history: Sequence[State]) -> int:
    """Which round to keep: the last where nothing was held out, else that under which held-out labels are most likely.

    Learning from one's own beliefs may go astray, so rounds are compared; but a difference of a few units is chance.
    """
    if not history[-1].n_judged:
        return len(history) - 1
    worth = _WORTH_OF_ROUND if history[-1].n_judged >= ENOUGH_JUDGED else -_COST_OF_ROUND
    return int(np.argmax([state.likelihood + worth * number for number, state in enumerate(history)]))


def choose(X: Any, labels: Labels, request: Request) -> Chosen:
    """The view of the rows and the settings under which held-out labels are most likely.

    Of many rows a part decides, so that the search costs the same however many there are.
    """
    labels = labels._replace(folds=fewer_labels(labels.folds, labels.codes, request.seed))
    if labels.few:
        table = _is_table(X)
        settings = request.settings or _few_settings(request.alpha, table)
        return Chosen(_look(X, _likely_view(request.views, table), request, for_training=True), list(settings), [])
    if request.settings and len(request.views) == 1:
        return Chosen(_look(X, request.views[0], request, for_training=True), list(request.settings), [])
    many, rows, sampled = X.shape[0] > ROWS_COMPARED, X, labels
    if many and not request.given_distances:
        rows, sampled = _subsample(X, labels, request.seed)
    look = _best_look(rows, sampled, request)
    candidates = list(request.settings or _best_settings(look, sampled, request))
    if many:
        look = _look(X, (look.view.scaling, look.view.metric), request, for_training=True)
    return Chosen(look, candidates[:MEMBERS], [] if request.settings else candidates[:CANDIDATES])


def train(chosen: Chosen, labels: Labels, request: Request) -> Generator[State]:
    """A committee after each round, without end.

    With a validation mask the one student that never sees those labels is the committee. Else the committee learns
    from all labels, beside students that each leave a fold out and so tell how sure it may be.
    """
    codes, look = labels.codes, chosen.look
    labelled = np.flatnonzero(codes != UNLABELLED)
    masked = labels.masked
    students = [Student(fold) for fold in labels.folds[: STUDENTS + masked]]
    final = students[0] if masked else Student(Fold(labelled, labelled[:0]))
    problem = Problem(
        look.features,
        look.neighborhood,
        request.options,
        chosen.settings,
        codes,
        labels.weights,
        pick_centers(codes, request.seed),
        int(codes.max()) + 1,
        request.seed,
        request.parallel_map,
    )
    rounds = Rounds(problem, students if masked else [*students, final], chosen.candidates)
    for number in itertools.count():
        if number == 1:
            rounds.elect()
        calibration, likelihood, n_judged = next(rounds)
        members = rounds.settings, list(final.readouts)
        committee = Committee(look.view, request.options, *members, calibration.softened(), final.graph_beliefs)
        assert final.beliefs is not None
        beliefs = softened(final.beliefs)
        training = final.fold.training
        judged = students[:1] if masked else students
        held = [
            (s.fold.held, look.neighborhood.partition.gather_rows(s.beliefs, s.fold.held))
            for s in judged
            if s.beliefs is not None
        ]
        right = [said.argmax(dim=1).numpy() == codes[rows] for rows, said in held]
        accuracy = float(np.concatenate(right).mean()) if right else float("nan")
        said = look.neighborhood.partition.gather_rows(beliefs, training)[np.arange(len(training)), codes[training]]
        loss = -float(said.clamp(min=1e-12).log().mean())
        yield State(committee, accuracy, likelihood, n_judged, beliefs, held, loss)


def _best_look(X: Any, labels: Labels, request: Request) -> Look:
    """Through the view in which held-out labels are most likely."""
    looks = [_look(X, view, request) for view in request.views]
    if len(looks) == 1:
        return looks[0]
    reaches = [reach for reach in _reaches(request.alpha) if reach in _FOR_VIEWS] or _reaches(request.alpha)
    judges = [_judge(look, labels, reaches, request) for look in looks]
    score_all(judges, first_settings(reaches, _spreads(request.alpha)), request.parallel_map)
    return looks[int(np.argmax([judge.best(1)[0].score for judge in judges]))]


def _best_settings(look: Look, labels: Labels, request: Request) -> list[Setting | SpreadSetting]:
    """All settings that were tried, best first."""
    reaches = _reaches(request.alpha)
    judge = _judge(look, labels, reaches, request)
    with request.bar("settings", 2) as advance:
        score_all([judge], first_settings(reaches, _spreads(request.alpha)), request.parallel_map)
        advance(1)
        score_all([judge], more_settings(judge), request.parallel_map)
        advance(1)
    return [found.setting for found in judge.best(len(judge.scores))]


def _likely_view(views: Sequence[tuple[Scaling, Metric]], table: bool) -> tuple[Scaling, Metric]:
    """Where no label can be held out to choose by."""
    likely = "standard" if table else "unit"
    return next((view for view in views if view[0] == likely), views[0])


def _few_settings(alpha: float | None, table: bool) -> Sequence[Setting | SpreadSetting]:
    if alpha is not None:
        return _spreads(alpha)
    return FEW_LABELS_OF_TABLE if table else FEW_LABELS


def _look(X: Any, scaled: tuple[Scaling, Metric], request: Request, *, for_training: bool = False) -> Look:
    if not for_training:
        view = View.of(X, *scaled, request.seed)
        rows = view.rows(X)
        return Look(view, request.neighbors(rows, view.metric), view.features(rows))
    view = request.parallel_map([partial(View.of, X, *scaled, request.seed)])[0]  # that of one process for all
    rows = view.rows(X)
    neighborhood = request.arranged(rows, view.metric)
    partition = neighborhood.partition
    if partition.n_processes > 1:  # its own rows only
        return Look(view, neighborhood, view.features(partition.local_rows(rows)))
    return Look(view, neighborhood, partition.local_rows(view.features(rows)))


def _is_table(X: Any) -> bool:
    """Whether columns are of unlike scale, as measurements are and words are not."""
    if scipy.sparse.issparse(X):
        return False
    spread = X.std(axis=0)
    spread = spread[spread > 0]
    return bool(len(spread)) and bool(spread.max() > 10 * np.median(spread))


def _judge(look: Look, labels: Labels, reaches: Sequence[Reach], request: Request) -> Judge:
    graph = learnt_graph(look.neighborhood, request.options, None)
    found = propagated(look.features, PropagationMatrix(graph, request.options.direction), reaches)
    centers = pick_centers(labels.codes, request.seed)
    spreading = PropagationMatrix(graph, "normalized")
    return Judge(spreading, found, labels.folds, labels.codes, labels.weights, centers)


def _reaches(alpha: float | None) -> list[Reach]:
    """Those to choose among; with one alpha given, its hops."""
    if alpha is None:
        return list(REACHES)
    return [(alpha, hops) for hops in (1, 2, 3, 5, 10, 20)]


def _spreads(alpha: float | None) -> Sequence[SpreadSetting]:
    return SPREADS if alpha is None else (SpreadSetting(alpha),)


def _subsample(X: Any, labels: Labels, seed: int) -> tuple[Any, Labels]:
    """Fewer rows, with all that the folds speak of."""
    spoken_of = np.unique(np.concatenate([rows for fold in labels.folds for rows in fold]))
    others = np.random.default_rng(seed).permutation(np.setdiff1d(np.arange(X.shape[0]), spoken_of))
    kept = np.sort(np.concatenate([spoken_of, others[: max(0, ROWS_COMPARED - len(spoken_of))]]))
    folds = [Fold(*(np.searchsorted(kept, rows) for rows in fold)) for fold in labels.folds]
    weights = None if labels.weights is None else labels.weights[kept]
    return X[kept], Labels(labels.codes[kept], weights, folds, labels.masked)
