import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose

from angpn.inspection import ReliabilityDisplay
from angpn.inspection.ensemble_choice import ConfidenceBin


def test_each_bin_has_its_accuracy_its_confidence_and_its_number_of_labels():
    bins = [ConfidenceBin(0.5, 0.7, 1, 0.6, 1.0), ConfidenceBin(0.97, 1.0, 40, 0.99, 0.95)]
    ax = ReliabilityDisplay(bins).plot().ax_
    (accuracy, *_), (confidence, *_) = ax.lines, [marks for marks in ax.collections if len(marks.get_offsets()) == 2]
    assert_allclose(accuracy.get_ydata(), [1.0, 0.95])
    assert_allclose(confidence.get_offsets()[:, 1], [0.6, 0.99])
    names = [label.get_text() for label in ax.get_xticklabels()]
    assert names == ["50% to 70%\n1 label", "97% to 100%\n40 labels"]


@pytest.mark.parametrize("name", ["ensemble", "network"])
def test_all_held_out_labels_of_a_fit_are_counted(name, request):
    model = request.getfixturevalue(name)
    display = ReliabilityDisplay.from_estimator(model)
    assert sum(each.n_labels for each in display.bins) == model.validation_mask_.sum() > 0


def test_without_held_out_labels_or_their_probabilities_there_is_none(ensemble, single_labels):
    assert not np.any(single_labels.validation_mask_)
    with pytest.raises(ValueError, match="measured on labels that fit held out, got none; label at least two rows"):
        ReliabilityDisplay.from_estimator(single_labels)
    older = copy.copy(ensemble)
    older.validation_distributions_ = None
    with pytest.raises(ValueError, match="got a model of an older version, which saved none; fit it again"):
        ReliabilityDisplay.from_estimator(older)
