"""The temperature against a general method for functions of one variable."""

import numpy as np
import pytest
import scipy.optimize

from angpn.kernels.temperature import minimize_over_inverse

BOUNDS = np.exp(-2.5), np.exp(2.5)


def problem(n=40, n_classes=4, sharpness=2.0, right=0.7, seed=0):
    """Scores, at most zero, weights that sum to 1, and the mean score of the labels."""
    generator = np.random.default_rng(seed)
    truth = generator.integers(n_classes, size=n)
    leaning = np.where(generator.random(n) < right, truth, generator.integers(n_classes, size=n))
    scores = sharpness * (np.eye(n_classes)[leaning] + 0.5 * generator.normal(size=(n, n_classes)))
    scores -= scores.max(axis=1, keepdims=True)
    weights = generator.uniform(0.5, 2, size=n)
    weights /= weights.sum()
    return scores, weights, float(weights @ scores[np.arange(n), truth])


def loss(inverse, scores, weights, target):
    return float(weights @ scipy.special.logsumexp(inverse * scores, axis=1)) - inverse * target


def slope(inverse, scores, weights, target):
    return float(weights @ (scipy.special.softmax(inverse * scores, axis=1) * scores).sum(axis=1)) - target


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("sharpness", [0.3, 2.0, 10.0])
@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_minimum_that_a_general_method_finds(n_classes, sharpness, seed):
    given = problem(n_classes=n_classes, sharpness=sharpness, right=0.9, seed=seed)
    found, value = minimize_over_inverse(*given, *BOUNDS)
    expected = scipy.optimize.minimize_scalar(
        loss, bounds=BOUNDS, args=given, method="bounded", options={"xatol": 1e-10, "maxiter": 1000}
    )
    # A minimum by values alone is known to no more than the root of their rounding.
    assert found == pytest.approx(expected.x, rel=1e-6)
    assert value <= expected.fun + 1e-14
    assert value == pytest.approx(loss(found, *given), rel=1e-12)
    assert BOUNDS[0] < found < BOUNDS[1]
    assert found == pytest.approx(scipy.optimize.brentq(slope, *BOUNDS, args=given, xtol=1e-14), rel=1e-11)


@pytest.mark.parametrize(("right", "bound"), [(1.0, BOUNDS[1]), (0.0, BOUNDS[0])])
def test_labels_that_are_all_likeliest_or_all_least_likely_end_at_a_bound(right, bound):
    scores, weights, _ = problem()
    places = scores.argmax(axis=1) if right else scores.argmin(axis=1)
    target = float(weights @ scores[np.arange(40), places])
    found, value = minimize_over_inverse(scores, weights, target, *BOUNDS)
    assert found == pytest.approx(bound, rel=1e-12)
    assert value == pytest.approx(loss(bound, scores, weights, target), rel=1e-9)


def test_where_the_bounds_are_1_it_is_1():
    given = problem(sharpness=10.0)
    assert minimize_over_inverse(*given, 1.0, 1.0) == (1.0, pytest.approx(loss(1.0, *given)))


def test_scores_that_tell_nothing_leave_the_loss_of_guessing():
    found, value = minimize_over_inverse(np.zeros((5, 4)), np.full(5, 0.2), 0.0, *BOUNDS)
    assert BOUNDS[0] <= found <= BOUNDS[1]
    assert value == pytest.approx(np.log(4))


@pytest.mark.parametrize("size", [1e3, 1e6])
def test_scores_far_below_zero_do_not_overflow(size):
    scores = np.array([[0.0, -size], [-size, 0.0], [0.0, -size]])
    target = -size / 3  # one of the three is wrong
    found, value = minimize_over_inverse(scores, np.full(3, 1 / 3), target, *BOUNDS)
    assert found == pytest.approx(BOUNDS[0], rel=1e-12)  # it would be log(2) / size
    assert value == pytest.approx(BOUNDS[0] * size / 3, rel=1e-9)


def test_a_weight_is_so_many_rows():
    scores, _, _ = problem(n=12)
    counts, truth = np.arange(12) % 3, np.arange(12) % 4
    of_truth = scores[np.arange(12), truth]
    weights = counts / counts.sum()
    repeated = np.repeat(scores, counts, axis=0)
    one = minimize_over_inverse(scores, weights, float(weights @ of_truth), *BOUNDS)
    other = minimize_over_inverse(
        repeated, np.full(len(repeated), 1 / len(repeated)), float(np.repeat(of_truth, counts).mean()), *BOUNDS
    )
    assert one == pytest.approx(other, rel=1e-10)
