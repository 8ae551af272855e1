"""The inductive rule, against the graph in which the new row is a node like any other."""

import numpy as np
import pytest
import scipy.sparse
import torch
from torch.testing import assert_close

from angpn.anfp.new_rows import as_matrix, degree_scale, new_row_affinities, new_row_weights
from angpn.anfp.sparse import adjacency_matrix

INDICES = torch.tensor([[0, 2, 3], [4, 1, 0]])
DISTANCES = torch.tensor([[0.1, 0.2, 0.3], [0.5, 0.5, 0.6]], dtype=torch.float64)


@pytest.mark.parametrize("direction", ["symmetric", "normalized"])
def test_fitted_rows_choose_a_new_row_as_much_as_it_chooses_them(direction):
    graph = scipy.sparse.random_array((5, 5), density=0.5, rng=np.random.default_rng(0), format="csr")
    options = {"n_neighbors": 2, "beta": 0.0, "gamma": torch.tensor(0.1), "rule": "simplex"}
    chosen = new_row_weights(INDICES, DISTANCES, None, **options)
    scale = degree_scale(graph) if direction == "normalized" else None
    found = as_matrix(new_row_weights(INDICES, DISTANCES, None, **options, degree_scale=scale), INDICES, 5)
    row = as_matrix(chosen, INDICES, 5)[[0]]
    # One new row: it chooses them and they choose it, which leaves their degrees among themselves as they are.
    together = scipy.sparse.block_array([[graph, row.T], [row, None]], format="csr")
    symmetric, _ = adjacency_matrix(together, "symmetric")
    expected = symmetric.toarray()[5, :5]
    if direction == "normalized":
        degree = np.asarray(graph.sum(axis=1) + graph.sum(axis=0))
        expected = 2 * expected / np.sqrt(2 * degree)  # of the new row it is 2
    assert_close(torch.from_numpy(found.toarray()[0]), torch.from_numpy(expected))


def test_a_fitted_row_without_edges_keeps_its_scale():
    assert_close(degree_scale(scipy.sparse.csr_array((2, 2))), torch.ones(2, dtype=torch.float64))


@pytest.mark.parametrize("normalize", [False, True])
def test_affinities_of_blocks_are_those_of_all(normalize):
    generator = torch.Generator().manual_seed(0)
    rows, fitted = (torch.randn(n, 4, generator=generator, dtype=torch.float64) for n in (2, 5))
    whole = new_row_affinities(rows, fitted, INDICES, normalize=normalize)
    expected = rows @ fitted.T
    if normalize:
        expected = torch.nn.functional.normalize(rows) @ torch.nn.functional.normalize(fitted).T
    assert_close(whole, expected.gather(1, INDICES))
    assert_close(new_row_affinities(rows, fitted, INDICES, normalize=normalize, block_numbers=1), whole)
    assert new_row_affinities(rows[:0], fitted, INDICES[:0]).shape == (0, 3)
    if not normalize:
        sparse = (scipy.sparse.csr_array(part.numpy()) for part in (rows, fitted))
        assert_close(new_row_affinities(*sparse, INDICES), whole)
