"""Nystroem features against the Gaussian kernel that they approximate."""

import torch
from torch.testing import assert_close

from angpn.ensemble.nystroem import Nystroem

LEFT_OUT = 1e-6  # directions of the kernel matrix below this part of its largest eigenvalue


def gaussian(n, seed=0):
    return torch.randn(n, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_inner_products_of_centers_are_the_gaussian_kernel():
    centers = gaussian(40)
    squares = torch.cdist(centers, centers).square()
    found = Nystroem.fit(centers, 3.0)(centers)
    # What is left out is no more than LEFT_OUT times the largest eigenvalue, which is no more than the trace, 40.
    assert_close(found @ found.T, torch.exp(-squares / (3 * squares.median())), rtol=0, atol=40 * LEFT_OUT)


def test_features_of_another_row_have_its_kernel_with_the_centers():
    centers, rows = gaussian(40), gaussian(7, seed=1)
    kernel = Nystroem.fit(centers, 1.0)
    expected = torch.exp(-kernel.rate * torch.cdist(rows, centers).square())
    assert_close(kernel.kernel(rows), expected)
    # k(x, x) is 1, so that of the kernel with x no more than the root of what is left out is missing.
    assert_close(kernel(rows) @ kernel(centers).T, expected, rtol=0, atol=(40 * LEFT_OUT) ** 0.5)


def test_the_width_is_in_units_of_the_median_squared_distance():
    centers = gaussian(40)
    squares = torch.cdist(centers, centers).square()
    for width in (0.5, 1.0, 3.0):
        assert_close(Nystroem.fit(centers, width).rate, 1 / (width * float(squares.median())))


def test_equal_centers_give_finite_features():
    assert torch.isfinite(Nystroem.fit(torch.ones(10, 3), 1.0)(gaussian(4)[:, :3].float())).all()
