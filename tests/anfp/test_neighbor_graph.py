import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from angpn import Neighborhood, neighbor_graph, pairwise_distances
from angpn.anfp.neighbor_graph import resolve_gamma
from problems import awkward_features, numpy_gamma, numpy_graph, quadratic_program, random_problem

K = 4


@pytest.fixture
def problem():
    return random_problem(seed=5)


@pytest.mark.parametrize("beta", [0.0, 0.3, 5.0])
@pytest.mark.parametrize("gamma", ["auto", "local", 0.7])
def test_eq06_rows_sum_to_one_and_no_entry_is_negative(problem, beta, gamma):
    graph = neighbor_graph(*problem, n_neighbors=K, beta=beta, gamma=gamma)
    assert (graph >= 0).all()
    assert_close(graph.sum(dim=1), torch.ones_like(graph[0]))
    assert_close(graph.diagonal(), torch.zeros_like(graph[0]))


def test_eq07_and_eq08_differ_by_a_constant(problem):
    distances, features = problem
    beta, gamma = 0.3, 0.7

    def eq07(s):
        smoothness = torch.trace(features.T @ (torch.eye(len(s)).double() - s) @ features)
        return (distances * s).sum() + gamma * s.square().sum() + beta * smoothness

    def eq08(s):
        return ((distances - beta * features @ features.T) * s).sum() + gamma * s.square().sum()

    random = torch.rand(2, *distances.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert_close(eq07(random[0]) - eq08(random[0]), eq07(random[1]) - eq08(random[1]))


@pytest.mark.parametrize("beta", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("gamma", ["auto", "local", 0.2])
def test_eq08_minimiser_matches_a_quadratic_program(problem, beta, gamma):
    distances, features = problem
    graph = neighbor_graph(distances, features, n_neighbors=K, beta=beta, gamma=gamma)
    cost = (distances - beta * features @ features.T).numpy()
    own = numpy_gamma(distances.numpy(), K)
    gammas = {"auto": np.full_like(own, own.mean()), "local": own, 0.2: np.full_like(own, 0.2)}[gamma]
    for i, (row, g) in enumerate(zip(graph, gammas, strict=True)):
        others = np.arange(len(cost)) != i
        expected = quadratic_program(cost[i, others], g)
        assert_close(row[torch.as_tensor(others)], torch.as_tensor(expected), atol=1e-6, rtol=0)


@given(st.integers(0, 10_000), st.integers(1, 8), st.sampled_from([0.0, 0.3, 3.0]))
def test_eq09_printed_to_the_letter(seed, k, beta):
    distances, features = random_problem(seed, n=12)
    gamma = 0.4
    graph = neighbor_graph(distances, features, n_neighbors=k, beta=beta, gamma=gamma, rule="printed")
    expected = numpy_graph(distances.numpy(), features.numpy(), k, beta, gamma, "printed")
    assert_close(graph, torch.as_tensor(expected))


@given(st.integers(0, 10_000), st.integers(1, 8))
def test_eq09_at_beta_zero_with_local_gamma_is_the_projection_with_exactly_k_neighbours(seed, k):
    distances, _ = random_problem(seed, n=12)
    simplex = neighbor_graph(distances, n_neighbors=k, gamma="local")
    printed = neighbor_graph(distances, n_neighbors=k, gamma="local", rule="printed")
    assert_close(simplex, printed, atol=1e-9, rtol=0)
    assert ((simplex > 1e-12).sum(dim=1) == k).all()
    nearest = distances.clone().fill_diagonal_(torch.inf).topk(k, largest=False).indices
    assert (simplex.gather(1, nearest) > 1e-12).all()


def test_eq09_printed_leaves_the_simplex_once_beta_is_positive(problem):
    printed = neighbor_graph(*problem, n_neighbors=K, beta=0.3, rule="printed")
    assert (printed.sum(dim=1) - 1).abs().max() > 0.1


def test_beta_zero_needs_no_features(problem):
    distances, features = problem
    assert_close(neighbor_graph(distances, n_neighbors=K), neighbor_graph(distances, features, n_neighbors=K))


def test_the_knn_graph_of_section_two(problem):
    distances, _ = problem
    graph = neighbor_graph(distances, n_neighbors=K, rule="knn")
    assert_close(graph.sum(dim=1), torch.ones_like(graph[0]))
    nearest = distances.clone().fill_diagonal_(torch.inf).topk(K, largest=False).indices
    assert_close(graph.gather(1, nearest), torch.full_like(graph[:, :K], 1 / K))


def test_the_knn_graph_does_not_break_ties_by_row_order():
    graph = neighbor_graph(torch.ones(200, 200), n_neighbors=10, rule="knn")
    assert_close(graph.sum(dim=1), torch.ones(200))
    assert (graph.sum(dim=0) > 0).all()  # row order would choose the same ten columns every time
    assert_close(graph, neighbor_graph(torch.ones(200, 200), n_neighbors=10, rule="knn"))


def test_mixed_dtypes_are_promoted(problem):
    distances, features = problem
    graph = neighbor_graph(distances, features.float(), n_neighbors=K, beta=0.3)
    assert_close(graph, neighbor_graph(distances, features.float().double(), n_neighbors=K, beta=0.3))


@pytest.mark.parametrize("rule", ["simplex", "printed"])
@pytest.mark.parametrize("gamma", ["auto", "local"])
def test_gradient_with_respect_to_distances(problem, rule, gamma):
    distances, features = problem
    assert torch.autograd.gradcheck(
        lambda d: neighbor_graph(d, features, n_neighbors=K, beta=0.3, gamma=gamma, rule=rule),
        distances.clone().requires_grad_(),
    )


def test_the_diagonal_is_ignored(problem):
    distances, features = problem
    other = distances.clone().fill_diagonal_(7.0)
    assert_close(
        neighbor_graph(other, features, n_neighbors=K, beta=0.3),
        neighbor_graph(distances, features, n_neighbors=K, beta=0.3),
    )
    assert (other.diagonal() == 7).all()


def test_an_infinite_distance_rules_a_pair_out(problem):
    distances, features = problem
    distances = distances.clone()
    nearest = int(distances.fill_diagonal_(torch.inf)[0].argmin())
    assert neighbor_graph(distances, features, n_neighbors=K, beta=0.3)[0, nearest] > 0
    distances[0, nearest] = torch.inf
    graph = neighbor_graph(distances, features, n_neighbors=K, beta=0.3)
    assert graph[0, nearest] == 0
    assert_close(graph[0].sum(), torch.tensor(1.0).double())


def test_gamma_auto_is_the_mean_of_the_rows_own(problem):
    distances, _ = problem
    rows = torch.as_tensor(numpy_gamma(distances.numpy(), K))
    dense = distances.clone().fill_diagonal_(torch.inf)
    assert_close(resolve_gamma(dense, K, "local").squeeze(1), rows)
    assert_close(resolve_gamma(dense, K, "auto"), rows.mean())


def test_a_tied_row_takes_the_mean_gamma_of_the_others():
    distances = torch.tensor([[0.0, 1, 1, 1], [1, 0, 2, 4], [1, 2, 0, 5], [1, 4, 5, 0]]).double()
    dense = distances.fill_diagonal_(torch.inf)
    gammas = resolve_gamma(dense, 1, "local").squeeze(1)
    assert_close(gammas, torch.tensor([2.5 / 4, 0.5, 0.5, 1.5]).double())


@pytest.mark.parametrize("k", [3, 7, 10, 15])
def test_a_tie_in_float32_is_a_tie(k):
    distances = torch.rand(40, 40, generator=torch.Generator().manual_seed(0))
    distances[7] = 1.1  # k * 1.1 and the sum of k times 1.1 differ by rounding
    gammas = resolve_gamma(distances.fill_diagonal_(torch.inf), k, "local")
    assert_close(gammas[7, 0], resolve_gamma(distances, k, "auto"))
    assert_close(resolve_gamma(torch.full((12, 12), 1.1).fill_diagonal_(torch.inf), 7, "auto"), torch.tensor(1.0))


@pytest.mark.parametrize("gamma", ["auto", "local"])
@pytest.mark.parametrize("beta", [0.0, 0.3, 1e8])
@pytest.mark.parametrize("metric", ["chord", "euclidean"])
def test_awkward_rows_stay_on_the_simplex_in_float32(gamma, beta, metric):
    x = awkward_features()
    graph = neighbor_graph(pairwise_distances(x, metric), x, n_neighbors=5, beta=beta, gamma=gamma)
    assert torch.isfinite(graph).all()
    assert_close(graph.sum(dim=1), torch.ones(len(x)), atol=1e-6, rtol=0)
    if metric == "chord":  # the row that shares nothing with any other leans on all alike
        assert_close(graph[39, :39], torch.full((39,), 1 / 39))


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_scores_near_1e8_stay_on_the_simplex_in_float32(scale):
    distances, features = random_problem(n=60, dtype=torch.float32)
    graph = neighbor_graph(distances, features, n_neighbors=5, beta=0.3, gamma=scale)
    assert_close(graph.sum(dim=1), torch.ones(60), atol=1e-6, rtol=0)


@pytest.mark.parametrize("gamma", ["auto", "local"])
def test_identical_rows_share_equally(gamma):
    graph = neighbor_graph(torch.zeros(6, 6), n_neighbors=3, gamma=gamma)
    assert_close(graph, (torch.ones(6, 6) - torch.eye(6)) / 5)


@pytest.mark.parametrize("rule", ["simplex", "printed"])
def test_gradient_with_respect_to_features(problem, rule):
    distances, features = problem
    assert torch.autograd.gradcheck(
        lambda f: neighbor_graph(distances, f, n_neighbors=K, beta=0.3, rule=rule), features.clone().requires_grad_()
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_neighbors": 13}, "n_neighbors=13 needs at least 15 samples, got n_samples=14; lower n_neighbors or pass"),
        ({"n_neighbors": 0}, "n_neighbors must be at least 1, got 0"),
        ({"gamma": 0}, "gamma must be a finite number > 0, got 0; gamma='auto' derives one"),
        ({"gamma": -1.0}, "gamma must be a finite number > 0, got -1.0"),
        ({"gamma": "best"}, "gamma must be one of 'auto', 'local', got 'best'; or pass a number > 0"),
        ({"beta": -0.1}, "beta must be a finite number >= 0, got -0.1"),
        ({"rule": "exact"}, "rule must be one of 'simplex', 'printed', 'knn', got 'exact'"),
        ({"rule": "knn"}, "rule='knn' is a fixed graph without beta or gamma, got beta=0.3"),
        ({"features": None}, "beta=0.3 weighs the features, got features=None; pass features or beta=0"),
        ({"features": torch.ones(3, 2)}, "features must have one row for each row of distances, expected 14, got 3"),
        ({"features": torch.full((14, 2), torch.nan)}, "features must be finite, got 28 NaN or infinite value"),
        ({"features": torch.full((14, 2), torch.inf)}, "features must be finite, got 28 NaN or infinite value"),
        (
            {"distances": Neighborhood(torch.tensor([[1], [0]]), torch.ones(2, 1))},
            r"needs the full \(n, n\) matrix of distances, got a Neighborhood; use pairwise_distances",
        ),
        ({"distances": torch.ones(14, 3)}, r"distances must be a square \(n, n\) matrix, got shape \(14, 3\)"),
        ({"distances": torch.full((14, 14), torch.nan)}, "distances must not be NaN or -inf, got 196 such value"),
        ({"distances": torch.full((14, 14), torch.inf)}, "needs at least 5 candidates for every row, got 0; lower"),
    ],
)
def test_bad_input(problem, options, message):
    arguments = {"distances": problem.distances, "features": problem.features, "n_neighbors": K, "beta": 0.3}
    with pytest.raises(ValueError, match=message):
        neighbor_graph(**(arguments | options))
