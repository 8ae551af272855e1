import numpy as np
import pytest
from matplotlib import pyplot
from numpy.testing import assert_array_equal

from angpn.inspection import MapDisplay

POSITIONS = np.random.default_rng(0).normal(size=(6, 2))
GIVEN = np.array([True, False, False, False, False, False])


def test_the_map_counts_given_labels_and_errors():
    labels, truth = np.array(list("aabbcc")), np.array(list("aabbca"))
    display = MapDisplay(POSITIONS, labels, GIVEN, truth).plot()
    assert display.ax_.get_title() == "6 rows, 1 label given (ringed), 1 error (crossed)"
    assert sorted(text.get_text() for text in display.ax_.texts) == ["a", "b", "c"]
    assert display.figure_ is display.ax_.figure
    assert MapDisplay(POSITIONS, labels, GIVEN).plot().ax_.get_title() == "6 rows, 1 label given (ringed)"


def test_every_row_is_drawn_once_in_the_colour_of_its_class():
    display = MapDisplay(POSITIONS, np.array(list("aabbcc")), GIVEN).plot()
    drawn = [(marks.get_offsets(), marks.get_facecolor()) for marks in display.ax_.collections]
    points = np.concatenate([offsets for offsets, _ in drawn])
    assert_array_equal(np.sort(points, axis=0), np.sort(POSITIONS, axis=0))
    colours = {tuple(point): tuple(colour[0]) for offsets, colour in drawn for point in offsets}
    assert [colours[tuple(POSITIONS[row])] == colours[tuple(POSITIONS[row + 1])] for row in range(5)] == [1, 0, 1, 0, 1]


def test_names_that_have_no_room_on_the_map_are_in_a_legend():
    labels = np.array(["a", "b", "the name of a class that goes on and on and on"])
    ax = MapDisplay(POSITIONS[:3], labels, GIVEN[:3]).plot().ax_
    assert not ax.texts
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["a", "b", "the name of a class that goes on and on…"]
    many = np.arange(13)
    ax = MapDisplay(np.zeros((13, 2)), many, many == 0).plot().ax_
    assert len(ax.get_legend().get_texts()) == 13
    looks = {(str(marks.get_facecolor()), len(marks.get_paths()[0].vertices)) for marks in ax.collections}
    assert len(looks) == 13  # hues repeat with another shape


def test_a_fitted_model_is_drawn_by_the_labels_it_was_given_and_predicted(ensemble, iris):
    _, y, truth = iris
    _, ax = pyplot.subplots()
    display = MapDisplay.from_estimator(ensemble, y_true=truth, ax=ax)
    assert display.ax_ is ax
    given = np.array([label is not None for label in y])
    assert_array_equal(display.given, given)
    assert_array_equal(display.labels, np.where(given, y, ensemble.transduction_))
    assert_array_equal(MapDisplay.from_estimator(ensemble).positions, display.positions)
    n_wrong = (ensemble.transduction_ != truth)[~given].sum()
    assert f", {n_wrong} error" in ax.get_title()


def test_there_must_be_a_true_label_for_each_row(ensemble):
    with pytest.raises(ValueError, match="y_true must have one row for each row of X, expected 150, got 3"):
        MapDisplay.from_estimator(ensemble, y_true=["setosa"] * 3)
