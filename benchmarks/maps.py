"""Maps of rows in two dimensions: ``ANGPNEmbedding`` beside t-SNE and PCA.

    ANGPN_DATA=folder python benchmarks/maps.py [--seeds 3] [--sets digits,...]

All have the same rows, scaled as ``ANGPNEmbedding`` scales them and at most 2,000 of a set. Trustworthiness says
whether rows that are near in the map are near in the features (10 neighbours); agreement is the share of the 10 nearest
rows in the map that are of the same class, which no method was told. t-SNE is the one of the report.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.decomposition import PCA
from sklearn.manifold import trustworthiness
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from angpn import ANGPNEmbedding
from angpn.ensemble.config import EnsembleConfig
from angpn.ensemble.scaling import Scaling
from angpn.estimators.adaptive_graph import AdaptiveGraphOptions, scaling_without_labels
from angpn.experiments.clustering import load
from angpn.inspection.map_layout import map_layout

NAMES = ("wine", "digits", "mnist10k", "cifar10", "20news")
MOST_ROWS, NEIGHBORS = 2000, 10
Layout = Callable[[Any, np.ndarray, int], np.ndarray]  # of rows, their scaled features and the seed
METHODS: dict[str, Layout] = {
    "PCA": lambda X, features, seed: PCA(2, random_state=seed).fit_transform(features),
    "t-SNE": lambda X, features, seed: map_layout(features, random_state=seed),
    "ANGPNEmbedding": lambda X, features, seed: ANGPNEmbedding(2, random_state=seed).fit_transform(X),
    "t-SNE of ANGPNEmbedding(30)": lambda X, features, seed: map_layout(
        ANGPNEmbedding(30, random_state=seed).fit_transform(X), random_state=seed
    ),
}


def scaled(X: Any) -> np.ndarray:
    """Return rows as ``ANGPNEmbedding`` compares them."""
    options = AdaptiveGraphOptions(20, 1, 3, "auto", "auto", 0.9, 0, False)
    scaling = Scaling.fit(X, *scaling_without_labels(X, options), 0, EnsembleConfig())
    return scaling.features(scaling.transform(X)).numpy()


def agreement(positions: np.ndarray, truth: np.ndarray) -> float:
    """Return the share of the nearest rows in the map that are of the same class."""
    nearest = NearestNeighbors(n_neighbors=NEIGHBORS).fit(positions).kneighbors(return_distance=False)
    return float((truth[nearest] == truth[:, None]).mean())


def main() -> None:
    """Lay out each set by each method, and print the means over seeds as a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", default=",".join(NAMES))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print("| set | map | trustworthiness | 10-NN agreement in % | s |\n| --- | --- | ---: | ---: | ---: |")
    with threadpool_limits(1):
        for name in options.sets.split(","):
            X, truth = load(name)
            rows = np.sort(np.random.default_rng(0).permutation(X.shape[0])[:MOST_ROWS])
            X, truth = X[rows], truth[rows]
            features = scaled(X)
            for method, layout in METHODS.items():
                found = []
                for seed in range(options.seeds):
                    start = time.perf_counter()
                    positions = layout(X, features, seed)
                    seconds = time.perf_counter() - start
                    trust = trustworthiness(features, positions, n_neighbors=NEIGHBORS)
                    found.append((trust, 100 * agreement(positions, truth), seconds))
                trust, share, seconds = np.mean(found, axis=0)
                print(f"| {name} | {method} | {trust:.3f} | {share:.1f} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
