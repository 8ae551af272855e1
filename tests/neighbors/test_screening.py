"""Screening finds what all distances in float64 tell, or says that it cannot."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from angpn import nearest_candidates
from angpn.neighbors.distance_blocks import DistanceBlocks
from angpn.neighbors.exact import nearest_fitted
from angpn.neighbors.screening import Screening


def cloud(n=700, d=20, seed=0):
    generator = np.random.default_rng(seed)
    return generator.normal(size=(n, d)) + 3 * generator.normal(size=(4, d))[generator.integers(0, 4, n)]


def true_distances(x, metric, queries=None):
    """From differences, in float64."""
    queries = x if queries is None else queries
    if metric == "chord":
        x, queries = unit(x), unit(queries)
    found = np.sqrt(np.stack([((query - x) ** 2).sum(axis=1) for query in queries]))
    if metric == "chord":
        empty = (queries == 0).all(axis=1)[:, None] | (x == 0).all(axis=1)
        found[empty] = np.sqrt(2)
    return found


def unit(x):
    lengths = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(lengths > 0, lengths, 1)


def with_empty_rows(x):
    x = x.copy()
    x[::97] = 0
    return x


PROBLEMS = {
    "cloud": cloud(),
    "one_column": cloud(d=1),
    "wide": cloud(d=1000),
    "duplicates": np.tile(cloud(n=70), (10, 1)),
    "some_duplicates": np.vstack([cloud(n=690), cloud(n=10)]),
    "integers": np.round(cloud(d=3)),
    "binary": (cloud(d=12) > 0).astype(float),
    "huge": cloud() * 1e250,
    "tiny": cloud() * 1e-250,
    "offset": cloud() + 1e5,
    "nearly_constant": 1 + 1e-6 * cloud(),
    "an_outlier": np.vstack([cloud(n=699), np.full((1, 20), 1e9)]),
    "many_scales": cloud() * np.exp(np.random.default_rng(3).normal(0, 12, (700, 1))),
    "empty_rows": with_empty_rows(cloud()),
    "constant": np.ones((700, 4)),
    "few_rows": cloud(n=6),
}


@pytest.mark.parametrize("metric", ["chord", "euclidean"])
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("count", [1, 40, None])
def test_the_nearest_rows_are_found(name, metric, count):
    x = PROBLEMS[name]
    n = len(x)
    count = n - 1 if count is None else min(count, n - 1)
    found = nearest_candidates(x, count, metric)
    scale = 2.0 ** -round(np.log2(np.abs(x).max()))
    true = true_distances(x * scale, metric)
    np.fill_diagonal(true, np.inf)
    distances = found.distances.numpy() * (1 if metric == "chord" else scale)
    # The squares of which a distance is the difference are those of the centred rows.
    size = 1 if metric == "chord" else np.abs(x * scale - (x * scale).mean(axis=0)).max() * x.shape[1] ** 0.5
    assert_allclose(distances, np.sort(true, axis=1)[:, :count], rtol=1e-7, atol=3e-7 * size)
    assert_allclose(distances, np.take_along_axis(true, found.indices.numpy(), axis=1), rtol=1e-7, atol=3e-7 * size)
    if metric == "euclidean" or name != "empty_rows":
        same = np.stack([(x[i] == x[listed]).all(axis=1) for i, listed in enumerate(found.indices.numpy())])
        assert (distances[same] == 0).all()


@pytest.mark.parametrize("metric", ["chord", "euclidean", "sqeuclidean"])
@pytest.mark.parametrize("name", [name for name in PROBLEMS if name not in ("huge", "tiny")])
def test_it_is_what_all_distances_in_float64_tell(monkeypatch, name, metric):
    x = PROBLEMS[name]
    count = min(30, len(x) - 1)
    found = nearest_candidates(x, count, metric), nearest_fitted(x, x[:50], count, metric)
    monkeypatch.setattr(DistanceBlocks, "is_dense", False)
    expected = nearest_candidates(x, count, metric), nearest_fitted(x, x[:50], count, metric)
    size = float((torch.as_tensor(x) - torch.as_tensor(x).mean(dim=0)).square().sum(dim=1).max())
    for (indices, distances), (true_indices, true) in zip(
        [(found[0].indices, found[0].distances), found[1]],
        [(expected[0].indices, expected[0].distances), expected[1]],
        strict=True,
    ):
        squared = 1 if metric == "sqeuclidean" else 2
        assert_allclose(distances**squared, true**squared, rtol=1e-9, atol=1e-12 * (2 if metric == "chord" else size))
        # The same rows, but where rounding decides: in lists that no other row nearly ties with.
        gaps = true.diff(dim=1, prepend=torch.full((len(true), 1), -1.0)) > 1e-6 * (1 + true)
        clear = gaps & torch.cat([gaps[:, 1:], torch.zeros(len(true), 1, dtype=torch.bool)], dim=1)
        assert_array_equal(indices[clear], true_indices[clear])


@pytest.mark.parametrize("metric", ["chord", "euclidean"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_screening_is_enough_for_ordinary_rows(metric, dtype):
    rows = DistanceBlocks(cloud().astype(dtype), metric)
    done = []
    assert Screening(rows).of_rows(rows, 40, done.append).done.all()
    assert sum(done) == 700


def test_rows_that_float32_cannot_tell_apart_are_not_done():
    rows = DistanceBlocks(np.vstack([cloud(n=699), np.full((1, 20), 1e9)]), "euclidean")
    assert not Screening(rows).of_rows(rows, 40, lambda count: None).done[:699].any()


def test_rows_that_tie_for_the_last_place_are_not_done():
    x = np.tile(cloud(n=140), (5, 1))
    for count, expected in ((3, False), (4, True), (5, False)):
        rows = DistanceBlocks(x, "euclidean")
        assert (Screening(rows).of_rows(rows, count, lambda count: None).done == expected).all()


@pytest.mark.parametrize("metric", ["chord", "euclidean"])
def test_queries_far_longer_than_the_rows(metric):
    x, queries = cloud(), cloud(n=30, seed=1) * np.logspace(0, 100, 30)[:, None]
    _, distances = nearest_fitted(x, queries, 10, metric)
    assert_allclose(distances, np.sort(true_distances(x, metric, queries), axis=1)[:, :10], rtol=1e-6)


def test_a_query_does_not_depend_on_the_others():
    x, queries = cloud(n=1500), cloud(n=1300, seed=1)
    indices, distances = nearest_fitted(x, queries, 20)
    for some in (slice(0, 1), slice(500, 540)):
        few = nearest_fitted(x, queries[some], 20)
        assert_array_equal(few[0], indices[some])
        assert_allclose(few[1], distances[some], rtol=1e-12)


def test_products_of_low_precision_are_noticed(monkeypatch):
    x = cloud(n=1200, d=64)
    expected, exact = nearest_candidates(x, 30), torch.mm
    # As torch may compute them after set_float32_matmul_precision("medium").
    monkeypatch.setattr(torch, "mm", lambda a, b, out: exact(a.bfloat16().float(), b.bfloat16().float(), out=out))
    found = nearest_candidates(x, 30)
    assert_array_equal(found.indices, expected.indices)
    assert_allclose(found.distances, expected.distances, rtol=1e-12)


def test_a_distance_that_is_not_a_number_is_never_among_the_nearest():
    distances = torch.arange(20.0).expand(3, 20).clone()
    distances[:, :3] = torch.nan
    indices, found = nearest_fitted(np.empty((20, 0)), distances, 4, "precomputed")
    assert_array_equal(indices, np.tile([3, 4, 5, 6], (3, 1)))
    assert_array_equal(found, np.tile([3.0, 4, 5, 6], (3, 1)))
