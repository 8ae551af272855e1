"""Weights of rows: any that make sense are taken, and all others refused in words of our own."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_blobs

from angpn import ANGPNClassifier, ANGPNNetworkClassifier, EnsembleConfig

X, TRUTH = make_blobs([20, 20, 20], n_features=4, cluster_std=3.0, random_state=1, shuffle=False)
Y = np.where(np.arange(60) % 2 == 0, TRUTH, -1)
SMALL = EnsembleConfig(hops=((0.5, 2),), hops_of_scalings=((0.5, 2),), more_heads=())


def ensemble(**options):
    return ANGPNClassifier(n_neighbors=5, max_rounds=1, config=SMALL, random_state=0, **options)


def network(**options):
    return ANGPNNetworkClassifier(n_neighbors=5, hidden_layer_sizes=4, max_iter=2, random_state=0, **options)


def fit(model, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "training did not settle")
        return model.fit(X, Y, **arguments)


OUT_OF_RANGE = r"times class_weight, must be 0 or lie between 8.88e-16 and 1.13e\+15, got from {}; divide"
REFUSED = {
    "huge": (np.full(60, 1e308), OUT_OF_RANGE.format(r"1e\+308 to 1e\+308")),
    "subnormal": (np.full(60, 1e-320), OUT_OF_RANGE.format("1e-320 to 1e-320")),
    "both": (np.where(TRUTH == 1, 1e-300, 1e300), OUT_OF_RANGE.format(r"1e-300 to 1e\+300")),
    "infinite": (np.where(TRUTH == 1, np.inf, 1), "finite number >= 0 a row, got shape .* from 1 to inf; correct"),
    "negative": (np.where(TRUTH == 1, -1, 1), "finite number >= 0 a row, got shape .* from -1 to 1; correct"),
    "NaN": (np.where(TRUTH == 1, np.nan, 1), "finite number >= 0 a row, got shape .*; correct"),
    "zero": (np.zeros(60), "must not be zero for every row that is (trained|scored) on"),
    "text": (np.full(60, "a"), "sample_weight must be numbers, got <U1; convert"),
    "complex": (np.full(60, 1j), "sample_weight must be numbers, got complex128; convert"),
    "a column": (np.ones((60, 1)), r"sample_weight must have one number a row, got shape \(60, 1\); flatten"),
    "too few": (np.ones(59), "sample_weight must have one row for each row of X, expected 60, got 59"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_weights_that_cannot_be_used_are_refused_by_fit_and_score(name):
    weights, message = REFUSED[name]
    for make in (ensemble, network):
        with pytest.raises(ValueError, match=message):
            fit(make(), sample_weight=weights)
    with pytest.raises(ValueError, match=message):
        fit(network()).score(X, Y, sample_weight=weights)


@pytest.mark.parametrize("make", [ensemble, network])
def test_weights_of_classes_are_refused_alike(make):
    with pytest.raises(ValueError, match=OUT_OF_RANGE.format(r"1 to 1e\+308")):
        fit(make(class_weight={0: 1e308, 1: 1, 2: 1}))
    with pytest.raises(ValueError, match="finite number >= 0 a row"):
        fit(make(class_weight={0: 1e308, 1: 1, 2: 1}), sample_weight=np.full(60, 1e10))


@pytest.mark.filterwarnings("ignore:training did not settle")
@pytest.mark.parametrize("make", [ensemble, network])
def test_a_class_of_weight_zero_is_one_without_labels(make):
    with pytest.warns(UserWarning, match="no training label for class 1, .* or raise their weights above 0"):
        make().fit(X, Y, sample_weight=np.where(TRUTH == 1, 0.0, 1.0))
    with pytest.raises(ValueError, match="at least 2 classes among its labelled rows of weight > 0, got only class 0;"):
        make().fit(X, Y, sample_weight=np.where(TRUTH == 0, 1.0, 0.0))


@pytest.mark.parametrize("make", [ensemble, network])
def test_weights_near_the_limits_give_probabilities(make):
    for weights in (np.full(60, 1e14), np.full(60, 1e-14), np.where(TRUTH == 1, 1e-14, 1e14)):
        assert_allclose(fit(make(), sample_weight=weights).label_distributions_.sum(axis=1), 1, rtol=1e-5)


def test_weights_of_unlabelled_rows_do_not_matter():
    weights = np.where(Y == -1, np.inf, 1.0)
    assert_allclose(fit(network(), sample_weight=weights).label_distributions_, fit(network()).label_distributions_)
