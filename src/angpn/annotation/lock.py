"""One writer at a time: a lock that says where its owner serves."""

import json
import os
import sys
from pathlib import Path

if sys.platform != "win32":
    import fcntl


def open_locked(path: Path) -> int:
    """Open and lock a file; the system releases the lock of a process that dies, however it dies.

    Args:
        path: The file, in which the process that has the lock says where it serves.

    Returns:
        The descriptor that holds the lock.

    Raises:
        BlockingIOError: If another process has locked it; the message has its address.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if sys.platform != "win32":
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        try:
            address = json.loads(path.read_bytes()).get("address") or "an address that is not known yet"
        except ValueError:
            address = "an address that is not known yet"
        raise BlockingIOError(
            f"{path.parent.parent} must be open once, got a server that has it open at {address} ; go there, or end it"
        ) from None
    except OSError:  # no locks on this file system
        pass
    return handle
