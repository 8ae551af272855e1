"""Model selection: the scaling and the hyper-parameters under which held-out labels are most likely."""

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from angpn.ensemble.base_learners import HyperParameters
from angpn.ensemble.calibration import log_likelihoods
from angpn.ensemble.config import EnsembleConfig, Family, Hops
from angpn.ensemble.extra_trees import ExtraTrees, TreesParameters
from angpn.ensemble.folds import Labels, limit_labels, rows_of, subsample
from angpn.ensemble.heads import HeadParameters
from angpn.ensemble.label_spreading import SpreadingParameters
from angpn.ensemble.mixture import Members, select_members
from angpn.ensemble.propagated_features import PropagatedFeatures
from angpn.ensemble.scaling import IN_MAIN_DIRECTIONS, Scaling, ScalingName
from angpn.ensemble.user_options import EnsembleOptions
from angpn.neighbors.exact import Metric
from angpn.neighbors.neighborhood import Neighborhood
from angpn.utils.labels import UNLABELLED
from angpn.utils.typing import Array

_MIN_DEVIATION = 0.01  # of log-likelihoods, where all labels have the same


class ScaledRows(NamedTuple):
    """Rows under one scaling: their neighbours, and the features that are propagated."""

    scaling: Scaling
    neighborhood: Neighborhood
    features: Tensor  # (n, p) of the rows that the lists are of


class Selection(NamedTuple):
    """What the held-out labels selected."""

    rows: ScaledRows
    selected: Members
    reselection_candidates: list[HyperParameters]  # to compare again once there are pseudo-labels, best first
    features: PropagatedFeatures | None = None  # of these rows on the graph of the distances, where they are at hand


def select(X: Any, labels: Labels, options: EnsembleOptions, stages: "list[list[Scorer]] | None" = None) -> Selection:
    """Select scaling and hyper-parameters; of many rows a sample decides, so that it costs the same for more.

    ``stages`` gets the scorers of each stage when they are made, so that whoever interrupts this has what they found.
    """
    config, stages = options.config, [] if stages is None else stages
    labels = limit_labels(labels, options.seed, config)
    if not labels.folds:
        scaling = _default_scaling(options.scalings, options.of_table)
        selected = Members.equal(few_label_candidates(options.alpha, options.of_table, config))
        return Selection(scale_for_training(X, scaling, options), selected, [])
    many = X.shape[0] > config.max_rows_compared
    compared, sampled = X, labels
    if many and not options.distances_given:
        compared, sampled = _sample(X, labels, config.max_rows_compared, options)
    scaling, scorer = _select_scaling(compared, sampled, options, stages)
    if scorer is None:
        fitted = Scaling.fit(compared, *scaling, options.seed, config, options.n_components)
        scorer = Scorer(_scaled(compared, fitted, options), sampled, options)
    stages.append([scorer])
    _score_hyper_parameters(scorer, options)
    selected, candidates = scorer.members(), reselection_candidates(scorer.ranking(), options)
    if many:
        return Selection(scale_for_training(X, scaling, options), selected, candidates)
    return Selection(scorer.rows, selected, candidates, scorer.features)


def select_so_far(X: Any, labels: Labels, options: EnsembleOptions, stages: "Sequence[Sequence[Scorer]]") -> Selection:
    """Return the best that the stages of an interrupted :func:`select` found; as for few labels where that is nothing.

    Only the first round can be trained by it: features and candidates of later rounds are left out.
    """
    scored = [[scorer for scorer in stage if scorer.scores] for stage in stages]
    last = next((stage for stage in reversed(scored) if stage), None)  # scores of different samples do not compare
    if last is None:
        selected = Members.equal(few_label_candidates(options.alpha, options.of_table, options.config))
        return Selection(
            scale_for_training(X, _default_scaling(options.scalings, options.of_table), options), selected, []
        )
    best = best_scorer(last, options)
    has_all_rows = X.shape[0] <= options.config.max_rows_compared and len(best.labels.codes) == X.shape[0]
    rows = best.rows
    if not has_all_rows:
        rows = scale_for_training(X, (rows.scaling.name, rows.scaling.metric), options)
    return Selection(rows, best.members(), [])


def _select_scaling(
    X: Any, labels: Labels, options: EnsembleOptions, stages: "list[list[Scorer]]"
) -> tuple[tuple[ScalingName, Metric], "Scorer | None"]:
    """Return the scaling under which the best of a few hyper-parameters is best, and a scorer that has all rows.

    Of many rows a sample suffices, and there is no such scorer.
    """
    config, compared = options.config, X
    expected = _default_scaling(options.scalings, options.of_table)
    scalings = list(options.scalings)
    if labels.are_few(config):
        scalings = [scaling for scaling in scalings if scaling == expected or scaling[0] in IN_MAIN_DIRECTIONS]
    if len(scalings) == 1:
        return expected, None
    if not options.distances_given:
        compared, labels = _sample(X, labels, config.max_rows_of_scalings, options)
    hops = _hops(options)
    hops = [each for each in hops if each in config.hops_of_scalings] or hops
    scorers: list[Scorer] = []
    stages.append(scorers)
    fits = [partial(Scaling.fit, compared, *each, options.seed, config, options.n_components) for each in scalings]
    for (name, _), fitted in zip(scalings, options.parallel_map(fits), strict=True):
        if fitted.name == name:  # main directions may hold all of the rows, and "unit" and "standard" are there
            scorers.append(Scorer(_scaled(compared, fitted, options), labels, options))
    score_all(scorers, first_candidates(hops, _spreading_alphas(options), config), options)
    best = best_scorer(scorers, options)
    selected = best.rows.scaling.name, best.rows.scaling.metric
    return selected, best if compared is X else None


def best_scorer(scorers: "Sequence[Scorer]", options: EnsembleOptions) -> "Scorer":
    """Return the one, of scorers of different scalings, whose best hyper-parameters have the highest score."""
    scalings = [(each.rows.scaling.name, each.rows.scaling.metric) for each in scorers]
    expected = _default_scaling(scalings, options.of_table)
    config, n_held = options.config, len(np.concatenate([fold.held for fold in scorers[0].labels.folds]))
    bonus = (config.scaling_bonus_of_table if options.of_table else config.scaling_bonus) / n_held

    def score(scorer: Scorer) -> float:
        first, scaling = scorer.ranking()[0], scorer.rows.scaling
        # One that is far behind was not scored on all folds, and is not wanted whatever was expected.
        is_expected = (scaling.name, scaling.metric) == expected or scaling.name in IN_MAIN_DIRECTIONS
        return scorer.scores[first] + bonus * (is_expected and first not in scorer.far_behind)

    return max(scorers, key=score)


def _score_hyper_parameters(scorer: "Scorer", options: EnsembleOptions) -> None:
    with options.progress_bar("hyper-parameters", 2) as advance:
        score_all([scorer], first_candidates(_hops(options), _spreading_alphas(options), options.config), options)
        advance(1)
        score_all([scorer], refined_candidates(scorer.ranking(), options.config), options)
        advance(1)


class Scorer:
    """Scores hyper-parameters by cross-validation on the rows of one scaling."""

    def __init__(self, rows: ScaledRows, labels: Labels, options: EnsembleOptions) -> None:
        self.features = PropagatedFeatures(rows.features, rows.neighborhood, options.graph, [])
        self.rows, self.labels, self._config, self._of_table = rows, labels, options.config, options.of_table
        self.scores: dict[HyperParameters, float] = {}  # mean log-likelihood of held-out labels
        self.first_fold: dict[HyperParameters, Array] = {}  # log-likelihood of each of the first fold
        self.far_behind: set[HyperParameters] = set()  # scored on the first fold alone
        self._log_proba: dict[HyperParameters, Tensor] = {}  # (h, c) in the folds scored so far

    def serves(self, candidate: HyperParameters) -> bool:
        """Tell whether a candidate is worth scoring: trees want columns, which rows of length 1 no longer have."""
        return candidate.learner is not ExtraTrees or self.rows.scaling.has_columns

    def cross_validate(self, candidates: Sequence[HyperParameters], folds: slice) -> list[Tensor]:  # (h, c) each
        """Return the log-probabilities of held-out rows for some candidates of one kind, with the same inputs."""
        return candidates[0].learner.cross_validate(candidates, self.features, self.labels, folds, config=self._config)

    def add(self, candidates: Sequence[HyperParameters], several: Sequence[Tensor]) -> None:
        """Score some candidates by the log-probabilities of held-out rows in the first fold, or in all others."""
        held = np.concatenate([fold.held for fold in self.labels.folds])
        for candidate, found in zip(candidates, several, strict=True):
            if candidate in self._log_proba:
                found = torch.cat([self._log_proba[candidate], found])
            truth, weights = self.labels.codes[held[: len(found)]], rows_of(self.labels.weights, held[: len(found)])
            likelihoods = log_likelihoods(found, truth, weights, self._config)
            self._log_proba[candidate], self.scores[candidate] = found, float(likelihoods.mean())
            self.first_fold.setdefault(candidate, likelihoods)

    def members(self) -> Members:
        """Return those that together make the held-out labels most likely.

        Of a search that was interrupted: among those that were scored on the most folds.
        """
        close = {each: found for each, found in self._log_proba.items() if each not in self.far_behind}
        n_scored = max(len(found) for found in close.values())
        close = {each: found for each, found in close.items() if len(found) == n_scored}
        held = np.concatenate([fold.held for fold in self.labels.folds])[:n_scored]
        truth, weights = self.labels.codes[held], rows_of(self.labels.weights, held)
        few = self.labels.are_few(self._config)
        return select_members(close, truth, weights, self._config, of_table=self._of_table, few=few)

    def ranking(self) -> list[HyperParameters]:
        """Return the hyper-parameters scored so far, best first.

        To propagate far is the safer guess while few labels are held out; that hardly counts once many are.
        """
        n_held = len(np.unique(np.concatenate([fold.held for fold in self.labels.folds])))

        def key(candidate: HyperParameters) -> tuple[bool, float]:
            bonus = candidate.bonus(self._config, of_table=self._of_table) / n_held
            return candidate not in self.far_behind, self.scores[candidate] + bonus

        return sorted(self.scores, key=key, reverse=True)


def score_all(scorers: Sequence[Scorer], candidates: Iterable[HyperParameters], options: EnsembleOptions) -> None:
    """Let each scorer score these candidates too; a score is computed once.

    All are scored on the first fold. Those that are behind the best, of any scorer, by more than chance allows are not
    fitted on the others.
    """
    candidates = list(candidates)
    for scorer in scorers:
        scorer.features.propagate({each.hops: None for each in candidates if each.hops is not None})
    groups = _groups(candidates, scorers)
    _score(groups, slice(0, 1), options)
    if len(scorers[0].labels.folds) == 1:
        return
    best = max((found for scorer in scorers for found in scorer.first_fold.values()), key=np.mean)
    for scorer, group in groups:
        scorer.far_behind.update(each for each in group if is_far_behind(scorer.first_fold[each], best, options.config))
    close = [(scorer, [each for each in group if each not in scorer.far_behind]) for scorer, group in groups]
    _score(close, slice(1, None), options)


def best_of_families(ranking: Iterable[HyperParameters], count: int) -> list[HyperParameters]:
    """Return the first ones of each family, so many each, in their order."""
    seen: dict[Family, int] = {}
    found = []
    for each in ranking:
        seen[each.family] = seen.get(each.family, 0) + 1
        if seen[each.family] <= count:
            found.append(each)
    return found


Groups = list[tuple[Scorer, list[HyperParameters]]]  # what is scored together


def _groups(candidates: Iterable[HyperParameters], scorers: Sequence[Scorer]) -> Groups:
    """Return what was not scored yet, those with the same inputs together, expensive ones first."""
    shared: dict[Any, list[HyperParameters]] = {}
    for candidate in sorted(candidates, key=lambda candidate: not candidate.is_expensive):
        shared.setdefault((candidate.learner, candidate.inputs), []).append(candidate)
    return [
        (scorer, [each for each in group if each not in scorer.scores and scorer.serves(each)])
        for group in shared.values()
        for scorer in scorers
    ]


def _score(groups: Groups, folds: slice, options: EnsembleOptions) -> None:
    groups = [(scorer, group) for scorer, group in groups if group]
    found = options.parallel_map([partial(scorer.cross_validate, group, folds) for scorer, group in groups])
    for (scorer, group), several in zip(groups, found, strict=True):
        scorer.add(group, several)


def is_far_behind(likelihoods: Array, best: Array, config: EnsembleConfig) -> bool:
    """Tell whether these log-likelihoods of some labels are below the best ones by more than chance allows."""
    behind = best - likelihoods
    if len(behind) < config.min_far_behind:
        return False
    deviation = max(float(behind.std()), _MIN_DEVIATION)
    return float(behind.mean()) > config.far_behind * deviation / len(behind) ** 0.5


def first_candidates(
    hops: Collection[Hops], spreading_alphas: Collection[float], config: EnsembleConfig
) -> list[HyperParameters]:
    """Return every hops with a linear and a kernel head, label spreading, and trees."""
    heads = [HeadParameters(*each, *head) for each in hops for head in config.first_heads]
    return [*heads, *map(SpreadingParameters, spreading_alphas), *(TreesParameters(*each) for each in config.trees)]


def refined_candidates(ranking: Sequence[HyperParameters], config: EnsembleConfig) -> list[HyperParameters]:
    """Return more heads for the best hops of each family so far."""
    found: list[HyperParameters] = []
    for best in best_of_families(ranking, config.n_hops_refined):
        if isinstance(best, HeadParameters):
            heads = (head for head in config.more_heads if (head[0] is None) == (best.width is None))
            found += [HeadParameters(*best.hops, *head) for head in heads]
    return found


def reselection_candidates(ranking: Sequence[HyperParameters], options: EnsembleOptions) -> list[HyperParameters]:
    """Return what is compared once there are pseudo-labels: the best of each family, and outside tables some more."""
    config = options.config
    found = best_of_families(ranking, config.n_reselection_candidates)
    if found and config.whitening and not options.of_table:
        for best in best_of_families(ranking, 1):
            if isinstance(best, HeadParameters) and best.width is None:
                found += [HeadParameters(*best.hops, None, C, config.whitening) for C in config.whitened_C]
    return found


def few_label_candidates(alpha: float | None, of_table: bool, config: EnsembleConfig) -> list[HyperParameters]:
    """Return the hyper-parameters to use where no label can be held out to select by."""
    if alpha is not None:
        return [SpreadingParameters(alpha)]
    if not of_table:
        return [SpreadingParameters(each) for each in config.few_spreading_alphas]
    heads = [HeadParameters(*each) for each in config.few_heads_of_table]
    return [*map(SpreadingParameters, config.few_spreading_alphas_of_table), *heads]


def pick_centers(codes: Array, seed: int, config: EnsembleConfig) -> Array:  # row numbers
    """Return rows for kernels to be centred on: some labelled ones, and others to make up the number."""
    generator, count = np.random.default_rng(seed), config.n_centers
    labelled = generator.permutation(np.flatnonzero(codes != UNLABELLED))[: count * 3 // 5]
    others = generator.permutation(np.setdiff1d(np.arange(len(codes)), labelled))
    return np.sort(np.concatenate([labelled, others[: count - len(labelled)]]))


def _default_scaling(scalings: Sequence[tuple[ScalingName, Metric]], of_table: bool) -> tuple[ScalingName, Metric]:
    names: tuple[ScalingName, ...] = ("standard",) if of_table else ("pca", "unit")
    return next((scaling for name in names for scaling in scalings if scaling[0] == name), scalings[0])


def _hops(options: EnsembleOptions) -> list[Hops]:
    if options.alpha is None:
        return list(options.config.hops)
    return [(options.alpha, n_hops) for n_hops in options.config.hops_of_given_alpha]


def _spreading_alphas(options: EnsembleOptions) -> Sequence[float]:
    return options.config.spreading_alphas if options.alpha is None else (options.alpha,)


def _sample(X: Any, labels: Labels, most: int, options: EnsembleOptions) -> tuple[Any, Labels]:
    """Return about so many rows at most, all labelled ones that matter among them, and their labels."""
    if X.shape[0] <= most:
        return X, labels
    kept, sampled = subsample(X.shape[0], labels, options.seed, most)
    return X[kept], sampled


def _scaled(X: Any, scaling: Scaling, options: EnsembleOptions) -> ScaledRows:
    rows = scaling.transform(X)
    neighborhood = options.find_neighbors(scaling.coordinates(rows), scaling.metric)
    return ScaledRows(scaling, neighborhood, scaling.features(rows))


def scale_for_training(X: Any, scaling: tuple[ScalingName, Metric], options: EnsembleOptions) -> ScaledRows:
    """Scale all rows; the features are those of the rows that this process holds, in their order."""
    fit_scaling = partial(Scaling.fit, X, *scaling, options.seed, options.config, options.n_components)
    fitted = options.parallel_map([fit_scaling])[0]  # by one process, for all
    rows = fitted.transform(X)
    neighborhood = options.find_training_neighbors(fitted.coordinates(rows), fitted.metric)
    return ScaledRows(fitted, neighborhood, fitted.features(neighborhood.partition.local_rows(rows)))
