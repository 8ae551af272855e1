"""What the report says of an ensemble's choice."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris

from angpn import ANGPNClassifier
from angpn.inspection.ensemble_choice import describe_choice, reliability_bins


def test_the_choice_of_a_fit_is_told_in_words_with_weights():
    X, truth = load_iris(return_X_y=True)
    y = np.where(np.arange(150) % 4 == 0, truth, -1)
    choice = describe_choice(ANGPNClassifier(random_state=0).fit(X, y))
    assert (
        choice.scaling in ("columns standardised", "rows scaled to unit length")
        or "standardised, rows" in choice.scaling
    )
    assert_allclose(sum(weight for _, weight in choice.members), 1)
    assert [weight for _, weight in choice.members] == sorted((weight for _, weight in choice.members), reverse=True)
    assert choice.n_labels == 38
    assert sum(each.n_labels for each in choice.reliability) == 38
    assert 1 <= choice.best <= choice.n_rounds


@pytest.mark.parametrize("scale", [1.0, 100.0])  # the second makes a table of it
def test_a_single_label_a_class_selects_nothing(scale):
    X, truth = load_iris(return_X_y=True)
    y = np.full(150, -1)
    y[[0, 50, 100]] = truth[[0, 50, 100]]
    choice = describe_choice(ANGPNClassifier(random_state=0).fit(X * [1, 1, 1, scale], y))
    assert choice.n_labels == 0
    assert choice.reliability == []
    assert "label spreading on the graph" in dict(choice.members)


def test_bins_count_labels_by_confidence():
    found = reliability_bins(np.array([[0.45, 0.55], [0.6, 0.4], [1.0, 0.0], [0.02, 0.98]]), np.array([1, 1, 0, 1]))
    assert [(each.low, each.high, each.n_labels) for each in found] == [(0.5, 0.7, 2), (0.97, 1.0, 2)]
    assert_allclose([each.accuracy for each in found], [0.5, 1.0])
    assert_allclose([each.confidence for each in found], [0.575, 0.99])
