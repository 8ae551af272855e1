import numpy as np
from numpy.testing import assert_array_equal
from sklearn.datasets import make_blobs

from angpn.inspection import map_layout as layout_module
from angpn.inspection.map_layout import map_layout


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
