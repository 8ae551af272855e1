import numpy as np
from numpy.testing import assert_array_equal
from sklearn.datasets import make_blobs

from angpn.labelling import map_layout as layout_module
from angpn.labelling.map_figure import map_figure
from angpn.labelling.map_layout import map_layout


def test_rows_beyond_the_landmarks_lie_in_their_cluster(monkeypatch):
    monkeypatch.setattr(layout_module, "N_LANDMARKS", 60)
    X, cluster = make_blobs(150, 5, centers=10 * np.eye(3, 5), random_state=0)
    positions = map_layout(X, random_state=0)
    assert positions.shape == (150, 2)
    distances = np.linalg.norm(positions[:, None] - positions[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    assert_array_equal(cluster[distances.argmin(axis=1)], cluster)
    assert_array_equal(map_layout(X, random_state=0), positions)


def test_identical_rows_have_finite_positions():
    assert np.isfinite(map_layout(np.ones((20, 3)))).all()


def test_the_figure_counts_given_labels_and_errors():
    positions = np.random.default_rng(0).normal(size=(6, 2))
    predicted, truth = np.array(list("aabbcc")), np.array(list("aabbca"))
    given = np.array([True, False, False, False, False, False])
    (axes,) = map_figure(positions, predicted, given, truth).axes
    assert axes.get_title() == "6 rows by predicted class, 1 labels given (ringed), 1 errors (crossed)"
    assert sorted(text.get_text() for text in axes.texts) == ["a", "b", "c"]
    (axes,) = map_figure(positions, predicted, given).axes
    assert axes.get_title().endswith("1 labels given (ringed)")
