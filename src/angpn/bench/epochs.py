"""Duration and memory of an epoch, beside torch_geometric's networks and Algorithm 1 in dense torch.

Each method runs in processes of its own, so that methods do not share caches and allocators. Fast methods run in
several, since the same code differs from process to process with the layout of the heap (a GCN at 5,000 rows took 14 to
29 ms an epoch in five of them). The processes take turns, a few epochs each, so that noise of the machine affects all.
Medians are compared as ratios.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from angpn.anfp.neighbor_graph import resolve_gamma
from angpn.kernels.threads import fair_threads_for
from angpn.neighbors.exact import nearest_candidates
from angpn.neighbors.locality import in_local_order
from angpn.neighbors.neighborhood import Neighborhood
from angpn.network.model import ANGPN
from angpn.utils.memory import forget_peak, peak_bytes, resident_bytes

N_FEATURES, N_CLASSES, HIDDEN, K, M, T = 256, 10, 50, 10, 40, 2
ALPHA, BETA, LEARNING_RATE = 0.5, 0.3, 0.005
SIZES = (1_000, 5_000, 20_000, 70_000)
TURNS = {1_000: 8, 5_000: 6, 20_000: 7, 70_000: 5}
REPLICAS = {1_000: 3, 5_000: 3, 10_000: 3}  # processes for each method; one at other sizes
EPOCHS = {1_000: 25, 5_000: 25, 10_000: 25}  # of a turn; 5 at other sizes, where they take long
DENSE_LIMIT = 5_000
PEERS = {
    "dense": "dense torch",
    "gcn": "GCN",
    "gat1": "GAT, 1 head of 50",
    "gat8": "GAT, 8 heads of 6",
    "sage": "GraphSAGE",
}


class Problem(NamedTuple):
    """Rows in clusters, a tenth of them labelled, and their nearest candidates."""

    features: Tensor  # (n, 256) float32, unit rows
    labels: Tensor  # (n,)
    labelled: Tensor  # indices
    neighborhood: Neighborhood

    @property
    def edge_index(self) -> Tensor:
        """The directed k-NN graph in torch_geometric's format: edges from neighbour to row."""
        n = len(self.features)
        return torch.stack([self.neighborhood.indices[:, :K].flatten(), torch.arange(n).repeat_interleave(K)])


def make_problem(n: int) -> Problem:
    """Return synthetic clusters, the same for the same n."""
    generator = torch.Generator().manual_seed(n)
    labels = torch.randint(N_CLASSES, (n,), generator=generator)
    centres = torch.randn(N_CLASSES, N_FEATURES, generator=generator)
    features = centres[labels] + 1.5 * torch.randn(n, N_FEATURES, generator=generator)
    features = nn.functional.normalize(features)
    labelled = torch.randperm(n, generator=generator)[: n // 10]
    return Problem(features, labels, labelled, nearest_candidates(features, M))


def ours(problem: Problem) -> Callable[[], None]:
    """Return a function that runs an epoch of ANGPN as :func:`angpn.train` does."""
    network = ANGPN(
        N_FEATURES, HIDDEN, N_CLASSES, n_neighbors=K, alpha=ALPHA, beta=BETA, num_steps=T, normalize_hidden=True
    )
    neighborhood = in_local_order(problem.neighborhood)
    partition = neighborhood.partition
    with torch.no_grad():
        propagated = network.propagate_input(partition.local_rows(problem.features), neighborhood)
    rows = torch.from_numpy(np.sort(partition.local_index(problem.labelled.numpy())[0]))
    epoch = _epoch(
        network, lambda: network.classify(propagated, neighborhood, rows), problem.labels[partition.global_ids(rows)]
    )

    def fair_epoch() -> None:
        with fair_threads_for(neighborhood.n_rows):
            epoch()

    return fair_epoch


def dense(problem: Problem) -> Callable[[], None]:
    """Return a function that runs an epoch of Algorithm 1 as printed, with n x n matrices."""
    distances = problem.neighborhood.to_dense().distances  # the paper's D is full; only its size matters for the time
    distances = distances.masked_fill(torch.isinf(distances), 2.0)
    gamma = resolve_gamma(problem.neighborhood.distances, K, "auto")
    eta = 1 / K + distances.topk(K, largest=False).values.sum(dim=1, keepdim=True) / (2 * K * gamma)
    network = ANGPN(N_FEATURES, HIDDEN, N_CLASSES)  # for its weights
    identity = torch.eye(len(distances))

    def logits() -> Tensor:
        h = problem.features
        for conv in network.convs:
            f = h
            for _ in range(T):
                s = (-(distances - BETA * f @ f.T) / (2 * gamma) + eta).clamp(min=0)
                f = (ALPHA * s + (1 - ALPHA) * identity) @ h
            h = torch.relu(f @ conv.weight)  # type: ignore[operator]
        return network.perceptron(h)

    return _epoch(network, lambda: logits()[problem.labelled], problem.labels[problem.labelled])


def peer(name: str, problem: Problem) -> Callable[[], None]:
    """Return a function that runs an epoch of a torch_geometric network of the same shape."""
    from torch_geometric.nn import GATConv, GCNConv, SAGEConv

    widths, layer = {
        "gcn": ((HIDDEN, HIDDEN), lambda before: GCNConv(before, HIDDEN, cached=True)),
        "gat1": ((HIDDEN, HIDDEN), lambda before: GATConv(before, HIDDEN, heads=1)),
        "gat8": ((48, 48), lambda before: GATConv(before, 6, heads=8)),
        "sage": ((HIDDEN, HIDDEN), lambda before: SAGEConv(before, HIDDEN)),
    }[name]
    convs = nn.ModuleList([layer(N_FEATURES), layer(widths[0])])
    network = nn.ModuleDict({"convs": convs, "perceptron": nn.Linear(widths[1], N_CLASSES)})
    edge_index = problem.edge_index

    def logits() -> Tensor:
        h = problem.features
        for conv in convs:
            h = torch.relu(conv(h, edge_index))
        return network["perceptron"](h)

    return _epoch(network, lambda: logits()[problem.labelled], problem.labels[problem.labelled])


def _epoch(network: nn.Module, logits: Callable[[], Tensor], labels: Tensor) -> Callable[[], None]:
    """Return a function that runs forward, backward and Adam, given the logits of the labelled rows."""
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE, fused=True)

    def epoch() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(logits(), labels).backward()
        optimizer.step()

    return epoch


def make_epoch(name: str, problem: Problem) -> Callable[[], None]:
    """Return a function that runs an epoch of the named method."""
    if name == "ours":
        return ours(problem)
    return dense(problem) if name == "dense" else peer(name, problem)


def methods_at(n: int) -> list[str]:
    """Return the names of the methods that are measured at n rows."""
    return ["ours", *(name for name in PEERS if name != "dense" or n <= DENSE_LIMIT)]


class Worker:
    """A process that runs epochs of one method on one problem on request."""

    def __init__(self, name: str, problem_file: Path) -> None:
        command = [sys.executable, "-m", "angpn.bench.epochs", name, str(problem_file)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, message: str) -> Any:
        """Send a request line, and read the JSON line of the response."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(message + "\n")
        self._process.stdin.flush()
        response = self._process.stdout.readline()
        if not response:
            raise RuntimeError(f"a benchmark process ended with exit code {self._process.wait()}; its error is above")
        return json.loads(response)

    def close(self) -> None:
        """Close the pipes and wait for the process."""
        self._process.communicate()


def serve(name: str, problem_file: Path) -> None:
    """Respond to "epochs N" with seconds and to "peak" with bytes beyond data and libraries, in a worker process."""
    with np.load(problem_file) as file:
        arrays = {key: torch.from_numpy(file[key]) for key in file.files}
    neighborhood = Neighborhood(arrays["indices"], arrays["distances"])
    problem = Problem(arrays["features"], arrays["labels"], arrays["labelled"], neighborhood)
    make_epoch(name, make_problem(200))()  # loads libraries and compiled code, which are not the method's memory
    forget_peak()
    before = resident_bytes()
    if before is None:
        raise OSError("peak memory can be measured on Linux only, got no /proc/self/status; run this on Linux")
    epoch = make_epoch(name, problem)
    for line in sys.stdin:
        if line.startswith("epochs"):
            seconds = []
            for _ in range(int(line.split()[1])):
                start = time.perf_counter()
                epoch()
                seconds.append(time.perf_counter() - start)
            print(json.dumps(seconds), flush=True)
        else:
            print(json.dumps((peak_bytes() or 0) - before), flush=True)


def measure(n: int, on_method: Callable[[str], None] = lambda name: None) -> "Measurement":
    """Measure all methods at n rows: seconds an epoch (medians over turns) and peak bytes."""
    problem = make_problem(n)
    names = methods_at(n)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        parts = {"indices": problem.neighborhood.indices, "distances": problem.neighborhood.distances}
        parts |= {"features": problem.features, "labels": problem.labels, "labelled": problem.labelled}
        np.savez(path, allow_pickle=False, **{key: part.numpy() for key, part in parts.items()})
        workers = []
        for name in names:
            on_method(name)
            for _ in range(1 if name == "dense" else REPLICAS.get(n, 1)):
                workers.append((name, Worker(name, path)))
                workers[-1][1].ask("epochs 3")  # to warm up
        seconds: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(TURNS.get(n, 5)):
            for name, worker in workers:
                # The first epochs of a turn start with cold caches and threads, unlike an epoch of a real training.
                count = 2 if name == "dense" else EPOCHS.get(n, 5)
                seconds[name] += worker.ask(f"epochs {count}")[max(1, count // 5) :]
        peaks = {name: int(worker.ask("peak")) for name, worker in workers}
        for _, worker in workers:
            worker.close()
    graph = ANGPN(N_FEATURES, HIDDEN, N_CLASSES, n_neighbors=K).convs[0].graph(problem.features, problem.neighborhood)  # type: ignore[operator]
    support = float((graph > 0).sum(dim=1).double().mean())
    return Measurement(n, {name: float(np.median(values)) for name, values in seconds.items()}, peaks, support)


def gemm_rate() -> float:
    """Measure the floating-point operations a second of a large float32 matrix product."""
    a = torch.randn(2048, 2048)
    rates = []
    for _ in range(15):
        start = time.perf_counter()
        torch.mm(a, a)
        rates.append(2 * 2048**3 / (time.perf_counter() - start))
    return float(np.median(rates))


def epoch_flops(n: int, support: float) -> float:
    """Return the least number of multiplications and additions of an epoch, given the mean support of a row of S."""
    labelled = n // 10
    rows = (T - 1) * n + labelled  # of S, over all steps: the last is for labelled rows only
    first = 2 * (2 * n * N_FEATURES * HIDDEN)  # forward, and the gradient of the weights
    second = 3 * (2 * labelled * HIDDEN * (HIDDEN + N_CLASSES))
    affinities = 2 * rows * M * HIDDEN
    on_support = 2 * rows * support * HIDDEN  # S h forward; backward S^T g, <g, h> and both sides of F F^T
    return first + second + affinities + 5 * on_support


class Measurement(NamedTuple):
    """Measurements at one size."""

    n: int
    seconds: dict[str, float]
    peak_bytes: dict[str, int]
    support: float  # mean number of non-zero entries of a row of S


def summary(measurements: list[Measurement], rate: float) -> dict[str, Any]:
    """Return ratios, growth and memory as ``angpn bench --json`` prints them."""
    ratios: dict[str, dict[str, float]] = {f"{name}_over_ours": {} for name in PEERS}
    for found in measurements:
        for name in found.seconds:
            if name != "ours":
                ratios[f"{name}_over_ours"][str(found.n)] = found.seconds[name] / found.seconds["ours"]
    grown = [found for found in measurements if found.n >= 5_000]
    logs = np.log([[found.n, found.seconds["ours"]] for found in grown])
    slope = float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0]) if len(grown) > 1 else None
    last = measurements[-1]
    at = next((found for found in measurements if found.n == 5_000), last)
    return {
        "ratios": ratios,
        "growth_exponent": slope,
        "peak_bytes_per_row": last.peak_bytes["ours"] / last.n,
        "limit_fraction": epoch_flops(at.n, at.support) / rate / at.seconds["ours"],
        "milliseconds": {
            str(found.n): {name: 1000 * value for name, value in found.seconds.items()} for found in measurements
        },
        "peak_megabytes": {
            str(found.n): {name: value / 2**20 for name, value in found.peak_bytes.items()} for found in measurements
        },
        "gemm_gflops": rate / 1e9,
    }


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]))
