import numpy as np
import pytest
from sklearn.datasets import load_digits

from angpn.bench.problems import labelled_rows


@pytest.mark.parametrize(("shape", "n_classes"), [("150x4", 3), ("1797x64", 10), ("300x12", 10)])
def test_a_tenth_of_each_class_is_labelled(shape, n_classes):
    X, y, truth = labelled_rows(shape)
    assert shape == f"{X.shape[0]}x{X.shape[1]}"
    known = y != -1
    np.testing.assert_array_equal(y[known], truth[known])
    sizes, given = np.bincount(truth), np.bincount(y[known])
    assert len(given) == n_classes
    np.testing.assert_array_equal(given, np.maximum(2, np.round(0.1 * sizes)))


def test_a_class_has_two_labels_at_least():
    _, y, _ = labelled_rows("120x5")
    assert (np.bincount(y[y != -1], minlength=10) == 2).all()


def test_the_same_shape_is_the_same_problem():
    for first, second in zip(labelled_rows("200x7"), labelled_rows("200x7"), strict=True):
        np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(labelled_rows("1797x64").X, load_digits().data)
