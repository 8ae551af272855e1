"""Each baseline against a reference: its library, a closed form, or a graph with a known solution."""

import numpy as np
import pytest
import scipy.sparse
import sklearn.linear_model
import sklearn.neighbors
import sklearn.semi_supervised
import sklearn.svm
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import normalize

from angpn.baselines import (
    APPNP,
    GAT,
    GCN,
    KNN,
    NGPN,
    SVM,
    DeepGraphInfomax,
    DeepWalk,
    GraphSAGE,
    LabelPropagation,
    LabelSpreading,
    LogisticRegression,
    ManifoldRegularization,
    PoissonLearning,
    SelfTraining,
    shared_graph,
)
from angpn.baselines.deepwalk import random_walks
from angpn.baselines.graph import connected, with_self_loops


@pytest.fixture(scope="module")
def blocks():
    """A stochastic block model: three groups, edge probability 0.25 within and 0.01 between; weak features."""
    generator = np.random.default_rng(0)
    truth = np.repeat(np.arange(3), 50)
    probability = np.where(truth[:, None] == truth, 0.25, 0.01)
    upper = np.triu(generator.random((150, 150)) < probability, 1)
    graph = scipy.sparse.csr_array((upper | upper.T).astype(float))
    X = generator.normal(size=(150, 8)) + 0.7 * np.eye(8)[truth]
    y = np.where(np.arange(150) % 50 < 6, truth, -1)
    validation = (y != -1) & (np.arange(150) % 50 >= 4)
    return X, y, validation, truth, graph


@pytest.mark.parametrize(
    ("method", "at_least"),
    [
        (LabelPropagation(), 0.95),
        (LabelSpreading(), 0.95),
        (PoissonLearning(), 0.95),
        (DeepWalk(n_walks=20, random_state=0), 0.95),
        (GCN(random_state=0), 0.85),
        (APPNP(random_state=0), 0.85),
        (GAT(random_state=0), 0.85),
        (GraphSAGE(random_state=0), 0.7),
        (DeepGraphInfomax(hidden_channels=64, max_iter=150, random_state=0), 0.8),
    ],
    ids=lambda value: type(value).__name__,
)
def test_groups_of_a_block_model_are_found(blocks, method, at_least):
    """The features alone do not separate the groups; the graph does."""
    X, y, validation, truth, graph = blocks
    alone = LogisticRegression().fit(X, y, validation_mask=validation)
    assert np.mean((alone.transduction_ == truth)[y == -1]) < 0.6
    model = method.fit(X, y, validation_mask=validation, graph=graph)
    assert np.mean((model.transduction_ == truth)[y == -1]) >= at_least


# The shared graph


def test_the_shared_graph_is_scikit_learns_made_symmetric():
    X = normalize(np.random.default_rng(0).normal(size=(60, 5)))
    directed = sklearn.neighbors.kneighbors_graph(X, 4).toarray()
    graph = shared_graph(X, 4)
    assert_array_equal(graph.toarray(), np.maximum(directed, directed.T))
    assert_array_equal(shared_graph(X, 4, self_loops=True).toarray(), np.maximum(graph.toarray(), np.eye(60)))
    assert_array_equal(with_self_loops(graph).diagonal(), 1)


def test_an_isolated_row_gets_a_self_loop_where_degrees_are_divided_by():
    graph = scipy.sparse.csr_array(np.array([[0.0, 1, 0], [1, 0, 0], [0, 0, 0]]))
    assert_array_equal(connected(graph).toarray(), [[0, 1, 0], [1, 0, 0], [0, 0, 1]])


# Label propagation and spreading


def test_label_propagation_is_the_harmonic_function(blocks):
    """f_u = (D_uu - W_uu)^-1 W_ul y_l, Zhu et al. (2003), Eq. (5)."""
    X, y, validation, _, graph = blocks
    model = LabelPropagation(tol=1e-9).fit(X, y, validation_mask=validation, graph=graph)
    training = (y != -1) & ~validation
    dense = graph.toarray()
    laplacian = np.diag(dense.sum(axis=1)) - dense
    given = np.eye(3)[y[training]]
    harmonic = np.linalg.solve(laplacian[np.ix_(~training, ~training)], dense[np.ix_(~training, training)] @ given)
    assert_allclose(model.label_distributions_[~training], harmonic, atol=1e-6)
    assert_array_equal(model.label_distributions_[training], given)


def test_label_spreading_is_its_closed_form(blocks):
    """(I - alpha S)^-1 Y, Zhou et al. (2004)."""
    X, y, validation, _, graph = blocks
    model = LabelSpreading(alphas=(0.8,), max_iter=10_000).fit(X, y, validation_mask=validation, graph=graph)
    dense, training = graph.toarray(), (y != -1) & ~validation
    scale = 1 / np.sqrt(dense.sum(axis=1))
    start = np.where(training[:, None], np.eye(3)[y], 0)
    closed = np.linalg.solve(np.eye(150) - 0.8 * scale[:, None] * dense * scale, start)
    assert_allclose(model.label_distributions_, closed / closed.sum(axis=1, keepdims=True), atol=1e-3)
    assert model.alpha_ == 0.8


# Manifold regularisation


def test_manifold_regularization_solves_the_normal_equations():
    """The gradient of the objective, in the coefficients, is zero."""
    generator = np.random.default_rng(0)
    X = normalize(generator.normal(size=(40, 4)))
    y = np.where(np.arange(40) < 15, np.arange(40) % 3, -1)
    for kernel in ("rbf", "linear"):
        model = ManifoldRegularization(kernel=kernel, gamma=0.7, ambient=0.3, intrinsic=0.2, validation_fraction=0.0)
        model.fit(X, y)
        gram = rbf_kernel(X, gamma=0.7) if kernel == "rbf" else X @ X.T
        graph = shared_graph(X, 10).toarray()
        scale = 1 / np.sqrt(graph.sum(axis=1))
        laplacian = np.eye(40) - scale[:, None] * graph * scale
        targets = np.where(np.eye(3)[np.where(y == -1, 0, y)] == 1, 1.0, -1.0)
        a = torch.tensor(model.coefficients_, requires_grad=True)
        K, L, labelled = torch.tensor(gram), torch.tensor(laplacian), torch.tensor(y != -1)
        f = K @ a
        fit = (f - torch.tensor(targets))[labelled].square().sum()
        (fit + 0.3 * (a * f).sum() + 0.2 * (f * (L @ f)).sum()).backward()
        assert_allclose(a.grad.numpy(), 0, atol=1e-9)


def test_manifold_regularization_on_two_moons_with_one_label_each():
    """Figure 2 of the paper: with the unlabelled rows the decision boundary follows the moons."""
    X, truth = make_moons(200, noise=0.05, random_state=0)
    # On the sphere, so that scaling to unit length leaves the moons as they are.
    on_sphere = np.column_stack([X / 4, np.sqrt(1 - (X**2).sum(axis=1) / 16)])
    y = np.full(200, -1)
    y[[np.flatnonzero(truth == 0)[0], np.flatnonzero(truth == 1)[0]]] = 0, 1
    options = {"gamma": 200.0, "ambient": 1e-5, "validation_fraction": 0.0, "n_neighbors": 6}
    model = ManifoldRegularization(intrinsic=1.0, **options).fit(on_sphere, y)
    assert np.mean(model.transduction_ == truth) > 0.98
    supervised = ManifoldRegularization(intrinsic=0.0, **options).fit(on_sphere, y)
    assert np.mean(supervised.transduction_ == truth) < 0.9
    new, truth_new = make_moons(100, noise=0.05, random_state=1)
    new = np.column_stack([new / 4, np.sqrt(1 - (new**2).sum(axis=1) / 16)])
    assert np.mean(model.predict(new) == truth_new) > 0.98
    assert_array_equal(model.predict(on_sphere), model.transduction_)


# DeepWalk


def test_walks_are_uniform_and_on_edges():
    graph = scipy.sparse.csr_array(np.array([[0.0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 1], [0, 0, 1, 0]]))
    walks = random_walks(graph, np.zeros(20_000, dtype=np.int64), 6, seed=3)
    assert (graph[walks[:, :-1].ravel(), walks[:, 1:].ravel()] == 1).all()
    transition = graph.toarray() / graph.toarray().sum(axis=1, keepdims=True)
    expected = np.linalg.matrix_power(transition, 5)[0]
    assert_allclose(np.bincount(walks[:, 5], minlength=4) / 20_000, expected, atol=0.015)
    assert_array_equal(walks, random_walks(graph, np.zeros(20_000, dtype=np.int64), 6, seed=3))


def test_embeddings_are_computed_once_for_a_graph(blocks, tmp_path, monkeypatch):
    from angpn.baselines import embedding_cache

    X, y, validation, _, graph = blocks
    options = {"n_walks": 2, "walk_length": 5, "cache_folder": tmp_path, "random_state": 0}
    first = DeepWalk(**options).fit(X, y, validation_mask=validation, graph=graph)
    (file,) = tmp_path.iterdir()
    monkeypatch.setattr(DeepWalk, "_embedding", None)  # not to be called again
    other = np.where(np.arange(150) % 50 < 9, y.max(), -1)
    other[:9], other[50:59] = 0, 1
    assert_array_equal(DeepWalk(**options).fit(X, other, graph=graph).embedding_, first.embedding_)
    embedding_cache._memory.clear()  # another process
    assert_array_equal(DeepWalk(**options).fit(X, y, graph=graph).embedding_, np.load(file)["vectors"])


# Networks


@pytest.fixture
def geometric():
    from angpn.baselines.neural import for_torch_geometric

    with for_torch_geometric(150, seed=0):
        yield


def test_dropout_drops_its_share_and_rescales_the_rest():
    from angpn.baselines.neural import dropped

    torch.manual_seed(0)
    rows = torch.ones(1000, 301)
    for rate in (0.5, 0.6):
        after = dropped(rows, rate, training=True)
        assert_allclose(sorted(after.unique().tolist()), [0, 1 / (1 - rate)], rtol=1e-6)
        assert float((after == 0).double().mean()) == pytest.approx(rate, abs=0.004)
        assert float((after[:, 1:] == after[:, :-1]).double().mean()) == pytest.approx(
            rate**2 + (1 - rate) ** 2, abs=0.006
        )
    assert dropped(rows, 0.5, training=False) is rows


def test_gcn_is_the_formula_of_its_paper(blocks, geometric):
    """softmax(A relu(A X W0 + b0) W1 + b1) with A = D^-1/2 (W + I) D^-1/2, Kipf and Welling (2017), Eq. (9)."""
    from angpn.baselines.neural import adjacency, as_torch

    X, _, _, _, graph = blocks
    module = GCN()._module(8, 3).eval()
    looped = graph.toarray() + np.eye(150)
    scale = 1 / np.sqrt(looped.sum(axis=1))
    A = torch.tensor(scale[:, None] * looped * scale, dtype=torch.float32)
    first, second = module.convs
    hidden = torch.relu(A @ as_torch(X) @ first.lin.weight + first.bias)
    expected = A @ hidden @ second.lin.weight.T + second.bias
    for rows in (as_torch(X), as_torch(scipy.sparse.csr_array(X))):
        torch.testing.assert_close(module(rows, adjacency(graph)), expected, rtol=1e-4, atol=1e-5)


def test_appnp_is_personalised_page_rank(blocks, geometric):
    from angpn.baselines.neural import adjacency, as_torch

    X, _, _, _, graph = blocks
    module = APPNP(num_steps=200)._module(8, 3).eval()
    looped = graph.toarray() + np.eye(150)
    scale = 1 / np.sqrt(looped.sum(axis=1))
    A = torch.tensor(scale[:, None] * looped * scale, dtype=torch.float64)
    predicted = torch.relu(as_torch(X) @ module.first.weight) @ module.second.weight
    expected = 0.1 * torch.linalg.solve(torch.eye(150).double() - 0.9 * A, predicted.double())
    found = module(as_torch(X), adjacency(graph))
    torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=1e-4)
    # The gradient is that of the formula, though autograd does not compute it.
    weight = module.second.weight
    target = torch.linspace(-1, 1, 450).view(150, 3)
    (ours,) = torch.autograd.grad((found * target).sum(), weight)
    (theirs,) = torch.autograd.grad((expected * target).sum(), weight)
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


def test_graphsage_averages_neighbours_and_projects_wide_rows_first(blocks, geometric):
    from angpn.baselines.neural import adjacency, as_torch

    X, _, _, _, graph = blocks
    rows, edges = as_torch(X), adjacency(graph)
    module = GraphSAGE()._module(8, 3)
    mean = torch.tensor(graph.toarray() / graph.toarray().sum(axis=1, keepdims=True), dtype=torch.float32)

    def layer(conv, h):
        out = conv.lin_l(mean @ h) + conv.lin_r(h)
        return torch.nn.functional.normalize(out)

    hidden = torch.relu(layer(module.first, rows))
    expected = module.classify(torch.relu(layer(module.second, hidden)))
    torch.testing.assert_close(module(rows, edges), expected, rtol=1e-4, atol=1e-5)
    wide = GraphSAGE()._module(600, 3)
    assert wide.first.in_channels == 128


def test_graph_attention_depends_on_two_hops_only(blocks, geometric):
    from angpn.baselines.neural import adjacency, as_torch

    X, _, _, _, graph = blocks
    module = GAT()._module(8, 3).eval()
    before = module(as_torch(X), adjacency(graph))
    within_two_hops = (np.linalg.matrix_power(graph.toarray() + np.eye(150), 2) > 0)[0]
    far = np.flatnonzero(~within_two_hops)[0]
    changed = X.copy()
    changed[far] += 10
    after = module(as_torch(changed), adjacency(graph))
    torch.testing.assert_close(after[0], before[0])
    assert not torch.allclose(after[far], before[far])


def test_the_global_generator_is_left_as_it_was(blocks):
    X, y, validation, _, graph = blocks
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    GCN(max_iter=3, random_state=0).fit(X, y, validation_mask=validation, graph=graph)
    torch.testing.assert_close(torch.rand(3), expected)


# Poisson learning


def test_poisson_learning_is_that_of_graphlearning(blocks):
    gl = pytest.importorskip("graphlearning", reason="the reference implementation is not installed")
    X, y, validation, _, graph = blocks
    training = np.flatnonzero((y != -1) & ~validation)
    model = PoissonLearning().fit(X, y, validation_mask=validation, graph=graph)
    theirs = gl.ssl.poisson(scipy.sparse.csr_matrix(graph), solver="conjugate_gradient", tol=1e-10)
    potential = theirs._fit(training, y[training])
    degree = graph.sum(axis=1)
    potential = potential - (degree @ potential) / degree.sum()
    assert_allclose(model.potential_, potential, atol=1e-5)
    assert_array_equal(model.transduction_, potential.argmax(axis=1))


def test_poisson_learning_in_components_of_one_class_of_several_and_of_none():
    def clique(size):
        return np.ones((size, size)) - np.eye(size)

    pure, mixed, bare = clique(6), clique(8), clique(3)
    mixed[:4, 4:] = mixed[4:, :4] = 0
    mixed[3, 4] = mixed[4, 3] = 1  # two cliques with a bridge
    graph = scipy.sparse.csr_array(scipy.sparse.block_diag([pure, mixed, bare]))
    y = np.full(17, -1)
    y[[0, 6, 13]] = 2, 0, 1
    model = PoissonLearning(validation_fraction=0.0).fit(np.random.default_rng(0).random((17, 3)), y, graph=graph)
    assert_array_equal(model.transduction_[:14], [2] * 6 + [0] * 4 + [1] * 4)
    assert_allclose(model.label_distributions_[14:], 1 / 3)  # the class prior


def test_poisson_learning_solves_its_equation(blocks):
    X, y, validation, _, graph = blocks
    model = PoissonLearning(tol=1e-12).fit(X, y, validation_mask=validation, graph=graph)
    training = (y != -1) & ~validation
    sources = np.where(training[:, None], np.eye(3)[y], 0)
    sources[training] -= sources[training].mean(axis=0)
    degree = graph.sum(axis=1)
    assert_allclose(degree[:, None] * model.potential_ - graph @ model.potential_, sources, atol=1e-8)
    assert_allclose(degree @ model.potential_, 0, atol=1e-8)


# Methods of scikit-learn


@pytest.fixture(scope="module")
def rows():
    generator = np.random.default_rng(0)
    truth = np.arange(120) % 3
    X = generator.normal(size=(120, 6)) + 1.5 * np.eye(6)[truth]
    y = np.where(np.arange(120) < 45, truth, -1)
    return X, y, (y != -1) & (np.arange(120) >= 30), truth


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (LogisticRegression(Cs=(7.0,)), sklearn.linear_model.LogisticRegression(C=7.0, max_iter=2000)),
        (SVM(Cs=(3.0,), gammas=(0.5,)), sklearn.svm.SVC(C=3.0, gamma=0.5, break_ties=True)),
        (KNN(counts=(4,)), sklearn.neighbors.KNeighborsClassifier(4, weights="distance", metric="cosine")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_supervised_methods_are_scikit_learns_on_the_training_rows(rows, ours, theirs):
    X, y, validation, _ = rows
    training = (y != -1) & ~validation
    unit = normalize(X)
    ours.fit(X, y, validation_mask=validation)
    assert_array_equal(ours.transduction_, theirs.fit(unit[training], y[training]).predict(unit))
    assert_array_equal(ours.predict(X[:7]), theirs.predict(unit[:7]))


def test_self_training_is_scikit_learns(rows):
    X, y, validation, _ = rows
    inner = sklearn.linear_model.LogisticRegression(C=7.0, max_iter=2000)
    theirs = sklearn.semi_supervised.SelfTrainingClassifier(inner, threshold=0.8)
    expected = theirs.fit(normalize(X), np.where(validation, -1, y)).predict(normalize(X))
    ours = SelfTraining(Cs=(7.0,), thresholds=(0.8,)).fit(X, y, validation_mask=validation)
    assert_array_equal(ours.transduction_, expected)


def test_hyperparameters_are_selected_by_validation_accuracy(rows):
    X, y, validation, _ = rows
    counts = (1, 5, 20)
    scores = {}
    for count in counts:
        model = KNN(counts=(count,)).fit(X, y, validation_mask=validation)
        scores[count] = np.mean(model.transduction_[validation] == y[validation])
    assert len(set(scores.values())) > 1
    selected = KNN(counts=counts).fit(X, y, validation_mask=validation).best_params_
    assert scores[selected["n_neighbors"]] == max(scores.values())


def test_a_class_that_only_validation_has_is_known_but_never_predicted(rows):
    X, y, validation, _ = rows
    y = np.where(validation & (y == 2), 3, y)
    y = np.where(~validation & (y == 3), -1, y)
    model = LogisticRegression().fit(X, y, validation_mask=validation)
    assert model.label_distributions_.shape == (120, 4)
    assert not model.label_distributions_[:, 3].any()


def test_ngpn_is_angpn_with_a_fixed_graph():
    model = NGPN(random_state=3)
    assert model.beta == 0
    assert model.alpha == 0.5
    assert NGPN(n_neighbors=4).n_neighbors == 4
