"""The first use of the compiler, which Ctrl-C must not cut in two.

numba takes a second to be imported and to register what it compiles; where KeyboardInterrupt is raised in between, no
loop of this process can be compiled or loaded any more. So it is held back until that is done.
"""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


def start_compiler() -> None:
    """Import numba and let it register itself, where that was not done yet."""
    if f"{__package__}.first_loop" in sys.modules:
        return
    with held_interrupt():
        from angpn.kernels.first_loop import same

        same(0)


@contextmanager
def held_interrupt() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end where Ctrl-C comes meanwhile; for what is short."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield  # signals are handled by the main thread; and a handler that is not Python's could not be put back
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        signal.raise_signal(signal.SIGINT)
