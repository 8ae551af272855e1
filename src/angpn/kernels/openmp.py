"""The functions of the OpenMP library that torch is linked to."""

import ctypes
from pathlib import Path

import torch


def _addresses() -> dict[str, int]:
    """Return where in memory they are, or nothing if torch has another kind of threads."""
    names = "GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads"
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        return {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in names}
    except (OSError, AttributeError):
        return {}


ADDRESSES = _addresses()
