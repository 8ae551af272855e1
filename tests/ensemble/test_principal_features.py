"""Principal directions: uncorrelated columns, and regressions that do not mind them."""

import pytest
import torch
from torch.testing import assert_close

from angpn.ensemble.principal_features import PrincipalFeatures


def correlated(n, p, seed=0):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(n, p, generator=generator, dtype=torch.float64)
    return rows @ torch.randn(p, p, generator=generator, dtype=torch.float64) + 3


@pytest.mark.parametrize("width", [None, 1.0])
@pytest.mark.parametrize("shape", [(50, 6), (20, 30)])
def test_columns_have_mean_0_and_the_stated_variances(shape, width):
    rows = correlated(*shape)
    mapped = PrincipalFeatures.fit(rows, width)
    columns = mapped(rows)
    assert_close(columns.mean(dim=0), torch.zeros_like(mapped.mean))
    assert_close(columns.var(dim=0, correction=0), mapped.variances)


@pytest.mark.parametrize("shape", [(50, 6), (20, 30)])
def test_linear_columns_are_uncorrelated_and_keep_distances(shape):
    rows = correlated(*shape)
    columns = PrincipalFeatures.fit(rows, None)(rows)
    assert columns.shape[1] == min(shape[1], shape[0] - 1)
    products = columns.T @ columns
    assert_close(products, torch.diag(products.diagonal()), rtol=0, atol=1e-9 * float(products.diagonal().max()))
    assert_close(torch.cdist(columns, columns), torch.cdist(rows, rows), rtol=1e-6, atol=1e-5)  # of products


@pytest.mark.parametrize("width", [None, 1.0])
def test_weights_on_columns_and_on_features_give_the_same_scores(width):
    rows, others = correlated(50, 6), correlated(9, 6, seed=1)
    mapped = PrincipalFeatures.fit(rows, width)
    weight, bias = torch.randn(len(mapped.mean), 3, generator=torch.Generator().manual_seed(0)), torch.arange(3.0)
    on_features = mapped.to_features(weight, bias)
    inputs = others if width is None else mapped.kernel(others)
    assert_close(
        inputs @ on_features[0].double() + on_features[1].double(),
        mapped(others) @ weight.double() + bias.double(),
        rtol=0,
        atol=1e-7 * float(on_features[0].abs().sum(dim=0).max()),  # weights are float32
    )
    for found, expected in zip(mapped.from_features(*on_features), (weight, bias), strict=True):
        assert_close(found, expected, rtol=1e-3, atol=1e-3)


def test_directions_in_which_rows_do_not_vary_are_left_out():
    rows = correlated(50, 6)
    doubled = torch.cat([rows, rows, torch.ones(50, 2, dtype=torch.float64)], dim=1)
    assert PrincipalFeatures.fit(doubled, None).directions.shape == (14, 6)
    assert PrincipalFeatures.fit(torch.ones(5, 3), None)(torch.ones(2, 3)).shape == (2, 0)
