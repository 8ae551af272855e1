"""Rows that came after training, against the same network on a neighbourhood in which they are rows like all others."""

import numpy as np
import pytest
import scipy.sparse
import torch
from torch.testing import assert_close

from angpn import ANGPN, Neighborhood, nearest_candidates
from angpn.anfp.neighbor_graph import resolve_gamma
from angpn.neighbors.exact import nearest_fitted
from angpn.network.inductive import InductiveNetwork

N, R, M = 40, 7, 12


def problem(**options):
    generator = torch.Generator().manual_seed(0)
    rows = torch.nn.functional.normalize(torch.randn(N + R, 6, generator=generator, dtype=torch.float64))
    fitted, new = rows[:N], rows[N:]
    neighborhood = nearest_candidates(fitted, M)
    network = ANGPN(6, 5, 3, n_neighbors=4, normalize_hidden=True, **options).double()
    return network, fitted, neighborhood, new, nearest_fitted(fitted, new, M)


def together(neighborhood, indices, distances):
    """The lists of all rows: nobody lists a new row."""
    return Neighborhood(torch.cat([neighborhood.indices, indices]), torch.cat([neighborhood.distances, distances]))


@pytest.mark.parametrize(
    "options", [{}, {"beta": 0.0}, {"num_steps": 3}, {"rule": "printed"}, {"num_steps": 1}], ids=str
)
def test_a_new_row_is_a_row_that_nobody_chooses(options):
    network, fitted, neighborhood, new, (indices, distances) = problem(**options)
    embedded = InductiveNetwork(network, fitted, neighborhood).embed(new, indices, distances)
    for conv in network.convs:
        conv.gamma = float(resolve_gamma(neighborhood.distances, 4, "auto"))  # new rows have no say in the mean
    expected = network.embed(torch.cat([fitted, new]), together(neighborhood, indices, distances))
    assert_close(embedded, expected[N:])
    assert_close(network.embed(fitted, neighborhood), expected[:N])


def test_until_it_settles():
    network, fitted, neighborhood, new, (indices, distances) = problem(num_steps=None)
    embedded = InductiveNetwork(network, fitted, neighborhood).embed(new, indices, distances)
    for conv in network.convs:
        conv.gamma = float(resolve_gamma(neighborhood.distances, 4, "auto"))
    expected = network.embed(torch.cat([fitted, new]), together(neighborhood, indices, distances))
    assert_close(embedded, expected[N:], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("direction", ["symmetric", "normalized"])
def test_fitted_rows_answer_a_new_row_as_it_chose_them(direction):
    """One layer, one step: A's row is s for the symmetric graph; degrees divide it for the normalised one."""
    network, fitted, neighborhood, new, (indices, distances) = problem(direction=direction, num_steps=1, num_layers=1)
    embedded = InductiveNetwork(network, fitted, neighborhood).embed(new, indices, distances)
    conv = network.convs[0]
    conv.gamma = float(resolve_gamma(neighborhood.distances, 4, "auto"))
    both = together(neighborhood, indices, distances)
    weights = both.to_matrix(conv.graph(torch.cat([fitted, new]), both))
    chosen = weights[N:, :N]
    if direction == "normalized":
        degree = (weights + weights.T)[:N, :N].sum(dim=1)
        chosen = 2 * chosen / (2 * degree).sqrt()
    propagated = conv.alpha * chosen @ fitted + (1 - conv.alpha) * new
    assert_close(embedded, torch.relu(propagated @ conv.weight))


@pytest.mark.parametrize("options", [{}, {"beta": 0.0}, {"num_steps": None}], ids=str)
def test_sparse_rows_get_what_dense_ones_get(options):
    network, fitted, neighborhood, new, (indices, distances) = problem(**options)
    dense = InductiveNetwork(network, fitted, neighborhood).embed(new, indices, distances)
    sparse_fitted, sparse_new = (scipy.sparse.csr_array(rows.numpy()) for rows in (fitted, new))
    found = nearest_fitted(sparse_fitted, sparse_new, M)
    assert_close(found[0], indices)
    assert_close(
        InductiveNetwork(network, sparse_fitted, neighborhood).embed(sparse_new, *found), dense, rtol=1e-5, atol=1e-6
    )


def test_rows_do_not_see_each_other():
    network, fitted, neighborhood, new, (indices, distances) = problem(gamma="local")
    whole = InductiveNetwork(network, fitted, neighborhood).embed(new, indices, distances)
    for row in range(R):
        one = slice(row, row + 1)
        assert_close(
            InductiveNetwork(network, fitted, neighborhood).embed(new[one], indices[one], distances[one]), whole[one]
        )


def test_a_fitted_row_is_recognised_also_an_empty_one():
    network, fitted, _, _, _ = problem()
    fitted = fitted.clone()
    fitted[5] = 0
    neighborhood = nearest_candidates(fitted, M)
    indices, distances = nearest_fitted(fitted, fitted, M)
    assert_close(
        InductiveNetwork(network, fitted, neighborhood).embed(fitted, indices, distances),
        network.embed(fitted, neighborhood),
    )


def test_an_empty_row_where_none_was_fitted_is_finite():
    network, fitted, neighborhood, _, _ = problem()
    empty = torch.zeros(2, 6, dtype=torch.float64)
    indices, distances = nearest_fitted(fitted, empty, M)
    assert torch.equal(indices[0], indices[1])  # ties fall the same way whatever else is asked
    assert torch.isfinite(InductiveNetwork(network, fitted, neighborhood).embed(empty, indices, distances)).all()


@pytest.mark.parametrize("metric", ["chord", "euclidean", "sqeuclidean"])
def test_nearest_fitted_against_all_pairs(metric):
    generator = np.random.default_rng(0)
    x, queries = generator.normal(size=(30, 4)) + 100, generator.normal(size=(5, 4)) + 100
    if metric == "chord":
        a, b = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (queries, x))
    else:
        a, b = queries, x
    pairs = np.linalg.norm(a[:, None] - b[None], axis=2)
    pairs = pairs**2 if metric == "sqeuclidean" else pairs
    indices, distances = nearest_fitted(x, queries, 6, metric)
    np.testing.assert_array_equal(indices.numpy(), np.argsort(pairs, axis=1)[:, :6])
    np.testing.assert_allclose(distances.numpy(), np.sort(pairs, axis=1)[:, :6], rtol=1e-6, atol=1e-7)


def test_what_depends_on_the_fitted_rows_is_computed_once(monkeypatch):
    network, fitted, neighborhood, new, (indices, distances) = problem(direction="normalized")
    inductive = InductiveNetwork(network, fitted, neighborhood)
    first = inductive.embed(new, indices, distances)
    monkeypatch.setattr(type(network.convs[0]), "propagate", lambda *arguments: pytest.fail("propagated again"))
    assert_close(inductive.embed(new, indices, distances), first)
