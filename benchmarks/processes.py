"""Rows shared out among processes of one thread each, beside one such process.

    python benchmarks/processes.py [rows] [processes]

Three things in turn: an epoch of a network, a whole fit of a network of 20 epochs, and a whole default fit, neighbours
included. Each line has the medians of both and their ratio. The runs take turns, so that a noisy machine is noisy for
both.
"""

import json
import os
import subprocess
import sys
import time
import warnings

import numpy as np
import torch

from angpn import ANGPN, ANGPNClassifier, train
from angpn.bench.scale import CLASSES, COLUMNS, HIDDEN, K, M, make_rows
from angpn.neighbors.approximate import DistributedSearch, approximate_candidates
from angpn.neighbors.distributed import distribute_rows, is_main_process, join_process_group

EPOCHS = 8
TURNS = {"epoch": 3, "network": 2, "default": 3}
FITS = {"network": {"hidden_layer_sizes": (HIDDEN, HIDDEN), "max_iter": 20, "direction": "directed"}, "default": {}}


def is_job() -> bool:
    """Whether torchrun has started this process."""
    return "WORLD_SIZE" in os.environ


def measure(n: int, what: str) -> None:
    """What each process does: print seconds, and how many rows of others the first needs."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # 20 epochs are too few
    X, y, _ = make_rows(n)
    if what == "epoch":
        seconds, halo = epoch_seconds(X, y)
    else:
        start = time.perf_counter()
        ANGPNClassifier(random_state=0, distributed=is_job(), **FITS[what]).fit(X, y)
        seconds, halo = time.perf_counter() - start, 0
    if is_main_process():
        print(json.dumps({"seconds": seconds, "halo": halo}))


def epoch_seconds(X: np.ndarray, y: np.ndarray) -> tuple[float, int]:
    """The median epoch, and the size of the halo."""
    neighborhood = (
        distribute_rows(len(X), M, DistributedSearch(X, M), 0)
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
    """A job of so many processes."""
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
    """Both in turn."""
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
