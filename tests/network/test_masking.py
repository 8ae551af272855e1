import numpy as np
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch.testing import assert_close

from angpn.network.masking import MASKED_SHARE, ZEROS_PER_MASKED, DenseMasking, SparseMasking, masking_for


def words(n=200, d=50, share=0.2):
    generator = np.random.default_rng(0)
    X = np.where(generator.random((n, d)) < share, generator.random((n, d)) + 0.1, 0)
    return scipy.sparse.csr_array(X)


def columns(n=200, d=6):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 3 + torch.arange(d)


def generator():
    return torch.Generator().manual_seed(1)


def test_sparse_rows_lose_the_masked_entries_and_no_others():
    X = words()
    found = SparseMasking(X).draw(generator())
    masked = found.targets == 1
    expected = X.toarray()
    assert (expected[found.rows[masked], found.columns[masked]] != 0).all()
    expected[found.rows[masked], found.columns[masked]] = 0
    assert_array_equal(found.features.toarray(), expected)
    assert found.features.nnz == X.nnz - masked.sum()  # not stored as zeros either
    assert_allclose(masked.sum() / X.nnz, MASKED_SHARE, atol=0.05)


def test_the_other_entries_that_are_drawn_are_0():
    X = words()
    found = SparseMasking(X).draw(generator())
    zeros = found.targets == 0
    assert (X.toarray()[found.rows[zeros], found.columns[zeros]] == 0).all()
    # A fifth of those drawn are not 0 and left out.
    assert_allclose(zeros.sum() / (~zeros).sum(), 0.8 * ZEROS_PER_MASKED, rtol=0.1)


def test_stored_zeros_and_entries_in_pieces_change_nothing():
    X = words()
    rows, columns = X.nonzero()
    halves, empty = X.data / 2, int(np.flatnonzero(X.toarray()[0] == 0)[0])
    places = np.concatenate([rows, rows, [0]]), np.concatenate([columns, columns, [empty]])
    coo = scipy.sparse.coo_array((np.concatenate([halves, halves, [0.0]]), places), shape=X.shape)
    starts = np.concatenate([[0], np.bincount(places[0], minlength=len(X.indptr) - 1).cumsum()])
    order = np.argsort(coo.row, kind="stable")
    pieces = scipy.sparse.csr_array((coo.data[order], coo.col[order], starts), shape=X.shape)
    assert pieces.nnz == 2 * X.nnz + 1
    whole, found = SparseMasking(X).draw(generator()), SparseMasking(pieces).draw(generator())
    assert_allclose(found.features.toarray(), whole.features.toarray())
    assert_close(found.rows, whole.rows)


def test_dense_entries_become_the_mean_of_their_column_and_targets_are_standardised():
    X = columns()
    found = DenseMasking(X).draw(generator())
    masked = torch.zeros_like(X, dtype=torch.bool)
    masked[found.rows, found.columns] = True
    assert_close(found.features, torch.where(masked, X.mean(dim=0), X))
    standardised = (X - X.mean(dim=0)) / X.std(dim=0, correction=0)
    assert_close(found.targets, standardised[found.rows, found.columns])
    assert_allclose(masked.double().mean(), MASKED_SHARE, atol=0.05)


def test_constant_columns_are_not_masked():
    X = columns()
    X[:, 2] = 0.1
    found = DenseMasking(X).draw(generator())
    assert 2 not in found.columns
    assert found.features.isfinite().all()
    assert found.targets.isfinite().all()


def test_masks_differ_from_draw_to_draw_and_not_from_seed_to_seed():
    for masking in (DenseMasking(columns()), SparseMasking(words())):
        source = generator()
        first, second, again = masking.draw(source), masking.draw(source), masking.draw(generator())
        assert_close(first.rows, again.rows)
        assert len(first.rows) != len(second.rows) or (first.rows != second.rows).any()


@pytest.mark.parametrize("X", [words(), columns()])
def test_the_first_bias_is_the_best_constant_of_a_column(X):
    """Other constants restore the entries of many draws no better."""
    masking, source = masking_for(X), generator()
    bias = masking.first_bias()
    draws = [masking.draw(source) for _ in range(30)]

    def loss(offset):
        losses = [masking.mean_loss((bias + offset)[draw.columns].to(draw.targets), draw.targets) for draw in draws]
        return float(torch.stack(losses).mean())

    assert loss(0.0) < min(loss(0.3), loss(-0.3))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (scipy.sparse.csr_array((5, 4)), "at most half of them, got 0 of 20; pass X as a dense array"),
        (scipy.sparse.csr_array(np.ones((5, 4))), "at most half of them, got 20 of 20; pass X as a dense array"),
        (torch.full((5, 4), 0.1), "needs a column of X that varies, got none of 4; pass other features"),
    ],
)
def test_nothing_to_restore_is_refused(X, message):
    with pytest.raises(ValueError, match=message):
        masking_for(X)
