"""The compiled softmax of short rows against torch's."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from angpn.ensemble.softmax import add_softmax_, log_softmax_, softmax

SHAPES = [(1, 2), (700, 1), (700, 3), (5000, 10), (40, 15), (40, 16), (3, 4096), (0, 3)]


def scores_of(shape, dtype=torch.float32):
    return 20 * torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_is_the_softmax_of_each_row(shape, dtype):
    scores = scores_of(shape, dtype)
    expected = torch.softmax(scores.double() / 1.5, dim=1)
    assert_close(softmax(scores, 1.5), expected.to(dtype), rtol=1e-5, atol=1e-7)
    expected = torch.log_softmax(scores.double(), dim=1)
    assert_close(log_softmax_(scores.clone()), expected.to(dtype), rtol=1e-6, atol=1e-5)


def test_the_logarithm_replaces_scores_of_any_number_of_dimensions():
    scores = scores_of((30, 4, 10))
    expected = torch.log_softmax(scores, dim=2)
    assert log_softmax_(scores) is scores
    assert_close(scores, expected, rtol=1e-6, atol=1e-5)


def test_weighted_probabilities_are_added_and_the_scores_left_alone():
    scores, total = scores_of((600, 2, 10)).unbind(dim=1)[0], torch.rand(600, 10)
    before, expected = scores.clone(), total + 0.3 * torch.softmax(scores / 0.7, dim=1)
    assert add_softmax_(total, scores, 0.7, 0.3) is total
    assert_close(total, expected, rtol=1e-5, atol=1e-6)
    assert torch.equal(scores, before)


def test_a_row_of_which_nothing_is_known_is_even_and_of_what_is_no_number_stays_so():
    scores = torch.tensor([[-1e30, -1e30], [0.0, -1e30], [torch.nan, 0.0]])
    found = softmax(scores).numpy()
    np.testing.assert_array_equal(found[0], 0.5)
    np.testing.assert_allclose(found[1], [1, 0], atol=1e-30)
    assert np.isnan(found[2]).all()


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_the_result_does_not_depend_on_the_number_of_threads(n_threads):
    scores, before = scores_of((3000, 7)), torch.get_num_threads()
    expected = softmax(scores), log_softmax_(scores.clone())
    torch.set_num_threads(n_threads)
    try:
        found = softmax(scores), log_softmax_(scores.clone())
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
