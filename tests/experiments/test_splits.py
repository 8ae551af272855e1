import numpy as np
import pytest
from numpy.testing import assert_array_equal

from angpn.experiments import paper_split


@pytest.mark.parametrize("rate", [10, 20, 30])
def test_each_class_has_its_share_and_each_row_is_in_one_part(rate):
    labels = np.repeat([0, 1, 2], [500, 211, 40])
    split = paper_split(labels, rate, 0)
    assert_array_equal(np.stack(split).sum(axis=0), 1)
    for label, size in enumerate([500, 211, 40]):
        assert split.training[labels == label].sum() == round(size * rate / 100)
        assert split.validation[labels == label].sum() == round(size * 0.05)


def test_splits_differ_repeat_and_nest():
    labels = np.repeat(np.arange(4), 100)
    first, again, other = paper_split(labels, 10, 0), paper_split(labels, 10, 0), paper_split(labels, 10, 1)
    assert_array_equal(first.training, again.training)
    assert (first.training != other.training).any()
    assert not (first.training & ~paper_split(labels, 20, 0).training).any()


def test_a_tiny_class_has_a_label_of_each_kind():
    split = paper_split(np.repeat([0, 1], [100, 3]), 10, 0)
    assert split.training[100:].sum() == split.validation[100:].sum() == split.test[100:].sum() == 1
