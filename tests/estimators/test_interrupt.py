"""Ctrl-C at any moment of a fit: what is kept, and that nothing is left half done."""

import itertools
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_blobs

from angpn import ANGPNClassifier, ANGPNNetworkClassifier, EnsembleConfig
from angpn.ensemble import model_selection
from angpn.ensemble.calibration import Calibration
from angpn.ensemble.model_selection import Scorer
from angpn.ensemble.scaling import Scaling
from angpn.estimators import fit_ensemble, fit_network
from angpn.estimators.fitted_models import FittedNetwork

SHORT_SEARCH = EnsembleConfig(hops=((0.5, 2),))
SEARCH_INTERRUPTED = "the search for hyper-parameters was interrupted: one round is trained with the best found so far"
FINISHES = "the fit was interrupted after training, and finishes; press Ctrl-C again to end it without a result"


def quick(**options):
    brief = {"config": SHORT_SEARCH, "n_neighbors": 5, "max_rounds": 1, "random_state": 0}
    return ANGPNClassifier(**brief | options)


@pytest.fixture(scope="module")
def blobs():
    X, truth = make_blobs([30, 30, 30], n_features=5, cluster_std=3.0, random_state=1, shuffle=False)
    return X, np.where(np.arange(90) % 3 == 0, truth, -1), truth


def interrupt(monkeypatch, owner, name, *numbers):
    """Raise KeyboardInterrupt in these calls, from 1, of a function."""
    function, count = getattr(owner, name), itertools.count(1)

    def interrupted(*arguments, **options):
        if next(count) in numbers:
            raise KeyboardInterrupt
        return function(*arguments, **options)

    monkeypatch.setattr(owner, name, interrupted)


def assert_can_predict(model, X):
    assert model.transduction_.shape == (len(X),)
    assert_allclose(model.label_distributions_.sum(axis=1), 1, rtol=1e-5)
    assert_array_equal(model.predict(X), model.transduction_)
    assert_allclose(model.predict_proba(X + 0.01).sum(axis=1), 1, rtol=1e-5)
    assert model.n_iter_ == len(model.loss_curve_) == 1


@pytest.mark.parametrize(
    ("owner", "name", "number"),
    [
        (Scaling, "fit", 1),  # before there is anything
        (Scaling, "fit", 2),  # the neighbours of one scaling are known, no score
        (Scorer, "cross_validate", 2),  # a part of the first fold is computed
        (Scorer, "add", 4),  # and scored
        (model_selection, "refined_candidates", 1),  # all but the refined heads is scored
        (Calibration, "fit", 1),  # at the end of the first round
    ],
)
def test_ctrl_c_before_the_first_round_trains_it_with_the_best_so_far(blobs, monkeypatch, owner, name, number):
    X, y, truth = blobs
    interrupt(monkeypatch, owner, name, number)
    with pytest.warns(UserWarning, match=SEARCH_INTERRUPTED):
        model = quick().fit(X, y)
    assert_can_predict(model, X)
    assert np.mean(model.transduction_ == truth) > 0.8
    assert 0 < model.estimate_accuracy(labelled_at_random=y != -1).accuracy <= 1


@pytest.mark.parametrize("name", ["fit", "transform"])
def test_ctrl_c_in_the_search_on_a_sample_labels_all_rows(blobs, monkeypatch, name):
    X, y, _ = blobs
    interrupt(monkeypatch, Scaling, name, 3)
    with pytest.warns(UserWarning, match=SEARCH_INTERRUPTED):
        model = quick(config=EnsembleConfig(max_rows_compared=60, max_rows_of_scalings=40)).fit(X, y)
    assert_can_predict(model, X)


def test_what_is_kept_of_a_whole_search_is_its_first_round(blobs, monkeypatch):
    X, y, _ = blobs
    one = quick(max_rounds=0).fit(X, y)
    interrupt(monkeypatch, Calibration, "fit", 1)
    with pytest.warns(UserWarning, match=SEARCH_INTERRUPTED):
        model = quick().fit(X, y)
    assert_is_the_same(model, one, X)


def test_ctrl_c_in_a_later_round_keeps_the_one_before(blobs, monkeypatch):
    X, y, _ = blobs
    one = quick(max_rounds=0).fit(X, y)
    interrupt(monkeypatch, Calibration, "fit", 2)
    with pytest.warns(UserWarning, match="training was interrupted after round 1 and keeps what that one learnt"):
        model = quick().fit(X, y)
    assert_is_the_same(model, one, X)


def interrupted_in_c_code(*_, **__):
    """Raise what Ctrl-C becomes while C code calls Python, here two calls deep."""
    inner = SystemError("<function> returned a result with an exception set")
    inner.__cause__ = KeyboardInterrupt()
    raise SystemError("CPUDispatcher(<function>) returned a result with an exception set") from inner
    yield


def test_ctrl_c_while_compiled_code_is_loaded_is_ctrl_c(blobs, monkeypatch):
    X, y, _ = blobs
    monkeypatch.setattr(fit_ensemble, "fit", interrupted_in_c_code)
    with pytest.warns(UserWarning, match=SEARCH_INTERRUPTED):
        model = quick().fit(X, y)
    assert_can_predict(model, X)


def test_a_fault_in_c_code_is_not_taken_for_ctrl_c(blobs, monkeypatch):
    X, y, _ = blobs

    def fail(*_, **__):
        raise SystemError("a fault")
        yield

    monkeypatch.setattr(fit_ensemble, "fit", fail)
    with pytest.raises(SystemError, match="a fault"):
        quick().fit(X, y)


def assert_is_the_same(model, other, X):
    assert model.n_iter_ == other.n_iter_
    assert [learner.parameters for learner in model.ensemble_.learners] == [
        learner.parameters for learner in other.ensemble_.learners
    ]
    assert_allclose(model.label_distributions_, other.label_distributions_, atol=1e-6)
    assert_allclose(model.predict_proba(X + 0.1), other.predict_proba(X + 0.1), atol=1e-6)


def test_a_second_ctrl_c_leaves_things_as_they_were(blobs, monkeypatch):
    X, y, _ = blobs
    model = quick(max_rounds=0).fit(X, y)
    ensemble, unfitted = model.ensemble_, quick()
    interrupt(monkeypatch, Calibration, "fit", 1, 2, 3, 4)
    for each in (model, unfitted):
        with pytest.warns(UserWarning, match=SEARCH_INTERRUPTED), pytest.raises(KeyboardInterrupt):
            each.fit(X, y)
    assert model.ensemble_ is ensemble
    assert not hasattr(unfitted, "classes_")


def test_a_warm_start_does_not_keep_what_an_interrupted_search_found(blobs, monkeypatch):
    X, y, _ = blobs
    model = quick(warm_start=True)
    interrupt(monkeypatch, Scaling, "fit", 2)
    with pytest.warns(UserWarning, match=SEARCH_INTERRUPTED):
        model.fit(X, y)
    assert_array_equal(model.fit(X, y).label_distributions_, quick().fit(X, y).label_distributions_)


def test_ctrl_c_after_training_finishes_the_fit(blobs, monkeypatch):
    X, y, _ = blobs
    whole = quick().fit(X, y)
    interrupt(monkeypatch, fit_ensemble, "_fit_of", 1)
    with pytest.warns(UserWarning, match=FINISHES):
        model = quick().fit(X, y)
    assert_array_equal(model.label_distributions_, whole.label_distributions_)


@pytest.mark.filterwarnings("ignore:training did not settle")
def test_ctrl_c_after_the_epochs_finishes_the_fit_of_a_network(blobs, monkeypatch):
    X, y, _ = blobs
    options = {"n_neighbors": 5, "max_iter": 20, "n_iter_no_change": 20, "random_state": 0}
    interrupt(monkeypatch, FittedNetwork, "distributions", 1)
    with pytest.warns(UserWarning, match=FINISHES):
        model = ANGPNNetworkClassifier(**options).fit(X, y)
    assert_array_equal(model.predict(X), model.transduction_)


@pytest.mark.filterwarnings("ignore:training did not settle")
@pytest.mark.parametrize("estimator", [quick(), ANGPNNetworkClassifier(max_iter=20, n_neighbors=5)])
def test_ctrl_c_ends_what_is_larger_than_a_fit(blobs, monkeypatch, estimator):
    X, y, _ = blobs
    for module in (fit_ensemble, fit_network):
        monkeypatch.setattr(f"{module.__name__}.is_inside_outer_loop", lambda: True)
    monkeypatch.setattr("angpn.estimators.task.is_inside_outer_loop", lambda: True)
    interrupt(monkeypatch, Calibration, "fit", 1)
    interrupt(monkeypatch, FittedNetwork, "distributions", 1)
    with pytest.raises(KeyboardInterrupt):
        estimator.fit(X, y)


SCRIPT = """
    import signal, sys, warnings
    import numpy as np
    from sklearn.datasets import load_digits
    from angpn import ANGPNClassifier, ANGPNNetworkClassifier

    X, truth = load_digits(return_X_y=True)
    y = np.where(np.random.default_rng(0).random(len(X)) < 0.1, truth, -1)
    model = {estimator}
    print("fits", flush=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(X, y)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # one that comes later is not for the fit
        except KeyboardInterrupt:
            assert not hasattr(model, "classes_")
            print("nothing", flush=True)
            sys.exit()
    assert (model.predict(X) == model.transduction_).all()
    assert np.isfinite(model.predict_proba(X[:5] + 0.1)).all()
    print("whole" if not caught else "kept", model.score(X, truth), flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
@pytest.mark.parametrize(
    ("estimator", "outcomes", "accuracy"),
    [
        ("ANGPNClassifier(random_state=0)", {"kept", "whole"}, 0.8),
        ("ANGPNNetworkClassifier(random_state=0, max_iter=300)", {"nothing", "kept", "whole"}, 0.05),
    ],
)
def test_ctrl_c_at_any_moment_leaves_a_model_or_nothing(estimator, outcomes, accuracy):
    script = textwrap.dedent(SCRIPT.format(estimator=estimator))
    for seconds in (0.1, 0.4, 1.0, 2.0, 4.0):
        process = subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout.readline() == "fits\n"
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=120)
        assert not process.returncode, errors
        outcome, *score = out.split()
        assert outcome in outcomes or (outcome == "nothing" and seconds == 0.1)  # while the input is checked
        assert not score or float(score[0]) > accuracy
