"""A trained ensemble: its rows in another order, and its state in a file."""

import dataclasses

import msgspec
import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from torch.testing import assert_close

from angpn.ensemble.adaptive_temperature import AdaptiveTemperature
from angpn.ensemble.calibration import Calibration
from angpn.ensemble.ensemble import Ensemble, EnsembleState
from angpn.ensemble.mixture import Mixture
from angpn.ensemble.scaling import Scaling
from angpn.neighbors.partition import Reordered
from ensemble_problems import KERNEL, LINEAR, SPREADING, answers, moved, trained_ensemble


def test_an_ensemble_of_rows_in_another_order_is_put_in_the_order_of_the_data():
    fitted, _ = trained_ensemble()
    ensemble, order = fitted.ensemble, torch.from_numpy(np.random.default_rng(0).permutation(90))
    spreading, *heads = ensemble.learners
    reordered = dataclasses.replace(
        ensemble,
        learners=[dataclasses.replace(spreading, scores=spreading.scores[order]), *heads],
        graph_probabilities=ensemble.graph_probabilities[order],
    )
    found = reordered.in_data_order(Reordered(order))
    assert_close(found.learners[0].scores, spreading.scores, rtol=0, atol=0)
    assert list(found.learners[1:]) == heads
    assert_close(found.graph_probabilities, ensemble.graph_probabilities, rtol=0, atol=0)
    first = dataclasses.replace(ensemble, graph_probabilities=None)
    assert first.in_data_order(Reordered(order)).graph_probabilities is None


@pytest.mark.parametrize("n_rounds", [1, 2])
def test_an_ensemble_is_what_its_state_describes(n_rounds):
    fitted, rows = trained_ensemble(n_rounds)
    state, arrays = fitted.ensemble.state()
    assert ("graph_probabilities" in arrays) == (n_rounds == 2)
    assert all(isinstance(array, np.ndarray) for array in arrays.values())
    read = msgspec.json.decode(msgspec.json.encode(state), type=EnsembleState)
    loaded = Ensemble.from_state(read, arrays, n_rows=90, n_features=4, n_classes=3)
    assert [learner.parameters for learner in loaded.learners] == [SPREADING, LINEAR, KERNEL]
    assert [type(learner) for learner in loaded.learners] == [type(learner) for learner in fitted.ensemble.learners]
    assert loaded.options == fitted.ensemble.options
    new = moved(rows, 0.3)
    for found, expected in zip(
        answers(fitted._replace(ensemble=loaded), rows, new), answers(fitted, rows, new), strict=True
    ):
        assert_close(found, expected, rtol=1e-6, atol=1e-6)
    again_state, again = loaded.state()
    assert again_state == state
    assert again.keys() == arrays.keys()
    for name, array in arrays.items():
        assert_array_equal(again[name], array)


def test_the_state_keeps_the_scaling_and_more_than_ten_base_learners_apart():
    fitted, _ = trained_ensemble()
    head = fitted.ensemble.learners[1]
    changes = [{"bias": torch.full((3,), float(number)), "weight": head.weight[:2]} for number in range(12)]
    learners = [dataclasses.replace(head, **change) for change in changes]
    scaling = Scaling("standard", "euclidean", np.arange(4.0), np.ones(4), np.eye(4)[:, :2])
    calibration = Calibration(0.7, torch.tensor([0.1, -0.2, 0.0]))
    mixture = Mixture(tuple(np.linspace(0.01, 0.15, 12).tolist()), tuple(np.linspace(0.5, 2, 12).tolist()))
    adaptive = AdaptiveTemperature(1.05, -0.3, 0.2)
    parts = {"learners": learners, "mixture": mixture, "calibration": calibration, "adaptive_temperature": adaptive}
    ensemble = dataclasses.replace(fitted.ensemble, scaling=scaling, **parts)
    loaded = Ensemble.from_state(*ensemble.state(), n_rows=90, n_features=4, n_classes=3)
    assert [float(learner.bias[0]) for learner in loaded.learners] == list(range(12))
    assert (loaded.scaling.name, loaded.scaling.metric) == ("standard", "euclidean")
    for name in ("center", "scale", "basis"):
        assert_array_equal(getattr(loaded.scaling, name), getattr(scaling, name))
    assert loaded.mixture == mixture
    assert loaded.calibration.temperature == 0.7
    assert loaded.adaptive_temperature == adaptive
    assert_close(loaded.calibration.shift, calibration.shift)
