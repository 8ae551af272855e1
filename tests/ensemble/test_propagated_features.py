"""The learnt graph and the propagated features against the dense formulas."""

import itertools

import numpy as np
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_allclose
from torch.testing import assert_close

from angpn import nearest_candidates, neighbor_graph
from angpn.ensemble.propagated_features import (
    Adjacency,
    PropagatedFeatures,
    after_each_hop,
    propagate_hops,
)
from angpn.ensemble.user_options import GraphOptions

HOPS = [(0.5, 5), (0.5, 1), (0.0, 0), (0.9, 2)]


@pytest.fixture(scope="module")
def problem():
    """All others are candidates of each of 16 rows."""
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(16, 4, generator=generator, dtype=torch.float64)
    probabilities = torch.randn(16, 3, generator=generator).mul(2).softmax(dim=1)
    distances = torch.cdist(points, points)
    return nearest_candidates(distances.numpy(), 15, "precomputed"), distances, probabilities


@pytest.fixture(scope="module")
def features():
    return torch.randn(16, 3, generator=torch.Generator().manual_seed(1))


def dense_adjacency(graph, direction):
    dense = graph.toarray().astype(np.float64)
    if direction != "directed":
        dense = (dense + dense.T) / 2
    if direction == "normalized":
        dense = dense / np.sqrt(np.outer(dense.sum(axis=1), dense.sum(axis=1)))
    return dense


@pytest.mark.parametrize(
    ("gamma", "rule", "beta"),
    [("auto", "simplex", None), ("local", "simplex", 0.5), (0.7, "printed", 0.5)],
)
def test_the_learnt_graph_is_that_of_eq08(problem, gamma, rule, beta):
    neighborhood, distances, probabilities = problem
    options = GraphOptions(4, 0.5, gamma, rule, "directed")
    found = options.learn_graph(neighborhood, None if beta is None else probabilities)
    options = {"n_neighbors": 4, "gamma": gamma, "rule": rule}
    expected = neighbor_graph(distances, probabilities.double(), beta=beta or 0.0, **options)
    assert_allclose(found.toarray(), expected, atol=1e-5)


def test_rows_that_probably_are_of_one_class_attract_each_other(problem):
    neighborhood, _, _ = problem
    classes = torch.arange(16) % 2
    same = (classes[:, None] == classes).numpy()
    options = GraphOptions(4, 1.0, "auto", "simplex", "directed")
    before, after = (
        options.learn_graph(neighborhood, probabilities).toarray() for probabilities in (None, torch.eye(2)[classes])
    )
    assert after[same].sum() > before[same].sum()


def test_learning_a_graph_draws_no_random_number(problem):
    neighborhood, _, probabilities = problem
    state = torch.get_rng_state()
    GraphOptions(4, 0.5, "auto", "simplex", "directed").learn_graph(neighborhood, probabilities)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("direction", ["directed", "symmetric", "normalized"])
def test_propagated_features_are_powers_of_the_propagation_matrix_of_eq13(problem, features, direction):
    neighborhood, _, _ = problem
    graph = GraphOptions(4, 0.0, "auto", "simplex", direction).learn_graph(neighborhood, None)
    found = propagate_hops(features, Adjacency(graph, direction), HOPS)
    adjacency = dense_adjacency(graph, direction)
    assert set(found) == set(HOPS)
    for (alpha, n_hops), propagated in found.items():
        power = np.linalg.matrix_power(alpha * adjacency + (1 - alpha) * np.eye(16), n_hops)
        assert_allclose(propagated, power @ features.numpy(), atol=1e-5)


def test_each_hop_is_yielded_and_the_features_stay_what_they_were(problem, features):
    neighborhood, _, _ = problem
    adjacency = Adjacency(
        GraphOptions(4, 0.0, "auto", "simplex", "directed").learn_graph(neighborhood, None), "directed"
    )
    given = features.clone()
    found = list(after_each_hop(features, adjacency, 0.3, 3))
    assert len(found) == 4
    assert_close(found[0], given, rtol=0, atol=0)
    for before, after in itertools.pairwise(found):
        assert_close(after, 0.7 * before + 0.3 * adjacency(before))
    assert len(list(after_each_hop(features, adjacency, 0.3, 0))) == 1


def test_scaled_features_are_of_length_1_on_average(problem, features):
    neighborhood, _, _ = problem
    options = GraphOptions(4, 0.0, "auto", "simplex", "normalized")
    found = PropagatedFeatures(features, neighborhood, options, HOPS)
    for hops in HOPS:
        scaled = found.scaled(hops, np.arange(16))
        assert float(scaled.norm(dim=1).mean()) == pytest.approx(1, rel=1e-5)
        assert_close(scaled, found.scales[hops] * found.by_hops[hops])
        assert_close(found.scaled(hops, np.array([3, 1])), scaled[[3, 1]])
    empty = PropagatedFeatures(torch.zeros(16, 2), neighborhood, options, [(0.0, 0)])
    assert empty.scales == {(0.0, 0): 1.0}


def test_features_that_overflow_are_refused_with_what_to_change(problem, features):
    """By Eq. (9) to the letter a row of S may sum to anything, the more the smaller gamma is."""
    neighborhood, _, probabilities = problem
    options = GraphOptions(4, 1.0, 1e-6, "printed", "directed")
    with pytest.raises(
        ValueError, match=r"features must stay finite, got an overflow after 20 hops.* use rule='simplex'"
    ):
        PropagatedFeatures(features, neighborhood, options, [(0.9, 20)], probabilities)


@pytest.mark.parametrize("direction", ["directed", "symmetric", "normalized"])
def test_label_spreading_has_the_normalized_graph_whatever_the_direction(problem, features, direction):
    neighborhood, _, probabilities = problem
    options = GraphOptions(4, 0.5, "auto", "simplex", direction)
    found = PropagatedFeatures(features, neighborhood, options, HOPS, probabilities)
    graph = options.learn_graph(neighborhood, probabilities)
    assert_allclose(found.normalized(torch.eye(16)), dense_adjacency(graph, "normalized"), atol=1e-6)
    expected = propagate_hops(features, Adjacency(graph, direction), HOPS)
    for hops in HOPS:
        assert_close(found.by_hops[hops], expected[hops])


def test_a_row_without_neighbours_keeps_what_eq13_leaves_it(features):
    graph = scipy.sparse.csr_array((16, 16), dtype=np.float32)
    for direction in ("directed", "symmetric", "normalized"):
        assert_close(Adjacency(graph, direction)(features), torch.zeros(16, 3))
