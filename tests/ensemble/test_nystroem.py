"""Nystroem features against the Gaussian kernel that they approximate."""

import pytest
import torch
from torch.testing import assert_close

from angpn.ensemble.nystroem import GaussianKernel

CUT = 40 * 3e-6  # eigenvalues of the kernel of 40 centres up to this have no features


def gaussian(n, seed=0):
    return torch.randn(n, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_inner_products_of_centers_are_the_gaussian_kernel():
    centers = gaussian(40)
    squares = torch.cdist(centers, centers).square()
    kernel = GaussianKernel.fit(centers, 3.0)
    expected = torch.exp(-squares / (3 * squares.median()))
    assert_close(kernel(centers), expected)
    features = kernel(centers) @ kernel.whitening
    assert_close(features @ features.T, expected, rtol=0, atol=CUT)
    assert_close(features.T @ features, torch.diag((features**2).sum(dim=0)), rtol=0, atol=1e-10)  # uncorrelated


def test_features_of_another_row_have_its_kernel_with_the_centers():
    centers, rows = gaussian(40), gaussian(7, seed=1)
    kernel = GaussianKernel.fit(centers, 1.0)
    expected = torch.exp(-kernel.rate * torch.cdist(rows, centers).square())
    assert_close(kernel(rows), expected)
    of_centers = kernel(centers) @ kernel.whitening
    assert_close(kernel(rows) @ kernel.whitening @ of_centers.T, expected, rtol=0, atol=CUT**0.5)


def test_the_width_is_in_units_of_the_median_squared_distance():
    centers = gaussian(40)
    squares = torch.cdist(centers, centers).square()
    for width in (0.5, 1.0, 3.0):
        assert_close(GaussianKernel.fit(centers, width).rate, 1 / (width * float(squares.median())))


def test_equal_centers_have_one_feature():
    kernel = GaussianKernel.fit(torch.ones(10, 3), 1.0)
    assert kernel.whitening.shape == (10, 1)
    assert torch.isfinite(kernel(gaussian(4)[:, :3].float()) @ kernel.whitening).all()


@pytest.mark.parametrize("spread", [1e-7, 1e-9, 1e-12])
def test_centers_that_differ_by_rounding_alone_have_features_too(spread):
    """Squared distances are then rounding, and the matrix made of them has negative eigenvalues."""
    for seed in range(5):
        centers = 1 + spread * gaussian(60, seed=seed)
        kernel = GaussianKernel.fit(centers, 1.0)
        assert kernel.whitening.shape[1] > 0
        assert torch.isfinite(kernel(centers) @ kernel.whitening).all()
