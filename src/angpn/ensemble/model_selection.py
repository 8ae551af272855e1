"""Model selection: the scaling and the hyper-parameters under which held-out labels are most likely."""

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from angpn.ensemble.base_learners import HyperParameters
from angpn.ensemble.calibration import log_likelihoods
from angpn.ensemble.config import EnsembleConfig, Hops
from angpn.ensemble.folds import Labels, limit_labels, rows_of, subsample
from angpn.ensemble.heads import HeadParameters
from angpn.ensemble.label_spreading import SpreadingParameters
from angpn.ensemble.propagated_features import PropagatedFeatures
from angpn.ensemble.scaling import Scaling, ScalingName, is_table
from angpn.ensemble.user_options import EnsembleOptions
from angpn.neighbors.exact import Metric
from angpn.neighbors.neighborhood import Neighborhood
from angpn.utils.labels import UNLABELLED
from angpn.utils.typing import Array


class ScaledRows(NamedTuple):
    """Rows under one scaling: their neighbours, and the features that are propagated."""

    scaling: Scaling
    neighborhood: Neighborhood
    features: Tensor  # (n, p) of the rows that the lists are of


class Selection(NamedTuple):
    """What the held-out labels selected."""

    rows: ScaledRows
    selected: list[HyperParameters]
    reselection_candidates: list[HyperParameters]  # to compare again once there are pseudo-labels, best first
    features: PropagatedFeatures | None = None  # of these rows on the graph of the distances, where they are at hand


def select(X: Any, labels: Labels, options: EnsembleOptions) -> Selection:
    """Select scaling and hyper-parameters; of many rows a sample decides, so that it costs the same for more."""
    config = options.config
    labels = limit_labels(labels, options.seed, config)
    if labels.are_few(config):
        of_table = is_table(X, config)
        scaling = _default_scaling(options.scalings, of_table)
        selected = few_label_candidates(options.alpha, of_table, config)
        return Selection(scale_for_training(X, scaling, options), selected, [])
    many = X.shape[0] > config.max_rows_compared
    compared, sampled = X, labels
    if many and not options.distances_given:
        compared, sampled = _sample(X, labels, config.max_rows_compared, options)
    scaling, scorer = _select_scaling(compared, sampled, options)
    scorer = scorer or Scorer(_scaled(compared, scaling, options), sampled, options)
    _score_hyper_parameters(scorer, options)
    ranking = scorer.ranking()
    selected, candidates = ranking[: config.n_base_learners], ranking[: config.n_reselection_candidates]
    if many:
        return Selection(scale_for_training(X, scaling, options), selected, candidates)
    return Selection(scorer.rows, selected, candidates, scorer.features)


def _select_scaling(
    X: Any, labels: Labels, options: EnsembleOptions
) -> tuple[tuple[ScalingName, Metric], "Scorer | None"]:
    """Return the scaling under which the best of a few hyper-parameters is best, and a scorer that has all rows.

    Of many rows a sample suffices, and there is no such scorer.
    """
    if len(options.scalings) == 1:
        return options.scalings[0], None
    config, compared = options.config, X
    if not options.distances_given:
        compared, labels = _sample(X, labels, config.max_rows_of_scalings, options)
    hops = _hops(options)
    hops = [each for each in hops if each in config.hops_of_scalings] or hops
    scorers = [Scorer(_scaled(compared, scaling, options), labels, options) for scaling in options.scalings]
    score_all(scorers, first_candidates(hops, _spreading_alphas(options), config), options)
    best = int(np.argmax([scorer.scores[scorer.ranking()[0]] for scorer in scorers]))
    return options.scalings[best], scorers[best] if compared is X else None


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
        self.rows, self.labels, self._config = rows, labels, options.config
        self.scores: dict[HyperParameters, float] = {}  # mean log-likelihood of held-out labels
        self.first_fold: dict[HyperParameters, Array] = {}  # log-likelihood of each of the first fold
        self.far_behind: set[HyperParameters] = set()  # scored on the first fold alone
        self._log_proba: dict[HyperParameters, Tensor] = {}  # (h, c) in the folds scored so far

    def cross_validate(self, candidates: Sequence[HyperParameters], folds: slice) -> list[Tensor]:  # (h, c) each
        """Return the log-probabilities of held-out rows for some candidates of one kind."""
        labels = self.labels._replace(folds=self.labels.folds[folds])
        return candidates[0].learner.cross_validate(candidates, self.features, labels, config=self._config)

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

    def ranking(self) -> list[HyperParameters]:
        """Return the hyper-parameters scored so far, best first.

        To propagate far is the safer guess while few labels are held out; that hardly counts once many are.
        """
        n_held = len(np.unique(np.concatenate([fold.held for fold in self.labels.folds])))

        def key(candidate: HyperParameters) -> tuple[bool, float]:
            bonus = self._config.hops_bonus * candidate.doublings(self._config) / n_held
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


Groups = list[tuple[Scorer, list[HyperParameters]]]  # what is scored together


def _groups(candidates: Iterable[HyperParameters], scorers: Sequence[Scorer]) -> Groups:
    """Return what was not scored yet: heads one by one, label spreading together, expensive ones first."""
    shared: dict[Any, list[HyperParameters]] = {}
    for candidate in sorted(candidates, key=lambda candidate: not candidate.is_expensive):
        shared.setdefault(candidate if candidate.hops is not None else candidate.learner, []).append(candidate)
    return [
        (scorer, [each for each in group if each not in scorer.scores])
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
    return float(behind.mean()) > config.far_behind * float(behind.std()) / len(behind) ** 0.5 > 0


def first_candidates(
    hops: Collection[Hops], spreading_alphas: Collection[float], config: EnsembleConfig
) -> list[HyperParameters]:
    """Return every hops with a linear and a kernel head, and label spreading."""
    heads = [HeadParameters(*each, *head) for each in hops for head in config.first_heads]
    return [*heads, *map(SpreadingParameters, spreading_alphas)]


def refined_candidates(ranking: Sequence[HyperParameters], config: EnsembleConfig) -> list[HyperParameters]:
    """Return more heads for the best hops so far."""
    best = list(dict.fromkeys(candidate.hops for candidate in ranking if candidate.hops is not None))
    return [HeadParameters(*each, *head) for each in best[: config.n_hops_refined] for head in config.more_heads]


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
    name = "standard" if of_table else "unit"
    return next((scaling for scaling in scalings if scaling[0] == name), scalings[0])


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


def _scaled(X: Any, scaling: tuple[ScalingName, Metric], options: EnsembleOptions) -> ScaledRows:
    fitted = Scaling.fit(X, *scaling, options.seed, options.config)
    rows = fitted.transform(X)
    return ScaledRows(fitted, options.find_neighbors(rows, fitted.metric), fitted.features(rows))


def scale_for_training(X: Any, scaling: tuple[ScalingName, Metric], options: EnsembleOptions) -> ScaledRows:
    """Scale all rows; the features are those of the rows that this process holds, in their order."""
    fit_scaling = partial(Scaling.fit, X, *scaling, options.seed, options.config)
    fitted = options.parallel_map([fit_scaling])[0]  # by one process, for all
    rows = fitted.transform(X)
    neighborhood = options.find_training_neighbors(rows, fitted.metric)
    return ScaledRows(fitted, neighborhood, fitted.features(neighborhood.partition.local_rows(rows)))
