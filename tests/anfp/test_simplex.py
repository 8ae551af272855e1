import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch.testing import assert_close

from angpn import project_simplex
from problems import quadratic_program


def bisected(z: torch.Tensor) -> torch.Tensor:
    """The projection by bisection on the threshold."""
    low, high = z.amax(dim=1, keepdim=True) - 1, z.amax(dim=1, keepdim=True)
    for _ in range(200):
        middle = (low + high) / 2
        above = (z - middle).clamp(min=0).sum(dim=1, keepdim=True) > 1
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return (z - low).clamp(min=0)


def test_projection_solves_the_quadratic_program():
    z = torch.randn(6, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for row, projected in zip(z, project_simplex(z), strict=True):
        # |s - z|^2 = -2 <z, s> + |s|^2 + constant
        assert_close(projected, torch.as_tensor(quadratic_program(-2 * row.numpy(), 1.0)), atol=1e-6, rtol=0)


@given(arrays("float64", (3, 7), elements=st.floats(-1e3, 1e3)))
def test_projection_equals_bisection(z):
    z = torch.as_tensor(z)
    assert_close(project_simplex(z), bisected(z), atol=1e-10, rtol=0)


@settings(max_examples=60)
@given(arrays("float32", (2, 30), elements=st.floats(-(2.0**27), 2.0**27, width=32)))
def test_rows_lie_on_the_simplex_in_float32(z):
    projected = project_simplex(torch.as_tensor(z))
    assert (projected >= 0).all()
    assert_close(projected.sum(dim=1), torch.ones(2), atol=1e-6, rtol=0)


@pytest.mark.parametrize("scale", [1.0, 1e8])
@pytest.mark.parametrize("width", [1, 2, 5000])
def test_large_scores_and_wide_supports_keep_the_row_sum(scale, width):
    generator = torch.Generator().manual_seed(1)
    spread = scale + 1e-4 * torch.rand(50, width, generator=generator)  # a threshold with thousands above it
    for z in (spread, scale * torch.rand(50, width, generator=generator), torch.full((50, width), scale)):
        assert_close(project_simplex(z).sum(dim=1), torch.ones(50), atol=1e-6, rtol=0)


def test_ties_share_equally():
    assert_close(project_simplex(torch.full((1, 4), 1e8)), torch.full((1, 4), 0.25))


def test_entries_ruled_out_get_nothing_and_disturb_nothing():
    z = torch.tensor([[0.4, -torch.inf, 0.2]], requires_grad=True)
    projected = project_simplex(z)
    assert_close(projected, torch.tensor([[0.6, 0.0, 0.4]]))
    (projected * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert_close(z.grad, torch.tensor([[-1.0, 0.0, 1.0]]))


def test_a_point_of_the_simplex_is_its_own_projection():
    z = torch.rand(5, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    z = z / z.sum(dim=1, keepdim=True)
    assert_close(project_simplex(z), z)


def test_gradient():
    z = torch.randn(4, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64, requires_grad=True)
    assert (bisected(z.detach()) - z.detach() != 0).all()
    assert torch.autograd.gradcheck(project_simplex, z)


def test_wrong_shape():
    with pytest.raises(ValueError, match=r"z must have 2 dimensions, got shape \(3,\); reshape it first"):
        project_simplex(torch.ones(3))


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_row_without_a_finite_largest_entry(bad):
    with pytest.raises(ValueError, match=f"each row needs a finite largest entry .* got {bad} in row 1; look for NaN"):
        project_simplex(torch.tensor([[0.0, 1.0], [0.0, bad]]))
    with pytest.raises(ValueError, match="finite largest entry .* got -inf in row 0"):
        project_simplex(torch.full((1, 3), -torch.inf))
    with pytest.raises(ValueError, match="z must have at least 1 column, got 0"):
        project_simplex(torch.ones(3, 0))
