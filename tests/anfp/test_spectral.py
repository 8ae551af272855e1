"""The smallest eigenvectors of a Laplacian, by iterations and densely."""

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

from angpn.anfp.chebyshev import filtered_subspace
from angpn.anfp.spectral import smallest_eigenvectors, symmetric_adjacency


def random_graph(n, seed=0, parts=1):
    """Rows on a circle linked to their nearest, in so many parts that nothing links."""
    generator = np.random.default_rng(seed)
    part = np.arange(n) * parts // n
    places = generator.permutation(n) + generator.random(n)
    gap = np.abs(places[:, None] - places)
    near = np.exp(-np.minimum(gap, n - gap) / (3 * parts)) * (part[:, None] == part)
    near[near < 0.1] = 0
    np.fill_diagonal(near, 0)
    return scipy.sparse.csr_array(near)


def laplacian(adjacency, normalized):
    dense = adjacency.toarray()
    degree = dense.sum(axis=1)
    if not normalized:
        return np.diag(degree) - dense
    return np.eye(len(dense)) - dense / np.sqrt(degree[:, None] * degree)


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize(("n", "parts"), [(30, 1), (300, 1), (300, 3)])  # densely, by iterations, 0 three times
def test_eigenvalues_are_those_of_the_dense_laplacian(n, parts, normalized):
    adjacency = random_graph(n, parts=parts)
    values, vectors = smallest_eigenvectors(adjacency, 6, normalized=normalized, tol=1e-8)
    dense = laplacian(adjacency, normalized)
    assert_allclose(values, np.linalg.eigvalsh(dense)[:6], atol=1e-5 * np.abs(dense).max())
    assert_allclose(vectors.T @ vectors, np.eye(vectors.shape[1]), atol=1e-6)
    assert_allclose(dense @ vectors[:, :6], vectors[:, :6] * values, atol=1e-4 * np.abs(dense).max())


def test_an_earlier_solution_is_where_the_solver_begins():
    adjacency = random_graph(300)
    values, vectors = smallest_eigenvectors(adjacency, 5, normalized=True, tol=1e-8)
    again, _ = smallest_eigenvectors(adjacency, 5, normalized=True, start=vectors, tol=1e-8, max_iter=1)
    afresh, _ = smallest_eigenvectors(adjacency, 5, normalized=True, tol=1e-8, max_iter=1)
    assert_allclose(again, values, atol=1e-8)
    assert np.abs(afresh - values).max() > 1e-3


def test_a_row_without_neighbours_is_a_component():
    adjacency = random_graph(200).tolil()
    adjacency[7], adjacency[:, 7] = 0, 0
    values, _ = smallest_eigenvectors(scipy.sparse.csr_array(adjacency), 4, normalized=True, tol=1e-8)
    assert_allclose(values[:2], 0, atol=1e-6)
    assert values[2] > 1e-4


def test_the_adjacency_is_the_mean_of_the_graph_and_its_transpose():
    graph = scipy.sparse.csr_array(np.array([[0.0, 1.0], [0.0, 0.0]]))
    assert_allclose(symmetric_adjacency(graph).toarray(), [[0, 0.5], [0.5, 0]])


def test_a_filter_finds_what_dense_eigenvectors_are_in_either_precision():
    dense = laplacian(random_graph(400, parts=2), normalized=True)
    start = np.random.default_rng(0).normal(size=(400, 12))
    for dtype, atol in ((np.float64, 1e-8), (np.float32, 1e-5)):
        matrix = dense.astype(dtype)
        values, vectors = filtered_subspace(
            lambda v, matrix=matrix: matrix @ v, start.astype(dtype), 6, largest=2.0, tol=atol, max_iter=300
        )
        assert vectors.dtype == dtype
        assert_allclose(values[:6], np.linalg.eigvalsh(dense)[:6], atol=atol)
        assert np.linalg.norm(dense @ vectors[:, :6] - vectors[:, :6] * values[:6], axis=0).max() < 10 * atol


def test_vectors_that_depend_on_each_other_are_no_obstacle():
    dense = laplacian(random_graph(400), normalized=True)
    start = np.random.default_rng(0).normal(size=(400, 10))
    start[:, 3] = start[:, 4]
    values, vectors = filtered_subspace(lambda v: dense @ v, start, 4, largest=2.0, tol=1e-8, max_iter=300)
    assert_allclose(values[:4], np.linalg.eigvalsh(dense)[:4], atol=1e-8)
    assert_allclose(vectors.T @ vectors, np.eye(10), atol=1e-8)
