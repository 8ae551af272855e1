"""A kind whose seed decides what goes wrong, to test the driver by."""

import os
import signal
import time

import numpy as np

from fuzz.checks import check_probabilities

OUTCOMES = ("accepted", "refused", "traceback", "nan", "hang", "memory", "crash", "broken kind")


def make(seed, folder):
    """Write down what shall happen."""
    (folder / "input.txt").write_text(OUTCOMES[seed])
    if OUTCOMES[seed] == "broken kind":
        raise ValueError("the fuzzer itself is at fault")
    return OUTCOMES[seed]


def run(case):
    """Let it happen."""
    if case == "refused":
        return False
    if case == "traceback":
        raise KeyError("no such part")
    if case == "nan":
        check_probabilities(np.full((2, 2), np.nan), 2, 2)
    if case == "hang":
        sleep_for_long()
    if case == "memory":
        np.ones(30_000_000)
    if case == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    return True


def sleep_for_long():
    """Do nothing, longer than any limit."""
    time.sleep(600)
