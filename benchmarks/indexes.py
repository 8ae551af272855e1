"""Approximate neighbours by three libraries and by comparing every pair: seconds, and the share of the nearest found.

    pip install faiss-cpu pynndescent usearch
    python benchmarks/indexes.py [rows ...]

Each library is measured from coarse to fine, one line each. Libraries that are not installed are omitted.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from sklearn.preprocessing import normalize

from angpn import nearest_candidates
from angpn.bench.scale import make_rows
from angpn.neighbors.approximate import approximate_candidates

M, SAMPLE = 80, 500
Array = np.ndarray[Any, Any]


def by_every_pair(x: Array) -> Iterator[tuple[str, Callable[[], Array]]]:
    """Compare every pair, up to 100,000 rows."""
    if len(x) <= 100_000:
        yield "", lambda: nearest_candidates(x, M).indices.numpy()


def by_faiss(x: Array) -> Iterator[tuple[str, Callable[[], Array]]]:
    """Use faiss as angpn does: the number of probed groups follows from the requested recall, which is measured."""
    for recall in (0.8, 0.9, 0.95, 0.99):
        yield (
            f"recall {recall}",
            lambda recall=recall: approximate_candidates(x, M, recall=recall).neighborhood.indices.numpy(),
        )


def by_pynndescent(x: Array) -> Iterator[tuple[str, Callable[[], Array]]]:
    """Use NN-descent; its neighbours include the row itself."""
    from pynndescent import NNDescent

    for trees, rounds in ((None, None), (20, 20)):

        def search(trees: int | None = trees, rounds: int | None = rounds) -> Array:
            options = {"n_trees": trees, "n_iters": rounds, "random_state": 0, "n_jobs": torch.get_num_threads()}
            return NNDescent(x, metric="cosine", n_neighbors=M + 1, **options).neighbor_graph[0][:, 1:]

        yield ("defaults" if trees is None else f"{trees} trees, {rounds} rounds"), search


def by_usearch(x: Array) -> Iterator[tuple[str, Callable[[], Array]]]:
    """Use hierarchical navigable small worlds."""
    from usearch.index import Index

    for width in (64, 128, 256):

        def search(width: int = width) -> Array:
            index = Index(ndim=x.shape[1], metric="cos", dtype="f32", expansion_search=width)
            index.add(np.arange(len(x)), x, threads=torch.get_num_threads())
            return index.search(x, M + 1, threads=torch.get_num_threads()).keys[:, 1:].astype(np.int64)

        yield f"expansion {width}", search


def main() -> None:
    """Print one line of JSON for each measurement."""
    for n in [int(size) for size in sys.argv[1:]] or [20_000, 100_000]:
        x = normalize(make_rows(n)[0])
        chosen = np.random.default_rng(0).permutation(n)[:SAMPLE]
        similar = x[chosen] @ x.T
        similar[np.arange(SAMPLE), chosen] = -np.inf
        true = np.argpartition(-similar, M, axis=1)[:, :M]
        tries = [("every pair", "", search) for _, search in by_every_pair(x)]
        for name, libraries in (("faiss", by_faiss), ("pynndescent", by_pynndescent), ("usearch", by_usearch)):
            if find_spec(name):
                tries += [(name, how, search) for how, search in libraries(x)]
        for name, how, search in tries:
            start = time.perf_counter()
            found = search()
            seconds = time.perf_counter() - start
            share = np.mean([len(np.intersect1d(*pair)) for pair in zip(found[chosen], true, strict=True)]) / M
            print(json.dumps({"rows": n, "library": name, "how": how, "seconds": seconds, "recall": share}), flush=True)


if __name__ == "__main__":
    main()
