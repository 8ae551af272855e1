"""Both estimators keep scikit-learn's contract, and point to each other."""

import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.utils.estimator_checks import parametrize_with_checks

from angpn import ANGPNClassifier, ANGPNClusterer, ANGPNNetworkClassifier, EnsembleConfig


def expected_failures(estimator):
    reason = "a row of weight 0 is still a node of the graph, and a repeated row is two nodes"
    return {
        "check_classifiers_classes": "labels -1 and 1: -1 is unlabelled, as for scikit-learn's own, exempt by name",
        "check_sample_weight_equivalence_on_dense_data": reason,
        "check_sample_weight_equivalence_on_sparse_data": reason,
    }


# Hundreds of fits: a short search in each.
QUICK = ANGPNClassifier(
    max_rounds=0, config=EnsembleConfig(hops=((0.0, 0),), first_heads=((None, 10.0),), more_heads=())
)
QUICK_NETWORK = ANGPNNetworkClassifier(hidden_layer_sizes=(10,), max_iter=300, n_iter_no_change=30)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([QUICK, QUICK_NETWORK], expected_failed_checks=expected_failures)
def test_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize(("name", "value"), [("hidden_layer_sizes", (50, 50)), ("device", "cpu"), ("num_steps", 2)])
def test_a_parameter_of_the_network_is_refused_and_the_class_is_named(name, value):
    with pytest.raises(
        TypeError, match=rf"{name} is a parameter of ANGPNNetworkClassifier.*ANGPNNetworkClassifier\({name}="
    ):
        ANGPNClassifier(**{name: value})


@pytest.mark.parametrize("estimator", [ANGPNClassifier(), ANGPNNetworkClassifier(), ANGPNClusterer()])
def test_text_and_missing_values_are_refused_and_what_encodes_them_is_named(estimator):
    gaps = np.where(np.eye(20, 3) == 1, np.nan, 1.0)
    y = np.arange(20) % 2
    for X in (gaps, pandas.DataFrame(gaps), pandas.DataFrame({"colour": ["red", "blue"] * 10})):
        with pytest.raises(
            ValueError,
            match=r"X must hold numbers without gaps, got (ndarray|DataFrame) of shape \(20, [13]\) with text or "
            r"missing values \(.*\); encode it by angpn\.features\.TableEncoder\(impute=True\)",
        ):
            estimator.fit(X, y)


def test_an_unknown_parameter_is_refused_as_ever():
    with pytest.raises(TypeError, match="unexpected keyword argument 'n_neighbours'"):
        ANGPNClassifier(n_neighbours=3)


@pytest.mark.filterwarnings("ignore:training did not settle")
@pytest.mark.parametrize("estimator", [QUICK, clone(QUICK_NETWORK).set_params(max_iter=2)])
def test_a_fit_reads_every_parameter(estimator):
    read = set()

    class Watched(type(estimator)):
        def __getattribute__(self, name):
            read.add(name)
            return super().__getattribute__(name)

    X, truth = make_blobs(40, random_state=0)
    model = Watched(**estimator.get_params())
    read.clear()
    model.fit(X, np.where(np.arange(40) % 2 == 0, truth, -1))
    assert model.get_params().keys() <= read
