"""Rows that no label reaches, empty rows and conflicting duplicates: found, and never suggested."""

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_array_equal
from scipy.spatial.distance import cdist

from angpn import ANGPNClassifier, ANGPNNetworkClassifier, EnsembleConfig
from angpn.estimators import unreliable_rows
from angpn.estimators.unreliable_rows import conflicting_rows, empty_rows, unreached_rows

BRIEF = EnsembleConfig(hops=((0.5, 2),))


def ensemble(**options):
    return ANGPNClassifier(config=BRIEF, **{"n_neighbors": 5, "max_rounds": 1, "random_state": 0} | options)


def network(**options):
    return ANGPNNetworkClassifier(
        **{"n_neighbors": 5, "n_iter_no_change": 5, "random_state": 0, "hidden_layer_sizes": (8,)} | options
    )


def two_clusters():
    """Two clusters of 60 rows, far apart, with eight labels of two classes in the first."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(120, 3))
    X[60:] += 100
    y = np.full(120, -1)
    y[:8] = X[:8, 0] > np.median(X[:8, 0])
    return X, y


def texts():
    """Counts of words in 80 texts of two topics, sparse; texts 40 to 44 and a labelled one, 3, have no known word."""
    generator = np.random.default_rng(0)
    topic = np.arange(80) % 2
    counts = generator.poisson(np.where(np.arange(20)[None, :] // 10 == topic[:, None], 1.0, 0.05)).astype(float)
    counts[:, 0] += 1  # no other is empty
    counts[[3, *range(40, 45)]] = 0
    return scipy.sparse.csr_array(counts), np.where(np.arange(80) < 16, topic, -1)


@pytest.mark.parametrize(
    "model",
    [ensemble(scaling="standard"), network(metric="euclidean", normalize=False), ensemble(metric="precomputed")],
    ids=["ensemble", "network", "precomputed"],
)
def test_a_cluster_without_a_label_is_unreached(model):
    X, y = two_clusters()
    X = cdist(X, X) if model.metric == "precomputed" else X
    model.fit(X, y)
    found = model.unreliable_rows_
    assert_array_equal(found.unreached, np.arange(60, 120))
    assert len(found.empty) == len(found.conflicting) == 0
    assert_array_equal(np.sort(model.uncertain(120)), np.arange(8, 120))
    assert model.uncertain(1)[0] >= 60  # a label there is worth most
    y[100] = 1
    assert len(model.fit(X, y).unreliable_rows_.unreached) == 0


def test_links_count_both_ways_and_in_any_graph():
    first = scipy.sparse.csr_array(([1.0, 1, 0], ([1, 3, 2], [0, 2, 0])), shape=(5, 5))
    second = scipy.sparse.csr_array(([1.0], ([2], [1])), shape=(5, 5))
    codes = np.array([0, -1, -1, -1, -1])
    assert_array_equal(unreached_rows([first], codes), [2, 3, 4])  # a weight of 0 is no link
    assert_array_equal(unreached_rows([first, second], codes), [4])
    assert first.nnz == 3


@pytest.mark.parametrize("model", [ensemble(), network(n_candidates=79)], ids=["ensemble", "network"])
def test_texts_without_a_word_are_empty(model):
    X, y = texts()
    model.fit(X, y)
    assert_array_equal(model.unreliable_rows_.empty, [3, 40, 41, 42, 43, 44])
    suggested = model.uncertain(80)
    assert not np.isin(suggested, [*range(16), *range(40, 45)]).any()
    assert len(suggested) == len(np.unique(X.toarray()[suggested], axis=0)) > 30
    model.fit(X, np.where(np.arange(80) == 40, 0, y))  # empty texts of both classes
    assert_array_equal(model.unreliable_rows_.conflicting, [3, 40, 41, 42, 43, 44])


@pytest.mark.parametrize("scaling", ["unit", "standard", "unit_standard", "none"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_zeros_are_empty_however_they_are_scaled(scaling, dtype):
    X, y = two_clusters()
    X = X[:60].astype(dtype)
    X[[5, 30]] = 0
    X[31] = -0.0
    X[32, :2] = 0
    assert_array_equal(ensemble(scaling=scaling).fit(X, y[:60]).unreliable_rows_.empty, [5, 30, 31])


def test_a_row_of_distances_is_never_empty():
    X, y = two_clusters()
    X[8:20] = X[8]
    distances = cdist(X, X)
    model = ensemble(metric="precomputed").fit(distances, y)
    assert len(model.unreliable_rows_.empty) == 0
    assert len(ensemble().fit(np.zeros((120, 3)) + X, y, distances=distances).unreliable_rows_.empty) == 0


def conflicting_problem():
    """Rows 10, 20, 30 and 40 are equal and 10 and 20 labelled otherwise; so are 11 and 21, and labelled alike."""
    X, y = two_clusters()
    X, y = X[:60], y[:60]
    X[[20, 30, 40]], X[[21, 31]] = X[10], X[11]
    y[[10, 20]], y[[11, 21]] = (0, 1), (1, 1)
    return X, y


@pytest.mark.parametrize("kind", ["dense", "sparse", "precomputed"])
@pytest.mark.parametrize("make", [ensemble, network])
def test_duplicates_of_differently_labelled_rows_conflict(kind, make):
    X, y = conflicting_problem()
    X = {"dense": X, "sparse": scipy.sparse.csr_array(X), "precomputed": cdist(X, X)}[kind]
    model = make(metric="precomputed" if kind == "precomputed" else "chord").fit(X, y)
    assert_array_equal(model.unreliable_rows_.conflicting, [10, 20, 30, 40])
    suggested = model.uncertain(60)
    assert suggested[-1] == 30  # whose label a third one would decide: after all others
    assert not np.isin(suggested, [31, 40]).any()  # they equal rows that are labelled alike, or row 30


def test_blocks_and_representations_of_zero_make_no_difference(monkeypatch):
    monkeypatch.setattr(unreliable_rows, "_BLOCK_NUMBERS", 7)
    rows = np.array([[0.0, 1], [-0.0, 1], [0, 0], [0, 1], [1, 0], [-0.0, 0]])
    codes = np.array([0, 1, 0, -1, 1, -1])
    assert_array_equal(conflicting_rows(rows, codes), [0, 1, 3])
    assert_array_equal(empty_rows(rows, np.zeros((1, 2))), [2, 5])
    data, indices, indptr = [1.0, 0.0, 1, 1, 1], [1, 0, 1, 1, 0], [0, 1, 3, 3, 4, 5, 5]  # a zero in row 1 is stored
    sparse = scipy.sparse.csr_array((data, indices, indptr), shape=(6, 2))
    assert_array_equal(conflicting_rows(sparse, codes), [0, 1, 3])
    assert_array_equal(empty_rows(sparse, None), [2, 5])
    assert sparse.nnz == 5  # the caller's matrix is as it was
    assert rows.tobytes() == np.array([[0.0, 1], [-0.0, 1], [0, 0], [0, 1], [1, 0], [-0.0, 0]]).tobytes()


def test_a_saved_model_and_a_warm_refit_know_them(tmp_path):
    X, y = conflicting_problem()
    X[50] = 0
    model = ensemble(warm_start=True, scaling="standard").fit(X, y)
    model.save(tmp_path / "m.angpn")
    again = ANGPNClassifier.load(tmp_path / "m.angpn")
    for found, wanted in zip(again.unreliable_rows_, model.unreliable_rows_, strict=True):
        assert_array_equal(found, wanted)
    assert_array_equal(again.unreliable_rows_.union(), [10, 20, 30, 40, 50])
    assert_array_equal(again.uncertain(5), model.uncertain(5))
    y[31] = 0  # its duplicates 11 and 21 are of the other class
    model.fit(X, y)
    assert_array_equal(model.unreliable_rows_.conflicting, [10, 11, 20, 21, 30, 31, 40])
    with pytest.raises(AttributeError, match="unreliable_rows_ is there after fit"):
        _ = ensemble().unreliable_rows_


def test_fewer_rows_than_asked_for_may_be_left():
    X, y = conflicting_problem()
    y = np.where(np.isin(np.arange(60), [30, 40, 50]), -1, np.arange(60) % 2)
    y[[10, 20]] = 0, 1
    assert_array_equal(ensemble().fit(X, y).uncertain(10), [50, 30])
