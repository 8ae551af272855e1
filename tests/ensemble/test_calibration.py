"""Probabilities that held-out labels bear out."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from angpn.ensemble.calibration import Calibration, best_temperature, softened


def calibrated_by(*held):
    return Calibration.by(*held)[0]


def drawn(n, prior=(0.0, 0.0, 0.0), seed=0):
    """Log-probabilities of three classes, and labels that were drawn by them."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, 3, generator=generator) + torch.tensor(prior)
    truth = logits.softmax(dim=1).multinomial(1, generator=generator).squeeze(1)
    return logits.log_softmax(dim=1), truth.numpy()


def likelihood(probabilities, truth):
    return float(probabilities[torch.arange(len(truth)), truth].log().mean())


@pytest.mark.parametrize("temperature", [0.4, 3.0])
def test_the_temperature_undoes_a_known_softening_or_sharpening(temperature):
    opinions, truth = drawn(5000)
    found, reached = best_temperature((temperature * opinions).log_softmax(dim=1), truth, None)
    assert found == pytest.approx(temperature, rel=0.1)
    assert reached == pytest.approx(likelihood(opinions.exp(), truth), abs=0.002)


def test_doubt_softens_and_keeps_opinions_that_are_never_wrong_from_certainty():
    opinions, truth = drawn(500)
    temperatures = [best_temperature(opinions, truth, None, doubt)[0] for doubt in (0.0, 0.1, 0.3)]
    assert temperatures == sorted(temperatures)
    assert temperatures[2] > 1.2 * temperatures[0]
    right = torch.tensor([[0.7, 0.2, 0.1]]).log()
    probabilities = [calibrated_by(right.repeat(n, 1), np.zeros(n, dtype=np.int64), None)(right) for n in (3, 100)]
    assert 0.4 < probabilities[0][0, 0] < probabilities[1][0, 0] < 0.999


def test_weights_count_like_repetitions():
    opinions, truth = drawn(60, prior=(0.0, 0.0, 2.0))
    opinions = (opinions - torch.tensor([0.0, 0.0, 1.5])).log_softmax(dim=1)
    times = np.arange(60) % 4
    repeated = opinions.repeat_interleave(torch.from_numpy(times), dim=0), np.repeat(truth, times)
    assert best_temperature(opinions, truth, times) == pytest.approx(best_temperature(*repeated, None), rel=1e-3)
    shift = calibrated_by(opinions, truth, times.astype(np.float64)).shift
    assert_close(shift, calibrated_by(*repeated, None).shift, rtol=0.01, atol=0.01)
    assert (shift - calibrated_by(opinions, truth, None).shift).abs().max() > 0.05


def test_a_class_that_is_said_too_seldom_is_raised():
    opinions, truth = drawn(2000)
    modest = (opinions - torch.tensor([0.0, 0.0, 2.0])).log_softmax(dim=1)
    calibration = calibrated_by(modest, truth, None)
    assert calibration.shift[2] > calibration.shift[:2].max() + 1
    assert modest.exp()[:, 2].mean() < np.mean(truth == 2) - 0.1
    assert float(calibration(modest)[:, 2].mean()) == pytest.approx(np.mean(truth == 2), abs=0.02)


def test_few_labels_shift_less_than_many():
    opinions, truth = drawn(12)
    modest = (opinions - torch.tensor([0.0, 0.0, 2.0])).log_softmax(dim=1)
    few, many = (calibrated_by(modest.repeat(n, 1), np.tile(truth, n), None).shift for n in (1, 50))
    assert 0 < few[2] - few[:2].mean() < 0.8 * (many[2] - many[:2].mean())


def test_other_labels_are_more_likely_after_calibration():
    seen, new = (drawn(400, seed=seed) for seed in (0, 1))
    distorted = [(3 * opinions - torch.tensor([2.0, 0.0, 0.0])).log_softmax(dim=1) for opinions, _ in (seen, new)]
    calibration = calibrated_by(distorted[0], seen[1], None)
    reached = likelihood(calibration(distorted[1]), new[1])
    assert reached > likelihood(distorted[1].exp(), new[1]) + 0.2
    assert reached == pytest.approx(likelihood(new[0].exp(), new[1]), abs=0.03)


def test_probabilities_sum_to_1_whatever_was_ruled_out_or_held_out():
    opinions = torch.tensor([[0.0, -1.0, -50.0], [-50.0, 0.0, -50.0]]).log_softmax(dim=1)
    for truth in ([0, 1], [2, 2]):
        probabilities = calibrated_by(opinions, np.array(truth), None)(opinions)
        assert_close(probabilities.sum(dim=1), torch.ones(2))


def test_without_held_out_labels_opinions_are_sharpened_and_no_class_is_preferred():
    probabilities = torch.tensor([[0.6, 0.3, 0.1], [1 / 3, 1 / 3, 1 / 3]])
    found = Calibration.unknown(3)(probabilities.log())
    assert found[0, 0] > 0.6
    assert_close(found[1], probabilities[1])
    assert_close(found.sum(dim=1), torch.ones(2))


def test_what_is_told_is_a_little_softer_than_what_was_learnt_by():
    opinions = torch.randn(20, 3, generator=torch.Generator().manual_seed(0)).log_softmax(dim=1)
    calibration = Calibration(0.7, torch.tensor([0.1, -0.2, 0.0]))
    learnt, told = calibration(opinions), calibration.softened()(opinions)
    assert_close(softened(learnt), told)
    assert torch.equal(learnt.argmax(dim=1), told.argmax(dim=1))
    assert (told.max(dim=1).values < learnt.max(dim=1).values).all()
