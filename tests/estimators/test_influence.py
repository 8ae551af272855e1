"""Which rows a prediction came from, beside products of dense matrices."""

import numpy as np
import pytest
import scipy.sparse

from angpn.estimators.influence import strongest_influences


def matrix(seed, n=12):
    generator = np.random.default_rng(seed)
    dense = generator.random((n, n)) * (generator.random((n, n)) < 0.6)
    return scipy.sparse.csr_array(dense / dense.sum(axis=1, keepdims=True))


A, B = matrix(0), matrix(1)


@pytest.mark.parametrize(
    "paths",
    [[[A]], [[], [A, A]], [[A, A, B], [A, A], [B], [A, A]], [[A, B], [B, A], [A, B]]],
    ids=["one hop", "none and two", "beginnings in common", "the same twice"],
)
def test_shares_are_the_mean_over_the_paths(paths):
    n = A.shape[0]
    rows = np.array([3, 0, 7])
    expected = np.mean([np.linalg.multi_dot([np.eye(n), np.eye(n), *(m.toarray() for m in path)]) for path in paths], 0)
    found, weights = strongest_influences(rows, n - 1, paths, n)
    for row, others, shares in zip(rows, found, weights, strict=True):
        known = others >= 0
        assert (np.diff(shares[known]) <= 0).all()
        assert row not in others
        # After two exact hops shares below a thousandth are left out.
        np.testing.assert_allclose(shares[known], expected[row, others[known]], atol=1e-3 * n)
        assert (shares[~known] == 0).all()
        left_out = np.setdiff1d(np.arange(n), [row, *others[known]])
        assert (expected[row, left_out] < 1e-3 * n).all()
