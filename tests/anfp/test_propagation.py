import pytest
import torch
from torch.testing import assert_close

from angpn import nearest_candidates, neighbor_graph, propagate
from angpn.anfp.propagation import aggregate
from problems import random_problem

ALPHA = 0.6


@pytest.fixture
def features():
    return random_problem().features


@pytest.fixture
def graph():
    return neighbor_graph(*random_problem(), n_neighbors=4, beta=0.3)


@pytest.fixture
def symmetric_graph():
    """A ring with uneven weights: symmetric, and every row sums to 1."""
    n = 14
    circulant = torch.zeros(n, n, dtype=torch.float64)
    for shift, weight in {1: 0.3, 2: 0.2}.items():
        circulant += weight * torch.eye(n, dtype=torch.float64).roll(shift, dims=1)
    return circulant + circulant.T


def test_eq01_row_by_row_is_eq02(graph, features):
    current = features.clone()
    for _ in range(300):
        following = torch.empty_like(current)
        for i in range(len(graph)):
            received = sum(graph[i, j] * current[j] for j in range(len(graph)))
            following[i] = ALPHA * received + (1 - ALPHA) * features[i]
        if (following - current).abs().max() < 1e-10:
            break
        current = following
    assert_close(propagate(graph, features, ALPHA, "iterate"), following, atol=1e-8, rtol=0)


def test_eq02_converges_to_eq03(graph, features):
    assert_close(
        propagate(graph, features, ALPHA, "iterate"), propagate(graph, features, ALPHA, "closed"), atol=1e-9, rtol=0
    )


def test_eq02_settles_in_float32(graph, features):
    graph, features = graph.float(), features.float()
    assert_close(
        propagate(graph, features, ALPHA, "iterate"), propagate(graph, features, ALPHA, "closed"), atol=1e-5, rtol=0
    )


def test_eq03_is_the_limit_written_out(graph, features):
    inverse = torch.linalg.inv(torch.eye(len(graph)).double() - ALPHA * graph)
    assert_close(propagate(graph, features, ALPHA, "closed"), (1 - ALPHA) * inverse @ features)


def test_eq04_is_minimised_by_eq03_where_the_graph_is_symmetric(symmetric_graph, features):
    mu = (1 - ALPHA) / ALPHA  # alpha = 1 / (1 + mu)

    def eq04(f):
        return torch.trace(f.T @ (f - symmetric_graph @ f)) + mu * (f - features).square().sum()

    best = propagate(symmetric_graph, features, ALPHA, "closed").requires_grad_()
    (gradient,) = torch.autograd.grad(eq04(best), best)
    assert_close(gradient, torch.zeros_like(gradient), atol=1e-12, rtol=0)
    curvature = torch.eye(14).double() * (1 + mu) - symmetric_graph
    assert torch.linalg.eigvalsh(curvature)[0] > 0  # a minimum, not a saddle


def test_eq04_is_not_minimised_by_eq03_where_the_graph_is_not_symmetric(graph, features):
    mu = (1 - ALPHA) / ALPHA
    f = propagate(graph, features, ALPHA, "closed").requires_grad_()
    objective = torch.trace(f.T @ (f - graph @ f)) + mu * (f - features).square().sum()
    (gradient,) = torch.autograd.grad(objective, f)
    assert gradient.abs().max() > 0.01


def test_eq11_is_eq03_on_the_learnt_graph(graph, features):
    f = propagate(graph, features, ALPHA, "closed")
    assert_close(f, ALPHA * graph @ f + (1 - ALPHA) * features)


def test_eq13_is_the_first_step_of_eq02(graph, features):
    propagation_matrix = ALPHA * graph + (1 - ALPHA) * torch.eye(len(graph)).double()
    assert_close(propagate(graph, features, ALPHA), propagation_matrix @ features)


@pytest.mark.parametrize("method", ["step", "iterate", "closed"])
def test_constant_features_stay_as_they_are(graph, method):
    ones = torch.ones(len(graph), 1, dtype=torch.float64)
    assert_close(propagate(graph, ones, ALPHA, method), ones)


@pytest.mark.parametrize("method", ["step", "iterate", "closed"])
def test_gradient(graph, features, method):
    graph, features = graph.clone().requires_grad_(), features.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda s, h: propagate(s, h, ALPHA, method), (graph, features))


@pytest.fixture
def neighborhood():
    return nearest_candidates(torch.randn(14, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64), 5)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("direction", ["directed", "symmetric", "normalized"])
def test_directions(neighborhood, features, direction, dense):
    weights = torch.rand(14, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    s = neighborhood.to_matrix(weights)
    half = (s + s.T) / 2
    degree = half.sum(dim=1)
    expected = {"directed": s, "symmetric": half, "normalized": half / (degree[:, None] * degree).sqrt()}[direction]
    received = (
        aggregate(neighborhood.to_dense(), s, features, direction)
        if dense
        else aggregate(neighborhood, weights, features, direction)
    )
    assert_close(received, expected @ features)


def test_a_row_without_weight_either_way_stays_finite(neighborhood, features):
    weights = torch.zeros(14, 5, dtype=torch.float64, requires_grad=True)
    received = aggregate(neighborhood, weights, features, "normalized")
    received.sum().backward()
    assert_close(received, torch.zeros_like(features))
    assert torch.isfinite(weights.grad).all()


@pytest.mark.parametrize("alpha", [0, 1, -0.5, 2, float("nan")])
def test_alpha_outside_its_range(graph, features, alpha):
    with pytest.raises(ValueError, match=f"alpha must lie strictly between 0 and 1, got {alpha}; 0.5 is the paper's"):
        propagate(graph, features, alpha)


def test_other_bad_input(graph, features):
    with pytest.raises(ValueError, match="method must be one of 'step', 'iterate', 'closed', got 'power'"):
        propagate(graph, features, ALPHA, "power")
    with pytest.raises(ValueError, match="features must have one row for each row of graph, expected 14, got 5"):
        propagate(graph, features[:5], ALPHA)
    with pytest.raises(ValueError, match=r"graph must be a square \(n, n\) matrix, got shape \(14, 5\)"):
        propagate(graph[:, :5], features, ALPHA)
    with pytest.raises(ValueError, match=r"Eq. \(2\) did not settle .* here 0.6 \* 3; lower alpha"):
        propagate(3 * graph, features, ALPHA, "iterate", max_iter=50)
    with pytest.raises(ValueError, match=r"Eq. \(2\) did not settle"):
        propagate(100 * torch.ones(5, 5), torch.ones(5, 1), 0.9, "iterate")  # overflows before max_iter
    with pytest.raises(ValueError, match="features must be finite, got 42 NaN"):
        propagate(graph, features * torch.nan, ALPHA)


@pytest.mark.parametrize("method", ["step", "iterate", "closed"])
def test_mixed_dtypes_are_promoted(graph, features, method):
    assert propagate(graph, features.float(), ALPHA, method).dtype == torch.float64
