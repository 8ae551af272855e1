"""The learner as the server sees it: labels go in, results come back, and labelling never waits for it."""

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from angpn.annotation.messages import Begin, Failed, Learn, Message

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


class Learner:
    """A process of its own that fits models; one that dies is started again with the next labels.

    It is a new interpreter, not a fork and not a copy of the caller's script, so it can be started from a notebook, a
    thread or a script without a guard.

    Args:
        begin: The rows.
        on_message: What to do with a result, in a thread of its own.
    """

    def __init__(self, begin: Begin, on_message: Callable[[Message], None]) -> None:
        self._begin = begin
        self._on_message = on_message
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._closed = False

    def start(self) -> None:
        """Start the process, which begins with the features of the rows."""
        with self._lock:
            if self._closed or (self._process is not None and self._process.poll() is None):
                return
            n_threads = str(max(1, (os.cpu_count() or 1) - 1))  # one core is left to answer
            environment = {**dict.fromkeys(_THREADS, n_threads), **os.environ}
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "angpn.annotation.learner_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                start_new_session=True,  # Ctrl-C in the terminal is for the server, which then ends it
            )
            self._reader = threading.Thread(target=self._receive, args=(self._process,), daemon=True)
            self._reader.start()
        self._send(self._begin)

    def learn(self, labels: Learn) -> None:
        """Ask for a model of these labels; it supersedes what was asked before and has not begun."""
        self.start()
        self._send(labels)

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._closed = True
            process = self._process
        if process is not None:
            process.kill()
            self._reader.join()

    def _send(self, message: Any) -> None:
        process = self._process
        if process is None or process.stdin is None:
            return
        with suppress(OSError, ValueError):  # it has ended, which _receive tells
            pickle.dump(message, process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
            process.stdin.flush()

    def _receive(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        told = False
        try:
            while True:
                message = pickle.load(process.stdout)
                told = isinstance(message, Failed)
                self._on_message(message)
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):
            code = process.wait()
            with suppress(OSError):  # about what it did not read any more
                process.stdin.close()
            process.stdout.close()
            if not self._closed and not told:
                self._on_message(
                    Failed(f"the process that learns ended with code {code}; it is started again with the next labels")
                )
