"""How rows are scaled: each kind, on dense and sparse rows, and many columns cut down to their main directions."""

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

from angpn.ensemble.scaling import View, max_width


def table(rows=40, columns=6, seed=0):
    """Columns of unlike place and spread."""
    generator = np.random.default_rng(seed)
    return generator.normal(size=(rows, columns)) * np.geomspace(1, 1000, columns) + np.arange(columns)


WIDEST = max_width(60)


def low_rank(rows=60, columns=WIDEST + 88, rank=10):
    generator = np.random.default_rng(0)
    return generator.normal(size=(rows, rank)) @ generator.normal(size=(rank, columns))


def test_unit_rows_keep_their_direction_and_an_empty_row_stays_empty():
    X = table()
    X[7] = 0
    rows = View.of(X, "unit", "chord", 0).rows(X)
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    assert_allclose(rows * lengths, X, atol=1e-12)
    assert_allclose(np.linalg.norm(rows, axis=1), np.where(np.arange(40) == 7, 0, 1))


def test_standard_columns_are_alike_and_rows_of_length_1_on_average():
    X = table()
    rows = View.of(X, "standard", "euclidean", 0).rows(X)
    assert_allclose(rows.mean(axis=0), 0, atol=1e-12)
    assert_allclose(rows.std(axis=0), 1 / np.sqrt(6))
    assert_allclose(np.square(rows).sum(axis=1).mean(), 1)


def test_both_is_the_direction_of_rows_with_standard_columns():
    X = table()
    standard, both = (View.of(X, scaling, "chord", 0).rows(X) for scaling in ("standard", "both"))
    assert_allclose(both, standard / np.linalg.norm(standard, axis=1, keepdims=True))


def test_a_column_that_never_changes_is_zero():
    X = table(rows=1000).astype(np.float32)
    X[:, 2] = 0.1
    rows = View.of(X, "standard", "euclidean", 0).rows(X)
    assert_allclose(rows[:, 2], 0, atol=1e-5)
    assert_allclose(np.delete(rows, 2, axis=1).std(axis=0), 1 / np.sqrt(6), rtol=1e-4)


def test_a_column_of_huge_numbers_does_not_make_another_one_look_constant():
    X = np.column_stack([table(columns=3), 1e18 + 1e17 * table(columns=1)])  # as times in nanoseconds are
    rows = View.of(X, "standard", "euclidean", 0).rows(X)
    assert_allclose(rows.std(axis=0), 0.5)


@pytest.mark.parametrize(("scaling", "columns"), [("none", 6), ("unit", WIDEST + 88)])
def test_sparse_rows_are_seen_as_dense_ones(scaling, columns):
    X = np.where(np.random.default_rng(1).random((60, columns)) < 0.3, table(60, columns), 0)
    X[:, 20:] = X[:, 19:20] if columns > 20 else X[:, 20:]  # of low rank, so that no main direction is arbitrary
    sparse = scipy.sparse.csr_array(X)
    dense_view, sparse_view = (View.of(rows, scaling, "chord", 0) for rows in (X, sparse))
    dense_rows, sparse_rows = dense_view.rows(X), sparse_view.rows(sparse)
    assert scipy.sparse.issparse(sparse_rows)
    assert_allclose(sparse_rows.toarray(), dense_rows, atol=1e-12)
    dense, found = dense_view.features(dense_rows), sparse_view.features(sparse_rows)
    assert found.shape == dense.shape
    largest = float(dense.abs().max()) ** 2
    assert_allclose(found @ found.T, dense @ dense.T, rtol=1e-3, atol=1e-4 * largest)


@pytest.mark.parametrize("scaling", ["both", "none"])
def test_many_columns_are_reduced_and_inner_products_stay(scaling):
    X = low_rank()
    view = View.of(X, scaling, "euclidean", 0)
    rows = view.rows(X)
    features = view.features(rows).double().numpy()
    assert rows.shape == X.shape
    assert features.shape[0] == 60
    assert features.shape[1] <= WIDEST
    products = rows @ rows.T
    assert_allclose(features @ features.T, products, atol=1e-4 * products.max())


@pytest.mark.parametrize(("scaling", "make"), [("standard", table), ("both", low_rank)])
def test_a_new_row_is_scaled_like_a_fitted_one(scaling, make):
    X = make()
    view = View.of(X, scaling, "euclidean", 0)
    fitted = view.features(view.rows(X))
    assert_allclose(view.features(view.rows(X[5:6])), fitted[5:6], rtol=1e-4, atol=1e-5)


def test_the_same_seed_finds_the_same_directions():
    X = np.random.default_rng(0).normal(size=(30, WIDEST + 1))
    assert_array_equal(View.of(X, "unit", "chord", 3).basis, View.of(X, "unit", "chord", 3).basis)


def test_a_rare_column_counts_more_in_sparse_rows():
    common_and_rare = scipy.sparse.csr_array(np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 1.0]]))
    view = View.of(common_and_rare, "rare", "chord", 0)
    rows = view.rows(common_and_rare)
    assert scipy.sparse.issparse(rows)
    common, rare = rows.toarray()[3]
    assert rare > common > 0
    assert_allclose(np.hypot(common, rare), 1)
    assert_allclose(view.rows(common_and_rare[[3]]).toarray(), rows[[3]].toarray())


def test_of_very_many_rows_fewer_directions_are_kept():
    assert [max_width(n) for n in (100, 131_072, 262_144, 10**7)] == [512, 512, 256, 128]
