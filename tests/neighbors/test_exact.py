import warnings

import numpy as np
import pytest
import scipy.sparse
import torch
from scipy.spatial.distance import cdist
from sklearn.preprocessing import normalize
from torch.testing import assert_close

from angpn import nearest_candidates, pairwise_distances
from angpn.neighbors import distance_blocks
from angpn.neighbors.exact import nearest_fitted
from problems import awkward_features

ROWS = np.random.default_rng(0).normal(size=(30, 6))


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_full_distances_match_scipy(metric):
    assert_close(pairwise_distances(ROWS, metric), torch.as_tensor(cdist(ROWS, ROWS, metric)))


def test_chord_is_the_euclidean_distance_between_unit_rows():
    unit = normalize(ROWS)
    assert_close(pairwise_distances(ROWS, "chord"), torch.as_tensor(cdist(unit, unit)), atol=1e-7, rtol=0)


def test_an_empty_row_is_far_from_everything_under_chord():
    distances = pairwise_distances(awkward_features(), "chord")
    empty = torch.arange(30, 39)
    off_diagonal = distances[empty][:, :30]
    assert_close(off_diagonal, torch.full_like(off_diagonal, 2**0.5))
    assert_close(distances[30, 31], torch.tensor(2**0.5))  # also from another empty row
    words = distances[:14, :14]
    assert words.max() < 2**0.5  # while rows that share words are nearer


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "chord"])
@pytest.mark.parametrize("container", [scipy.sparse.csr_matrix, scipy.sparse.coo_array, "torch_coo", "torch_csr"])
def test_sparse_rows_have_the_same_distances(metric, container):
    x = awkward_features(torch.float64)
    if container == "torch_coo":
        sparse = x.to_sparse_coo()
    elif container == "torch_csr":
        with warnings.catch_warnings(action="ignore"):  # torch says once that its CSR support is in beta
            sparse = x.to_sparse_csr()
    else:
        sparse = container(x.numpy())
    assert_close(pairwise_distances(sparse, metric), pairwise_distances(x, metric))
    assert_close(
        nearest_candidates(sparse, 5, metric).distances, nearest_candidates(x, 5, metric).distances, atol=1e-7, rtol=0
    )


@pytest.mark.parametrize("block_bytes", [2**26, 8 * 30 * 7, 1])
def test_the_nearest_are_the_smallest_of_the_full(monkeypatch, block_bytes):
    monkeypatch.setattr(distance_blocks, "BLOCK_BYTES", block_bytes)
    neighborhood = nearest_candidates(ROWS, 4, "euclidean")
    full = pairwise_distances(ROWS, "euclidean").fill_diagonal_(torch.inf)
    values, indices = full.topk(4, largest=False)
    assert_close(neighborhood.distances, values)
    assert_close(neighborhood.indices, indices.int())


def test_precomputed():
    full = torch.as_tensor(cdist(ROWS, ROWS, "cityblock"))
    assert_close(pairwise_distances(full, "precomputed"), full)
    neighborhood = nearest_candidates(full, 3, "precomputed")
    assert_close(full.gather(1, neighborhood.indices.long()), neighborhood.distances)
    assert (full.diagonal() == 0).all()  # the caller's matrix is left alone


def test_ties_are_broken_by_a_seeded_shuffle_for_each_row_anew():
    # 60 rows of two words, sorted by class, and ten empty ones equidistant from all.
    x = torch.zeros(70, 2)
    x[:30, 0] = x[30:60, 1] = 1
    neighborhood = nearest_candidates(x, 12)
    chosen = neighborhood.indices[60:]
    assert neighborhood.all_tied.all()
    share_of_first_class = (chosen < 30).double().mean()
    assert 0.25 < share_of_first_class < 0.6  # row order would give 1
    assert len({tuple(row.tolist()) for row in chosen.sort(dim=1).values}) == 10
    assert (neighborhood.indices[:30] < 30).all()  # a tie for the last place only
    assert all(len(set(row.tolist())) == 12 for row in neighborhood.indices)
    assert (neighborhood.indices != torch.arange(70)[:, None]).all()
    assert_close(nearest_candidates(x, 12).indices, neighborhood.indices)
    assert not torch.equal(nearest_candidates(x, 12, random_state=1).indices, neighborhood.indices)


@pytest.mark.parametrize(
    ("given", "expected"),
    [("float32", torch.float32), ("float64", torch.float64), ("int64", torch.float32)],
)
def test_the_dtype_is_kept(given, expected):
    x = (10 * ROWS).astype(given)
    assert pairwise_distances(x).dtype == nearest_candidates(x, 3).distances.dtype == expected


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "chord"])
def test_duplicates_are_at_distance_zero(metric):
    x = 1000 * torch.randn(20, 300, generator=torch.Generator().manual_seed(0)).repeat(2, 1)
    assert nearest_candidates(x, 1, metric).distances.max() == 0


@pytest.mark.parametrize(
    ("x", "options", "message"),
    [
        (np.array([[1.0], [np.nan], [2.0]]), {}, "x must be finite, got 1 NaN .* first in row 1; impute or drop"),
        (scipy.sparse.csr_array([[1.0, 1], [2, 1], [1, np.inf]]), {}, "x must be finite, got 1 NaN .* in row 2;"),
        (np.array([["a"], ["b"]]), {}, "x must be a dense array of numbers, got ndarray of <U1; convert it"),
        (torch.ones(3, 2, dtype=torch.complex64), {}, "x must be a dense array of real numbers, got .*complex64"),
        (scipy.sparse.coo_array([1.0, 2.0]), {}, r"features must have 2 dimensions, got shape \(2,\)"),
        (ROWS, {"metric": "manhattan"}, "metric must be one of 'chord', .* got 'manhattan'"),
        (ROWS, {"metric": "precomputed"}, r"distances must be a square \(n, n\) matrix, got shape \(30, 6\)"),
        (scipy.sparse.eye_array(4), {"metric": "precomputed"}, "must be a dense .* got a sparse one; call toarray"),
        (np.full((3, 3), np.nan), {"metric": "precomputed"}, "distances must not be NaN or -inf, got 9 such"),
        (ROWS[0], {}, r"x must have 2 dimensions, got shape \(6,\)"),
    ],
)
def test_bad_rows(x, options, message):
    with pytest.raises(ValueError, match=message):
        nearest_candidates(x, 1, **options)


@pytest.mark.parametrize("count", [0, 30])
def test_bad_number_of_candidates(count):
    with pytest.raises(ValueError, match=f"n_candidates must lie between 1 and n_samples - 1 = 29, got {count}"):
        nearest_candidates(ROWS, count)


def test_a_single_row_has_no_candidates():
    with pytest.raises(ValueError, match="candidates need at least 2 samples, got n_samples=1; pass more data"):
        nearest_candidates(ROWS[:1], 1)


def test_too_few_finite_precomputed_distances():
    full = torch.full((3, 3), torch.inf)
    full[:, 0] = 1
    with pytest.raises(ValueError, match="n_candidates=1 needs that many finite distances in every row, .* row 0"):
        nearest_candidates(full, 1, "precomputed")


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_a_common_offset_does_not_drown_the_distances(metric):
    expected = torch.as_tensor(cdist(ROWS, ROWS, metric))
    assert_close(pairwise_distances(ROWS + 1e6, metric), expected, atol=1e-6, rtol=1e-6)


def test_large_integers_are_not_rounded():
    assert pairwise_distances(np.array([[16777216], [16777217]]), "euclidean")[0, 1] == 1


def test_arrays_that_torch_would_refuse():
    flipped, foreign = ROWS[::-1], ROWS.astype(">f8")
    read_only = ROWS.copy()
    read_only.flags.writeable = False
    assert_close(pairwise_distances(flipped), pairwise_distances(ROWS).flip(0, 1))
    for x in (foreign, read_only):
        assert_close(pairwise_distances(x), pairwise_distances(ROWS))


def test_no_rows_have_no_distances():
    assert pairwise_distances(np.zeros((0, 3))).shape == (0, 0)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("factor", [2.0**-1000, 2.0**-300, 2.0**1000])
def test_distances_have_the_same_digits_at_every_scale(factor, sparse):
    x = np.round(8 * ROWS) / 8
    make = scipy.sparse.csr_array if sparse else np.asarray
    assert_close(pairwise_distances(make(x * factor), "chord"), pairwise_distances(make(x), "chord"), rtol=0, atol=0)
    found = pairwise_distances(make(x * factor), "euclidean")
    assert_close(found / factor, pairwise_distances(make(x), "euclidean"), rtol=0, atol=0)
    near, scaled = (nearest_candidates(make(rows), 5, "euclidean") for rows in (x, x * factor))
    assert_close(scaled.indices, near.indices)
    assert_close(scaled.distances / factor, near.distances, rtol=0, atol=0)


def test_distances_that_a_dtype_cannot_hold_are_refused():
    for factor in (1e-200, 1e200):
        with pytest.raises(ValueError, match="squared distances must be numbers that float64 can hold, got rows with"):
            pairwise_distances(ROWS * factor, "sqeuclidean")
    for factor in (1e-25, 1e25):
        rows = (ROWS * factor).astype(np.float32)
        with pytest.raises(ValueError, match="distances must be numbers that float32, the type of x, can hold, got"):
            nearest_candidates(rows, 5, "sqeuclidean")
        assert nearest_candidates(rows, 5, "euclidean").distances.isfinite().all()
    with pytest.raises(
        ValueError, match="squares float64 can hold, got queries with entries of about 2\\^66[0-9]; check"
    ):
        nearest_fitted(ROWS, ROWS * 1e200, 5, "euclidean")
