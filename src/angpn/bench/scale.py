"""A fit of a million rows on one machine, and the growth of the duration of a network's epoch with n."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from angpn.estimators.auto import ANGPNClassifier
from angpn.neighbors.approximate import EXACT_ROWS, approximate_candidates
from angpn.neighbors.exact import nearest_candidates
from angpn.network.model import ANGPN
from angpn.network.training import train
from angpn.utils.memory import peak_bytes
from angpn.utils.typing import Array

COLUMNS, CLASSES, CLUSTERS, LABELLED = 64, 10, 30, 0.01
APART, DIRECTIONS, NOISE = 0.3, 8, 1.5  # scale of the centres; directions of a cluster; noise in all columns
HIDDEN, K, M = 50, 20, 80
EPOCHS = 4


def make_rows(n: int) -> tuple[Array, Array, Array]:
    """Return rows of ten classes, labels for 1 % of them (at least 100), and the true labels.

    Each class is three overlapping clusters that extend in a few directions each, plus noise.
    """
    generator = np.random.default_rng(n)
    X, cluster = make_clusters(n, CLUSTERS, generator)
    truth = cluster % CLASSES
    y, known = np.full(n, -1), generator.permutation(n)[: max(100, int(LABELLED * n))]
    y[known] = truth[known]
    return X, y, truth


def make_clusters(n: int, n_clusters: int, generator: np.random.Generator) -> tuple[Array, Array]:
    """Return rows of overlapping clusters that extend in a few directions each, with noise, and their clusters."""
    centres = np.float32(APART) * generator.standard_normal((n_clusters, COLUMNS), np.float32)
    directions = generator.standard_normal((n_clusters, DIRECTIONS, COLUMNS), np.float32)
    cluster = generator.integers(n_clusters, size=n)
    X = generator.standard_normal((n, COLUMNS), np.float32)
    X *= NOISE
    for place in range(n_clusters):
        rows = np.flatnonzero(cluster == place)
        X[rows] += centres[place] + generator.standard_normal((len(rows), DIRECTIONS), np.float32) @ directions[place]
    return X, cluster


def measure_fit(n: int) -> dict[str, float]:
    """Measure a default fit: seconds, accuracy on unlabelled rows, and recall of the neighbours."""
    X, y, truth = make_rows(n)
    start = time.perf_counter()
    model = ANGPNClassifier(random_state=0).fit(X, y)
    return {
        "rows": n,
        "neighbour_seconds": model.neighbor_seconds_,
        "fit_seconds": time.perf_counter() - start,
        "recall": model.recall_,
        "accuracy": float(np.mean((model.transduction_ == truth)[y == -1])),
    }


def epoch_seconds(n: int) -> float:
    """Measure the median duration of an epoch of a network with two hidden layers."""
    X, y, _ = make_rows(n)
    if n <= EXACT_ROWS:
        neighborhood = nearest_candidates(X, M)
    else:
        neighborhood = approximate_candidates(X, M, recall=0.9).neighborhood  # an epoch takes as long on whatever lists
    features: Tensor = torch.nn.functional.normalize(torch.from_numpy(X))
    network = ANGPN(COLUMNS, HIDDEN, CLASSES, n_neighbors=K, normalize_hidden=True)
    seconds = []
    epochs = train(network, features, neighborhood, y, max_epochs=EPOCHS + 1)
    del neighborhood
    for _ in range(EPOCHS + 1):
        start = time.perf_counter()
        next(epochs)
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds[1:]))  # the first includes compilation and cold caches


def measure(sizes: Sequence[int], on_step: Callable[[str], None] = lambda what: None) -> dict[str, Any]:
    """Measure a fit at the largest size and epochs at all sizes, as ``angpn bench --scale --json`` prints them."""
    on_step(f"default fit of {sizes[-1]:,} rows")
    found: dict[str, Any] = measure_fit(sizes[-1])
    seconds = {}
    for n in sizes:
        on_step(f"epochs on {n:,} rows")
        seconds[n] = epoch_seconds(n)
    logs = np.log(np.array(list(seconds.items())))
    peak = peak_bytes()
    return {
        **found,
        "peak_gb": None if peak is None else peak / 1e9,
        "growth_exponent": float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0]),
        "epoch_seconds": {str(n): value for n, value in seconds.items()},
    }
