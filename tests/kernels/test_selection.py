import numpy as np
import pytest
from numpy.testing import assert_array_equal

from angpn.kernels.selection import collect_rows, repeats_rows, smallest_rows, tied_rows


def rows_of(kind, shape, generator):
    values = generator.normal(size=shape)
    return {
        "random": values,
        "rising": np.sort(values, axis=1),
        "falling": -np.sort(-values, axis=1),
        "few_values": np.round(values),
        "constant": np.zeros(shape),
        "some_infinite": np.where(values > 0.3, np.inf, values),
        "very_wide": np.exp(100 * values),
    }[kind]


KINDS = ["random", "rising", "falling", "few_values", "constant", "some_infinite", "very_wide"]


@pytest.mark.parametrize(("n", "count"), [(1, 1), (2, 1), (40, 40), (1500, 3), (1500, 80), (1500, 700), (1500, 1500)])
@pytest.mark.parametrize("kind", KINDS)
def test_the_smallest_in_order_or_a_tie_for_the_last_place(kind, n, count):
    block = rows_of(kind, (5, n), np.random.default_rng(0))
    columns, values, done = np.empty((5, count), np.int32), np.empty((5, count)), np.empty(5, np.bool_)
    smallest_rows(0, 5, block, columns, values, done)
    ordered = np.sort(block, axis=1)
    assert_array_equal(done, ordered[:, count - 1] < ordered[:, count] if count < n else True)
    expected = np.argsort(block, axis=1, kind="stable")[:, :count]
    assert_array_equal(columns[done], expected[done])
    assert_array_equal(values[done], ordered[:, :count][done])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 30, 400])
def test_priorities_decide_a_tie_for_the_last_place(kind, count):
    generator = np.random.default_rng(0)
    block = rows_of(kind, (6, 400), generator)
    priorities = np.round(generator.random((2, 400)), 2).astype(np.float32)  # some are equal: the first columns of them
    columns, values = np.full((6, count), -1, np.int32), np.full((6, count), np.nan)
    tied_rows(0, 2, np.array([4, 1]), block, priorities, columns, values)
    for place, row in enumerate((4, 1)):
        chosen = np.lexsort((np.arange(400), priorities[place], block[row]))[:count]
        assert_array_equal(np.sort(columns[row]), np.sort(chosen))
        assert_array_equal(values[row], block[row, columns[row]])
        assert_array_equal(values[row], np.sort(block[row])[:count])
    assert (columns[[0, 2, 3, 5]] == -1).all()


@pytest.mark.parametrize("kind", ["random", "rising", "falling"])
def test_no_entry_is_dropped_that_may_be_among_the_smallest(kind):
    generator = np.random.default_rng(1)
    n, count, room = 3000, 20, 100
    block = rows_of(kind, (4, n), generator).astype(np.float32)
    lower, width = generator.normal(size=n).astype(np.float32), 0.01 * generator.random(n).astype(np.float32)
    slack = np.array([0.0, 1e-3, 1e-2, 10.0], np.float32)
    sizes, limits = np.zeros(4, np.int64), np.full(4, np.inf, np.float32)
    columns, keys = np.empty((4, room), np.int32), np.empty((4, room), np.float32)
    for start in range(0, n, 700):
        part = np.ascontiguousarray(block[:, start : start + 700])
        collect_rows(0, 4, part, start, lower, width, count, slack, sizes, limits, columns, keys)
    all_keys = lower + block
    for p in range(3):
        highest = np.sort(all_keys[p] + width)[count - 1] + slack[p]
        assert set(np.flatnonzero(all_keys[p] <= highest)) <= set(columns[p, : sizes[p]])
        assert_array_equal(keys[p, : sizes[p]], all_keys[p, columns[p, : sizes[p]]])
        assert (np.diff(columns[p, : sizes[p]]) > 0).all()
    assert sizes[3] == -1  # more than there is room for


def test_repeats():
    lists = np.array([[1, 2], [2, 2], [1, 0]], np.int32)
    repeats = np.ones(3, bool)
    repeats_rows(0, 3, lists, 3, repeats)
    assert_array_equal(repeats, [False, True, False])
