"""Units of X do not matter: the same result, to the bit, for X and 2^k X; what cannot be computed is refused."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_wine
from sklearn.metrics import pairwise_distances
from sklearn.preprocessing import scale

from angpn import ANGPNClassifier, ANGPNNetworkClassifier, EnsembleConfig
from angpn.estimators.base import BaseANGPNClassifier

SMALL = EnsembleConfig(hops=((0.5, 2),), hops_of_scalings=((0.5, 2),), more_heads=())
FEW = EnsembleConfig(few_labels_per_class=100)  # no selection: what is_table decides, decides
FEW_EXAMPLES = settings(derandomize=True, phases=[Phase.generate])  # a fit takes too long to shrink examples
DTYPES = [np.float64, np.float32]


def ensemble(**options):
    return ANGPNClassifier(**{"n_neighbors": 4, "max_rounds": 1, "config": SMALL, "random_state": 0} | options)


def network(**options):
    return ANGPNNetworkClassifier(
        **{"n_neighbors": 4, "hidden_layer_sizes": 4, "max_iter": 3, "random_state": 0} | options
    )


def problem(seed, dtype=np.float64, sparse=False):
    """Rows of three clusters in multiples of 1/8, so that 2^k times them is exact, new rows, and labels."""
    generator = np.random.default_rng(seed)
    truth = np.arange(60) % 3
    X = generator.normal(size=(60, 5)) * [1, 1, 3, 1, 10] + 4 * generator.normal(size=(3, 5))[truth]
    # Two columns stay: rows with one number alone are of the same direction, and each may be taken for another.
    X = np.where(generator.random(X.shape) < [0, 0, 0.6, 0.6, 0.6], 0, X) if sparse else X
    X = (np.round(8 * X) / 8).astype(dtype)
    X = scipy.sparse.csr_array(X) if sparse else X
    return X[:50], X[50:], np.where(np.arange(50) < 25, truth[:50], -1)


def quietly_fitted(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "training did not settle|columns of X should be of like scale")
        return model.fit(X, y)


def assert_same_results(make, X, new, y, factor):
    model, scaled = quietly_fitted(make(), X, y), quietly_fitted(make(), X * factor, y)
    assert_array_equal(scaled.transduction_, model.transduction_)
    assert_array_equal(scaled.label_distributions_, model.label_distributions_)
    assert_array_equal(scaled.predict(X * factor), scaled.transduction_)
    assert_array_equal(scaled.predict_proba(new * factor), model.predict_proba(new))


def powers(dtype, *, within=None):
    """Return factors 2^k, far from 1, with which the numbers of the problem stay normal ones of the dtype."""
    largest = within or (110 if dtype == np.float32 else 960)
    size, sign = st.integers(largest // 2, largest), st.sampled_from((-1, 1))
    return st.builds(lambda size, sign: np.ldexp(dtype(1), size * sign), size, sign)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make", [ensemble, network])
@given(data=st.data(), seed=st.integers(0, 99))
@settings(FEW_EXAMPLES, max_examples=3)
def test_results_are_the_same_to_the_bit_for_any_power_of_two(make, dtype, sparse, data, seed):
    assert_same_results(make, *problem(seed, dtype, sparse), data.draw(powers(dtype)))


@pytest.mark.parametrize("options", [{"scaling": "standard"}, {"scaling": "unit_standard"}, {"config": FEW}], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
@settings(FEW_EXAMPLES, max_examples=2)
def test_every_scaling_has_no_units(dtype, options, data):
    assert_same_results(lambda: ensemble(**options), *problem(0, dtype), data.draw(powers(dtype)))


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "chord"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@given(data=st.data())
@settings(FEW_EXAMPLES, max_examples=2)
def test_without_scaling_the_fixed_graph_has_no_units_within_the_range(sparse, metric, data):
    options = {"scaling": "none", "metric": metric, "beta": 0.0}
    X, new, y = problem(0, np.float64, sparse)
    assert_same_results(lambda: ensemble(**options), X, new, y, data.draw(powers(np.float64, within=40)))


def test_gamma_stays_in_the_units_of_the_distances():
    X, _, y = problem(0)
    model, scaled = (
        ensemble(scaling="none", beta=0.0, gamma=gamma).fit(X * factor, y)
        for gamma, factor in ((3.0, 1), (3072.0, 1024))
    )
    assert_array_equal(scaled.neighborhood_.distances, 1024 * model.neighborhood_.distances)
    assert_array_equal(scaled.label_distributions_, model.label_distributions_)


# The reproducers


@pytest.fixture(scope="module")
def wine():
    X, truth = load_wine(return_X_y=True)
    return scale(X), np.where(np.random.default_rng(0).random(len(truth)) < 0.2, truth, -1), truth


@pytest.mark.parametrize(
    "make",
    [lambda: ANGPNClassifier(config=SMALL, random_state=0), lambda: network(hidden_layer_sizes=20, max_iter=100)],
)
def test_wine_is_as_easy_at_extreme_scales(wine, make):
    X, y, truth = wine
    usual = quietly_fitted(make(), X, y)
    assert (usual.transduction_ == truth).mean() > 0.9
    for factor in (1e-200, 1e160, 1e-16):
        model = quietly_fitted(make(), X * factor, y)
        assert_array_equal(model.transduction_, usual.transduction_)
        assert_allclose(model.label_distributions_, usual.label_distributions_, atol=1e-5)
        assert_array_equal(model.predict(X * factor), model.transduction_)


def test_columns_may_differ_by_600_orders_of_magnitude(wine, tmp_path):
    X, y, truth = wine
    X = X * np.where(np.arange(X.shape[1]) == 3, 1e300, 1e-300)
    model = quietly_fitted(ANGPNClassifier(config=SMALL, random_state=0), X, y)
    assert (model.transduction_ == truth).mean() > 0.9
    assert_array_equal(model.predict(X), model.transduction_)
    model.save(tmp_path / "wine.angpn")
    assert_array_equal(ANGPNClassifier.load(tmp_path / "wine.angpn").predict_proba(X), model.label_distributions_)


def test_a_constant_column_of_huge_numbers_has_no_say():
    X, _, y = problem(0)
    options = {"scaling": "standard", "beta": 0.0}
    with_zeros, with_constant = (np.column_stack([X, np.full(50, value)]) for value in (0.0, 0.1 * 2.0**900))
    found = [ensemble(**options).fit(rows, y).label_distributions_ for rows in (with_zeros, with_constant)]
    assert_allclose(found[1], found[0], atol=1e-5)


@pytest.mark.parametrize("make", [ensemble, network])
def test_a_model_of_float32_takes_float64_of_any_scale(make):
    X, new, y = problem(0, np.float32)
    options = {"scaling": "unit"} if make is ensemble else {}
    model = quietly_fitted(make(**options), X, y)
    assert_array_equal(model.predict_proba(new.astype(np.float64) * 2.0**-900), model.predict_proba(new))
    assert_array_equal(model.predict_proba(X.astype(np.float64) * 2.0**900), model.label_distributions_)


# What is out of reach


@pytest.mark.parametrize("make", [ensemble, network])
def test_numbers_that_float64_cannot_sum_are_refused_by_column(make):
    X, _, y = problem(0)
    X = pd.DataFrame(X, columns=list("abcde"))
    X.loc[3, "d"] = -1.5e308
    with pytest.raises(
        ValueError, match=r"X must hold numbers up to 1.07e\+301, .* got 1.5e\+308 in column 'd'; divide"
    ):
        make().fit(X, y)
    model = quietly_fitted(make(), X[list("abce")], y)
    X.loc[3, "a"] = -1.5e308
    with pytest.raises(ValueError, match="in column 'a'; divide it by a constant"):
        model.predict(X[list("abce")])


@pytest.mark.parametrize(
    ("model", "name"), [(ensemble(scaling="none"), "scaling='none'"), (network(normalize=False), "normalize=False")]
)
@pytest.mark.parametrize("factor", [1e-30, 1e30])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_units_that_are_kept_must_suit_float32(model, name, factor, sparse):
    X, _, y = problem(0, sparse=sparse)
    message = (
        f"must lie between 8.88e-16 and 1.13e\\+15 with {name}, .* got .* in column .*; divide X by a constant, or"
    )
    with pytest.raises(ValueError, match=message):
        model.fit(X * factor, y)


@pytest.mark.parametrize(
    "model",
    [
        ensemble(scaling="standard"),
        ensemble(scaling="unit_standard"),
        ensemble(scaling="none"),
        network(normalize=False),
    ],
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_new_rows_out_of_all_proportion_are_refused_by_column(model, dtype):
    X, new, y = problem(0, dtype)
    quietly_fitted(model, X, y)
    far = new.astype(np.float64)
    far[2, 1] = -1e60
    with pytest.raises(ValueError, match=r"got some beyond 1.13e\+15 times that in column 1; check its units"):
        model.predict(far)
    far[2, 1] = 1e9  # an outlier
    assert np.isfinite(model.predict_proba(far)).all()


@pytest.mark.parametrize("make", [ensemble, network])
@pytest.mark.parametrize("factor", [1e-200, 1e200])
@pytest.mark.parametrize("given_as", ["X", "distances", "graph"])
def test_given_distances_are_not_rescaled_but_refused(make, factor, given_as):
    X, _, y = problem(0)
    D = pairwise_distances(X) * factor
    model = make(metric="precomputed") if given_as == "X" else make()
    arguments = (
        {"X": D}
        if given_as == "X"
        else {"X": X, "distances": D if given_as == "distances" else scipy.sparse.csr_array(D)}
    )
    with pytest.raises(ValueError, match=r"must lie between 7.89e-31 and 1.27e\+30, got .*; divide all distances by"):
        model.fit(y=y, **arguments)


def test_every_estimator_is_here():
    assert {type(make()) for make in (ensemble, network)} == set(BaseANGPNClassifier.ESTIMATORS.values())
