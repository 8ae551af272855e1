"""A temperature for each row, by its entropy: what held-out labels say of it, and what it may not change."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from angpn.ensemble.adaptive_temperature import AdaptiveTemperature, entropy
from angpn.ensemble.config import EnsembleConfig

CONFIG = EnsembleConfig()


def distorted(n, power, seed=0):
    """Probabilities whose inverse temperature is wrong by the entropy, and labels by the true ones."""
    generator = torch.Generator().manual_seed(seed)
    true = (3 * torch.randn(n, 4, generator=generator)).softmax(dim=1)
    truth = true.multinomial(1, generator=generator).squeeze(1).numpy()
    inverse = 1 + power * (entropy(true) - entropy(true).mean())
    return (true.log() * inverse.unsqueeze(1)).softmax(dim=1), truth


def log_likelihood(probabilities, truth):
    return float(probabilities[torch.arange(len(truth)), truth].log().mean())


def objective(slope, probabilities, truth, weights, penalty):
    """What the slope is the best of, with smoothed labels."""
    logs, entropies = probabilities.double().log(), entropy(probabilities).double()
    weights = torch.from_numpy(weights)
    differences = entropies - (weights @ entropies) / weights.sum()
    found = ((1 + slope * differences).unsqueeze(1) * logs).log_softmax(dim=1)
    smoothing = 1 / (1 + float(weights.sum()))
    targets = (1 - smoothing) * torch.eye(4).double()[truth] + smoothing / 4
    return float(weights @ (targets * found).sum(dim=1)) - penalty / 2 * slope**2


def test_the_entropy_is_a_share_of_the_largest():
    probabilities = torch.tensor([[0.25] * 4, [1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0]])
    assert_close(entropy(probabilities), torch.tensor([1.0, 0.0, 0.5]))
    assert entropy(torch.ones(2, 1)).tolist() == [0, 0]
    for n_classes in range(2, 200):  # never above, as a file would not be read that says so
        assert entropy(torch.full((1, n_classes), 1 / n_classes)).max() <= 1


@pytest.mark.parametrize("power", [-0.8, 0.6])
def test_new_labels_are_likelier_where_confidence_was_wrong_by_the_entropy(power):
    (probabilities, truth), (new, new_truth) = (distorted(4000, power, seed) for seed in (0, 1))
    config = replace(CONFIG, optimism=1.0)
    found = AdaptiveTemperature.fit(probabilities, truth, None, config)
    assert np.sign(found.slope) == -np.sign(power)
    assert log_likelihood(found(new), new_truth) > log_likelihood(new, new_truth) + 0.001


def test_well_calibrated_predictions_stay_as_they_are():
    probabilities, truth = distorted(4000, 0.0)
    assert abs(AdaptiveTemperature.fit(probabilities, truth, None, CONFIG).slope) < 0.15


@pytest.mark.parametrize("penalty", [0.5, 3.0])
def test_the_slope_is_the_most_likely_one_under_its_penalty(penalty):
    probabilities, truth = distorted(200, -0.6)
    weights = np.linspace(0, 2, 200)
    found = AdaptiveTemperature.fit(probabilities, truth, weights, replace(CONFIG, slope_penalty=penalty)).slope
    best = objective(found, probabilities, truth, weights, penalty)
    for other in (found - 0.01, found + 0.01, 0.0):
        assert objective(other, probabilities, truth, weights, penalty) < best


def test_few_labels_change_less_than_many():
    probabilities, truth = distorted(300, -0.6)
    few, many = (AdaptiveTemperature.fit(probabilities[:n], truth[:n], None, CONFIG) for n in (30, 300))
    assert abs(few.slope) < 0.8 * abs(many.slope)


def test_no_row_is_sharpened_or_softened_by_more_than_five_times():
    unsure, sure = torch.tensor([0.4, 0.35, 0.25]).repeat(500, 1), torch.tensor([0.98, 0.01, 0.01]).repeat(500, 1)
    config = replace(CONFIG, slope_penalty=0.0, optimism=1.0)
    for wrong in (unsure, sure):  # the others are always right
        truth = torch.cat([torch.full((500,), 2 if part is wrong else 0) for part in (unsure, sure)]).numpy()
        probabilities = torch.cat([unsure, sure])
        found = AdaptiveTemperature.fit(probabilities, truth, None, config)
        inverse = 1 + found.slope * (torch.tensor([0.0, 1.0]) - found.mean_entropy)
        assert inverse.min() >= 1 / 5 - 1e-6
        assert inverse.max() <= 5 + 1e-6
        assert min(inverse.min() * 5, 5 / inverse.max()) == pytest.approx(1, abs=1e-6)
        assert found(probabilities).isfinite().all()


def test_no_prediction_changes_and_probabilities_sum_to_1():
    probabilities = (4 * torch.randn(500, 4, generator=torch.Generator().manual_seed(0))).softmax(dim=1)
    probabilities[0] = torch.tensor([1.0, 0.0, 0.0, 0.0])
    for slope in (-0.5, 0.0, 0.9):
        found = AdaptiveTemperature(1.05, slope, 0.4)(probabilities)
        assert torch.equal(found.argmax(dim=1), probabilities.argmax(dim=1))
        assert_close(found.sum(dim=1), torch.ones(500))


def test_the_order_of_the_rows_does_not_change_the_slope():
    probabilities, truth = distorted(500, -0.5)
    expected = AdaptiveTemperature.fit(probabilities, truth, None, CONFIG)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(500)
        found = AdaptiveTemperature.fit(probabilities[order], truth[order], None, CONFIG)
        assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("row", [[1.0, 0.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]])
def test_rows_that_are_all_equally_sure_say_nothing(row):
    found = AdaptiveTemperature.fit(torch.tensor(row).repeat(20, 1), np.zeros(20, dtype=np.int64), None, CONFIG)
    assert found.slope == pytest.approx(0, abs=1e-9)
    assert_close(found(torch.tensor([row])), torch.tensor([row]))
