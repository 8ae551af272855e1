"""Epochs of a network with its rows shared out among processes of one thread each, beside one such process.

    python benchmarks/processes.py [rows] [processes]

Prints the median epoch of both, their ratio, and how many rows of others a process needs. The runs take turns, so that
a noisy machine is noisy for both.
"""

import json
import subprocess
import sys
import time

import numpy as np
import torch

from angpn import ANGPN, train
from angpn.approximate import PartSearch, approximate_candidates
from angpn.bench.scale import CLASSES, COLUMNS, HIDDEN, K, M, make_rows
from angpn.sharding import Shard, is_first, join, share_out

EPOCHS, TURNS = 8, 3


def measure(n: int) -> None:
    """What each process does: print seconds an epoch, and the size of its halo."""
    torch.set_num_threads(1)
    X, y, _ = make_rows(n)
    hood = share_out(n, M, PartSearch(X, M), 0) if join() else approximate_candidates(X, M).hood
    network = ANGPN(COLUMNS, HIDDEN, CLASSES, n_neighbors=K, normalize_hidden=True)
    features = torch.nn.functional.normalize(torch.from_numpy(X))
    seconds, start = [], time.perf_counter()
    for _ in train(network, features, hood, y, max_epochs=EPOCHS):
        seconds.append(time.perf_counter() - start)
        start = time.perf_counter()
    if is_first():
        halo = len(hood.halo.numbers) if isinstance(hood, Shard) else 0
        print(json.dumps({"seconds": float(np.median(seconds[1:])), "halo": halo}))


def run(n: int, processes: int) -> dict[str, float]:
    """A job of so many processes."""
    command = [sys.executable]
    if processes > 1:
        command += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    done = subprocess.run([*command, __file__, str(n), "measure"], stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Both in turn."""
    n = int(sys.argv[1]) if sys.argv[1:] else 100_000
    if sys.argv[2:] == ["measure"]:
        measure(n)
        return
    processes = int(sys.argv[2]) if sys.argv[2:] else 2
    turns = [(run(n, 1), run(n, processes)) for _ in range(TURNS)]
    one, several = (float(np.median([turn[place]["seconds"] for turn in turns])) for place in (0, 1))
    print(
        f"{n} rows: one process {one:.3f} s an epoch, {processes} processes {several:.3f} s, ratio {several / one:.2f}"
    )
    print(f"the first process needs {turns[0][1]['halo']} rows of others")


if __name__ == "__main__":
    main()
