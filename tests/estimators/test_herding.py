"""Coverage by greedy choice, beside every choice written out."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from angpn.estimators.herding import herd, kernel_width


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)


def coverage(rows, chosen, weights, width, strengths):
    squared = ((rows[:, None] - rows[chosen]) ** 2).sum(axis=2)
    kernel = strengths[chosen] * np.exp(-squared / (2 * width**2))
    return float(weights @ kernel.max(axis=1)) / weights.sum()


def greedy(rows, candidates, labelled, weights, width, n, strengths):
    """Choose by trying every row at every step."""
    chosen = []
    for _ in range(n):
        found = {
            row: coverage(rows, [*labelled, *chosen, row], weights, width, strengths)
            for row in candidates
            if row not in chosen
        }
        chosen.append(max(found, key=found.get))
    return chosen


@pytest.mark.parametrize("labelled", [[], [3, 40]])
@pytest.mark.parametrize("doubted", [False, True])
def test_each_choice_is_the_one_that_covers_most(rows, labelled, doubted):
    weights = np.random.default_rng(1).random(60)
    strengths = np.random.default_rng(2).random(60) if doubted else np.ones(60)
    candidates = np.setdiff1d(np.arange(60), labelled)
    given = (strengths[candidates], strengths[labelled]) if doubted else None
    found = herd(rows, weights, rows[candidates], rows[labelled], 0.8, 8, given)
    expected = greedy(rows, candidates, labelled, weights, 0.8, 8, strengths)
    assert_array_equal(candidates[found.chosen], expected)
    before = coverage(rows, labelled, weights, 0.8, strengths) if labelled else 0.0
    total = coverage(rows, [*labelled, *expected], weights, 0.8, strengths)
    assert_allclose(found.covered.sum(), total - before, rtol=1e-4)
    assert (np.diff(found.covered) <= 1e-6).all()


def test_the_greedy_choice_is_near_the_best_of_all():
    rows = np.random.default_rng(2).normal(size=(14, 2)).astype(np.float32)
    weights = np.ones(14)
    found = herd(rows, weights, rows, rows[:0], 1.0, 3).chosen
    best = max(coverage(rows, list(some), weights, 1.0, weights) for some in itertools.combinations(range(14), 3))
    assert coverage(rows, list(found), weights, 1.0, weights) >= (1 - 1 / np.e) * best


def test_rows_of_no_weight_attract_nobody(rows):
    weights = np.where(rows[:, 0] > 0.5, 1.0, 0.0)
    found = herd(rows, weights, rows, rows[:0], 0.3, 3).chosen
    assert (rows[found, 0] > 0.2).all()


def test_all_candidates_come_in_the_end(rows):
    assert_array_equal(np.sort(herd(rows, np.ones(60), rows[:9], rows[:0], 1.0, 100).chosen), np.arange(9))
    assert len(herd(rows, np.zeros(60), rows[:9], rows[:0], 1.0, 4).chosen) == 4


def test_the_width_reaches_the_share_of_rows_asked_for():
    line = np.linspace(0, 1, 401, dtype=np.float32)[:, None]
    assert kernel_width(line, 0.1, 0) == pytest.approx(0.05, rel=0.1)
    assert kernel_width(line, 0.0001, 0) == pytest.approx(1 / 400, rel=0.1)  # one row beside itself
    assert kernel_width(np.ones((5, 2), np.float32), 0.5, 0) == 1.0
