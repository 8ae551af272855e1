import pytest
import torch
from torch.testing import assert_close

from angpn.network import sampled_product as module
from angpn.network.sampled_product import sampled_product


def factors(p):
    generator = torch.Generator().manual_seed(0)
    left = torch.randn(7, p, generator=generator, dtype=torch.float64, requires_grad=True)
    right = torch.randn(9, p, generator=generator, dtype=torch.float64, requires_grad=True)
    # With an entry twice, a row and a column without any, and in no order.
    rows, columns = torch.tensor([5, 0, 0, 3, 5, 6, 0]), torch.tensor([1, 8, 2, 2, 1, 0, 7])
    return left, right, rows, columns


@pytest.mark.parametrize("p", [1, 5, 70])  # 70 columns are summed by a compiled loop
def test_entries_and_gradients_are_those_of_the_whole_product(p, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK_NUMBERS", 3 * p)  # several blocks
    left, right, rows, columns = factors(p)
    weights = torch.arange(1.0, 8.0, dtype=torch.float64)
    found = sampled_product(left, right, rows, columns)
    expected = (left @ right.T)[rows, columns]
    assert_close(found, expected)
    gradients = torch.autograd.grad(found @ weights, (left, right))
    for gradient, whole in zip(gradients, torch.autograd.grad(expected @ weights, (left, right)), strict=True):
        assert_close(gradient, whole)


def test_gradient_by_differences():
    left, right, rows, columns = factors(3)
    assert torch.autograd.gradcheck(lambda a, b: sampled_product(a, b, rows, columns), (left, right))
