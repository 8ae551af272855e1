"""Model selection: the scaling and the hyper-parameters under which held-out labels are most likely."""

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from angpn.ensemble.base_learners import HyperParameters
from angpn.ensemble.calibration import fit_temperature
from angpn.ensemble.config import EnsembleConfig, Hops
from angpn.ensemble.folds import Labels, limit_labels, rows_of, subsample
from angpn.ensemble.heads import HeadParameters
from angpn.ensemble.label_spreading import SpreadingParameters
from angpn.ensemble.propagated_features import PropagatedFeatures
from angpn.ensemble.scaling import Scaling, ScalingName, is_table
from angpn.ensemble.user_options import EnsembleOptions
from angpn.neighbors.distributed import ParallelMap, serial_map
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


def select(X: Any, labels: Labels, options: EnsembleOptions) -> Selection:
    """Select scaling and hyper-parameters; of many rows a sample decides, so that it costs the same for more."""
    config = options.config
    labels = limit_labels(labels, options.seed, config)
    if labels.are_few(config):
        of_table = is_table(X, config)
        scaling = _default_scaling(options.scalings, of_table)
        selected = options.previous or few_label_candidates(options.alpha, of_table, config)
        return Selection(_for_training(X, scaling, options), list(selected), [])
    if options.previous and len(options.scalings) == 1:
        return Selection(_for_training(X, options.scalings[0], options), list(options.previous), [])
    many = X.shape[0] > config.max_rows_compared
    compared, sampled = X, labels
    if many and not options.distances_given:
        kept, sampled = subsample(X.shape[0], labels, options.seed, config)
        compared = X[kept]
    rows = _select_scaling(compared, sampled, options)
    ranking = list(options.previous) or _rank_hyper_parameters(rows, sampled, options)
    if many:
        rows = _for_training(X, (rows.scaling.name, rows.scaling.metric), options)
    n_candidates = 0 if options.previous else config.n_reselection_candidates
    return Selection(rows, ranking[: config.n_base_learners], ranking[:n_candidates])


def _select_scaling(X: Any, labels: Labels, options: EnsembleOptions) -> ScaledRows:
    several = [_scaled(X, scaling, options) for scaling in options.scalings]
    if len(several) == 1:
        return several[0]
    config, hops = options.config, _hops(options)
    hops = [each for each in hops if each in config.hops_of_scalings] or hops
    scorers = [Scorer(rows, hops, labels, options) for rows in several]
    score_all(scorers, first_candidates(hops, _spreading_alphas(options), config), options.parallel_map)
    return several[int(np.argmax([scorer.scores[scorer.ranking()[0]] for scorer in scorers]))]


def _rank_hyper_parameters(rows: ScaledRows, labels: Labels, options: EnsembleOptions) -> list[HyperParameters]:
    """Return all hyper-parameters that were tried, best first."""
    hops = _hops(options)
    scorer = Scorer(rows, hops, labels, options)
    with options.progress_bar("hyper-parameters", 2) as advance:
        candidates = first_candidates(hops, _spreading_alphas(options), options.config)
        score_all([scorer], candidates, options.parallel_map)
        advance(1)
        score_all([scorer], refined_candidates(scorer.ranking(), options.config), options.parallel_map)
        advance(1)
    return scorer.ranking()


class Scorer:
    """Scores hyper-parameters by cross-validation on the rows of one scaling."""

    def __init__(self, rows: ScaledRows, hops: Sequence[Hops], labels: Labels, options: EnsembleOptions) -> None:
        self._features = PropagatedFeatures(rows.features, rows.neighborhood, options.graph, hops)
        self._labels, self._config = labels, options.config
        self._centers = pick_centers(labels.codes, options.seed, options.config)
        self._held = np.concatenate([fold.held for fold in labels.folds])
        self.scores: dict[HyperParameters, float] = {}

    def score(self, candidate: HyperParameters) -> float:
        """Return the mean log-likelihood of held-out labels, at the temperature that suits them best."""
        found = candidate.learner.cross_validate(
            candidate, self._features, self._labels, centers=self._centers, config=self._config
        )
        weights = rows_of(self._labels.weights, self._held)
        return fit_temperature(found, self._labels.codes[self._held], weights, self._config)[1]

    def ranking(self) -> list[HyperParameters]:
        """Return the hyper-parameters scored so far, best first.

        To propagate far is the safer guess while few labels are held out; that hardly counts once many are.
        """
        n_held = len(np.unique(self._held))

        def key(candidate: HyperParameters) -> float:
            return self.scores[candidate] + self._config.hops_bonus * candidate.doublings(self._config) / n_held

        return sorted(self.scores, key=key, reverse=True)


def score_all(
    scorers: Sequence[Scorer], candidates: Iterable[HyperParameters], parallel_map: ParallelMap = serial_map
) -> None:
    """Let each scorer score these candidates too; a score is computed once."""
    new = [(scorer, candidate) for candidate in candidates for scorer in scorers if candidate not in scorer.scores]
    new.sort(key=lambda pair: not pair[1].is_expensive)  # expensive fits first, to balance processes
    found = parallel_map([partial(scorer.score, candidate) for scorer, candidate in new])
    for (scorer, candidate), score in zip(new, found, strict=True):
        scorer.scores[candidate] = score


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


def _scaled(X: Any, scaling: tuple[ScalingName, Metric], options: EnsembleOptions) -> ScaledRows:
    fitted = Scaling.fit(X, *scaling, options.seed, options.config)
    rows = fitted.transform(X)
    return ScaledRows(fitted, options.find_neighbors(rows, fitted.metric), fitted.features(rows))


def _for_training(X: Any, scaling: tuple[ScalingName, Metric], options: EnsembleOptions) -> ScaledRows:
    """Scale all rows; the features are those of the rows that this process holds, in their order."""
    fit_scaling = partial(Scaling.fit, X, *scaling, options.seed, options.config)
    fitted = options.parallel_map([fit_scaling])[0]  # by one process, for all
    rows = fitted.transform(X)
    neighborhood = options.find_training_neighbors(rows, fitted.metric)
    return ScaledRows(fitted, neighborhood, fitted.features(neighborhood.partition.local_rows(rows)))
