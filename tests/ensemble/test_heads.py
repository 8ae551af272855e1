"""Readouts against scikit-learn and numpy."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression
from torch.testing import assert_close

from angpn.ensemble import heads as readout
from angpn.ensemble.heads import (
    Radial,
    Readout,
    fit_linear,
    log_probabilities,
    mean_log_probabilities,
    scale_of,
)


def clouds(n_classes, n=60):
    """Classes that overlap, so that a readout has an optimum well inside."""
    generator = np.random.default_rng(0)
    codes = np.arange(n) % n_classes
    return torch.from_numpy(generator.normal(size=(n, 4)) + np.eye(4)[codes]).float(), codes


def test_inner_products_of_radial_features_are_the_gaussian_kernel():
    centers = torch.randn(40, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    squares = torch.cdist(centers, centers).square()
    found = Radial.around(centers, 3.0)(centers)
    assert_close(found @ found.T, torch.exp(-squares / (3 * squares.median())), rtol=0, atol=1e-4)


def test_radial_features_of_another_row_have_its_kernel_with_the_centers():
    generator = torch.Generator().manual_seed(0)
    centers, rows = (torch.randn(n, 5, generator=generator, dtype=torch.float64) for n in (40, 7))
    radial = Radial.around(centers, 1.0)
    expected = torch.exp(-radial.rate * torch.cdist(rows, centers).square())
    assert_close(radial(rows) @ radial(centers).T, expected, rtol=0, atol=1e-3)


def test_equal_centers_give_finite_features():
    assert torch.isfinite(Radial.around(torch.ones(10, 3), 1.0)(torch.randn(4, 3))).all()


@pytest.mark.parametrize(("n_classes", "weighted"), [(2, True), (3, False)])
def test_a_linear_readout_is_about_scikit_learns(n_classes, weighted):
    inputs, codes = clouds(n_classes)
    weights = np.linspace(0, 3, len(codes)) if weighted else None
    model = LogisticRegression(C=2.0).fit(inputs.numpy(), codes, weights)
    found = log_probabilities(inputs, *fit_linear(inputs, codes, weights, 2.0, n_classes))
    assert_allclose(found.exp(), model.predict_proba(inputs.numpy()), atol=0.01)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_class_without_a_label_is_ruled_out_wherever_it_stands(n_classes):
    inputs, codes = clouds(n_classes)
    places = np.array([0, 2, 4])[:n_classes]
    probabilities = log_probabilities(inputs, *fit_linear(inputs, places[codes], None, 2.0, 6)).exp()
    assert probabilities[:, np.setdiff1d(np.arange(6), places)].max() < 1e-12
    seen = log_probabilities(inputs, *fit_linear(inputs, codes, None, 2.0, n_classes)).exp()
    assert_close(probabilities[:, places], seen)


def test_labels_of_one_class_alone_make_every_row_that_class():
    inputs, codes = clouds(2)
    probabilities = log_probabilities(inputs, *fit_linear(inputs, np.full_like(codes, 1), None, 2.0, 3)).exp()
    assert_close(probabilities, torch.tensor([0.0, 1.0, 0.0]).expand(len(codes), 3))


@pytest.mark.parametrize("is_radial", [False, True])
def test_a_readout_scales_what_it_reads_block_after_block(is_radial, monkeypatch):
    inputs, codes = clouds(3)
    radial = Radial.around(inputs, 1.0) if is_radial else None
    seen = inputs if radial is None else radial(inputs)
    linear = fit_linear(seen, codes, None, 2.0, 3)
    found = Readout(1.5, *linear, radial)
    whole = 1.5 * inputs if radial is None else radial(1.5 * inputs)
    monkeypatch.setattr(readout, "_ROWS_AT_ONCE", 7)
    assert_close(found(inputs), log_probabilities(whole, *linear))


def test_the_scale_brings_rows_to_length_1_on_average():
    inputs, _ = clouds(3)
    assert (scale_of(inputs) * inputs).norm(dim=1).mean() == pytest.approx(1, rel=1e-5)
    assert scale_of(torch.zeros(3, 2)) == 1


def test_the_opinion_of_a_committee_is_the_mean_probability_however_small():
    opinions = [torch.randn(5, 3, generator=torch.Generator().manual_seed(n)).log_softmax(dim=1) for n in range(4)]
    mean = torch.stack([opinion.exp() for opinion in opinions]).mean(dim=0)
    assert_close(mean_log_probabilities(opinions), mean.log())
    tiny = torch.full((1, 2), -500.0)
    assert_close(mean_log_probabilities([tiny, tiny]), tiny)
