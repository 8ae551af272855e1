"""Predictions in batches: the same whatever the batch, in memory that does not grow with the rows."""

import pickle
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

from angpn import ANGPNClassifier, ANGPNNetworkClassifier
from angpn.estimators import memory_estimate, neighbor_search, new_rows
from angpn.estimators.fitted_models import FittedEnsemble
from angpn.neighbors.exact import ExactSearch
from angpn.utils import memory

CENTRES = np.random.default_rng(0).normal(size=(3, 6))
NETWORK = partial(ANGPNNetworkClassifier, hidden_layer_sizes=(8,), max_iter=5)
pytestmark = pytest.mark.filterwarnings("ignore:training did not settle", "ignore:. of 80 sampled rows")


def rows(n, seed):
    generator = np.random.default_rng(seed)
    truth = generator.integers(3, size=n)
    return CENTRES[truth] + 0.8 * generator.normal(size=(n, 6)), truth


def fitted(kind, form=np.asarray, **options):
    X, truth = rows(80, 1)
    return kind(random_state=0, n_neighbors=6, **options).fit(form(X), np.where(np.arange(80) % 4, -1, truth))


def distances(new):
    return np.linalg.norm(new[:, None] - rows(80, 1)[0], axis=2)


def words(X):
    return scipy.sparse.csr_array(np.where(X > 0.3, X, 0))


@pytest.mark.parametrize("kind", [ANGPNClassifier, NETWORK])
@pytest.mark.parametrize(
    ("form", "options"), [(np.float32, {}), (np.asarray, {}), (words, {}), (distances, {"metric": "precomputed"})]
)
def test_a_row_gets_the_same_in_whatever_batch(monkeypatch, kind, form, options):
    model, new = fitted(kind, form, **options), np.concatenate([rows(40, 2)[0], rows(80, 1)[0][:5], np.zeros((1, 6))])
    whole = [ask(form(new)) for ask in (model.predict_proba, model.transform)]
    labels = model.predict(form(new))
    monkeypatch.setattr(new_rows, "_MOST_ROWS", 7)
    for ask, expected in zip((model.predict_proba, model.transform), whole, strict=True):
        found = ask(form(new))
        assert found.dtype == expected.dtype
        assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        assert_allclose(ask(form(new[20:21])), expected[20:21], rtol=1e-5, atol=1e-6)
    assert_array_equal(model.predict(form(new)), labels)


def test_ties_of_a_fixed_graph_fall_alike_wherever_a_row_stands():
    """Empty rows are equally far from all others: which of these they are attached to must not depend on the place."""
    model = fitted(ANGPNClassifier, metric="chord", scaling="unit", rule="knn", beta=0)
    found = model.predict_proba(np.zeros((30, 6)))
    assert_allclose(found, np.tile(found[:1], (30, 1)), rtol=1e-5)


def test_wide_rows_come_in_smaller_batches():
    model = fitted(ANGPNClassifier)._fitted
    assert new_rows.batch_rows(model, 6) == 2**12
    assert new_rows.batch_rows(model, 2**20) == 8
    assert new_rows.batch_rows(model, 2**30) == 1


def test_probabilities_need_no_embedding_and_an_embedding_of_fitted_rows_is_computed_once(monkeypatch):
    model, calls, embedding = fitted(ANGPNClassifier), [], FittedEnsemble.embedding
    monkeypatch.setattr(FittedEnsemble, "embedding", lambda self: calls.append(self) or embedding(self))
    monkeypatch.setattr(new_rows, "_MOST_ROWS", 7)
    X = rows(80, 1)[0]
    assert_array_equal(model.predict_proba(X), model.label_distributions_)
    assert len(calls) == 0
    assert_array_equal(model.transform(X), model.embedding_)
    assert len(calls) <= 2  # one for new rows, one for the attribute


@pytest.mark.parametrize("kind", [ANGPNClassifier, NETWORK])
def test_a_prediction_that_will_not_fit_is_refused_before_any_work(monkeypatch, kind):
    model = fitted(kind)
    monkeypatch.setattr(memory_estimate, "available_bytes", lambda: 10**6)
    monkeypatch.setattr("angpn.estimators.prediction.fitted_search", None)
    message = r"prediction of 80 rows needs about 0.\d GB beside them, got 0.0 GB free; pass fewer rows at a time, or"
    for ask in (model.predict_proba, model.predict, model.transform):
        with pytest.raises(MemoryError, match=message):
            ask(rows(80, 1)[0])


def test_the_estimate_grows_with_the_result_alone():
    model = fitted(ANGPNClassifier)._fitted
    few, many = (memory_estimate.new_rows_bytes(model, np.empty((n, 6)), 3, 0.9) for n in (10**4, 10**6))
    assert many - few == 8 * 3 * (10**6 - 10**4)


@pytest.mark.skipif(memory.peak_bytes() is None, reason="the system does not tell")
@pytest.mark.parametrize("kind", ["ANGPNClassifier()", "ANGPNNetworkClassifier(max_iter=5)"])
@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows(kind):
    """Three times the rows take no more beside themselves and the result; all at once they took 150 MB more."""
    code = f"""
import warnings
import numpy as np
from angpn import ANGPNClassifier, ANGPNNetworkClassifier
from angpn.utils import memory
warnings.simplefilter("ignore")
generator = np.random.default_rng(0)
X = generator.normal(size=(60000, 16)).astype(np.float32)
y = np.where(np.arange(500) % 10 == 0, (X[:500, 0] > 0).astype(int), -1)
model = {kind}.set_params(random_state=0, metric="chord").fit(X[:500], y)
for n in (20000, 60000):
    model.predict_proba(X[:5000])
    memory.forget_peak()
    before = memory.resident_bytes()
    found = model.predict_proba(X[:n])
    print(memory.peak_bytes() - before - found.nbytes)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    few, many = map(int, done.stdout.split())
    assert many - few < 20e6


@pytest.mark.parametrize("kind", [ANGPNClassifier, NETWORK])
@pytest.mark.parametrize("form", [np.asarray, words])
def test_fitted_rows_are_prepared_for_search_once(monkeypatch, kind, form):
    model, new = fitted(kind, form), form(rows(10, 2)[0])
    expected = model.predict_proba(new)
    prepared = []
    monkeypatch.setattr(
        neighbor_search, "ExactSearch", lambda *args, **options: prepared.append(ExactSearch(*args, **options))
    )
    assert_array_equal(model.predict_proba(new), expected)
    assert not prepared
    again = pickle.loads(pickle.dumps(model))  # which has the rows, but not what they were prepared to
    monkeypatch.undo()
    assert not again._fitted.exact_searches
    assert_array_equal(again.predict_proba(new), expected)


def test_rows_that_take_much_memory_are_not_kept_twice(monkeypatch):
    monkeypatch.setattr(neighbor_search, "MOST_VALUES_KEPT", 80 * 6 - 1)
    model = fitted(ANGPNClassifier)
    model.predict(rows(10, 2)[0])
    assert not model._fitted.exact_searches
