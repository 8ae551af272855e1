"""How much memory this process has held, on Linux; elsewhere None."""

import ctypes
import gc
from contextlib import suppress
from pathlib import Path

_STATUS, _REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_MACHINE, _GROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")


def resident_bytes() -> int | None:
    """What the process holds now."""
    return _field("VmRSS")


def peak_bytes() -> int | None:
    """The most it has held since it began, or since :func:`forget_peak`."""
    return _field("VmHWM")


def available_bytes() -> int | None:
    """What the process may still take: what the machine has free, and what a container leaves it."""
    free = _field("MemAvailable", _MACHINE)
    limit, used = (_number(_GROUP / name) for name in ("memory.max", "memory.current"))
    if limit is None or used is None:
        return free
    return limit - used if free is None else min(free, limit - used)


def check_fits(needed: int, path: Path, remedy: str) -> None:
    """Raise MemoryError where what a file unpacks to is more than is free."""
    free = available_bytes()
    if free is not None and needed > free:
        raise MemoryError(
            f"{path} must fit into memory, got one that takes {needed / 1e9:.1f} GB where {free / 1e9:.1f} GB are "
            f"free; {remedy}"
        )


def forget_peak() -> None:
    """Begin anew from what the process holds now; what it has freed but kept for later is given back first."""
    gc.collect()
    if _REFS.exists():
        with suppress(OSError, AttributeError):  # a C library without it, or a system that does not allow it
            ctypes.CDLL(None).malloc_trim(0)
            _REFS.write_text("5")


def _field(name: str, path: Path = _STATUS) -> int | None:
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return None


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # not there, or "max"
        return None
