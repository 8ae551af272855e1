"""Small problems for the ensemble, and options to fit them with."""

import functools
import itertools
from contextlib import nullcontext

import numpy as np
import torch

from angpn import nearest_candidates
from angpn.ensemble.extra_trees import TreesParameters
from angpn.ensemble.fit import train
from angpn.ensemble.folds import Labels
from angpn.ensemble.heads import HeadParameters
from angpn.ensemble.inductive import InductiveEnsemble
from angpn.ensemble.label_spreading import SpreadingParameters
from angpn.ensemble.mixture import Members
from angpn.ensemble.model_selection import Selection, scale_for_training
from angpn.ensemble.user_options import EnsembleOptions, GraphOptions
from angpn.neighbors.exact import nearest_fitted
from angpn.neighbors.neighborhood import Neighborhood

LINEAR, KERNEL = HeadParameters(0.5, 2, None, 10.0), HeadParameters(0.8, 3, 1.0, 100.0)
SPREADING = SpreadingParameters(0.9)
TREES = TreesParameters(0.0, 0, 1)
UNIT, STANDARD = ("unit", "chord"), ("standard", "euclidean")


def log_proba(learner, features):
    """Log-probabilities of the rows that a base learner was trained on, by it alone."""
    return type(learner).log_proba([learner], features)[0]


def ensemble_options(n_candidates=12, **changes):
    """Options with exact neighbours and no progress bar."""

    def find_neighbors(rows, metric):
        return nearest_candidates(rows, n_candidates, metric)

    def progress_bar(what, total):
        return nullcontext(lambda count: None)

    return EnsembleOptions(
        scalings=(UNIT, STANDARD),
        alpha=None,
        graph=GraphOptions(5, 0.1, "auto", "simplex", "normalized"),
        find_neighbors=find_neighbors,
        find_training_neighbors=find_neighbors,
        distances_given=False,
        keep_features=False,
        progress_bar=progress_bar,
        seed=0,
    )._replace(**changes)


def train_selected(X, labels, selected, options):
    """The rounds of training with these hyper-parameters, all alike, whatever labels would select."""
    rows = scale_for_training(X, options.scalings[0], options)
    return train(Selection(rows, Members.equal(selected), []), labels, options)


def clusters(truth, distance=2.0, width=4, seed=0):
    """A Gaussian cluster of rows for each class, at this distance from the origin."""
    generator = np.random.default_rng(seed)
    return distance * np.eye(width)[truth] + 0.7 * generator.normal(size=(len(truth), width))


def first_labels(truth, count, weights=None, folds=(), masked=False):
    """The labels of the first rows."""
    return Labels(np.where(np.arange(len(truth)) < count, truth, -1), weights, list(folds), masked)


def linked(links):
    """A neighbourhood whose graph, with rule "knn", links each row to these: (n, k) row numbers."""
    indices = torch.from_numpy(np.asarray(links))
    return Neighborhood(indices, torch.ones(indices.shape, dtype=torch.float64))


def links_to(truth, wanted, count):
    """For each row so many other rows of the class that is wanted for it."""
    found = [np.flatnonzero(truth == code) for code in wanted]
    return np.stack([rows[rows != number][:count] for number, rows in enumerate(found)])


TRUTH = np.arange(90) % 3


@functools.cache
def trained_ensemble(n_rounds=2, direction="normalized", beta=0.3, gamma="auto", kind=np.asarray):
    """An ensemble of three clusters with six labels each, whose candidates are all rows, and its scaled rows."""
    X = kind(clusters(TRUTH))
    options = ensemble_options(
        n_candidates=89,
        scalings=[UNIT],
        graph=GraphOptions(6, beta, gamma, "simplex", direction),
    )
    rounds = train_selected(X, first_labels(TRUTH, 18), [SPREADING, LINEAR, KERNEL], options)
    *_, found = itertools.islice(rounds, n_rounds)
    return found, found.ensemble.scaling.transform(X)


def moved(rows, size, seed=1):
    """Rows of length 1 near these."""
    rows = rows + size * np.random.default_rng(seed).normal(size=rows.shape)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def inductive(found, rows):
    """A trained ensemble that predicts new rows."""
    features = found.ensemble.scaling.features(rows)
    return InductiveEnsemble(found.ensemble, features, found.neighborhood)


def answers(found, rows, new):
    """Embedding and probabilities of new rows."""
    indices, distances = nearest_fitted(rows, new, found.neighborhood.n_candidates, "chord")
    fitted, features = inductive(found, rows), found.ensemble.scaling.features(new)
    return fitted.embed_new(features, indices, distances), fitted.predict_new(features, indices, distances)
