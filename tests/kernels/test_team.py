"""Compiled code that runs a loop on OpenMP's threads."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from numba import njit

from angpn.kernels.openmp import ADDRESSES
from angpn.kernels.team import in_ranges
from angpn.kernels.threads import over_rows


@njit(nogil=True)
def scale_rows(start, stop, factor, integers, rows, only_even, out):
    for i in range(start, stop):
        if not only_even or i % 2 == 0:
            row, mine = rows[i], out[i]
            for channel in range(row.shape[0]):
                mine[channel] = factor * row[channel] + integers[i]


@njit(nogil=True)
def row_of(start, stop, rows, out):
    out[0] = rows[start]


@njit(nogil=True)
def fail(start, stop, sizes):
    np.empty(sizes[start])


@pytest.fixture(params=[1, 2, 3, 5])
def n_threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_arguments_of_all_kinds_reach_every_range(n_threads, kind):
    rows = np.arange(60, dtype=kind).reshape(20, 3)[:, ::2]  # not contiguous
    integers, out = np.arange(20, dtype=np.int32), np.zeros((20, 2), kind)
    integers.flags.writeable = False
    over_rows(scale_rows, 20, kind(0.5), integers, rows, True, out, at_least=4)
    expected = 0.5 * rows + integers[:, None]
    expected[1::2] = 0
    np.testing.assert_array_equal(out, expected)


def test_the_caller_keeps_its_arrays(n_threads):
    rows, out = np.ones((40, 2)), np.zeros((1, 2))
    over_rows(row_of, 40, np.ones((40, 2)), np.zeros((1, 2)), at_least=10)  # compiles, which keeps its examples
    counts = sys.getrefcount(rows), sys.getrefcount(out)
    for _ in range(20):
        over_rows(row_of, 40, rows, out, at_least=10)
    assert (sys.getrefcount(rows), sys.getrefcount(out)) == counts
    np.testing.assert_array_equal(out, [[1, 1]])


def test_a_range_without_memory_is_an_error(n_threads):
    with pytest.raises(MemoryError, match="over 8 rows"):
        over_rows(fail, 8, np.full(8, 2**60), at_least=2)
    over_rows(fail, 8, np.full(8, 2), at_least=2)


def test_the_compiled_function_is_made_once():
    assert in_ranges(scale_rows) is in_ranges(scale_rows)


@pytest.mark.skipif(not ADDRESSES, reason="torch is not linked to GNU's OpenMP here")
def test_a_loop_in_a_file_is_compiled_once_for_all_processes(tmp_path):
    (tmp_path / "loops.py").write_text(
        textwrap.dedent("""
        import numpy as np
        from numba import njit
        from angpn.kernels.team import in_ranges

        @njit(nogil=True, cache=True)
        def count_rows(start, stop, out):
            for i in range(start, stop):
                out[i] += 1

        out = np.zeros(9)
        run = in_ranges(count_rows)
        assert not run(np.array([0, 4, 9]), (out,))
        assert (out == 1).all()
        print(sum(run.stats.cache_hits.values()))
        """)
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    hits = [
        subprocess.run(
            [sys.executable, "loops.py"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, check=True, text=True
        ).stdout
        for _ in range(2)
    ]
    assert [int(found) for found in hits] == [0, 1]
