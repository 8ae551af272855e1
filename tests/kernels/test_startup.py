"""The start of the compiler: Ctrl-C waits for its end."""

import signal
import threading

import pytest

from angpn.kernels.startup import held_interrupt


@pytest.fixture(autouse=True)
def _interrupts_raise():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background may ignore it
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_waits_for_the_end():
    done = []

    def work():
        with held_interrupt():
            signal.raise_signal(signal.SIGINT)
            done.append("all")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["all"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_puts_the_handler_back():
    with pytest.raises(ValueError, match="as it is"), held_interrupt():
        raise ValueError("as it is")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_have_nothing_to_hold_back():
    handlers = []

    def run():
        with held_interrupt():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler]
