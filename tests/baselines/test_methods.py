"""The interface of every method of the registry."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits

from angpn.baselines import METHODS

# Fewer epochs and smaller widths, for tests that do not depend on accuracy.
BRIEF = {
    "ANGPN": {"max_iter": 15},
    "ANGPN-auto": {"max_rounds": 0},
    "NGPN": {"max_iter": 15},
    "DeepWalk": {"n_walks": 4, "walk_length": 10, "n_components": 16},
    "DGI": {"hidden_channels": 32, "max_iter": 15},
    "GraphSAGE": {"max_iter": 15},
    "GCN": {"max_iter": 15},
    "GAT": {"max_iter": 15},
    "APPNP": {"max_iter": 15},
}
pytestmark = pytest.mark.filterwarnings("ignore:.*would be labelled otherwise", "ignore:training did not settle")


def brief(name, **options):
    return METHODS[name](**{"random_state": 0, **BRIEF.get(name, {}), **options})


@pytest.fixture(scope="module")
def clusters():
    """Two far groups of two classes each, an empty row, and one that shares nothing with the others."""
    generator = np.random.default_rng(0)
    truth = np.arange(120) % 4
    X = np.zeros((122, 10))
    X[:120, :8] = 4 * np.repeat(np.eye(4), 2, axis=1)[truth] + generator.random((120, 8))
    X[:120, :4] *= (truth < 2)[:, None]
    X[:120, 4:8] *= (truth >= 2)[:, None]
    X[121, 9] = 1
    truth = np.append(truth, [0, 1])
    y = np.where(np.arange(122) < 40, truth, -1)
    validation = (np.arange(122) >= 28) & (np.arange(122) < 40)
    return X, y, validation, truth


@pytest.fixture(scope="module")
def digits():
    """900 digits, 9 training and 4 validation labels a class."""
    data = load_digits()
    rows = np.random.default_rng(0).permutation(len(data.target))[:900]
    X, truth = data.data[rows], data.target[rows]
    y, validation = np.full(900, -1), np.zeros(900, dtype=bool)
    for label in range(10):
        chosen = np.flatnonzero(truth == label)[:13]
        y[chosen] = label
        validation[chosen[9:]] = True
    return X, y, validation, truth


NETWORKS = ("DeepWalk", "DGI", "GraphSAGE", "GCN", "GAT", "APPNP")  # seconds each, on digits


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in NETWORKS else name for name in METHODS]
)
def test_every_method_labels_digits(digits, name):
    X, y, validation, truth = digits
    options = {"DeepWalk": {"n_walks": 20}, "DGI": {"max_iter": 100}, "GAT": {"max_iter": 300}}.get(name, {})
    model = METHODS[name](random_state=0, **options).fit(X, y, validation_mask=validation)
    assert np.mean((model.transduction_ == truth)[y == -1]) >= 0.82


@pytest.mark.parametrize("name", METHODS)
def test_results_are_distributions_also_on_a_disconnected_graph(clusters, name):
    X, y, validation, truth = clusters
    model = brief(name).fit(X, y, validation_mask=validation)
    assert_array_equal(model.classes_, np.arange(4))
    assert model.label_distributions_.shape == (122, 4)
    assert np.isfinite(model.label_distributions_).all()
    assert (model.label_distributions_ >= 0).all()
    assert_allclose(model.label_distributions_.sum(axis=1), 1, rtol=1e-5)
    assert_array_equal(model.transduction_, model.label_distributions_.argmax(axis=1))
    # Two groups without an edge between them: hardly a row of one gets a label of the other.
    assert np.mean((model.transduction_ < 2)[:120] == (truth < 2)[:120]) > 0.9


@pytest.mark.parametrize("name", METHODS)
def test_same_seed_same_result(clusters, name):
    X, y, validation, _ = clusters
    from angpn.baselines import embedding_cache

    first = brief(name).fit(X, y, validation_mask=validation)
    embedding_cache._memory.clear()
    again = clone(first).fit(X, y, validation_mask=validation)
    assert_array_equal(first.label_distributions_, again.label_distributions_)


@pytest.mark.parametrize("name", METHODS)
def test_names_and_sparse_rows(clusters, name):
    X, y, validation, _ = clusters
    expected = brief(name).fit(X, y, validation_mask=validation)
    names = np.array(["a", "b", "c", "d"], dtype=object)
    named = brief(name).fit(X, np.where(y == -1, None, names[y]), validation_mask=validation)
    assert_array_equal(named.transduction_, names[expected.transduction_])
    sparse = brief(name).fit(scipy.sparse.csr_array(X), y, validation_mask=validation)
    assert np.mean(sparse.transduction_ == expected.transduction_) > 0.9


@pytest.mark.parametrize("name", METHODS)
def test_validation_labels_are_not_trained_on(clusters, name):
    """Wrong validation labels may select other hyper-parameters or another epoch, but are never fitted."""
    X, y, validation, _ = clusters
    wrong = np.where(validation, (y + 2) % 4, y)  # all of the other group
    model = brief(name).fit(X, wrong, validation_mask=validation)
    assert np.mean(model.transduction_[validation] == wrong[validation]) < 0.5
    if name in ("LP", "ManiReg", "Poisson"):  # without selection nothing may change
        expected = brief(name).fit(X, y, validation_mask=validation)
        assert_array_equal(model.label_distributions_, expected.label_distributions_)


@pytest.mark.parametrize("name", METHODS)
def test_labels_are_held_out_where_no_mask_is_given(clusters, name):
    X, y, _, truth = clusters
    model = brief(name).fit(X, y)
    assert np.mean((model.transduction_ < 2)[:120] == (truth < 2)[:120]) > 0.9


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"ANGPN", "ANGPN-auto", "NGPN"}))
def test_bad_input_is_an_error(clusters, name):
    X, y, validation, _ = clusters
    for change, message in (
        ({"y": np.full(122, -1)}, "got every row unlabelled"),
        ({"y": y[:5]}, "y must have one row for each row of X"),
        ({"validation_mask": np.ones(122, dtype=bool)}, "validation_mask must mark labelled rows only"),
        ({"validation_mask": y != -1}, "training needs labelled rows outside the validation set"),
        ({"validation_mask": np.ones(5, dtype=bool)}, "validation_mask must be one bool a row"),
    ):
        arguments = {"y": y, "validation_mask": validation, **change}
        with pytest.raises(ValueError, match=message):
            brief(name).fit(X, arguments.pop("y"), **arguments)


def test_without_the_extra_the_library_imports_and_the_error_names_it():
    code = """
        import sys
        sys.modules["torch_geometric"] = sys.modules["gensim"] = None  # as if they were not installed
        import numpy as np
        import angpn
        from angpn.baselines import METHODS
        X = np.random.default_rng(0).random((40, 4))
        y = np.where(np.arange(40) < 20, np.arange(40) % 2, -1)
        METHODS["LP"](random_state=0).fit(X, y)
        for name in ("GCN", "GAT", "GraphSAGE", "APPNP", "DGI", "DeepWalk"):
            try:
                METHODS[name](random_state=0).fit(X, y)
            except ImportError as error:
                assert 'pip install "angpn[baselines]"' in str(error), error
            else:
                raise AssertionError(name)
    """
    lines = "\n".join(line[8:] for line in code.splitlines())
    subprocess.run([sys.executable, "-c", lines], check=True)
