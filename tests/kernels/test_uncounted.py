"""Arrays without a reference count."""

import numpy as np
from numba import njit

from angpn.kernels.uncounted import uncounted


@njit
def add_pair(values, first, second, out):
    values, out = uncounted(values), uncounted(out)
    a, b, mine = values[first], values[second], out[0]
    for channel in range(mine.shape[0]):
        mine[channel] += a[channel] + b[channel]


@njit
def counted_row(values):
    return values[1]


@njit
def uncounted_row(values):
    return uncounted(values)[1]


def test_rows_are_those_of_the_array_and_the_array_lives_on():
    values, out = np.arange(12.0).reshape(4, 3), np.ones((1, 3))
    add_pair(values, 3, -4, out)
    np.testing.assert_array_equal(out, [1 + values[3] + values[0]])
    add_pair(values[:, ::2], 1, 2, out[:, :2])  # not contiguous
    np.testing.assert_array_equal(out, [[19, 25, 14]])
    np.testing.assert_array_equal(values, np.arange(12.0).reshape(4, 3))


def test_rows_hold_no_reference():
    values = np.arange(6.0).reshape(3, 2)
    counted, bare = counted_row(values), uncounted_row(values)
    np.testing.assert_array_equal(bare, counted)
    assert counted.base is not None
    assert bare.base is None
