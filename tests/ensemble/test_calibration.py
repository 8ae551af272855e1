"""Calibrated probabilities: what held-out labels say of log-probabilities, and how exactly."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch.testing import assert_close

from angpn.ensemble.calibration import Calibration, fit_temperature
from angpn.ensemble.config import EnsembleConfig

CONFIG = EnsembleConfig()


def calibration_of(log_proba, truth, weights=None, config=CONFIG):
    return Calibration.fit(log_proba, truth, weights, config)[0]


def drawn(n, prior=(0.0, 0.0, 0.0), seed=0):
    """Log-probabilities of three classes, and labels that were drawn by them."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, 3, generator=generator) + torch.tensor(prior)
    truth = logits.softmax(dim=1).multinomial(1, generator=generator).squeeze(1)
    return logits.log_softmax(dim=1), truth.numpy()


def log_likelihood(probabilities, truth):
    return float(probabilities[torch.arange(len(truth)), truth].log().mean())


# The temperature


@pytest.mark.parametrize("temperature", [0.4, 3.0])
def test_the_temperature_undoes_a_known_softening_or_sharpening(temperature):
    log_proba, truth = drawn(5000)
    found, reached = fit_temperature((temperature * log_proba).log_softmax(dim=1), truth, None, CONFIG)
    assert found == pytest.approx(temperature, rel=0.1)
    assert reached == pytest.approx(log_likelihood(log_proba.exp(), truth), abs=0.002)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_temperature_is_that_of_a_fine_grid_search(weighted, smoothing):
    log_proba, truth = drawn(50)
    weights = np.linspace(0, 2, 50) if weighted else None
    found, reached = fit_temperature(log_proba, truth, weights, CONFIG, smoothing)
    shares = (
        torch.full((50,), 1 / 50, dtype=torch.float64) if weights is None else torch.from_numpy(weights / weights.sum())
    )
    targets = (1 - smoothing) * torch.eye(3).double()[truth] + smoothing / 3

    def likelihood(temperature):
        scaled = (log_proba.double() / temperature).log_softmax(dim=1)
        return float(shares @ (targets * scaled).sum(dim=1))

    grid = np.exp(np.linspace(-2.5, 2.5, 20_001))
    values = np.array([likelihood(temperature) for temperature in grid])
    assert found == pytest.approx(grid[values.argmax()], rel=5 / 20_000)
    assert values.max() - 1e-12 <= reached <= values.max() + 1e-7  # the best of the grid is next to the best of all
    assert reached == pytest.approx(likelihood(found), abs=1e-12)


def test_temperatures_are_bounded():
    right = torch.tensor([[0.7, 0.2, 0.1]]).log().repeat(5, 1)
    for truth, bound in ((np.zeros(5, dtype=np.int64), -2.5), (np.full(5, 2), 2.5)):  # always right, always wrong
        assert fit_temperature(right, truth, None, CONFIG)[0] == pytest.approx(np.exp(bound), rel=1e-12)
    fixed = replace(CONFIG, max_log_temperature=0.0)
    assert fit_temperature(*drawn(20), None, fixed)[0] == 1
    equal = torch.zeros(5, 3).log_softmax(dim=1)  # any temperature will do
    temperature, reached = fit_temperature(equal, np.arange(5) % 3, None, CONFIG)
    assert np.exp(-2.5) < temperature * (1 + 1e-12)
    assert temperature < np.exp(2.5) * (1 + 1e-12)
    assert reached == pytest.approx(-np.log(3))


def test_the_order_of_the_rows_does_not_change_the_temperature():
    log_proba, truth = drawn(500)
    weights = np.linspace(0, 2, 500)
    expected = fit_temperature(log_proba, truth, weights, CONFIG, 0.01)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(500)
        found = fit_temperature(log_proba[order], truth[order], weights[order], CONFIG, 0.01)
        assert found == pytest.approx(expected, rel=1e-9, abs=0)
        assert found[1] == pytest.approx(expected[1], rel=1e-12, abs=0)  # it is flat there


def test_smoothing_softens():
    log_proba, truth = drawn(500)
    temperatures = [fit_temperature(log_proba, truth, None, CONFIG, smoothing)[0] for smoothing in (0.0, 0.1, 0.3)]
    assert temperatures == sorted(temperatures)
    assert temperatures[2] > 1.2 * temperatures[0]


# The whole calibration


def test_predictions_that_are_never_wrong_are_kept_from_certainty_while_they_are_few():
    right = torch.tensor([[0.7, 0.2, 0.1]]).log()
    probabilities = [calibration_of(right.repeat(n, 1), np.zeros(n, dtype=np.int64))(right) for n in (3, 100)]
    assert 0.4 < probabilities[0][0, 0] < probabilities[1][0, 0] < 0.999


def test_weights_count_like_repetitions():
    log_proba, truth = drawn(60, prior=(0.0, 0.0, 2.0))
    log_proba = (log_proba - torch.tensor([0.0, 0.0, 1.5])).log_softmax(dim=1)
    times = np.arange(60) % 4
    repeated = log_proba.repeat_interleave(torch.from_numpy(times), dim=0), np.repeat(truth, times)
    weights = times.astype(np.float64)
    expected = fit_temperature(*repeated, None, CONFIG)
    assert fit_temperature(log_proba, truth, weights, CONFIG) == pytest.approx(expected, rel=1e-7)
    found, expected = calibration_of(log_proba, truth, weights), calibration_of(*repeated)
    assert found.temperature == pytest.approx(expected.temperature, rel=1e-5)
    assert_close(found.shift, expected.shift, rtol=1e-5, atol=1e-5)
    assert (found.shift - calibration_of(log_proba, truth).shift).abs().max() > 0.05


def test_the_shift_is_the_most_likely_one_under_its_penalty():
    log_proba, truth = drawn(200)
    modest = (log_proba - torch.tensor([0.0, 0.0, 2.0])).log_softmax(dim=1)
    config = replace(CONFIG, max_log_temperature=0.0, shift_penalty=4.0, labels_of_shift=100.0)
    calibration = calibration_of(modest, truth, config=config)
    # Where the gradient is zero, predicted and held-out labels of each class differ by the penalty times its shift.
    differences = np.bincount(truth, minlength=3) - calibration(modest).double().sum(dim=0).numpy()
    assert_allclose(differences, 4 * (1 + (100 / 200) ** 2) * calibration.shift, atol=1e-3)
    assert calibration.temperature == 1


def test_the_order_of_the_rows_does_not_change_the_calibration():
    log_proba, truth = drawn(500, prior=(1.0, 0.0, 0.0))
    expected = calibration_of(log_proba, truth)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(500)
        found = calibration_of(log_proba[order], truth[order])
        assert found.temperature == pytest.approx(expected.temperature, rel=1e-6)
        assert_close(found.shift, expected.shift, rtol=1e-6, atol=1e-6)


def test_a_class_that_is_predicted_too_seldom_is_raised():
    log_proba, truth = drawn(2000)
    modest = (log_proba - torch.tensor([0.0, 0.0, 2.0])).log_softmax(dim=1)
    calibration = calibration_of(modest, truth)
    assert calibration.shift[2] > calibration.shift[:2].max() + 1
    assert modest.exp()[:, 2].mean() < np.mean(truth == 2) - 0.1
    assert float(calibration(modest)[:, 2].mean()) == pytest.approx(np.mean(truth == 2), abs=0.02)


def test_few_labels_shift_less_than_many():
    log_proba, truth = drawn(12)
    modest = (log_proba - torch.tensor([0.0, 0.0, 2.0])).log_softmax(dim=1)
    few, many = (calibration_of(modest.repeat(n, 1), np.tile(truth, n)).shift for n in (1, 50))
    assert 0 < few[2] - few[:2].mean() < 0.8 * (many[2] - many[:2].mean())


def test_a_class_without_held_out_labels_is_not_shifted():
    log_proba, truth = drawn(100)
    assert calibration_of(log_proba, np.minimum(truth, 1)).shift[2] == 0


def test_other_labels_are_more_likely_after_calibration():
    held_out, new = (drawn(400, seed=seed) for seed in (0, 1))
    distorted = [(3 * log_proba - torch.tensor([2.0, 0.0, 0.0])).log_softmax(dim=1) for log_proba, _ in (held_out, new)]
    reached = log_likelihood(calibration_of(distorted[0], held_out[1])(distorted[1]), new[1])
    assert reached > log_likelihood(distorted[1].exp(), new[1]) + 0.2
    assert reached == pytest.approx(log_likelihood(new[0].exp(), new[1]), abs=0.03)


def test_the_log_likelihood_is_that_of_the_calibrated_probabilities():
    log_proba, truth = drawn(400)
    calibration, reached = Calibration.fit(log_proba, truth, None, CONFIG)
    probabilities, smoothing = calibration(log_proba).double(), 1 / 401
    expected = (1 - smoothing) * log_likelihood(probabilities, truth) + smoothing * float(probabilities.log().mean())
    assert reached == pytest.approx(expected, abs=1e-5)


def test_probabilities_sum_to_1_whatever_was_ruled_out_or_held_out():
    log_proba = torch.tensor([[0.0, -1.0, -50.0], [-50.0, 0.0, -50.0]]).log_softmax(dim=1)
    for truth in ([0, 1], [2, 2]):
        probabilities = calibration_of(log_proba, np.array(truth))(log_proba)
        assert_close(probabilities.sum(dim=1), torch.ones(2))


def test_without_held_out_labels_predictions_are_sharpened_and_no_class_is_preferred():
    probabilities = torch.tensor([[0.6, 0.3, 0.1], [1 / 3, 1 / 3, 1 / 3]])
    found = Calibration.without_labels(3, CONFIG)(probabilities.log())
    assert found[0, 0] > 0.6
    assert_close(found[1], probabilities[1])
    assert_close(found.sum(dim=1), torch.ones(2))
