"""Input that cannot be written to is taken without a word, and stays as it is."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import pairwise_distances

from angpn import ANGPNClassifier, ANGPNNetworkClassifier, EnsembleConfig

SMALL = EnsembleConfig(hops=((0.5, 2),), hops_of_scalings=((0.5, 2),), more_heads=())
TRUTH = np.arange(40) % 2
X = np.random.default_rng(0).normal(size=(40, 4)) + 2 * TRUTH[:, None]
NEW, Y = X[:7] + 0.125, np.where(np.arange(40) < 20, TRUTH, -1)


def ensemble(**options):
    return ANGPNClassifier(n_neighbors=4, max_rounds=1, config=SMALL, random_state=0, **options)


def network(**options):
    return ANGPNNetworkClassifier(
        n_neighbors=4, n_candidates=39, hidden_layer_sizes=4, max_iter=2, random_state=0, **options
    )


def frozen(array):
    """Return a copy that cannot be written to."""
    array = array.copy()
    parts = (array.data, array.indices, array.indptr) if scipy.sparse.issparse(array) else (array,)
    for part in parts:
        part.flags.writeable = False
    return array


@pytest.fixture
def all_warnings_are_errors():
    torch.set_warn_always(True)  # else torch says it once in a process
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "training did not settle|of 40 sampled rows")
        yield
    torch.set_warn_always(False)


@pytest.fixture(params=["array", "mapped", "mapped float32", "frame", "sparse"])
def inputs(request, tmp_path):
    """Rows to fit and new rows, as users have them."""

    def make(rows, name):
        if request.param.startswith("mapped"):
            np.save(tmp_path / name, rows.astype(np.float32 if "float32" in request.param else np.float64))
            return np.load(tmp_path / f"{name}.npy", mmap_mode="r")
        if request.param == "frame":
            return pd.DataFrame(frozen(rows), columns=list("abcd"), copy=False)
        return frozen(scipy.sparse.csr_array(rows) if request.param == "sparse" else rows)

    return make(X, "rows"), make(NEW, "new")


@pytest.mark.usefixtures("all_warnings_are_errors")
@pytest.mark.parametrize(
    "make",
    [ensemble, lambda: ensemble(scaling="none"), network, lambda: network(normalize=False)],
    ids=["ensemble", "ensemble none", "network", "network raw"],
)
def test_rows_labels_and_weights_may_be_read_only(make, inputs, tmp_path):
    rows, new = inputs
    mask = frozen(np.isin(np.arange(40), [3, 6]))
    model = make().fit(rows, frozen(Y), sample_weight=frozen(np.ones(40)), validation_mask=mask)
    assert_array_equal(model.predict(rows), model.transduction_)
    assert model.score(rows, frozen(TRUTH), sample_weight=frozen(np.ones(40))) > 0
    model.save(tmp_path / "model.angpn")
    loaded = type(model).load(tmp_path / "model.angpn")
    for each in (model, loaded):
        assert_allclose(each.predict_proba(new), model.predict_proba(new), atol=1e-6)
        assert each.transform(new).shape == (7, each.embedding_.shape[1])
        each.explain(0)
    loaded.set_params(warm_start=True).fit(rows, frozen(Y))
    assert_allclose(rows.toarray() if scipy.sparse.issparse(rows) else rows, X, rtol=1e-6)


@pytest.mark.usefixtures("all_warnings_are_errors")
@pytest.mark.parametrize("make", [ensemble, network])
def test_distances_may_be_read_only(make, tmp_path):
    np.save(tmp_path / "distances", pairwise_distances(X))
    mapped, new = np.load(tmp_path / "distances.npy", mmap_mode="r"), frozen(pairwise_distances(NEW, X))
    assert len(make(metric="precomputed").fit(mapped, Y).predict(new)) == 7
    assert len(make().fit(frozen(X), Y, distances=mapped).predict(NEW, distances=new)) == 7
    assert len(make().fit(frozen(X), Y, distances=frozen(scipy.sparse.csr_array(mapped))).transduction_) == 40
