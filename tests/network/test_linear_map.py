"""The compiled linear map against torch's own product, and on several threads."""

import pytest
import torch
from torch.testing import assert_close

from angpn.network.linear_map import linear_map

SHAPES = [(5000, 256, 50), (1203, 700, 11), (500, 50, 50), (3001, 50, 2), (26, 8, 5), (7, 3, 4), (1, 1, 1), (0, 4, 3)]


def value_and_gradients(run, shape, dtype):
    n, d, c = shape
    generator = torch.Generator().manual_seed(0)
    rows, weight, cotangent = (
        torch.randn(*size, generator=generator, dtype=dtype) for size in ((n, d), (c, d), (n, c))
    )
    rows, weight = rows.requires_grad_(), weight.requires_grad_()
    out = run(rows, weight)
    out.backward(cotangent)
    return out.detach(), rows.grad, weight.grad


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rectify", [False, True])
def test_agrees_with_torch(shape, rectify):
    ours = value_and_gradients(lambda rows, weight: linear_map(rows, weight, rectify=rectify), shape, torch.float64)
    sign = torch.relu if rectify else torch.nn.Identity()
    theirs = value_and_gradients(lambda rows, weight: sign(rows @ weight.t()), shape, torch.float64)
    for a, b in zip(ours, theirs, strict=True):
        assert_close(a, b, rtol=0, atol=1e-11)


@pytest.mark.parametrize("shape", SHAPES)
def test_is_the_same_to_the_bit_on_any_number_of_threads(shape):
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 5):
            torch.set_num_threads(threads)
            results.append(value_and_gradients(linear_map, shape, torch.float32))
    finally:
        torch.set_num_threads(before)
    for result in results[1:]:
        for a, b in zip(result, results[0], strict=True):
            assert torch.equal(a, b)


def test_what_is_not_finite_stays_so():
    rows = torch.tensor([[float("nan"), 1.0], [float("inf"), 1.0], [-1.0, 0.0]])
    assert_close(
        linear_map(rows, torch.eye(2), rectify=True), torch.relu(rows @ torch.eye(2)), equal_nan=True, rtol=0, atol=0
    )


def test_takes_weights_and_rows_that_are_not_contiguous():
    generator = torch.Generator().manual_seed(0)
    rows, weight = torch.randn(40, 9, generator=generator).t(), torch.randn(40, 6, generator=generator).t()
    assert_close(linear_map(rows, weight), rows @ weight.t())


def test_only_what_is_asked_for_has_a_gradient():
    rows, weight = torch.ones(30, 4), torch.ones(3, 4, requires_grad=True)
    linear_map(rows, weight).sum().backward()
    assert_close(weight.grad, torch.full((3, 4), 30.0))
    assert rows.grad is None
