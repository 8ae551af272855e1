"""Functions that run in a forked process and are killed."""

import os
import signal
import sys
import time
import traceback
import warnings

FILE_OPERATIONS = {
    *("os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate"),
    "angpn.exchange",
}


def run_and_kill(function, *, at=None, after=None):
    """Run a function in a forked process; kill this before file operation ``at``, or ``after`` so many seconds.

    Returns whether the process was killed, by this or by itself.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = os.fork()
    if child == 0:
        try:
            if at is not None:
                sys.addaudithook(killer(at))
            function()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), f"the function failed with exit code {code}"
    return code != 0


def killer(at):
    count = 0

    def hook(event, arguments):
        nonlocal count
        changes_files = event in FILE_OPERATIONS or (
            event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        )
        if changes_files:
            if count == at:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1

    return hook
