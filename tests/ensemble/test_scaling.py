"""How rows are scaled: each scaling, on dense and sparse rows, and many columns reduced to their main directions."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist

from angpn.ensemble.config import EnsembleConfig
from angpn.ensemble.scaling import SCALINGS, Scaling, feature_width, is_table

CONFIG = EnsembleConfig(max_width=40, min_width=8, max_feature_values=2**20)
PLENTY = EnsembleConfig()  # rows of these tests are propagated as they are


def fit(X, name, metric="chord", seed=0, config=CONFIG):
    return Scaling.fit(X, name, metric, seed, config)


def table(rows=40, columns=6, seed=0):
    """Columns of unlike mean and scale."""
    generator = np.random.default_rng(seed)
    return generator.normal(size=(rows, columns)) * np.geomspace(1, 1000, columns) + np.arange(columns)


def low_rank(rows=60, columns=90, rank=10):
    generator = np.random.default_rng(0)
    return generator.normal(size=(rows, rank)) @ generator.normal(size=(rank, columns))


def test_unit_rows_keep_their_direction_and_an_empty_row_stays_empty():
    X = table()
    X[7] = 0
    rows = fit(X, "unit").transform(X)
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    assert_allclose(rows * lengths, X, rtol=1e-12)
    assert_allclose(np.linalg.norm(rows, axis=1), np.where(np.arange(40) == 7, 0, 1))


def test_standard_columns_are_alike_and_rows_of_length_1_on_average():
    X = table()
    rows = fit(X, "standard", "euclidean").transform(X)
    assert_allclose(rows.mean(axis=0), 0, atol=1e-12)
    assert_allclose(rows.std(axis=0), 1 / np.sqrt(6))
    assert_allclose(np.square(rows).sum(axis=1).mean(), 1)


def test_unit_standard_is_the_direction_of_rows_with_standard_columns():
    X = table()
    standard, unit_standard = (fit(X, name).transform(X) for name in ("standard", "unit_standard"))
    assert_allclose(unit_standard, standard / np.linalg.norm(standard, axis=1, keepdims=True))


def test_none_leaves_the_rows_as_they_are():
    X = table()
    assert fit(X, "none", "euclidean").transform(X) is X


def test_a_column_that_never_changes_is_zero():
    X = table(rows=1000).astype(np.float32)
    X[:, 2] = 0.1
    rows = fit(X, "standard", "euclidean").transform(X)
    assert_allclose(rows[:, 2], 0, atol=1e-5)
    assert_allclose(np.delete(rows, 2, axis=1).std(axis=0), 1 / np.sqrt(6), rtol=1e-4)


def test_a_column_of_huge_numbers_does_not_make_another_one_look_constant():
    X = np.column_stack([table(columns=3), 1e18 + 1e17 * table(columns=1)])  # as times in nanoseconds are
    rows = fit(X, "standard", "euclidean").transform(X)
    assert_allclose(rows.std(axis=0), 0.5)


def test_a_rare_column_counts_more_in_sparse_rows():
    common_and_rare = scipy.sparse.csr_array(np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 1.0]]))
    scaling = fit(common_and_rare, "idf")
    rows = scaling.transform(common_and_rare)
    assert scipy.sparse.issparse(rows)
    common, rare = rows.toarray()[3]
    assert_allclose(rare / common, (1 + np.log(5 / 2)) / (1 + np.log(5 / 5)))  # 4 rows; 1 and 4 documents
    assert_allclose(np.hypot(common, rare), 1)
    assert_allclose(scaling.transform(common_and_rare[[3]]).toarray(), rows[[3]].toarray())


@pytest.mark.parametrize(("name", "columns"), [("none", 6), ("unit", 90)])
def test_sparse_rows_are_scaled_as_dense_ones(name, columns):
    X = np.where(np.random.default_rng(1).random((60, columns)) < 0.3, table(60, columns), 0)
    X[:, 20:] = X[:, 19:20] if columns > 20 else X[:, 20:]  # of low rank, so that no main direction is arbitrary
    sparse = scipy.sparse.csr_array(X)
    dense_scaling, sparse_scaling = (fit(rows, name) for rows in (X, sparse))
    dense_rows, sparse_rows = dense_scaling.transform(X), sparse_scaling.transform(sparse)
    assert scipy.sparse.issparse(sparse_rows)
    assert_allclose(sparse_rows.toarray(), dense_rows, rtol=1e-12)
    dense, found = dense_scaling.features(dense_rows), sparse_scaling.features(sparse_rows)
    assert found.shape == dense.shape == (60, min(columns, CONFIG.max_width))
    # Both are float32 and of full rank: inner products are those of the rows, whatever the basis.
    products = dense_rows @ dense_rows.T
    for features in (dense, found):
        assert_allclose(features @ features.T, products, rtol=1e-4, atol=1e-5 * products.max())


@pytest.mark.parametrize("name", ["unit_standard", "none"])
def test_many_columns_are_reduced_and_inner_products_stay(name):
    X = low_rank()
    scaling = fit(X, name, "euclidean")
    rows = scaling.transform(X)
    features = scaling.features(rows).double().numpy()
    assert rows.shape == X.shape
    assert features.shape == (60, CONFIG.max_width)
    products = rows @ rows.T
    assert_allclose(features @ features.T, products, atol=1e-5 * products.max())


def test_main_directions_are_found_on_a_sample_of_many_rows():
    X = low_rank(rows=400)
    for most in (400, 30):  # any 30 rows have all 10 directions
        scaling = fit(X, "none", config=replace(CONFIG, max_rows_of_basis=most))
        features = scaling.features(scaling.transform(X)).double().numpy()
        assert features.shape == (400, min(40, most - 1))
        assert_allclose(features @ features.T, X @ X.T, atol=1e-5 * np.abs(X @ X.T).max())


@pytest.mark.parametrize(("name", "make"), [("standard", table), ("unit_standard", low_rank)])
def test_a_new_row_is_scaled_like_a_fitted_one(name, make):
    X = make()
    scaling = fit(X, name, "euclidean")
    fitted = scaling.features(scaling.transform(X))
    assert_allclose(scaling.features(scaling.transform(X[5:6])), fitted[5:6], rtol=1e-4, atol=1e-5)


# Neighbours in main directions


def noisy_classes(columns=60):
    """Rows of length 1 in three classes, which differ in all columns by less than their noise."""
    generator = np.random.default_rng(1)
    truth = np.arange(90) % 3
    return generator.normal(size=(3, columns))[truth] + 2.5 * generator.normal(size=(90, columns)), truth


@pytest.mark.parametrize("columns", [30, 60])  # few enough to be propagated as they are, and more
def test_pca_propagates_whole_rows_and_compares_their_main_directions(columns):
    X, truth = noisy_classes(columns)
    pca, unit = Scaling.fit(X, "pca", "chord", 0, CONFIG, 4), fit(X, "unit")
    assert (pca.name, pca.metric) == ("pca", "euclidean")
    rows = pca.transform(X)
    assert_allclose(rows, unit.transform(X))
    assert_allclose(pca.features(rows), unit.features(rows), atol=1e-5)
    found = pca.coordinates(rows)
    assert found.shape == (90, 4)
    assert found.dtype == X.dtype
    assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-6)
    assert_allclose(pca.coordinates(pca.transform(X[7:9])), found[7:9], atol=1e-5)
    nearest, whole = (np.argsort(-products, axis=1)[:, 1:11] for products in (found @ found.T, rows @ rows.T))
    pure, less_pure = ((truth[found] == truth[:, None]).mean() for found in (nearest, whole))
    assert pure > less_pure + 0.1


@pytest.mark.parametrize(("given", "used"), [("chord", "euclidean"), ("euclidean", "euclidean"), ("sqeuclidean",) * 2])
def test_pca_keeps_the_metric_that_a_user_gave(given, used):
    assert Scaling.fit(noisy_classes()[0], "pca", given, 0, CONFIG, 4).metric == used


def test_pca_of_sparse_rows_weighs_words_first():
    X = scipy.sparse.csr_array(np.abs(noisy_classes()[0]).round())
    pca, idf = Scaling.fit(X, "pca", "chord", 0, CONFIG, 4), fit(X, "idf")
    assert pca.name == "pca"
    assert_allclose(pca.transform(X).toarray(), idf.transform(X).toarray())
    assert pca.coordinates(pca.transform(X)).shape == (90, 4)


def test_standard_pca_propagates_standardised_columns_and_compares_their_main_directions():
    X, truth = noisy_classes()
    X = X * np.geomspace(1, 1e4, 60)  # rows of length 1 would be one column or two
    scaling, standard = Scaling.fit(X, "standard_pca", "euclidean", 0, PLENTY, 4), fit(X, "standard", config=PLENTY)
    assert (scaling.name, scaling.metric) == ("standard_pca", "euclidean")
    assert scaling.has_columns  # for trees
    assert not Scaling.fit(X, "pca", "euclidean", 0, PLENTY, 4).has_columns
    rows = scaling.transform(X)
    assert_allclose(rows, standard.transform(X))
    assert_allclose(scaling.features(rows), standard.features(rows))
    directions = np.linalg.svd(rows - rows.mean(axis=0))[2][:4].T
    found = scaling.coordinates(rows)
    assert_allclose(np.abs(found), np.abs(rows @ directions), atol=1e-5)  # not as directions: lengths count
    nearest, whole = (np.argsort(cdist(each, each), axis=1)[:, 1:11] for each in (found, rows))
    pure, less_pure = ((truth[found] == truth[:, None]).mean() for found in (nearest, whole))
    assert pure > less_pure + 0.1


def test_standard_pca_is_standard_where_the_main_directions_hold_nearly_all_of_the_rows():
    X = low_rank(rank=3) + 0.1 * np.random.default_rng(0).normal(size=(60, 90))
    assert Scaling.fit(X, "standard_pca", "euclidean", 0, CONFIG, 4).name == "standard"
    assert Scaling.fit(X, "standard_pca", "euclidean", 0, CONFIG, 1).name == "standard_pca"


def test_pca_is_unit_where_the_main_directions_hold_nearly_all_of_the_rows():
    generator = np.random.default_rng(0)
    X = low_rank(rank=3) + 0.1 * generator.normal(size=(60, 90))
    assert Scaling.fit(X, "pca", "euclidean", 0, CONFIG, 4).name == "unit"
    assert Scaling.fit(X, "pca", "euclidean", 0, CONFIG, 1).name == "pca"
    kept = Scaling.fit(X, "pca", "euclidean", 0, replace(CONFIG, max_share_of_pca=1.0), 4)
    assert kept.name == "pca"
    assert kept.main is not None
    centered = fit(X, "unit", config=EnsembleConfig()).transform(X)
    centered = centered - centered.mean(axis=0)
    variances = np.linalg.svd(centered, compute_uv=False) ** 2
    unit = fit(X, "unit")
    share = kept.main.share(unit.features(unit.transform(X)).numpy())
    assert_allclose(share, variances[:4].sum() / variances.sum(), rtol=1e-3)


def test_there_are_no_more_main_directions_than_columns():
    X = noisy_classes(30)[0][:, :6]
    kept = Scaling.fit(X, "pca", "euclidean", 0, replace(CONFIG, max_share_of_pca=1.0), 22)
    assert kept.coordinates(kept.transform(X)).shape == (90, 6)


@pytest.mark.parametrize("sparse", [False, True])
def test_arrays_of_a_scaling_bring_it_back(sparse):
    X = np.abs(noisy_classes()[0]).round()
    X = scipy.sparse.csr_array(X) if sparse else X
    saved = Scaling.fit(X, "pca", "chord", 0, CONFIG, 4)
    arrays = saved.to_arrays()
    assert set(arrays) == set(Scaling.specs("pca", 60, arrays))
    loaded = Scaling.from_arrays("pca", "euclidean", arrays)
    rows = saved.transform(X)
    assert_allclose(loaded.coordinates(loaded.transform(X)), saved.coordinates(rows))


def test_arrays_of_standard_pca_bring_it_back():
    X = noisy_classes()[0]
    saved = Scaling.fit(X, "standard_pca", "euclidean", 0, PLENTY, 4)
    arrays = saved.to_arrays()
    assert (
        set(arrays)
        == set(Scaling.specs("standard_pca", 60, arrays))
        == {"center", "scale", "main_center", "main_basis"}
    )
    loaded = Scaling.from_arrays("standard_pca", "euclidean", arrays)
    assert_allclose(loaded.coordinates(loaded.transform(X)), saved.coordinates(saved.transform(X)))


def test_the_same_seed_finds_the_same_directions():
    X = np.random.default_rng(0).normal(size=(30, 90))
    one, same = (fit(X, "unit", seed=3).basis for _ in range(2))
    assert_allclose(one, same, atol=1e-4)


@pytest.mark.parametrize("name", SCALINGS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_keep_their_dtype_and_features_are_float32(name, dtype):
    X = np.abs(table()).astype(dtype)
    X = scipy.sparse.csr_array(X) if name == "idf" else X
    scaling = fit(X, name)
    rows = scaling.transform(X)
    assert rows.dtype == dtype
    assert scaling.features(rows).dtype == torch.float32


def test_rows_of_a_read_only_file_become_features(tmp_path):
    X = table().astype(np.float32)
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    scaling = fit(mapped, "none")
    features = scaling.features(scaling.transform(mapped))
    features += 1  # nothing is written to the file
    assert_allclose(features, X + 1)
    assert_allclose(mapped, X)


def test_of_very_many_rows_fewer_directions_are_kept():
    config = EnsembleConfig()
    assert [feature_width(n, config) for n in (100, 131_072, 262_144, 10**7)] == [512, 512, 256, 128]


WIDE = np.random.default_rng(0).normal(size=(500, 40))


def test_a_table_has_few_columns():
    scales = np.linspace(1, 3, 40)  # neither unlike nor alike
    assert not is_table(scales * WIDE, CONFIG)
    assert not is_table(scales[:32] * WIDE[:, :32], CONFIG)
    assert is_table(scales[:31] * WIDE[:, :31], CONFIG)
    assert is_table(scales * WIDE, replace(CONFIG, max_columns_of_table=40))
    assert not is_table(scipy.sparse.csr_array(WIDE[:, :31]), CONFIG)
    assert not is_table(np.ones((5, 3)), CONFIG)  # columns without any scale


def test_a_table_has_columns_of_unlike_scale():
    scales = np.linspace(1, 3, 40)
    assert is_table(np.where(np.arange(40) == 7, 30, scales) * WIDE, CONFIG)
    assert not is_table(np.where(np.arange(40) == 7, 12, scales) * WIDE, CONFIG)
    assert is_table(np.where(np.arange(40) == 7, 12, scales) * WIDE, replace(CONFIG, table_scale_ratio=3.0))


def test_a_table_has_columns_that_were_all_brought_to_one_scale():
    alike = (WIDE - WIDE.mean(axis=0)) / WIDE.std(axis=0)
    assert is_table(alike, CONFIG)
    assert is_table(np.linspace(1, 1.04, 40) * alike, CONFIG)
    assert not is_table(np.linspace(1, 1.06, 40) * alike, CONFIG)
    constant = np.column_stack([np.ones(500), alike])
    assert is_table(constant, CONFIG)  # a column without any scale does not count


@pytest.mark.parametrize("name", SCALINGS)
def test_rows_have_columns_unless_they_are_scaled_by_row_or_turned(name):
    X = np.abs(table())
    has_columns = name in ("standard", "standard_pca", "none")
    assert fit(scipy.sparse.csr_array(X) if name == "idf" else X, name).has_columns == has_columns
    turned = fit(np.random.default_rng(0).normal(size=(60, 50)), "standard")
    assert turned.basis is not None
    assert not turned.has_columns


@pytest.mark.parametrize("name", [name for name in SCALINGS if name != "none"])
@pytest.mark.parametrize(("dtype", "power"), [(np.float32, 100), (np.float64, 900)])
def test_scaled_rows_have_the_same_digits_for_every_power_of_two(name, dtype, power):
    X = np.abs(np.round(8 * table()) / 8).astype(dtype)
    X = scipy.sparse.csr_array(X) if name == "idf" else X
    rows = fit(X, name).transform(X)
    for factor in (np.ldexp(dtype(1), power), np.ldexp(dtype(1), -power)):
        scaled = fit(X * factor, name).transform(X * factor)
        assert abs(scaled - rows).max() == 0


def test_columns_are_scaled_each_by_its_own_power_of_two():
    X = table()
    far_apart = X * np.ldexp(1.0, [-900, 900, 0, -300, 300, 50])
    for name in ("standard", "unit_standard"):
        np.testing.assert_array_equal(fit(far_apart, name).transform(far_apart), fit(X, name).transform(X))
    assert is_table(far_apart, CONFIG)
