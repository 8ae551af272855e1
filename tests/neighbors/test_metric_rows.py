"""Distances that the recall of an index is measured by."""

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

from angpn.neighbors.exact import nearest_candidates
from angpn.neighbors.metric_rows import MetricRows, exact_nearest_distances

COUNT, CHOSEN = 7, np.array([3, 90, 199])


@pytest.mark.parametrize("metric", ["chord", "euclidean", "sqeuclidean"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_nearest_are_those_of_the_exact_search(metric, dtype, sparse):
    x = np.random.default_rng(0).normal(size=(200, 9)).astype(dtype) * (5, *[1] * 8)
    x[50] = x[90]  # at distance 0, which products alone would not tell
    x[7] = 0  # for the chord at the same distance from all
    x = x.astype(dtype)
    expected = nearest_candidates(x.astype(np.float64), COUNT, metric).distances.numpy()[CHOSEN]
    rows = MetricRows(scipy.sparse.csr_array(x) if sparse else x, metric)
    found = exact_nearest_distances(rows, CHOSEN, COUNT, block_rows=64)
    # A squared distance is rounded by some units of the squared lengths, and 0 by the root of that.
    scale = 1.0 if metric == "chord" else float(np.square(x).sum(axis=1).max())
    error = 20 * scale * np.finfo(np.float64 if sparse else dtype).eps
    assert_allclose(found, expected, rtol=1e-5, atol=error if metric == "sqeuclidean" else error**0.5)


def test_only_members_are_compared():
    x = np.random.default_rng(1).normal(size=(60, 4))
    members = np.arange(0, 60, 2)
    found = exact_nearest_distances(MetricRows(x, "euclidean"), np.array([4, 5]), 3, members)
    apart = np.linalg.norm(x[[4, 5], None] - x[members], axis=2)
    apart[0, 2] = np.inf
    assert_allclose(found, np.sort(apart, axis=1)[:, :3])
