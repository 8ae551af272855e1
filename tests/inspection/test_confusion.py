import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from angpn.inspection.confusion import confusion_display


@pytest.mark.parametrize("name", ["ensemble", "network"])
def test_the_counts_are_those_of_the_estimate(name, request):
    model = request.getfixturevalue(name)
    display = confusion_display(model, None, None)
    assert_array_equal(display.confusion_matrix, model.estimate_accuracy().confusion)
    assert [label.get_text() for label in display.ax_.get_xticklabels()] == ["setosa", "versicolor", "virginica"]
    assert display.ax_.get_title() == f"{model.validation_mask_.sum()} held-out labels"
    assert all((text.get_text() == "·") == (count == 0) for text, count in cells(display))


def cells(display):
    return zip(display.text_.ravel(), display.confusion_matrix.ravel(), strict=True)


def test_shares_of_the_true_class_sum_to_one(ensemble):
    display = confusion_display(ensemble, "true", None)
    assert_allclose(display.confusion_matrix.sum(axis=1), np.ones(3))


def test_without_held_out_labels_there_is_none(single_labels):
    with pytest.raises(ValueError, match="confusion is measured on labels that fit held out, got none; label at least"):
        confusion_display(single_labels, None, None)
