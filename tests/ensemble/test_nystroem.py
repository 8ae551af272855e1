"""Nystroem features against the Gaussian kernel that they approximate."""

import pytest
import torch
from torch.testing import assert_close

from angpn.ensemble.nystroem import GaussianKernel

RIDGE = 40 * 1e-6  # what 40 centres have on the diagonal of their kernel matrix


def gaussian(n, seed=0):
    return torch.randn(n, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_inner_products_of_centers_are_the_gaussian_kernel():
    centers = gaussian(40)
    squares = torch.cdist(centers, centers).square()
    kernel = GaussianKernel.fit(centers, 3.0)
    expected = torch.exp(-squares / (3 * squares.median()))
    assert_close(kernel(centers), expected)
    assert_close(kernel.root @ kernel.root.T, expected + RIDGE * torch.eye(40))
    # K (K + r I)^-1 K differs from K by no more than r.
    features = kernel.features(centers)
    assert_close(features @ features.T, expected, rtol=0, atol=RIDGE)


def test_features_of_another_row_have_its_kernel_with_the_centers():
    centers, rows = gaussian(40), gaussian(7, seed=1)
    kernel = GaussianKernel.fit(centers, 1.0)
    expected = torch.exp(-kernel.rate * torch.cdist(rows, centers).square())
    assert_close(kernel(rows), expected)
    assert_close(kernel.features(rows) @ kernel.root.T, expected)
    assert_close(kernel(rows) @ kernel.whitening, kernel.features(rows))


def test_the_width_is_in_units_of_the_median_squared_distance():
    centers = gaussian(40)
    squares = torch.cdist(centers, centers).square()
    for width in (0.5, 1.0, 3.0):
        assert_close(GaussianKernel.fit(centers, width).rate, 1 / (width * float(squares.median())))


def test_equal_centers_give_finite_features():
    kernel = GaussianKernel.fit(torch.ones(10, 3), 1.0)
    assert torch.isfinite(kernel.features(gaussian(4)[:, :3].float())).all()
    assert torch.isfinite(kernel.whitening).all()


@pytest.mark.parametrize("spread", [1e-7, 1e-9, 1e-12])
def test_centers_that_differ_by_rounding_alone_have_features_too(spread):
    """Squared distances are then rounding, and the matrix made of them has negative eigenvalues."""
    for seed in range(5):
        centers = 1 + spread * gaussian(60, seed=seed)
        kernel = GaussianKernel.fit(centers, 1.0)
        assert torch.isfinite(kernel.features(centers)).all()
        assert kernel.root.diagonal().min() > 0
