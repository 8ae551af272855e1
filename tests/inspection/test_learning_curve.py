import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator

from angpn import ANGPNClassifier, ANGPNNetworkClassifier, EnsembleConfig
from angpn.inspection import learning_curve as module
from angpn.inspection.learning_curve import learning_curve, learning_curve_display

OPTIONS = {"train_sizes": (0.25, 1.0), "cv": 3, "n_jobs": None, "random_state": 0}
FITS = []


class Recorder(BaseEstimator):
    """Notes what it is fitted to, and predicts the first class."""

    def __init__(self, verbose=False, warm_start=False):
        self.verbose, self.warm_start = verbose, warm_start

    def fit(self, X, y):
        FITS.append((len(X), np.flatnonzero([label is not None for label in y]), y, self.get_params()))
        self.transduction_ = np.full(len(y), "a", dtype=object)
        return self


@pytest.fixture
def fits():
    FITS.clear()
    return FITS


Y = np.array(["a"] * 12 + ["b"] * 6 + [None] * 10, dtype=object)


def test_labels_are_nested_and_none_of_a_test_fold_while_all_rows_are_fitted(fits):
    curve = learning_curve(Recorder(verbose=True, warm_start=True), np.zeros((28, 2)), Y, **OPTIONS)
    assert_array_equal(curve.train_sizes, [3, 12])
    assert curve.test_scores.shape == (2, 3)
    assert [n for n, *_ in fits] == [28] * 6
    assert [len(given) for _, given, *_ in fits] == [3] * 3 + [12] * 3
    held_out = []
    for (_, few, *_), (_, many, y, parameters) in zip(fits[:3], fits[3:], strict=True):
        assert set(few) < set(many)
        assert {Y[row] for row in few} == {"a", "b"}
        assert_array_equal(y[many], Y[many])
        assert parameters == {"verbose": False, "warm_start": False}
        held_out += sorted(set(range(18)) - set(many))
    assert sorted(held_out) == list(range(18))  # each label in one fold
    assert curve.test_scores.mean() == pytest.approx(2 / 3)  # the share of the first class


def test_a_model_gets_better_with_more_labels_and_is_itself_left_alone(iris):
    X, y, _ = iris
    model = ANGPNClassifier(config=EnsembleConfig(hops=((0.5, 2),)), random_state=0)
    curve = learning_curve(model, X, y, **OPTIONS)
    assert_array_equal(curve.train_sizes, [6, 25])
    assert 0.6 < curve.test_scores[0].mean() <= curve.test_scores[1].mean() + 0.05
    assert not hasattr(model, "transduction_")


def test_a_network_writes_no_checkpoint(iris, tmp_path):
    X, y, _ = iris
    model = ANGPNNetworkClassifier(max_iter=200, n_iter_no_change=5, checkpoint=tmp_path / "checkpoint", random_state=0)
    learning_curve(model, X, y, **OPTIONS | {"train_sizes": [20, 25]})
    assert list(tmp_path.iterdir()) == []


def test_the_display_is_scikit_learns_with_the_number_of_labels():
    curve = module.LearningCurve(np.array([5, 10]), np.ones((2, 3)), np.array([[0.5, 0.6, 0.7], [0.8, 0.8, 0.8]]))
    display = learning_curve_display(curve, None)
    assert type(display).__name__ == "LearningCurveDisplay"
    assert display.ax_.get_xlabel() == "Number of labels"
    (line,) = display.ax_.lines
    assert_array_equal(line.get_xdata(), [5, 10])
    assert line.get_ydata() == pytest.approx([0.6, 0.8])
    assert display.figure_ is display.ax_.figure


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([1.5], r"a share among train_sizes must lie in \(0, 1\], got 1.5; an int is a number of labels"),
        ([0.0], r"a share among train_sizes must lie in \(0, 1\], got 0.0"),
        (
            [1],
            "a number among train_sizes must lie from 2, a label for each class, to 12, .* got 1; a float is a share",
        ),
        ([13], "a number among train_sizes must lie from 2, .* to 12, what a fold leaves, got 13"),
        ([], r"train_sizes must be at least two numbers of labels from 2 to 12, got \[\]; pass others, or label more"),
        ([0.01, 0.02], r"train_sizes must be at least two numbers of labels from 2 to 12, got \[2\]"),
        (["half"], "train_sizes must be a number, got 'half'"),
    ],
)
def test_sizes_that_cannot_be_are_refused(sizes, message, fits):
    with pytest.raises(ValueError, match=message):
        learning_curve(Recorder(), np.zeros((28, 2)), Y, **OPTIONS | {"train_sizes": sizes})
    assert not fits


def test_there_must_be_labels_of_two_classes_for_the_folds():
    with pytest.raises(ValueError, match="at least 2 classes"):
        learning_curve(Recorder(), np.zeros((5, 2)), ["a", "a", "a", None, None], **OPTIONS)
    with pytest.raises(ValueError, match="n_splits=3 needs a class of as many labels"):
        learning_curve(Recorder(), np.zeros((5, 2)), ["a", "a", "b", None, None], **OPTIONS)
