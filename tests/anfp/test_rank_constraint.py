"""CAN on candidate lists: what it descends, where it ends, and a plain transcription of it."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.sparse.csgraph import connected_components
from sklearn.datasets import load_digits, make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score

from angpn import nearest_candidates
from angpn.anfp.rank_constraint import rank_constrained_graph


def squared(X, m):
    found = nearest_candidates(torch.from_numpy(X).double(), m, "euclidean")
    return replace(found, distances=found.distances.square())


def project(scores):
    """Project each row onto the simplex, by bisection."""
    low, high = scores.min(axis=1) - 1, scores.max(axis=1)
    for _ in range(100):
        middle = (low + high) / 2
        above = np.maximum(scores - middle[:, None], 0).sum(axis=1) > 1
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.maximum(scores - high[:, None], 0)


def dense_can(X, c, k, max_iter=60):
    """Write out Algorithm 1 of Nie et al. (2014), with one gamma for all rows and F^T F = n I."""
    n = len(X)
    D = ((X[:, None] - X) ** 2).sum(axis=2)
    np.fill_diagonal(D, np.inf)
    nearest = np.sort(D, axis=1)[:, : k + 1]
    gamma = ((k * nearest[:, k] - nearest[:, :k].sum(axis=1)) / 2).mean()
    weight, F, S, values = gamma, None, None, None
    for _ in range(max_iter + 1):
        penalty = 0 if F is None else weight * ((F[:, None] - F) ** 2).sum(axis=2)
        finite = np.where(np.isinf(D), 1e9, D + penalty)
        before, S = S, project(-finite / (2 * gamma))
        A = (S + S.T) / 2
        values, vectors = np.linalg.eigh(np.diag(A.sum(axis=1)) - A)
        zeros = int((values < 1e-9).sum())
        if zeros == c:
            break
        if zeros > c:
            S, weight = before, weight / 2
            continue
        if F is not None:
            weight *= 2
        F = vectors[:, :c] * n**0.5
    return S, zeros


@pytest.mark.parametrize(
    ("X", "c"),
    [
        (make_blobs(60, centers=3, cluster_std=1.5, random_state=1)[0], 3),
        (make_moons(80, noise=0.06, random_state=0)[0], 2),
        (np.random.default_rng(0).normal(size=(50, 4)), 4),
    ],
)
def test_it_agrees_with_a_dense_transcription(X, c):
    found = rank_constrained_graph(squared(X, len(X) - 1), c, n_neighbors=7, tol=1e-10)
    S, n_components = dense_can(X, c, 7)
    assert found.n_components == n_components == c
    assert_allclose(found.graph.toarray(), S, atol=1e-5)


@pytest.mark.parametrize("gamma", ["auto", "local"])
@pytest.mark.parametrize(("n_clusters", "seed"), [(3, 0), (6, 1), (10, 2)])
def test_the_objective_never_rises_while_lambda_stays_and_components_are_as_many_as_asked(n_clusters, seed, gamma):
    rows = np.random.default_rng(seed).choice(1797, 500, replace=False)
    neighborhood = squared(load_digits().data[rows] / 16, 60)
    found = rank_constrained_graph(neighborhood, n_clusters, n_neighbors=12, gamma=gamma, tol=1e-8, seed=seed)
    for before, after in pairwise(found.half_steps):
        if before.weight == after.weight:
            assert after.objective <= before.objective * (1 + 1e-9)
    assert found.n_components == n_clusters
    assert connected_components(found.graph, directed=False)[0] == n_clusters
    assert len(np.unique(found.labels)) == n_clusters
    assert_allclose(found.graph.sum(axis=1), 1, atol=1e-9)
    assert_allclose(found.features.T @ found.features, 500 * np.eye(n_clusters), atol=1e-4)


def test_clusters_that_are_apart_are_found_exactly():
    X, truth = make_moons(300, noise=0.05, random_state=0)
    assert adjusted_rand_score(truth, rank_constrained_graph(squared(X, 30), 2, n_neighbors=8).labels) == 1


def test_components_that_the_distances_have_already_are_not_joined():
    X, _ = make_blobs(90, centers=[[0, 0], [100, 0], [0, 100]], random_state=0)
    found = rank_constrained_graph(squared(X, 20), 2, n_neighbors=5)
    assert found.n_components == 3
    assert len(found.half_steps) == 1
