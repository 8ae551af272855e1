"""Scaling by powers of two is exact over the whole range of a dtype."""

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

from angpn.utils.powers_of_two import (
    column_moments,
    exponents,
    largest_entries,
    rows_near_one,
    times_powers,
    unit_rows,
)

X = np.array([[3.0, -4.0, 0.0], [0.0, 0.0, 0.0], [-0.5, 0.25, 1.0]])


def test_the_exponent_is_that_of_the_power_of_two_below():
    assert_array_equal(exponents(np.array([1.0, 1.9, 2.0, 0.3, 0.0, 5e-324, 1.7e308])), [0, 0, 1, -2, 0, -1074, 1023])


@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_array])
def test_largest_entries_are_absolute(make):
    assert_array_equal(largest_entries(make(X), axis=0), [3, 4, 1])
    assert_array_equal(largest_entries(make(X), axis=1), [4, 0, 1])
    assert largest_entries(make(X), axis=None) == 4
    assert largest_entries(make(np.zeros((2, 2))), axis=None) == 0


@pytest.mark.parametrize(("dtype", "smallest", "largest"), [(np.float32, -149, 127), (np.float64, -1074, 1023)])
def test_a_product_is_exact_from_the_smallest_number_to_the_largest(dtype, smallest, largest):
    tiny, huge = np.ldexp(dtype(1), smallest), np.ldexp(dtype(1), largest)
    found = times_powers(np.array([tiny, huge, 1, 1], dtype), np.array([-smallest, -largest, smallest, largest]))
    assert found.dtype == dtype
    assert_array_equal(found, [1, 1, tiny, huge])


@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize(
    ("dtype", "scales"), [(np.float32, (2.0**-149, 1e-30, 1e37)), (np.float64, (2.0**-1074, 1e-200, 1e307))]
)
def test_unit_rows_keep_their_direction_at_every_scale(make, dtype, scales):
    direction = np.array([3.0, -4.0, 0.0])
    rows = np.outer([*scales, 1.0, 0.0], direction).astype(dtype)
    found = unit_rows(make(rows))
    assert found.dtype == dtype
    found = found.toarray() if scipy.sparse.issparse(found) else found
    assert_allclose(found[:-1], np.tile(direction / 5, (4, 1)), rtol=1e-6 if dtype == np.float32 else 1e-15)
    assert_array_equal(found[-1], 0)


@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_array])
def test_rows_near_one_are_a_copy_with_the_same_digits(make):
    given = make(X.copy())
    near_one = rows_near_one(given)
    near_one = near_one.toarray() if scipy.sparse.issparse(near_one) else near_one
    assert_array_equal(near_one, X / [[4], [1], [1]])
    assert_array_equal(given.toarray() if scipy.sparse.issparse(given) else given, X)


@pytest.mark.parametrize("scale", [2.0**-1000, 2.0**-300, 2.0**990])
def test_moments_have_the_same_digits_at_every_scale(scale):
    columns = np.random.default_rng(0).normal([0, 5, 100], size=(50, 3))
    mean, std = column_moments(columns)
    assert_allclose(mean, columns.mean(axis=0), rtol=1e-14)
    assert_allclose(std, columns.std(axis=0), rtol=1e-14)
    assert_array_equal(column_moments(columns * scale), np.array([mean, std]) * scale)


def test_moments_of_float32_are_those_of_float64():
    columns = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    for scale in (np.float32(1), np.float32(2) ** -120, np.float32(2) ** 120):
        given = columns * scale
        assert_array_equal(column_moments(given), column_moments(given.astype(np.float64)))


def test_moments_of_many_rows_are_exact_where_columns_are_constant_or_far_from_zero():
    columns = np.random.default_rng(0).normal(size=(5000, 3)).astype(np.float32) + np.float32([0, 1000, 0])
    columns[:, 2] = 7
    mean, std = column_moments(columns)
    assert_allclose(mean, columns.mean(axis=0, dtype=np.float64), rtol=1e-14)
    assert_allclose(std, columns.astype(np.float64).std(axis=0), rtol=1e-12)
    assert std[2] == 0


def test_a_sparse_matrix_stays_as_it_is_also_where_its_indices_are_not_sorted():
    parts = np.array([1.0, 2.0, 3.0]), np.array([2, 0, 1]), np.array([0, 2, 3])
    given = scipy.sparse.csr_array(parts, shape=(2, 3))
    for axis, largest in ((0, [2, 3, 1]), (1, [2, 3])):
        assert_array_equal(largest_entries(given, axis), largest)
    assert_array_equal(rows_near_one(given).toarray(), [[1, 0, 0.5], [0, 1.5, 0]])
    for part, before in zip((given.data, given.indices, given.indptr), parts, strict=True):
        assert_array_equal(part, before)
    assert_array_equal(given.indices, [2, 0, 1])
