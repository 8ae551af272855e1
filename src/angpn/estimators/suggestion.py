"""Which rows to label next, from no labels at all to many."""

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import scipy.sparse
import torch
from sklearn.preprocessing import normalize

from angpn.ensemble.propagated_features import Adjacency, after_each_hop
from angpn.estimators.adaptive_graph import AdaptiveGraph, AdaptiveGraphOptions
from angpn.estimators.eligible_rows import EligibleRows, eligible_rows
from angpn.estimators.herding import herd, kernel_width
from angpn.estimators.unreliable_rows import empty_rows
from angpn.utils.checks import check_choice
from angpn.utils.inputs import as_mask
from angpn.utils.labels import UNLABELLED
from angpn.utils.typing import Array

Strategy = Literal["herding", "typiclust", "probcover", "margin", "random"]
_MOST_ROWS = 5000  # a sample of more to choose from, and of more to cover
_NEIGHBORS, _HOPS = 20, 3  # of the features where there is no model,
_DIRECTIONS = 22  # and to how many main directions rows of words or pixels are reduced first, as for ten clusters
# A row stands for the share of all rows that lie within the width of the kernel: a fiftieth while there are few labels,
# and with more labels less, so that the kernels of the labels together cover much the same.
_SHARE, _SHARE_OF_LABELS = 0.02, 0.4
_TYPICAL_NEIGHBORS = 20  # of TypiClust
_SMALLEST_PROBABILITY = 1e-9
_LEAST_KNOWLEDGE = 0.05  # a label is no less reliable: without any reliability no row would be better than another
_MOST_CLUSTERS = 500


class Suggestion(NamedTuple):
    """A row to label, and why.

    Attributes:
        row: Its position in X.
        stands_for: About how many rows are better covered with its label.
        confidence: The probability of the label that is predicted for it, or None where there is no model.
    """

    row: int
    stands_for: int
    confidence: float | None


class Pool(NamedTuple):
    """What is known of the rows among which some are suggested."""

    features: Array  # (n, p)
    eligible: EligibleRows
    labelled: Array  # (n,) bool
    margins: Array | None = None  # (n,) of a fitted model, between its two most probable classes
    confidence: Array | None = None  # (n,) of its predicted label
    knowledge: float = 0.0  # of the model, see :func:`explained_share`


def choose(pool: Pool, n: int, strategy: Strategy, seed: int) -> list[Suggestion]:
    """Return so many eligible rows, best first; fewer where there are fewer."""
    check_choice(strategy, "strategy", get_args(Strategy))
    if not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"n must be a whole number >= 1, got {n!r}; it is how many rows you want")
    generator = np.random.default_rng(seed)
    candidates = _sample(np.flatnonzero(pool.eligible.first), max(_MOST_ROWS, n), generator)
    rows, shares = candidates[:0], np.empty(0)
    if len(candidates):
        references = _sample(np.arange(len(pool.features)), _MOST_ROWS, generator)
        chosen, shares = _STRATEGIES[strategy](pool, candidates, references, int(n), seed)
        rows = candidates[chosen]
    again = _again(pool)[: int(n) - len(rows)]
    rows = np.concatenate([rows, again])
    counts = [round(len(pool.features) * float(share)) for share in shares] + pool.eligible.again[again].tolist()
    confidences = [None] * len(rows) if pool.confidence is None else pool.confidence[rows].tolist()
    return [Suggestion(int(row), count, sure) for row, count, sure in zip(rows, counts, confidences, strict=True)]


def _again(pool: Pool) -> Array:
    """Return rows that equal labelled ones: first where most unlabelled rows are equal, and the least certain."""
    rows = np.flatnonzero(pool.eligible.again)
    worth = pool.eligible.again[rows] * (1.0 if pool.margins is None else 1 - pool.margins[rows])
    return rows[np.argsort(-worth, kind="stable")]


def pool_without_model(
    X: Any,
    codes: Array,  # (n,) class numbers, -1 where unlabelled
    seed: int,
    scaling: Literal["auto", "unit"] = "auto",
    candidates: Array | None = None,  # (n,) bool, all rows by default
) -> Pool:
    """Return rows without a model: features propagated on the graph of their neighbours."""
    options = AdaptiveGraphOptions(_NEIGHBORS, 0, _HOPS, "auto", scaling, 0.9, seed, False, _DIRECTIONS)
    graph = AdaptiveGraph.learn(X, options)
    assert graph.scaling is not None
    assert graph.features is not None
    *_, features = after_each_hop(graph.features, Adjacency(graph.graph, "normalized"), 1.0, _HOPS)
    nothing = None if scipy.sparse.issparse(graph.rows) else graph.scaled(_nothing_like(X))
    candidates = np.ones(len(codes), dtype=bool) if candidates is None else candidates
    eligible = eligible_rows(graph.rows, empty_rows(graph.rows, nothing), codes, candidates)
    return Pool(directions(features), eligible, codes != UNLABELLED)


def _nothing_like(X: Any) -> Any:  # (1, d)
    nothing = np.zeros((1, X.shape[1]), X.dtype)
    return scipy.sparse.csr_array(nothing) if scipy.sparse.issparse(X) else nothing


def pool_with_model(
    features: Array,  # (n, p)
    eligible: EligibleRows,
    codes: Array,  # (n,) class numbers, -1 where unlabelled
    probabilities: Array,  # (n, c)
    unreached: Array,  # positions of rows that no label reaches: of these the model knows nothing, whatever it says
    knowledge: float,
) -> Pool:
    """Return rows that a model was fitted to."""
    top = np.sort(probabilities, axis=1)[:, -2:]
    margins = top[:, 1] - top[:, 0]
    margins[unreached] = 0.0
    return Pool(directions(features), eligible, codes != UNLABELLED, margins, top[:, 1], knowledge)


def explained_share(
    probabilities: Array | None,  # (h, c) of held-out labels
    truth: Array,  # (h,)
    codes: Array,  # (l,) of all labels
) -> float:
    """Return the share of the log-loss of the base rate that a model saves on held-out labels (McFadden's R squared).

    0 where it knows no more than how frequent each class is, or where no label was held out. The base rate is that of
    the other labels, each class with one label more, so that a class is never impossible.
    """
    if probabilities is None or not len(truth):
        return 0.0
    counts, n_classes = np.bincount(codes, minlength=probabilities.shape[1]), probabilities.shape[1]
    base_rate = counts[truth] / (len(codes) - 1 + n_classes)  # one label less, itself, and one more
    of_truth = np.maximum(probabilities[np.arange(len(truth)), truth], _SMALLEST_PROBABILITY)
    return float(np.clip(1 - np.log(of_truth).sum() / np.log(base_rate).sum(), 0, 1))


def checked_candidates(candidates: Any, n_rows: int) -> Array:  # (n,) bool
    """Return the mask of the rows that can be labelled, all by default, if it has one bool a row."""
    mask = as_mask(candidates, n_rows, "candidates", "that can be labelled")
    return np.ones(n_rows, dtype=bool) if mask is None else mask


def directions(features: Any) -> Array:  # (n, p) float32
    """Return features as directions: how far rows lie out is no part of what they are like."""
    return normalize(np.asarray(torch.as_tensor(features).numpy(), np.float32))


Found = tuple[Array, Array]  # positions among the candidates, and the share of rows that each stands for


def _herding(pool: Pool, candidates: Array, references: Array, n: int, seed: int) -> Found:
    """Cover the rows, each counted by how uncertain its label is, as far as the model has shown that it can tell.

    Margins of a model that predicts held-out labels no better than their base rate say nothing: all rows count alike.
    Where rows are of few kinds, a label is relied on as far as the model knows what it says, and m labels of a kind
    leave that share of the doubt to the power m: so a frequent kind gets a second label before a rare one its first.
    """
    rows = pool.features[references]
    n_labels = int(pool.labelled.sum())
    share = _SHARE if n_labels == 0 else min(_SHARE, _SHARE_OF_LABELS / n_labels)
    weights = np.ones(len(references)) if pool.margins is None else 1 - pool.knowledge * pool.margins[references]
    labelled = pool.features[pool.labelled]
    width, strengths = kernel_width(rows, share, seed), None
    if pool.eligible.of_few_kinds and pool.margins is not None:
        doubt, labels = 1 - max(pool.knowledge, _LEAST_KNOWLEDGE), pool.eligible.labels
        strengths = 1 - doubt ** (labels[candidates] + 1), 1 - doubt ** labels[pool.labelled]
    found = herd(rows, weights, pool.features[candidates], labelled, width, n, strengths)
    return found.chosen, found.covered


def _margin(pool: Pool, candidates: Array, references: Array, n: int, seed: int) -> Found:
    """Take the smallest margins between the two most probable classes."""
    if pool.margins is None:
        raise ValueError("strategy='margin' needs labels of two classes, got fewer; use strategy='herding'")
    found = np.argsort(pool.margins[candidates], kind="stable")[:n]
    return found, np.zeros(len(found))


def _typiclust(pool: Pool, candidates: Array, references: Array, n: int, seed: int) -> Found:
    """Take the most typical row of each of so many clusters, those without labels first (Hacohen et al., 2022)."""
    features = pool.features[candidates]
    labelled = pool.features[pool.labelled]
    both = np.concatenate([features, labelled])
    n_clusters = min(len(labelled) + n, _MOST_CLUSTERS, len(np.unique(both, axis=0)))
    from sklearn.cluster import KMeans  # here, since it imports half of scikit-learn

    clusters = KMeans(n_clusters, n_init=1, random_state=seed).fit_predict(both)
    own, given = clusters[: len(features)], np.bincount(clusters[len(features) :], minlength=n_clusters)
    sizes = np.bincount(own, minlength=n_clusters)
    chosen: list[int] = []
    shares: list[float] = []
    left = np.ones(len(features), dtype=bool)
    while len(chosen) < min(n, len(features)):
        open_ = np.flatnonzero(np.bincount(own[left], minlength=n_clusters) > 0)
        cluster = open_[np.lexsort((-sizes[open_], given[open_]))[0]]
        members = np.flatnonzero((own == cluster) & left)
        all_members = features[own == cluster]
        count = min(_TYPICAL_NEIGHBORS, len(all_members) - 1)
        distances = np.sort(np.linalg.norm(features[members, None] - all_members, axis=2), axis=1)[:, 1 : count + 1]
        best = int(members[distances.mean(axis=1).argmin()]) if count else int(members[0])
        chosen.append(best)
        shares.append(sizes[cluster] / len(features))
        left[best] = False
        given[cluster] += 1
    return np.array(chosen, dtype=np.int64), np.array(shares)


def _probcover(pool: Pool, candidates: Array, references: Array, n: int, seed: int) -> Found:
    """Cover most rows by balls around the chosen ones (Yehuda et al., 2022), of the kernel's width."""
    rows, features = pool.features[references], pool.features[candidates]
    radius = kernel_width(rows, _SHARE, seed)
    least = 1 - radius**2 / 2  # inner product of directions that near each other
    near = features @ rows.T >= least
    covered = (pool.features[pool.labelled] @ rows.T >= least).any(axis=0)
    chosen: list[int] = []
    shares: list[float] = []
    taken = np.zeros(len(features), dtype=bool)
    for _ in range(min(n, len(features))):
        gains = np.where(taken, -1, (near & ~covered).sum(axis=1))
        best = int(gains.argmax())
        chosen.append(best)
        shares.append(max(int(gains[best]), 0) / len(rows))
        taken[best] = True
        covered |= near[best]
    return np.array(chosen, dtype=np.int64), np.array(shares)


def _random(pool: Pool, candidates: Array, references: Array, n: int, seed: int) -> Found:
    """Draw rows at random: what accuracy should be measured on."""
    found = np.random.default_rng(seed).permutation(len(candidates))[:n]
    return found, np.zeros(len(found))


_STRATEGIES = {
    "herding": _herding,
    "typiclust": _typiclust,
    "probcover": _probcover,
    "margin": _margin,
    "random": _random,
}


def _sample(rows: Array, most: int, generator: np.random.Generator) -> Array:
    return rows if len(rows) <= most else np.sort(generator.choice(rows, most, replace=False))
