"""The compiled search in groups, against every pair."""

import numpy as np
import pytest

from angpn.kernels.grouped_rows import nearest_in_groups


def search(queries, points, groups, probed, count, *, by_product=False):
    """Search points, which are sorted by group, as an index does."""
    n_groups = groups.max() + 1
    origins = np.zeros((n_groups, points.shape[1]), np.float32)
    if not by_product:
        for group in range(n_groups):
            origins[group] = points[groups == group].mean(axis=0)
    held = np.ascontiguousarray(points - origins[groups], np.float32)
    halves = np.zeros(len(points), np.float32) if by_product else np.square(held).sum(axis=1) / 2
    bounds = np.concatenate([[0], np.cumsum(np.bincount(groups))])
    numbers, scores = np.empty((len(queries), count), np.int32), np.empty((len(queries), count), np.float32)
    arguments = queries, probed, origins, bounds, held, halves, np.arange(len(points), dtype=np.int32), numbers, scores
    nearest_in_groups(0, len(queries), *arguments)
    return numbers, scores


@pytest.fixture
def problem():
    """More rows in a group, and more queries of it, than are multiplied at once."""
    random = np.random.default_rng(0)
    points = random.normal(size=(1500, 6)).astype(np.float32)
    groups = np.sort(np.r_[random.integers(0, 3, 300), np.full(1200, 1)])
    return random.normal(size=(400, 6)).astype(np.float32), points, groups, random


@pytest.mark.parametrize("offset", [0, 1e4])
def test_the_nearest_rows_of_the_probed_groups_are_found_also_far_from_zero(problem, offset):
    queries, points, groups, random = problem
    queries, points = queries + np.float32(offset), points + np.float32(offset)
    probed = np.array([random.permutation(3)[:2] for _ in queries], np.int32)
    found, _ = search(queries, points, groups, probed, 7)
    squared = np.square(queries[:, None].astype(np.float64) - points).sum(axis=2)
    squared[(groups[None, None, :] != probed[:, :, None]).all(axis=1)] = np.inf
    true = np.sort(squared, axis=1)[:, :7]
    # The origin, and with it each difference, is rounded to float32.
    slack = 1e-4 + 4 * np.finfo(np.float32).eps * offset * np.sqrt(true.max())
    assert np.abs(np.take_along_axis(squared, found.astype(np.int64), axis=1) - true).max() <= slack


def test_by_products_alone_long_rows_come_first(problem):
    queries, points, groups, _ = problem
    probed = np.tile(np.arange(3, dtype=np.int32), (len(queries), 1))
    _, scores = search(queries, points, groups, probed, 3, by_product=True)
    halves = np.square(queries).sum(axis=1, keepdims=True) / 2
    true = -np.sort(-(queries @ points.T), axis=1)[:, :3]
    np.testing.assert_allclose(scores + halves, true, atol=1e-4)


def test_places_without_a_row_are_marked(problem):
    queries, points, groups, _ = problem
    probed = np.zeros((len(queries), 1), np.int32)
    n_members = int((groups == 0).sum())
    found, _ = search(queries, points, groups, probed, n_members + 2)
    assert (found[:, -2:] == -1).all()
    assert (np.sort(found[:, :-2], axis=1) == np.arange(n_members)).all()


def test_of_equal_rows_the_first_is_found():
    points = np.ones((300, 4), np.float32)
    found, _ = search(points[:2], points, np.zeros(300, np.int64), np.zeros((2, 1), np.int32), 3)
    assert (found == [0, 1, 2]).all()
