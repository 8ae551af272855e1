import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.testing import assert_close

from angpn import Neighborhood, nearest_candidates


@pytest.fixture(scope="module")
def neighborhood() -> Neighborhood:
    return nearest_candidates(torch.randn(9, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64), 4)


@pytest.fixture(scope="module")
def weights() -> torch.Tensor:
    return torch.randn(9, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64, requires_grad=True)


@pytest.fixture(scope="module")
def features() -> torch.Tensor:
    return torch.randn(9, 5, generator=torch.Generator().manual_seed(2), dtype=torch.float64, requires_grad=True)


def test_lists_as_a_dense_neighbourhood_have_the_same_products(neighborhood, weights, features):
    dense, matrix = neighborhood.to_dense(), neighborhood.to_matrix(weights)
    assert torch.isinf(dense.distances.diagonal()).all()
    assert (torch.isfinite(dense.distances).sum(dim=1) == 4).all()
    assert dense.n_candidates == neighborhood.n_candidates == 4
    assert_close(dense.affinities(features).gather(1, neighborhood.indices), neighborhood.affinities(features))
    assert_close(dense.aggregate(matrix, features), neighborhood.aggregate(weights, features))
    assert_close(dense.aggregate_transposed(matrix, features), neighborhood.aggregate_transposed(weights, features))


@pytest.mark.parametrize("product", ["aggregate", "aggregate_transposed"])
def test_gradients_of_the_aggregates(neighborhood, weights, features, product):
    assert gradcheck(getattr(neighborhood, product), (weights, features))
    assert gradgradcheck(getattr(neighborhood, product), (weights, features))


def test_gradients_of_the_affinities(neighborhood, features):
    assert gradcheck(neighborhood.affinities, features)
    assert gradgradcheck(neighborhood.affinities, features)


def test_another_dtype(neighborhood):
    assert neighborhood.to(torch.float32).distances.dtype == torch.float32
    assert neighborhood.to(torch.float32).indices.dtype == torch.int32


LISTS = torch.tensor([[1, 2], [0, 2], [0, 1]])
FAR = torch.tensor([[1.0, 2.0]] * 3)


@pytest.mark.parametrize(
    ("indices", "distances", "message"),
    [
        (LISTS + 1, FAR, "candidates must be rows 0 to 2, got 1 to 3"),
        (LISTS - 1, FAR, "candidates must be rows 0 to 2, got -1 to 1"),
        (LISTS.flip(0), FAR, "a row must not be its own candidate"),
        (torch.tensor([[1, 1], [0, 2], [0, 1]]), FAR, "a candidate must be listed once, got a row with repeats"),
        (LISTS, FAR[:, :1], r"two \(n, m\) tensors with m >= 1, got shapes \(3, 2\) and \(3, 1\)"),
        (LISTS, torch.full((3, 2), torch.inf), "distances of candidates must be finite, got NaN or inf"),
        (LISTS, FAR.flip(1), "candidates must be listed nearest first, got distances out of order"),
        (LISTS.double(), FAR, "candidates must be a tensor of integers, .* got torch.float64 and torch"),
        (LISTS.numpy(), FAR.numpy(), "candidates must be a tensor of integers, .* got ndarray and ndarray"),
    ],
)
def test_bad_lists(indices, distances, message):
    with pytest.raises(ValueError, match=message):
        Neighborhood(indices, distances)
