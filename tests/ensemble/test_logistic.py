"""Logistic regression against scikit-learn's, and how little rounding may change of it."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from torch.testing import assert_close

from angpn.ensemble.config import EnsembleConfig
from angpn.ensemble.logistic import BAND, RULED_OUT, Regression
from angpn.ensemble.logistic import fit_logistic as fit_side_by_side
from angpn.ensemble.principal_features import PrincipalFeatures
from angpn.kernels.logistic_regression import exponentiate, mean_losses, minimize_mean_losses

CONFIG = EnsembleConfig()
DEFAULTS = {"tol": CONFIG.head_tol, "max_iter": CONFIG.head_max_iter}
TIGHT = {"tol": 1e-18, "max_iter": 2000}
EPS = float(np.finfo(np.float32).eps)


def clouds(n_classes=3, n=80, p=6, seed=0):
    """Classes that overlap, so that the minimum is well inside; columns of unlike scale, so that it takes a while."""
    generator = np.random.default_rng(seed)
    codes = np.arange(n) % n_classes
    inputs = generator.normal(size=(n, p)) * np.geomspace(0.3, 3, p) + np.eye(n_classes, p)[codes]
    return principal(torch.from_numpy(inputs)), codes


def principal(inputs):
    return PrincipalFeatures.fit(inputs, None)(inputs)


def variances(inputs):
    return inputs.var(dim=0, correction=0)


def fit_logistic(inputs, codes, weights, C, n_classes, **solver):
    """One regression on all rows."""
    regression = Regression(np.arange(len(codes)), codes, weights, C)
    return fit_side_by_side(inputs, variances(inputs), [regression], n_classes, **solver)[0]


def probabilities(inputs, weight, bias):
    return torch.softmax(inputs @ weight.to(inputs) + bias.to(inputs), dim=1)


class Loss:
    """The objective and its gradient, of all classes or of the difference of two, in float64."""

    def __init__(self, inputs, codes, weights, C):
        n_classes = int(codes.max()) + 1
        self.inputs, self.truth = np.asarray(inputs, np.float64), np.eye(n_classes)[codes]
        weights = np.ones(len(codes)) if weights is None else weights
        self.shares, self.penalty = weights / weights.sum(), 1 / (C * weights.sum())
        self.shape = 1 if n_classes == 2 else n_classes, self.inputs.shape[1] + 1

    def __call__(self, point):
        point = point.reshape(self.shape)
        scores = np.zeros_like(self.truth)
        scores[:, -self.shape[0] :] = self.inputs @ point[:, :-1].T + point[:, -1]
        log_proba = scores - scipy.special.logsumexp(scores, axis=1, keepdims=True)
        value = -(self.shares @ (log_proba * self.truth).sum(axis=1)) + (self.penalty / 2 * point[:, :-1] ** 2).sum()
        residuals = (self.shares[:, None] * (np.exp(log_proba) - self.truth))[:, -self.shape[0] :]
        gradient = np.hstack([residuals.T @ self.inputs + self.penalty * point[:, :-1], residuals.sum(axis=0)[:, None]])
        return value, gradient.ravel()


def solve(inputs, codes, C, tol, max_iter):
    """What the compiled solver returns: weights and biases, iterations, evaluations, excess."""
    loss = Loss(inputs, codes, None, C)
    inverse = 1 / (np.append(variances(inputs), 1.0) / loss.truth.shape[1] + loss.penalty)
    problem = codes, loss.shares, np.full(inputs.shape[1], loss.penalty), np.zeros(loss.shape), inverse
    found = minimize_mean_losses(inputs.numpy(), *(np.array([part]) for part in problem), tol, BAND, max_iter)
    return [part[0] for part in found]


class Path(NamedTuple):
    """The iterates of L-BFGS, the start among them."""

    points: list[np.ndarray]
    excess: np.ndarray  # what the loss at each is above its minimum, by the estimate that decides where it stops
    evaluations: list[int]  # how many it took to get there

    def stop(self, tol):
        """The first iterate within the tolerance."""
        return int(np.argmax(self.excess <= tol))


def path(inputs, codes, C, max_iter):
    """Without a tolerance to stop at, the last iterate is the result."""
    found = [solve(inputs, codes, C, 1e-300, number) for number in range(max_iter + 1)]
    return Path([each[0].ravel() for each in found], np.array([each[3] for each in found]), [each[2] for each in found])


def flat(weight, bias):
    return torch.cat([weight.T, bias[:, None]], dim=1).flatten().numpy()


# The minimum


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_with_a_tight_tolerance_it_is_scikit_learns(n_classes, weighted, C):
    inputs, codes = clouds(n_classes)
    weights = np.linspace(0, 3, len(codes)) if weighted else None
    weight, bias = fit_logistic(inputs, codes, weights, C, n_classes, **TIGHT)
    model = LogisticRegression(C=C, tol=1e-10, max_iter=2000).fit(inputs.numpy(), codes, weights)
    coefficients, intercepts = weight.T.numpy(), bias.numpy()
    if n_classes == 2:  # scikit-learn keeps the difference of the two
        coefficients, intercepts = np.diff(coefficients, axis=0), np.diff(intercepts)
    # The result is float32, and a loss within 1e-18 of its minimum leaves no more than this with these penalties. What
    # is added to all biases alike changes nothing, and starts at zero in both.
    assert_allclose(coefficients, model.coef_, rtol=1e-5, atol=1e-5)
    assert_allclose(intercepts, model.intercept_, rtol=1e-5, atol=1e-5)
    assert_allclose(probabilities(inputs, weight, bias), model.predict_proba(inputs.numpy()), atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("whitening", [0.25, 0.5])
def test_whitening_divides_columns_by_a_power_of_their_variance(whitening, n_classes):
    inputs, codes = clouds(n_classes)
    regression = Regression(np.arange(len(codes)), codes, None, 2.0, whitening)
    found = fit_side_by_side(inputs, variances(inputs), [regression], n_classes, **TIGHT)[0]
    divided = inputs / variances(inputs) ** whitening
    divided /= divided.square().sum(dim=1).mean().sqrt()  # of length 1, as the features of a head
    if whitening == 0.5:
        assert_close(variances(divided), torch.full((6,), 1 / 6, dtype=torch.float64), rtol=1e-6, atol=0)
    expected = fit_logistic(divided, codes, None, 2.0, n_classes, **TIGHT)
    assert_close(probabilities(inputs, *found), probabilities(divided, *expected), rtol=1e-5, atol=1e-5)
    plain = fit_logistic(inputs, codes, None, 2.0, n_classes, **TIGHT)
    assert (probabilities(inputs, *found) - probabilities(inputs, *plain)).abs().max() > 0.01


def test_the_default_tolerance_is_kept():
    for seed in range(5):
        inputs, codes = clouds(seed=seed)
        loss = Loss(inputs, codes, None, 10.0)
        found = loss(flat(*fit_logistic(inputs, codes, None, 10.0, 3, **DEFAULTS)).astype(np.float64))
        least = loss(flat(*fit_logistic(inputs, codes, None, 10.0, 3, **TIGHT)).astype(np.float64))
        # The loss is convex, so that the mean of some iterates is no worse than they are on average.
        assert -1e-6 < found[0] - least[0] < 3 * DEFAULTS["tol"]


@pytest.mark.parametrize("n", [80, 2500])  # these are more than are taken at once
@pytest.mark.parametrize("n_classes", [2, 3])
def test_values_and_gradients_are_those_of_the_objectives(n_classes, n):
    inputs, codes = clouds(n_classes, n)
    losses = [Loss(inputs, codes, np.linspace(0, 3, n), 2.0), Loss(inputs, codes[::-1], None, 0.5)]
    points = np.random.default_rng(1).normal(size=(3, *losses[0].shape))
    gradients, values = np.full_like(points, np.nan), np.full(3, np.nan)
    chosen = np.array([2, 0])  # of three problems the second is done
    of_all = (codes, codes, codes[::-1]), (losses[0].shares,) * 2 + (losses[1].shares,)
    penalties = np.random.default_rng(2).uniform(0, 3, (3, inputs.shape[1]))  # each column has its own
    losses[0].penalty, losses[1].penalty = penalties[0], penalties[2]
    mean_losses(inputs.numpy(), *map(np.array, of_all), penalties, points, chosen, values, gradients)
    for place, loss in zip(chosen, losses[::-1], strict=True):
        value, gradient = loss(points[place])
        assert_allclose(values[place], value, rtol=1e-12)
        assert_allclose(gradients[place].ravel(), gradient, rtol=1e-10, atol=1e-12)
    assert np.isnan(values[1])
    assert np.isnan(gradients[1]).all()
    at = points[0].ravel()
    assert_allclose(losses[0](at)[1], scipy.optimize.approx_fprime(at, lambda x: losses[0](x)[0], 1e-6), atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exponentials_are_right_to_the_last_digits(dtype):
    x = -np.concatenate([[0.0, 1e-30, 86.9], np.geomspace(1e-8, 86, 5000)]).astype(dtype)
    found = x.copy()
    exponentiate(found, np.empty(len(x), np.int32))
    assert_allclose(found, np.exp(x.astype(np.float64)), rtol=3 * np.finfo(dtype).eps)
    far = np.array([-100.0, -1000.0, -np.inf], dtype)
    exponentiate(far, np.empty(3, np.int32))
    assert (far < 2e-38).all()


def test_few_rows_of_many_columns_are_solved_in_their_span():
    inputs, codes = clouds(n=30, p=40)
    assert inputs.shape == (30, 29)  # of the centred rows
    weight, bias = fit_logistic(inputs, codes, None, 2.0, 3, **TIGHT)
    model = LogisticRegression(C=2.0, tol=1e-10, max_iter=2000).fit(inputs.numpy(), codes)
    assert_allclose(weight.T, model.coef_, rtol=1e-5, atol=1e-5)
    assert_allclose(bias, model.intercept_, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("inputs", [torch.zeros(6, 2), torch.zeros(6, 9), torch.ones(6, 2), 1e-20 * torch.eye(6)])
def test_rows_that_say_nothing_leave_the_hessian_an_inverse(inputs):
    weight, bias = fit_logistic(inputs, np.array([0, 0, 0, 1, 1, 2]), None, 1e3, 3, **DEFAULTS)
    assert_allclose(probabilities(inputs, weight, bias), np.tile([1 / 2, 1 / 3, 1 / 6], (6, 1)), atol=0.05)


def test_a_problem_of_unlike_scales_takes_few_iterations():
    """The preconditioner makes all directions alike."""
    inputs, codes = clouds(n=300, p=30)
    stretched = inputs / inputs.std(dim=0) * torch.from_numpy(np.geomspace(1e-2, 1e2, 30))
    found, iterations, *_ = solve(stretched, codes, 10.0, **DEFAULTS)
    least, loss = solve(stretched, codes, 10.0, **TIGHT)[0], Loss(stretched, codes, None, 10.0)
    assert loss(found)[0] - loss(least)[0] < 3 * DEFAULTS["tol"]
    assert iterations < 20


def test_weights_count_like_repetitions():
    inputs, codes = clouds()
    times = np.arange(len(codes)) % 4
    repeated = inputs.repeat_interleave(torch.from_numpy(times), dim=0), np.repeat(codes, times)
    found = fit_logistic(inputs, codes, times.astype(np.float64), 2.0, 3, **TIGHT)
    for part, expected in zip(found, fit_logistic(*repeated, None, 2.0, 3, **TIGHT), strict=True):
        assert_close(part, expected, rtol=1e-5, atol=1e-5)


# Several at once


def test_regressions_side_by_side_are_each_as_if_alone():
    inputs, codes = clouds(n=200)
    some, others = np.arange(0, 200, 2), np.arange(50, 150)
    regressions = [
        Regression(np.arange(200), codes, None, 10.0),
        Regression(some, codes[some], np.linspace(0.5, 2, 100), 0.1),
        Regression(others, codes[others], None, 1000.0),
        Regression(some, codes[some], None, 10.0, whitening=0.25),
        Regression(some, codes[some] % 2, None, 10.0),  # of two classes only
        Regression(others, np.full(100, 2), None, 10.0),
    ]
    found = fit_side_by_side(inputs, variances(inputs), regressions, 3, **DEFAULTS)
    for each, (weight, bias) in zip(regressions, found, strict=True):
        alone = fit_side_by_side(
            inputs[each.rows], variances(inputs), [each._replace(rows=np.arange(len(each.rows)))], 3, **DEFAULTS
        )
        assert_close(weight, alone[0][0], rtol=1e-6, atol=1e-6)
        assert_close(bias, alone[0][1], rtol=1e-6, atol=1e-6)


# Classes without labels


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_class_without_labels_is_ruled_out_wherever_it_stands(n_classes):
    inputs, codes = clouds(n_classes)
    places = np.array([0, 2, 4])[:n_classes]
    found = probabilities(inputs, *fit_logistic(inputs, places[codes], None, 2.0, 6, **DEFAULTS))
    assert found[:, np.setdiff1d(np.arange(6), places)].max() < 1e-12
    alone = probabilities(inputs, *fit_logistic(inputs, codes, None, 2.0, n_classes, **DEFAULTS))
    assert_close(found[:, places], alone)


def test_labels_of_one_class_alone_make_every_row_that_class():
    inputs, codes = clouds(2)
    weight, bias = fit_logistic(inputs, np.full_like(codes, 1), None, 2.0, 3, **DEFAULTS)
    assert_array_equal(weight, np.zeros((6, 3)))
    assert_array_equal(bias, [RULED_OUT, 0, RULED_OUT])
    assert_close(probabilities(inputs, weight, bias), torch.tensor([[0.0, 1.0, 0.0]]).double().expand(len(codes), 3))


def test_a_row_of_weight_zero_counts_for_nothing():
    inputs, codes = clouds()
    weights = np.where(np.arange(len(codes)) == 4, 0.0, 1.0)
    wrong = np.where(weights == 0, (codes + 1) % 3, codes)
    for part, expected in zip(
        *(fit_logistic(inputs, each, weights, 2.0, 3, **DEFAULTS) for each in (codes, wrong)), strict=True
    ):
        assert_close(part, expected, rtol=1e-6, atol=1e-6)


# Where it stops


@pytest.mark.parametrize("seed", range(4))
def test_the_result_is_continuous_in_the_tolerance_where_the_number_of_iterations_jumps(seed):
    """At every iterate that L-BFGS may stop at: with a little less than 1.5 times its excess it goes on."""
    inputs, codes = clouds(seed=seed)
    found, change = path(inputs, codes, 100.0, 50), 1e-6
    firsts = [number for number in range(1, 20) if found.excess[number] < found.excess[:number].min()]
    rises = [number for number in firsts if found.excess[number + 1] > found.excess[number]]
    assert len(firsts) > 8
    assert rises  # the harder case: it goes on for several iterations
    for number in firsts:
        tols = BAND * found.excess[number] * np.array([1 - change, 1 + change])
        less, more = (found.stop(tol / BAND) for tol in tols)
        assert less > more == number
        jump = np.abs(found.points[less] - found.points[more]).max()
        one, other = (flat(*fit_logistic(inputs, codes, None, 100.0, 3, tol=tol, max_iter=100)) for tol in tols)
        # The share of each iterate of the band moves by change / log(1.5), within 5 change; the result is float32.
        start = found.stop(BAND * tols[1])
        length = sum(np.abs(after - before).max() for before, after in pairwise(found.points[start : less + 1]))
        bound = 5 * change * (less + 1 - start) * length
        assert jump > 100 * bound
        assert_allclose(one, other, rtol=0, atol=bound + 4 * EPS * np.abs(one).max())


@pytest.mark.parametrize("seed", [0, 2, 3, 4])  # with these there is such a place on the way
def test_the_result_is_continuous_in_the_data_where_the_number_of_iterations_jumps(seed):
    """Inputs are stretched until L-BFGS stops at another iterate; the two sides of where that happens agree."""
    inputs, codes = clouds(seed=seed)

    def stretched(stretch):
        found = path(stretch * inputs, codes, 10.0, 40)
        stop = found.stop(DEFAULTS["tol"] / BAND)
        return stop, found.evaluations[: stop + 1], found.points[stop]

    def boundary(low, high):
        while high - low > 1e-9:
            middle = (low + high) / 2
            low, high = (middle, high) if stretched(middle)[0] == stretched(low)[0] else (low, middle)
        return low, high

    def is_same_path(low, high):
        """No line search takes more evaluations on one side, which would be a jump of L-BFGS itself."""
        return all(a == b for a, b in zip(stretched(low)[1], stretched(high)[1], strict=False))

    steps = pairwise(np.linspace(1, 1.5, 201))
    boundaries = (boundary(*step) for step in steps if stretched(step[0])[0] != stretched(step[1])[0])
    low, high = next(found for found in boundaries if is_same_path(*found))
    one, other = (flat(*fit_logistic(stretch * inputs, codes, None, 10.0, 3, **DEFAULTS)) for stretch in (low, high))
    assert np.abs(stretched(low)[2] - stretched(high)[2]).max() > 1e-4 * np.abs(one).max()
    # The inputs differ by 1e-9, which some twenty iterations may multiply by up to 1.5 each; the result is float32.
    grown = 1e-9 * 1.5 ** max(stretched(low)[0], stretched(high)[0])
    assert_allclose(one, other, rtol=0, atol=(grown + 4 * EPS) * np.abs(one).max())


@pytest.mark.parametrize(("n", "p", "n_classes", "C"), [(60, 5, 3, 100.0), (180, 64, 10, 10.0), (900, 480, 10, 100.0)])
def test_the_order_of_the_rows_hardly_matters_in_float32(n, p, n_classes, C):
    generator = np.random.default_rng(0)
    codes = np.arange(n) % n_classes
    inputs = generator.normal(size=(n, p)) + np.eye(n_classes, p)[codes]
    inputs = principal(torch.from_numpy(inputs / np.linalg.norm(inputs, axis=1).mean()).float())
    weight, bias = fit_logistic(inputs, codes, None, C, n_classes, **DEFAULTS)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(n)
        again = fit_logistic(inputs[order], codes[order], None, C, n_classes, **DEFAULTS)
        # Rounding of sums over the rows, a few units, and some ten iterations that each may multiply it by up to 1.5.
        rounding = 4 * 1.5 ** solve(inputs, codes, C, **DEFAULTS)[1] * EPS
        assert_allclose(again[0], weight, rtol=0, atol=rounding * float(weight.abs().max()))
        assert_allclose(probabilities(inputs, *again), probabilities(inputs, weight, bias), rtol=0, atol=rounding)


def test_a_start_within_the_tolerance_is_the_result():
    inputs, codes = clouds()
    start = solve(inputs, codes, 10.0, 1e-300, 0)[3]
    for tol in (1.0001 * BAND * start, 1.8 * start, 10 * start):
        weight, bias = fit_logistic(inputs, codes, None, 10.0, 3, tol=tol, max_iter=100)
        assert not weight.any()
        assert not bias.any()
    near, _ = fit_logistic(inputs, codes, None, 10.0, 3, tol=BAND * start * (1 - 1e-6), max_iter=100)
    assert 0 < near.abs().max() < 1e-4


def test_a_start_at_the_minimum_is_the_result():
    weight, bias = fit_logistic(torch.zeros(6, 2), np.arange(6) % 3, None, 10.0, 3, **DEFAULTS)
    assert not weight.any()
    assert not bias.any()


def test_the_last_iterate_is_the_result_where_iterations_end_first():
    inputs, codes = clouds()
    last = path(inputs, codes, 10.0, 5).points[5]
    assert_allclose(flat(*fit_logistic(inputs, codes, None, 10.0, 3, tol=1e-8, max_iter=5)), last, rtol=1e-6)
