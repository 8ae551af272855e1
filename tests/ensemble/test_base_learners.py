"""A member's graph and propagated features against the dense formulas."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from angpn import nearest_candidates, neighbor_graph
from angpn.ensemble.base_learners import GraphOptions, PropagationMatrix, learnt_graph, propagated


@pytest.fixture(scope="module")
def problem():
    """All others are candidates of each of 16 rows."""
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(16, 4, generator=generator, dtype=torch.float64)
    beliefs = torch.randn(16, 3, generator=generator).mul(2).softmax(dim=1)
    distances = torch.cdist(points, points)
    return nearest_candidates(distances.numpy(), 15, "precomputed"), distances, beliefs


@pytest.mark.parametrize(
    ("gamma", "rule", "beta"),
    [("auto", "simplex", None), ("local", "simplex", 0.5), (0.7, "printed", 0.5)],
)
def test_the_learnt_graph_is_that_of_eq8(problem, gamma, rule, beta):
    neighborhood, distances, beliefs = problem
    found = learnt_graph(neighborhood, GraphOptions(4, 0.5, gamma, rule, "directed"), None if beta is None else beliefs)
    options = {"n_neighbors": 4, "gamma": gamma, "rule": rule}
    expected = neighbor_graph(distances, beliefs.double(), beta=beta or 0.0, **options)
    assert_allclose(found.toarray(), expected, atol=1e-5)


def test_rows_believed_to_be_of_one_class_attract_each_other(problem):
    neighborhood, _, _ = problem
    classes = torch.arange(16) % 2
    same = (classes[:, None] == classes).numpy()
    options = GraphOptions(4, 1.0, "auto", "simplex", "directed")
    before, after = (
        learnt_graph(neighborhood, options, beliefs).toarray() for beliefs in (None, torch.eye(2)[classes])
    )
    assert after[same].sum() > before[same].sum()


def test_learning_a_graph_draws_no_random_number(problem):
    neighborhood, _, beliefs = problem
    state = torch.get_rng_state()
    learnt_graph(neighborhood, GraphOptions(4, 0.5, "auto", "simplex", "directed"), beliefs)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("direction", ["directed", "symmetric", "normalized"])
def test_propagated_features_are_powers_of_the_mixing_matrix(problem, direction):
    neighborhood, _, _ = problem
    graph = learnt_graph(neighborhood, GraphOptions(4, 0.0, "auto", "simplex", direction), None)
    features = torch.randn(16, 3, generator=torch.Generator().manual_seed(1))
    reaches = [(0.5, 5), (0.5, 1), (0.0, 0), (0.9, 2)]
    found = propagated(features, PropagationMatrix(graph, direction), reaches)
    dense = graph.toarray().astype(np.float64)
    if direction != "directed":
        dense = (dense + dense.T) / 2
    if direction == "normalized":
        dense = dense / np.sqrt(np.outer(dense.sum(axis=1), dense.sum(axis=1)))
    assert set(found) == set(reaches)
    for (alpha, hops), hopped in found.items():
        mixing = np.linalg.matrix_power(alpha * dense + (1 - alpha) * np.eye(16), hops)
        assert_allclose(hopped, mixing @ features.numpy(), atol=1e-5)
