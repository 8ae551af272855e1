"""Rows distributed among processes of one thread each, beside one such process.

    python benchmarks/processes.py [rows] [processes]

Three measurements: an epoch of a network, a fit of a network of 20 epochs, and a default fit, neighbours included. Each
line has the medians of both and their ratio. The runs alternate, so that noise of the machine affects both.
"""

import json
import os
import subprocess
import sys
import time
import warnings

import numpy as np
import torch

from angpn import ANGPN, ANGPNClassifier, ANGPNNetworkClassifier, train
from angpn.bench.scale import CLASSES, COLUMNS, HIDDEN, K, M, make_rows
from angpn.neighbors.approximate import approximate_candidates
from angpn.neighbors.distributed import is_main_process, join_process_group
from angpn.neighbors.distributed_search import DistributedSearch, distribute_rows

EPOCHS = 8
TURNS = {"epoch": 3, "network": 2, "default": 3}
ESTIMATORS = {
    "network": ANGPNNetworkClassifier(hidden_layer_sizes=(HIDDEN, HIDDEN), max_iter=20, direction="directed"),
    "default": ANGPNClassifier(),
}


def is_job() -> bool:
    """Whether torchrun has started this process."""
    return "WORLD_SIZE" in os.environ


def measure(n: int, what: str) -> None:
    """Run one measurement in each process, and print seconds and the size of the main process's halo."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # 20 epochs are too few
    X, y, _ = make_rows(n)
    if what == "epoch":
        seconds, halo = epoch_seconds(X, y)
    else:
        start = time.perf_counter()
        ESTIMATORS[what].set_params(random_state=0, distributed=is_job()).fit(X, y)
        seconds, halo = time.perf_counter() - start, 0
    if is_main_process():
        print(json.dumps({"seconds": seconds, "halo": halo}))


def epoch_seconds(X: np.ndarray, y: np.ndarray) -> tuple[float, int]:
    """Return the median duration of an epoch, and the size of the halo."""
    neighborhood = (
        distribute_rows(DistributedSearch(X, M))
        if join_process_group(is_job())
        else approximate_candidates(X, M).neighborhood
    )
    network = ANGPN(COLUMNS, HIDDEN, CLASSES, n_neighbors=K, normalize_hidden=True)
    features = torch.nn.functional.normalize(torch.from_numpy(X))
    seconds, start = [], time.perf_counter()
    for _ in train(network, features, neighborhood, y, max_epochs=EPOCHS):
        seconds.append(time.perf_counter() - start)
        start = time.perf_counter()
    return float(np.median(seconds[1:])), neighborhood.partition.halo.n_rows


def run(n: int, processes: int, what: str) -> dict[str, float]:
    """Run a measurement with a number of processes."""
    command = [sys.executable]
    if processes > 1:
        command += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    done = subprocess.run(
        [*command, __file__, str(n), "measure", what],
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Alternate one process and several, and print medians."""
    n = int(sys.argv[1]) if sys.argv[1:] else 100_000
    if sys.argv[2:3] == ["measure"]:
        measure(n, sys.argv[3])
        return
    processes = int(sys.argv[2]) if sys.argv[2:] else 2
    for what, n_turns in TURNS.items():
        turns = [(run(n, 1, what), run(n, processes, what)) for _ in range(n_turns)]
        one, several = (float(np.median([turn[place]["seconds"] for turn in turns])) for place in (0, 1))
        found = {"what": what, "rows": n, "processes": processes, "one": one, "several": several}
        print(json.dumps({**found, "ratio": several / one, "halo": turns[0][1]["halo"]}), flush=True)


if __name__ == "__main__":
    main()
