"""The process that learns: reads rows once, then fits a model whenever labels come, and sends what it found.

Labels come in on standard input, results go out on standard output, each a pickled message of a parent that started
this very code. It ends with its parent, however that ends.
"""

import os
import pickle
import queue
import sys
import threading
import warnings
from typing import Any, BinaryIO

from angpn.annotation.learning import RowLearner
from angpn.annotation.messages import Begin, Failed, Learn

_NICENESS = 10


def main() -> None:
    """Answer messages until standard input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not come between messages
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    warnings.simplefilter("ignore")
    inbox: queue.Queue[Any] = queue.Queue()
    threading.Thread(target=_receive, args=(sys.stdin.buffer, inbox), daemon=True).start()
    begin = inbox.get()
    assert isinstance(begin, Begin)
    learner: RowLearner | None = None
    steps: list[Any] = []
    while True:
        try:
            if learner is None:
                learner = RowLearner(begin)
                _send(answers, learner.prepared())
                steps = [learner.mapped]
            wanted = _latest(inbox, wait=not steps)
            if wanted is not None:
                _send(answers, learner.learn(wanted))
            elif steps:
                _send(answers, steps.pop(0)())
        except (KeyboardInterrupt, BrokenPipeError):
            os._exit(0)
        except Exception as error:
            _send(answers, Failed(f"{' '.join(str(error).split()) or type(error).__name__}"))
            if learner is None:
                os._exit(1)


def _receive(messages: BinaryIO, inbox: "queue.Queue[Any]") -> None:
    """Pass on what comes; end the process at once when the parent is gone, also during a fit."""
    try:
        while True:
            inbox.put(pickle.load(messages))
    except (EOFError, OSError, pickle.UnpicklingError):
        os._exit(0)


def _latest(inbox: "queue.Queue[Any]", *, wait: bool) -> Learn | None:
    """Return the newest labels; those before are out of date."""
    found = inbox.get() if wait else None
    while not inbox.empty():
        found = inbox.get()
    return found


def _send(answers: BinaryIO, message: Any) -> None:
    pickle.dump(message, answers, protocol=pickle.HIGHEST_PROTOCOL)
    answers.flush()


if __name__ == "__main__":
    main()
