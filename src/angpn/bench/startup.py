"""Seconds that new processes take to import the package, beside the packages it needs, and to run the command."""

import subprocess
import sys
import time

import numpy as np

ARGUMENTS = {
    "import_seconds": ("-c", "from angpn import ANGPNClassifier"),
    "import_torch_sklearn_seconds": ("-c", "import torch, sklearn"),
    "import_angpn_seconds": ("-c", "import angpn"),
    "import_numpy_seconds": ("-c", "import numpy"),
    "version_seconds": ("-m", "angpn", "--version"),
}  # of Python


def measure_startup(turns: int = 5) -> dict[str, float]:
    """Return the median seconds of a process with each of :data:`ARGUMENTS`, the interpreter's start included."""
    seconds: dict[str, list[float]] = {name: [] for name in ARGUMENTS}
    for _ in range(turns):
        for name, arguments in ARGUMENTS.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
            seconds[name].append(time.perf_counter() - start)
    return {name: float(np.median(values)) for name, values in seconds.items()}
