import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits, load_wine
from sklearn.preprocessing import StandardScaler, normalize
from torch.testing import assert_close

from angpn import nearest_candidates, neighbor_graph, pairwise_distances, propagate, solve_anfp
from angpn.anfp.algorithm import Options, algorithm1
from angpn.anfp.exact_solver import anfp_objective
from angpn.neighbors.neighborhood import DenseNeighborhood
from problems import awkward_features, numpy_algorithm1, numpy_gamma, numpy_objective, random_problem

K = 4
AS_IN_THE_PAPER = {
    "n_neighbors": K,
    "alpha": 0.5,
    "beta": 0.3,
    "gamma": "auto",
    "rule": "simplex",
    "num_steps": 2,
    "direction": "directed",
    "graph_gradient": True,
    "normalize": False,
}


def assert_never_increases(objective: torch.Tensor, rounding: float) -> None:
    assert (objective.diff() <= rounding * objective.abs().max()).all(), objective.diff().max()


@pytest.fixture
def problem():
    return random_problem(seed=1)


@pytest.mark.parametrize("gamma", ["auto", "local"])
def test_eq05_objective_is_the_double_sum(problem, gamma):
    distances, h = problem
    graph = neighbor_graph(distances, h, n_neighbors=K, beta=0.3, gamma=gamma)
    f = propagate(graph, h, 0.5)
    rows = torch.as_tensor(numpy_gamma(distances.numpy(), K))
    gammas = rows.mean() if gamma == "auto" else rows[:, None]
    ours = anfp_objective(distances, h, graph, f, beta=0.3, mu=0.7, gamma=gammas)
    per_row = torch.broadcast_to(gammas.flatten(), (len(h),)).numpy()
    theirs = numpy_objective(distances.numpy(), h.numpy(), graph.numpy(), f.numpy(), 0.3, 0.7, per_row)
    assert_close(ours, torch.tensor(theirs, dtype=torch.float64))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10_000),
    st.floats(0.05, 2.0),
    st.floats(0.05, 2 / 27**0.5, exclude_max=True),
    st.sampled_from(["auto", "local", 0.5]),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_eq05_never_increases_with_exact_steps(seed, beta, alpha, gamma, dtype):
    distances, h = random_problem(seed, n=25, dtype=dtype)
    # Below 2 / sqrt(n + 2) every graph leaves Step 2 a minimiser.
    result = solve_anfp(distances, h, n_neighbors=K, beta=beta, alpha=alpha, gamma=gamma, max_iter=30)
    assert_never_increases(result.objective, 1e-13 if dtype == torch.float64 else 1e-6)


@pytest.mark.parametrize("name", ["digits", "wine"])
@pytest.mark.parametrize("gamma", ["auto", "local"])
def test_eq05_never_increases_on_bundled_data(name, gamma):
    rows = normalize(load_digits().data[:300] if name == "digits" else StandardScaler().fit_transform(load_wine().data))
    distances = pairwise_distances(rows, "euclidean")
    result = solve_anfp(distances, torch.as_tensor(rows), n_neighbors=10, beta=0.3, alpha=0.1, gamma=gamma)
    assert_never_increases(result.objective, 1e-13)
    assert result.objective[-1] < result.objective[0]
    assert len(result.objective) == 2 * result.n_iter


@pytest.mark.parametrize("name", ["coraml", "20news"])
@pytest.mark.slow
def test_eq05_never_increases_on_the_papers_text(real_data, name):
    features, _ = real_data(name)
    features = features[::4].double()
    result = solve_anfp(pairwise_distances(features), features, n_neighbors=10, beta=0.3, alpha=0.06, max_iter=20)
    assert_never_increases(result.objective, 1e-13)


def test_eq05_solution_is_a_fixed_point_of_both_steps(problem):
    distances, h = problem
    beta, mu = 0.3, 0.6
    result = solve_anfp(distances, h, n_neighbors=K, beta=beta, mu=mu, tol=1e-13, max_iter=2000)
    assert result.converged
    assert_close(result.graph, neighbor_graph(distances, result.features, n_neighbors=K, beta=beta))
    f = result.features.clone().requires_grad_()
    gamma = torch.as_tensor(numpy_gamma(distances.numpy(), K).mean())
    (gradient,) = torch.autograd.grad(anfp_objective(distances, h, result.graph, f, beta=beta, mu=mu, gamma=gamma), f)
    assert_close(gradient, torch.zeros_like(gradient), atol=1e-9, rtol=0)


def test_eq10_is_minimised_by_the_printed_step_where_the_graph_is_symmetric():
    # Rows on a ring: the distances, and so S at beta = 0, are symmetric.
    angle = torch.arange(12).double() * torch.pi / 6
    distances = pairwise_distances(torch.stack([angle.cos(), angle.sin()], dim=1), "euclidean")
    h = random_problem(n=12).features
    mu = 0.8
    result = solve_anfp(distances, h, n_neighbors=3, beta=0, mu=mu, step2="printed", max_iter=1)
    assert_close(result.graph, result.graph.T)
    f = result.features.clone().requires_grad_()
    eq10 = torch.trace(f.T @ (f - result.graph @ f)) + mu * (f - h).square().sum()
    (gradient,) = torch.autograd.grad(eq10, f)
    assert_close(gradient, torch.zeros_like(gradient), atol=1e-12, rtol=0)
    assert_close(result.features, propagate(result.graph, h, 1 / (1 + mu), "closed"))


@pytest.mark.parametrize("rule", ["simplex", "printed"])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_algorithm1_matches_a_plain_transcription(problem, rule, steps):
    distances, h = problem
    gamma = 0.8
    expected_f, expected_s = numpy_algorithm1(distances.numpy(), h.numpy(), K, 0.5, 0.3, gamma, steps, rule)
    neighborhood = DenseNeighborhood.from_matrix(distances)
    options = AS_IN_THE_PAPER | {"gamma": gamma, "rule": rule, "num_steps": steps}
    f, s = algorithm1(neighborhood, h, Options(**options))
    assert_close(f, torch.as_tensor(expected_f))
    assert_close(s, torch.as_tensor(expected_s))


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_algorithm1_is_the_solver_truncated_at_t(problem, steps):
    distances, h = problem
    f, s = algorithm1(DenseNeighborhood.from_matrix(distances), h, Options(**(AS_IN_THE_PAPER | {"num_steps": steps})))
    solved = solve_anfp(distances, h, n_neighbors=K, beta=0.3, alpha=0.5, step2="step", max_iter=steps, tol=0)
    assert solved.n_iter == steps
    assert_close(solved.features, f)
    assert_close(solved.graph, s)


def test_algorithm1_at_beta_zero_is_one_step_on_the_fixed_graph(problem):
    distances, h = problem
    f, s = algorithm1(DenseNeighborhood.from_matrix(distances), h, Options(**(AS_IN_THE_PAPER | {"beta": 0.0})))
    assert_close(s, neighbor_graph(distances, n_neighbors=K))
    assert_close(f, propagate(s, h, 0.5))


def test_algorithm1_run_to_convergence_settles(problem):
    distances, h = problem
    neighborhood = DenseNeighborhood.from_matrix(distances)
    f, _ = algorithm1(neighborhood, h, Options(**(AS_IN_THE_PAPER | {"num_steps": None})))
    again, _ = algorithm1(neighborhood, h, Options(**(AS_IN_THE_PAPER | {"num_steps": 60})))
    assert_close(f, again, atol=1e-4, rtol=0)


OPTIONS = [
    {},
    {"rule": "printed"},
    {"gamma": "local"},
    {"direction": "symmetric"},
    {"direction": "normalized"},
    {"normalize": True},
    {"graph_gradient": False},
    {"num_steps": None},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_algorithm1_on_lists_equals_dense_on_the_same_candidates(options):
    x = torch.randn(30, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    neighborhood = nearest_candidates(x, 9)
    results = []
    for kind in (neighborhood, neighborhood.to_dense()):
        features = x.clone().requires_grad_()
        f, s = algorithm1(kind, features, Options(**(AS_IN_THE_PAPER | options)))
        (gradient,) = torch.autograd.grad(f.square().sum(), features)
        results.append((f, kind.to_matrix(s), gradient))
    for on_lists, on_matrix in zip(*results, strict=True):
        assert_close(on_lists, on_matrix)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("metric", ["chord", "euclidean"])
def test_no_nan_on_awkward_rows_forward_and_backward(options, metric):
    x = awkward_features()
    for neighborhood in (
        nearest_candidates(x, 12, metric),
        DenseNeighborhood.from_matrix(pairwise_distances(x, metric)),
    ):
        features = x.clone().requires_grad_()
        f, s = algorithm1(neighborhood, features, Options(**(AS_IN_THE_PAPER | options)))
        f.square().sum().backward()
        assert torch.isfinite(f).all()
        assert torch.isfinite(s).all()
        assert torch.isfinite(features.grad).all()
        if options.get("rule") != "printed":
            assert features.grad.abs().max() < 1e4  # printed rows sum to hundreds, and so do their gradients
            assert_close(s.sum(dim=1), torch.ones(len(x)), atol=1e-6, rtol=0)


def test_mu_and_alpha_say_the_same(problem):
    distances, h = problem
    options = {"n_neighbors": K, "beta": 0.3, "max_iter": 5}
    for step2, mu in {"exact": 0.3 * (1 - 0.4) / 0.4, "printed": (1 - 0.4) / 0.4}.items():
        by_alpha = solve_anfp(distances, h, alpha=0.4, step2=step2, **options)
        by_mu = solve_anfp(distances, h, mu=mu, step2=step2, **options)
        assert_close(by_alpha.features, by_mu.features)


@pytest.mark.parametrize("step2", ["exact", "printed", "step"])
def test_mixed_dtypes_are_promoted(problem, step2):
    distances, h = problem
    result = solve_anfp(distances, h.float(), n_neighbors=K, beta=0.3, alpha=0.1, step2=step2)
    assert result.features.dtype == torch.float64


def test_an_overflow_is_reported(problem):
    distances, h = problem
    with pytest.raises(ValueError, match="the features must stay finite, got an overflow at iteration .* use rule"):
        solve_anfp(distances, 1e3 * h, n_neighbors=K, beta=3.0, alpha=0.9, rule="printed", step2="step")


def test_beta_zero_with_mu_leaves_the_features_alone(problem):
    distances, h = problem
    assert_close(solve_anfp(distances, h, n_neighbors=K, beta=0, mu=1.0).features, h)


def test_a_hub_without_minimiser_is_reported_with_its_remedy():
    # Every row has row 0 as its nearest neighbour: (S + S^T)/2 has a large eigenvalue.
    n = 30
    distances = torch.full((n, n), 10.0, dtype=torch.float64)
    distances[:, 0] = distances[0] = 1.0
    distances += 0.01 * torch.rand(n, n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    h = random_problem(n=n).features
    with pytest.raises(ValueError, match="no minimiser at iteration 1: .* lower alpha below") as error:
        solve_anfp(distances, h, n_neighbors=1, beta=0.3, alpha=0.9, gamma="local")
    limit = float(str(error.value).split("lower alpha below ")[1].split(" ")[0])
    result = solve_anfp(distances, h, n_neighbors=1, beta=0.3, alpha=limit, gamma="local", max_iter=5)
    assert_never_increases(result.objective, 1e-13)


@pytest.mark.parametrize("n", [5, 40])
def test_no_graph_has_a_larger_eigenvalue_than_a_hub(n):
    bound = (n + 2) ** 0.5 / 2
    hub = torch.zeros(n, n, dtype=torch.float64)
    hub[1:, 0] = hub[0, 1] = 1
    assert_close(torch.linalg.eigvalsh((hub + hub.T) / 2)[-1], torch.tensor(bound).double())
    generator = torch.Generator().manual_seed(0)
    for sharpness in (0.1, 1.0, 10.0, 100.0):
        scores = sharpness * torch.randn(n, n, generator=generator, dtype=torch.float64)
        scores += sharpness * torch.randn(n, generator=generator, dtype=torch.float64)  # some columns are popular
        graph = scores.fill_diagonal_(-torch.inf).softmax(dim=1)
        assert torch.linalg.eigvalsh((graph + graph.T) / 2)[-1] <= bound


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give exactly one of alpha and mu, got alpha=None, mu=None"),
        ({"alpha": 0.5, "mu": 1.0}, "give exactly one of alpha and mu, got alpha=0.5, mu=1.0"),
        ({"alpha": 1.0}, "alpha must lie strictly between 0 and 1, got 1.0"),
        ({"mu": 0.0}, "mu must be a finite number > 0, got 0.0"),
        ({"alpha": 0.5, "beta": 0}, "alpha=0.5 says nothing about mu where beta=0 .* pass mu, or use step2='printed'"),
        ({"mu": float("inf")}, "mu must be a finite number > 0, got inf"),
        ({"alpha": 0.5, "step2": "power"}, "step2 must be one of 'exact', 'printed', 'step', got 'power'"),
        ({"alpha": 0.5, "max_iter": 0}, "max_iter must be at least 1, got 0"),
        ({"alpha": 0.5, "n_neighbors": 13}, "n_neighbors=13 needs at least 15 samples, got n_samples=14"),
        ({"alpha": 0.5, "gamma": 0.0}, "gamma must be a finite number > 0, got 0.0"),
        ({"alpha": 0.5, "features": torch.full((14, 1), torch.nan)}, "features must be finite, got 14 NaN"),
        ({"alpha": 0.5, "features": torch.ones(3, 1)}, "features must have one row for each row of distances"),
    ],
)
def test_bad_input(problem, options, message):
    arguments = {"distances": problem.distances, "features": problem.features, "n_neighbors": K, "beta": 0.3}
    with pytest.raises(ValueError, match=message):
        solve_anfp(**(arguments | options))
