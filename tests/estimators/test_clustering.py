"""Clusters and coordinates of rows without labels."""

import numpy as np
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse.csgraph import connected_components
from sklearn.datasets import load_digits, load_wine, make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score, pairwise_distances
from sklearn.utils.estimator_checks import parametrize_with_checks

from angpn import ANGPNClusterer, ANGPNEmbedding
from angpn.ensemble.main_directions import MainDirections
from angpn.estimators.adaptive_graph import AdaptiveGraph, AdaptiveGraphOptions

APART = [[0, 0], [9, 0], [0, 9], [9, 9]]


@parametrize_with_checks([ANGPNClusterer(3), ANGPNClusterer(), ANGPNEmbedding()])
def test_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(400, centers=APART, cluster_std=0.8, random_state=0)


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)


# What it finds


@pytest.mark.parametrize("assign_labels", ["kmeans", "components"])
@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array, np.float32, torch.from_numpy, "precomputed"])
def test_clusters_that_are_apart_are_found_in_every_form_of_input(blobs, form, assign_labels):
    X, truth = blobs
    options = {"assign_labels": assign_labels, "scaling": "none", "random_state": 0}
    if form == "precomputed":
        model = ANGPNClusterer(4, metric=form, **{**options, "scaling": "auto"}).fit(pairwise_distances(X))
    else:
        model = ANGPNClusterer(4, **options).fit(form(X))
    assert adjusted_rand_score(truth, model.labels_) == 1
    assert model.n_clusters_ == 4
    assert model.affinity_matrix_.shape == (400, 400)
    assert_allclose((model.affinity_matrix_ - model.affinity_matrix_.T).toarray(), 0)


def test_shapes_that_kmeans_cannot_find_are_found():
    X, truth = make_moons(400, noise=0.05, random_state=0)
    assert adjusted_rand_score(truth, ANGPNClusterer(2, random_state=0).fit_predict(X)) > 0.9


@pytest.mark.parametrize("assign_labels", ["kmeans", "components"])
def test_clusters_are_as_many_as_asked_and_the_largest_comes_first(digits, assign_labels):
    model = ANGPNClusterer(7, assign_labels=assign_labels, random_state=0).fit(digits[0][:600])
    sizes = np.bincount(model.labels_)
    assert len(sizes) == model.n_clusters_ == 7
    assert_array_equal(sizes, np.sort(sizes)[::-1])
    if assign_labels == "components":
        n_components, components = connected_components(model.affinity_matrix_, directed=False)
        assert n_components == 7
        assert adjusted_rand_score(components, model.labels_) == 1
        assert model.half_steps_[-1].n_components == 7
    else:
        assert model.half_steps_ is None


def test_digits_and_a_table_are_clustered_much_as_their_classes_are(digits):
    X, truth = digits
    assert adjusted_rand_score(truth, ANGPNClusterer(10, random_state=0).fit_predict(X)) > 0.7  # k-means has 0.67
    X, truth = load_wine(return_X_y=True)
    assert adjusted_rand_score(truth, ANGPNClusterer(3, random_state=0).fit_predict(X)) > 0.8


@pytest.mark.parametrize("count", [2, 3, 4])
def test_the_number_of_clusters_is_found_by_the_gap_between_eigenvalues(count):
    X, truth = make_blobs(300, centers=APART[:count], cluster_std=0.8, random_state=0)
    model = ANGPNClusterer(random_state=0).fit(X)
    assert model.n_clusters_ == count
    assert adjusted_rand_score(truth, model.labels_) == 1
    assert model.eigengap_ > 0.2
    assert ANGPNClusterer(count, random_state=0).fit(X).eigengap_ is None


def test_rows_without_clusters_are_said_to_be_a_guess():
    X = np.random.default_rng(0).normal(size=(300, 5))
    assert ANGPNClusterer(random_state=0).fit(X).eigengap_ < 0.15


def test_the_same_seed_gives_the_same_clusters(digits):
    first, second = (ANGPNClusterer(5, random_state=3).fit(digits[0][:300]) for _ in range(2))
    assert_array_equal(first.labels_, second.labels_)
    assert_array_equal(first.embedding_, second.embedding_)


def test_typical_rows_lie_in_the_middle_of_their_cluster(blobs):
    X, _ = blobs
    model = ANGPNClusterer(4, random_state=0).fit(X)
    centers = np.stack([X[model.labels_ == label].mean(axis=0) for label in range(4)])
    distance = np.linalg.norm(X - centers[model.labels_], axis=1)
    typical = np.argsort(-model.typicality_)[:40]
    assert distance[typical].mean() < 0.8 * distance.mean()
    assert 0 <= model.margins_.min() <= model.margins_.max() <= 1


def test_how_rows_are_scaled_follows_from_what_they_are(digits):
    generator = np.random.default_rng(0)
    cases = {
        "standard": generator.normal(size=(60, 5)) * [1, 10, 100, 1000, 1],
        "none": generator.integers(0, 2, size=(60, 5)).astype(float),
        "pca": digits[0][:60],  # of rows of length 1
    }
    for scaling, X in cases.items():
        assert ANGPNClusterer(3, random_state=0).fit(X)._graph.scaling.name == scaling
    words = ANGPNClusterer(3, random_state=0).fit(scipy.sparse.csr_array(digits[0][:60]))._graph.scaling
    assert words.name == "pca"
    assert words.scale is not None  # by inverse document frequency


# Why rows are reduced to their main directions


def many_weak_columns(n_rows=600, n_columns=300):
    """Return rows of 0 and 1 in three classes that differ a little in every tenth column, and groups of near copies."""
    generator = np.random.default_rng(0)
    truth = generator.integers(0, 3, n_rows)
    shares = np.full((3, n_columns), 0.5)
    shares[:, ::10] = generator.choice([0.2, 0.8], size=(3, n_columns // 10))
    X = (generator.random((n_rows, n_columns)) < shares[truth]).astype(float)
    for start in range(0, 60, 6):
        X[start + 1 : start + 6] = X[start]
        truth[start + 1 : start + 6] = truth[start]
    flipped = generator.random((60, n_columns)) < 0.02
    X[:60] = np.where(flipped, 1 - X[:60], X[:60])
    return X, truth


def test_classes_that_hundreds_of_columns_hide_are_found_and_not_the_groups_of_near_copies():
    X, truth = many_weak_columns()
    model = ANGPNClusterer(3, scaling="unit", random_state=0).fit(X)
    assert adjusted_rand_score(truth, model.labels_) > 0.7  # without the reduction it is below 0.1
    assert model._graph.rows.shape == (600, 8)
    whole = AdaptiveGraph.learn(X, AdaptiveGraphOptions(20, 0, 3, "auto", "unit", 0.9, 0, False)).neighborhood
    reduced = model._graph.first
    pure, purer = ((truth[found.indices.numpy()[:, :20]] == truth[:, None]).mean() for found in (whole, reduced))
    assert purer > pure + 0.2


def test_columns_of_a_table_are_not_reduced_unless_they_are_many():
    X = np.random.default_rng(0).normal(size=(100, 40)) * np.geomspace(1, 1e4, 40)
    small, wide = (ANGPNClusterer(2, random_state=0).fit(X[:, :count])._graph for count in (31, 32))
    assert [small.scaling.name, wide.scaling.name] == ["standard", "standard_pca"]
    assert small.scaling.main is None
    assert wide.rows.shape == (100, 6)
    assert np.linalg.norm(wide.rows, axis=1).std() > 0.01  # how far out a row lies is kept: columns are measurements


@pytest.mark.parametrize("scaled", [False, True], ids=["0 and 1", "standardised"])
def test_classes_that_hundreds_of_columns_hide_are_found_however_the_columns_are_scaled(scaled):
    X, truth = many_weak_columns()
    X = (X - X.mean(axis=0)) / X.std(axis=0) if scaled else X
    assert adjusted_rand_score(truth, ANGPNClusterer(3, random_state=0).fit_predict(X)) > 0.7


def test_main_directions_are_those_of_the_largest_variance_and_rows_have_length_one():
    generator = np.random.default_rng(0)
    rows = (generator.normal(size=(200, 6)) * [1, 5, 0.1, 3, 0.2, 0.3] + 7).astype(np.float32)
    found = MainDirections.fit(rows, 2)
    assert_allclose(np.abs(found.basis[[1, 3], [0, 1]]), 1, atol=0.02)
    assert_allclose(found.basis.T @ found.basis, np.eye(2), atol=1e-12)
    coordinates = found.transform(rows)
    assert_allclose(np.linalg.norm(coordinates, axis=1), 1, rtol=1e-6)
    assert_array_equal(found.transform(rows[50:53]), coordinates[50:53])
    assert_array_equal(found.transform(np.full((2, 6), found.center)), 0)  # the mean has no direction


# Why k grows


def n_components(X, n_updates, growing):
    """Count the components of the graph after so many updates from its own features."""
    k = 10
    if growing:
        options = AdaptiveGraphOptions(k, n_updates, 3, "auto", "auto", 0.9, 0, False)
        return connected_components(AdaptiveGraph.learn(X, options).graph, directed=False)[0]
    for _ in range(n_updates + 1):
        found = AdaptiveGraph.learn(X, AdaptiveGraphOptions(k, 0, 3, "auto", "auto", 0.9, 0, False))
        updated = AdaptiveGraph.learn(X, AdaptiveGraphOptions(k, 1, 3, "auto", "auto", 0.9, 0, False))
        X = updated.features.numpy().astype(np.float64)
    return connected_components(found.graph, directed=False)[0]


def test_a_graph_learnt_from_its_own_features_falls_apart_unless_k_grows(digits):
    X = digits[0][:800]
    assert n_components(X, 4, growing=False) > 20
    assert n_components(X, 4, growing=True) <= 10


# New rows


def test_fitted_rows_keep_cluster_and_coordinates_and_new_ones_get_those_of_their_neighbours(blobs):
    X, truth = blobs
    model = ANGPNClusterer(4, random_state=0).fit(X[:300])
    assert_array_equal(model.predict(X[:300]), model.labels_)
    assert adjusted_rand_score(truth[300:], model.predict(X[300:])) == 1
    embedding = ANGPNEmbedding(3, random_state=0).fit(X[:300])
    assert_allclose(embedding.transform(X[:300]), embedding.embedding_, rtol=1e-5)
    new = embedding.transform(X[300:])
    for label in range(4):
        own = embedding.embedding_[truth[:300] == label]
        assert_allclose(new[truth[300:] == label].mean(axis=0), own.mean(axis=0), atol=0.2)


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array, np.float32])
def test_fitted_rows_keep_their_cluster_where_rows_are_reduced(digits, form):
    X, truth = form(digits[0]), digits[1]
    model = ANGPNClusterer(10, random_state=0).fit(X[:1200])
    assert model._graph.scaling.main is not None
    assert_array_equal(model.predict(X[:1200]), model.labels_)
    assert_array_equal(model.predict(X[5:9]), model.labels_[5:9])
    assert adjusted_rand_score(truth[1200:], model.predict(X[1200:])) > 0.6


def test_new_rows_may_be_distances_to_the_fitted_ones(blobs):
    X, truth = blobs
    model = ANGPNClusterer(4, metric="precomputed", random_state=0).fit(pairwise_distances(X[:300]))
    assert adjusted_rand_score(truth[300:], model.predict(pairwise_distances(X[300:], X[:300]))) == 1


def test_coordinates_separate_what_is_apart_and_have_names(blobs):
    X, truth = blobs
    embedding = ANGPNEmbedding(3, random_state=0).fit(X)
    assert embedding.embedding_.shape == (400, 3)
    assert_allclose(embedding.eigenvalues_, 0, atol=1e-3)  # four clusters: three ways to be constant on each
    within = max(embedding.embedding_[truth == label].std(axis=0).max() for label in range(4))
    assert within < 0.4 * embedding.embedding_.std(axis=0).min()
    assert list(embedding.get_feature_names_out()) == ["angpnembedding0", "angpnembedding1", "angpnembedding2"]


# Errors


@pytest.mark.parametrize(
    ("options", "X", "message"),
    [
        ({"n_clusters": 50}, np.eye(20), "n_clusters must be at most the number of rows, 20, got 50; ask for fewer"),
        ({"n_clusters": 0}, np.eye(20), "n_clusters must be a whole number >= 1, got 0"),
        ({"n_clusters": 2.5}, np.eye(20), "n_clusters must be a whole number >= 1, got 2.5"),
        ({"assign_labels": "cut"}, np.eye(20), "assign_labels must be one of 'kmeans', 'components', got 'cut'"),
        ({"n_neighbors": 0}, np.eye(20), "n_neighbors must be a whole number >= 1, got 0"),
        ({"n_updates": -1}, np.eye(20), "n_updates must be a whole number >= 0, got -1"),
        ({"metric": "cosine"}, np.eye(20), "metric must be one of 'auto', 'chord'"),
        ({"recall": 2}, np.eye(20), r"recall must lie in \(0, 1\], got 2"),
        ({}, np.ones((20, 3)), "rows must differ, got rows that are all alike"),
        ({}, np.ones((20, 100)), "rows must differ, got rows that are all alike"),
        ({"n_clusters": 3, "scaling": "unit"}, np.full((50, 99), 0.3), "rows must differ, got rows that are all"),
        ({}, np.ones((1, 3)), "minimum of 3 is required"),
        ({}, np.full((20, 3), np.nan), "contains NaN"),
        ({"metric": "precomputed"}, np.ones((20, 3)), "must be a full square matrix"),
        ({"metric": "precomputed"}, scipy.sparse.eye_array(20).tocsr(), "got a sparse one"),
        ({"scaling": "standard"}, scipy.sparse.eye_array(20).tocsr(), "would fill a sparse X"),
    ],
)
def test_bad_input_gets_a_clear_error(options, X, message):
    with pytest.raises(ValueError, match=message):
        ANGPNClusterer(**options).fit(X)


def test_more_parts_than_clusters_are_said_where_components_are_asked_for():
    X, _ = make_blobs(400, centers=[[0, 0], [1000, 0], [0, 1000], [1000, 1000]], random_state=0)
    with pytest.raises(ValueError, match="n_clusters must be at least 4, .* got 2; ask for more clusters"):
        ANGPNClusterer(2, assign_labels="components", n_neighbors=5, random_state=0).fit(X)


def test_no_more_coordinates_than_rows():
    with pytest.raises(ValueError, match="n_components must be less than the number of rows, 10, got 10"):
        ANGPNEmbedding(10).fit(np.random.default_rng(0).normal(size=(10, 3)))
