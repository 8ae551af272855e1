"""Both estimators keep scikit-learn's contract, and point to each other."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.utils.estimator_checks import parametrize_with_checks

from angpn import ANGPNClassifier, ANGPNNetworkClassifier, EnsembleConfig


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
