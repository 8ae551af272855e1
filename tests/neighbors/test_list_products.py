import numpy as np
import pytest
import scipy.sparse
import torch
from torch.testing import assert_close

from angpn.kernels.threads import one_thread
from angpn.neighbors.list_products import sparse_product


def problem(n, n_columns, width, dtype, seed=0):
    """A matrix with rows of every length from none to all of 20 entries, and features."""
    generator = np.random.default_rng(seed)
    dense = generator.normal(size=(n, n_columns)) * (
        generator.random((n, n_columns)) < np.linspace(0, 20 / n, n)[:, None]
    )
    matrix = scipy.sparse.csr_array(dense)
    parts = (torch.from_numpy(part.astype(np.int32)) for part in (matrix.indptr, matrix.indices))
    features = torch.from_numpy(generator.normal(size=(n_columns, width))).to(dtype)
    return (*parts, torch.from_numpy(matrix.data).to(dtype), n_columns), torch.from_numpy(dense).to(dtype), features


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [1, 10, 63, 64, 65, 200])
@pytest.mark.parametrize("n_columns", [60, 90])
def test_eq13_against_the_dense_product(n_columns, width, dtype):
    matrix, dense, features = problem(60, n_columns, width, dtype)
    tolerances = {"rtol": 1e-5, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 1e-12, "atol": 1e-12}
    assert_close(sparse_product(*matrix, features), dense @ features, **tolerances)
    assert_close(sparse_product(*matrix, features, 0.3), 0.7 * features[:60] + 0.3 * dense @ features, **tolerances)


@pytest.mark.parametrize("width", [10, 64])
def test_a_matrix_with_more_rows_than_columns(width):
    matrix, dense, features = problem(60, 12, width, torch.float64)
    assert_close(sparse_product(*matrix, features), dense @ features)


@pytest.mark.parametrize("width", [10, 64])
def test_features_whose_rows_are_apart_in_memory(width):
    matrix, dense, features = problem(60, 60, width, torch.float64)
    apart = features.T.contiguous().T
    assert_close(sparse_product(*matrix, apart, 0.3), 0.7 * features + 0.3 * dense @ features)


def test_the_number_of_threads_changes_no_bit():
    matrix, _, features = problem(700, 700, 64, torch.float32)
    with one_thread():
        one = sparse_product(*matrix, features, 0.3)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        two = sparse_product(*matrix, features, 0.3)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(one, two)
