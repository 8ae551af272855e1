import pytest
import scipy.sparse
import torch
from torch.testing import assert_close

from angpn import ANGPNConv, nearest_candidates, neighbor_graph, propagate
from angpn.neighbors.neighborhood import DenseNeighborhood
from problems import awkward_features, numpy_algorithm1, numpy_gamma, random_problem


@pytest.fixture
def problem():
    return random_problem(seed=2)


def conv(**options):
    layer = ANGPNConv(3, 2, **({"n_neighbors": 4} | options)).double()
    layer.reset_parameters(torch.Generator().manual_seed(0))
    return layer


def test_eq12_with_the_papers_defaults(problem):
    layer = conv()
    assert (layer.alpha, layer.beta, layer.num_steps) == (0.5, 0.3, 2)
    gamma = numpy_gamma(problem.distances.numpy(), 4).mean()
    propagated, _ = numpy_algorithm1(
        problem.distances.numpy(), problem.features.numpy(), 4, 0.5, 0.3, gamma, 2, "simplex"
    )
    expected = torch.relu(torch.as_tensor(propagated) @ layer.weight)
    assert_close(layer(problem.features, problem.distances), expected)


def test_eq12_without_activation_is_linear_in_the_weight(problem):
    layer = conv(activation=None)
    before = layer(problem.features, problem.distances)
    layer.weight.data *= -2
    assert_close(layer(problem.features, problem.distances), -2 * before)


def test_beta_zero_is_ngpn(problem):
    layer = conv(beta=0.0)
    fixed = propagate(neighbor_graph(problem.distances, n_neighbors=4), problem.features, 0.5)
    assert_close(layer(problem.features, problem.distances), torch.relu(fixed @ layer.weight))


def test_the_knn_graph_is_a_choice(problem):
    layer = conv(beta=0.0, rule="knn")
    fixed = propagate(neighbor_graph(problem.distances, n_neighbors=4, rule="knn"), problem.features, 0.5)
    assert_close(layer(problem.features, problem.distances), torch.relu(fixed @ layer.weight))


VARIANTS = [
    {},
    {"gamma": "local"},
    {"gamma": 1.3},
    {"rule": "printed"},
    {"num_steps": 1},
    {"num_steps": 4},
    {"num_steps": None},
    {"direction": "symmetric"},
    {"direction": "normalized"},
    {"normalize": True},
]


@pytest.mark.parametrize("options", VARIANTS, ids=str)
@pytest.mark.parametrize("candidates", [None, 6])
def test_gradient(problem, options, candidates):
    layer = conv(activation=torch.tanh, **options)
    neighborhood = (
        DenseNeighborhood.from_matrix(problem.distances)
        if candidates is None
        else nearest_candidates(problem.distances, candidates, "precomputed")
    )
    features = problem.features.clone().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda h, w: torch.func.functional_call(layer, {"weight": w}, (h, neighborhood)), (features, layer.weight)
    )


def test_the_gradient_through_the_graph_can_be_switched_off(problem):
    def gradient(**options):
        features = problem.features.clone().requires_grad_()
        (g,) = torch.autograd.grad(conv(activation=None, **options)(features, problem.distances).sum(), features)
        return g

    layer = conv(activation=None)
    graph = layer.graph(problem.features, problem.distances)
    propagation_matrix = layer.alpha * graph + (1 - layer.alpha) * torch.eye(len(graph)).double()
    expected = propagation_matrix.T @ torch.ones(len(graph), 2).double() @ layer.weight.T
    assert_close(gradient(graph_gradient=False), expected)
    assert (gradient() - expected).abs().max() > 1e-3


def test_normalize_makes_the_graph_blind_to_length(problem):
    layer = conv(normalize=True)
    graph = layer.graph(problem.features, problem.distances)
    propagated = layer.propagate(100 * problem.features, problem.distances)
    stretched = layer.graph(100 * problem.features, problem.distances)
    assert_close(stretched, graph)
    assert propagated.abs().max() > 10  # while what is propagated keeps its length


def test_a_neighbourhood_of_every_other_row_is_the_full_problem(problem):
    neighborhood = nearest_candidates(problem.distances, 13, "precomputed")
    assert_close(conv()(problem.features, neighborhood), conv()(problem.features, problem.distances))


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_no_nan_on_awkward_rows(options):
    x = awkward_features()
    layer = ANGPNConv(13, 5, **({"n_neighbors": 5} | options))
    features = x.clone().requires_grad_()
    out = layer(features, nearest_candidates(x, 10))
    out.sum().backward()
    for tensor in (out, features.grad, layer.weight.grad):
        assert torch.isfinite(tensor).all()


def test_m_of_one_needs_a_numeric_gamma(problem):
    neighborhood = nearest_candidates(problem.distances, 1, "precomputed")
    weights = conv(gamma=0.5).graph(problem.features, neighborhood)
    assert_close(weights, torch.ones_like(weights))
    with pytest.raises(ValueError, match="n_neighbors=4 with gamma='auto' needs at least 5 candidates .* got 1"):
        conv()(problem.features, neighborhood)


def test_repr():
    expected = "ANGPNConv(3, 2, n_neighbors=4, alpha=0.5, beta=0.3, num_steps=2)"
    assert repr(conv()) == expected


def test_reset_parameters_is_glorot_and_seeded():
    layer = ANGPNConv(300, 100)
    layer.reset_parameters(torch.Generator().manual_seed(1))
    first = layer.weight.detach().clone()
    layer.reset_parameters(torch.Generator().manual_seed(1))
    assert_close(layer.weight.detach(), first)
    bound = (6 / 400) ** 0.5
    assert 0.99 * bound < first.abs().max() <= bound


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 1.0}, "alpha must lie strictly between 0 and 1, got 1.0"),
        ({"beta": -1.0}, "beta must be a finite number >= 0, got -1.0"),
        ({"gamma": 0.0}, "gamma must be a finite number > 0, got 0.0"),
        ({"num_steps": 0}, "num_steps must be at least 1, got 0; None runs to convergence"),
        ({"direction": "both"}, "direction must be one of 'directed', 'symmetric', 'normalized', got 'both'"),
        ({"n_neighbors": 0}, "n_neighbors must be at least 1, got 0"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        conv(**options)


def test_mismatched_rows(problem):
    with pytest.raises(ValueError, match="features must have one row for each row of distances, expected 14, got 3"):
        conv()(problem.features[:3], problem.distances)
    with pytest.raises(ValueError, match="features must have in_channels=3 columns, got 2; make the layer as wide"):
        conv()(problem.features[:, :2], problem.distances)
    with pytest.raises(ValueError, match="in_channels and out_channels must be at least 1, got 0 and 2"):
        ANGPNConv(0, 2)


@pytest.mark.parametrize("options", [{}, {"beta": 0.0}, {"num_steps": None}, {"rule": "printed"}], ids=str)
def test_the_graph_as_a_matrix_is_the_graph_on_the_lists(options):
    features = torch.nn.functional.normalize(torch.randn(50, 6, generator=torch.Generator().manual_seed(0)).double())
    neighborhood = nearest_candidates(features, 12)
    conv = ANGPNConv(6, 4, n_neighbors=5, normalize=True, **options).double()
    expected = neighborhood.to_matrix(conv.graph(features, neighborhood))
    for backend in ("kernel", "torch", "dense"):
        conv.backend = backend
        matrix = conv.graph_matrix(features, neighborhood)
        assert (matrix.data > 0).all()
        torch.testing.assert_close(torch.from_numpy(matrix.toarray()), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("beta", [0.0, 0.4])
@pytest.mark.parametrize("direction", ["directed", "symmetric", "normalized"])
@pytest.mark.parametrize("kind", ["kernel", "torch", "dense", "sparse"])
def test_the_propagation_of_some_features_is_linear_in_others(kind, direction, beta):
    rows = awkward_features(torch.float64)
    lists = nearest_candidates(rows, 12)
    backend = "auto" if kind == "sparse" else kind
    layer = ANGPNConv(13, 4, n_neighbors=5, beta=beta, direction=direction, backend=backend).double()
    form = scipy.sparse.csr_array if kind == "sparse" else torch.as_tensor
    propagation = layer.propagation(form(rows.numpy()), lists)

    def propagated(features):
        found = propagation(form(features.numpy()))
        return found if kind != "sparse" else torch.from_numpy(found.multiplied().toarray())

    whole = layer.propagate(form(rows.numpy()), lists)
    assert_close(propagated(rows), whole if kind != "sparse" else torch.from_numpy(whole.multiplied().toarray()))
    other = rows.flip(0)
    assert_close(propagated(rows + 2 * other), propagated(rows) + 2 * propagated(other))
    if kind == "sparse":  # and its product with weights
        weight = layer.weight.detach().clone().requires_grad_()
        product = propagation(form(other.numpy())) @ weight
        assert_close(product, propagated(other) @ weight)
        product.sum().backward()
        assert_close(weight.grad, propagated(other).sum(dim=0)[:, None].expand_as(weight))
