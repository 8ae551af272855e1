"""The clustering job: read an input without labels, group its rows, and describe each group."""

import time
import warnings
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

from angpn.estimators.clustering import ANGPNClusterer
from angpn.labelling.cluster_names import cluster_names
from angpn.labelling.encoders import Encoder
from angpn.labelling.input_options import InputOptions
from angpn.labelling.input_rows import Rows
from angpn.labelling.joint_encoder import images_of, scaling_of
from angpn.utils.checks import warn
from angpn.utils.typing import Array

N_TYPICAL, N_BORDERLINE = 10, 5  # rows that are shown of a cluster
_LEAST_ROWS = 3  # that have neighbours to learn a graph from


@dataclass(frozen=True, kw_only=True)
class ClusteringOptions(InputOptions):
    """Options of a clustering job, beside those of its input.

    Attributes:
        n_clusters: How many clusters; None finds their number, see :class:`angpn.ANGPNClusterer`.
    """

    n_clusters: int | None = None


class Cluster(NamedTuple):
    """A cluster in a few words and rows.

    Attributes:
        name: What is telling of it, see :func:`~angpn.labelling.cluster_names.cluster_names`.
        size: How many rows it has.
        typical: Rows that are most typical of it, the most typical first.
        borderline: Other rows that are nearly as near to another cluster, the nearest first.
    """

    name: str
    size: int
    typical: list[int]
    borderline: list[int]


class ClusteringResult(NamedTuple):
    """The clusters of all rows.

    Attributes:
        options: Options of the job.
        rows: The rows, without images that could not be read.
        encoder: The fitted encoder.
        features: The features of the rows.
        model: The fitted :class:`angpn.ANGPNClusterer`.
        clusters: What describes each cluster, the largest first.
        skipped: Why an image could not be read, by its id.
        seconds: Duration of the job.
    """

    options: ClusteringOptions
    rows: Rows
    encoder: Encoder
    features: Any  # (n, d) dense or CSR
    model: Any
    clusters: list[Cluster]
    skipped: dict[str, str]
    seconds: float


def read_unlabelled(options: ClusteringOptions) -> Rows:
    """Read the rows to cluster; compute nothing yet.

    Args:
        options: Options of the job.

    Returns:
        The rows.

    Raises:
        ValueError: If the input or the options cannot be used; the message names the remedy.
        FileNotFoundError: If the input does not exist.
    """
    rows = options.read()
    options.check_id_column(rows)
    _check_count(len(rows.ids), options.n_clusters)
    return rows


def run_clustering(options: ClusteringOptions, rows: Rows, *, progress: bool = False) -> ClusteringResult:
    """Group the rows and describe the groups.

    Args:
        options: Options of the job.
        rows: The rows, see :func:`read_unlabelled`.
        progress: Show progress bars on standard error.

    Returns:
        The clusters.

    Raises:
        ValueError: If the rows cannot be encoded, are too few or all alike.
    """
    start = time.perf_counter()
    encoder = options.make_encoder(rows, with_labels=False, progress=progress)
    features = encoder.fit_transform(rows.encoded_content)
    skipped: dict[str, str] = {}
    images = images_of(encoder)
    if images is not None:
        skipped = {rows.ids[row]: reason for row, reason in images.unreadable.items()}
        rows = rows.take_images([row for row in range(len(rows.ids)) if row not in images.unreadable])
        rows = rows._replace(thumbnails=images.thumbnails)
        _check_count(len(rows.ids), options.n_clusters)
    if _all_alike(features):
        raise ValueError(f"rows must differ to be clustered, got {len(rows.ids)} that are all alike; check the input")
    model = _fit(options, features, scaling_of(encoder, features), progress)
    members = [np.flatnonzero(model.labels_ == cluster) for cluster in range(model.n_clusters_)]
    typical = [_first(rows_of, -model.typicality_, N_TYPICAL) for rows_of in members]
    names = cluster_names(encoder, features, model.labels_, [rows.ids[best[0]] for best in typical])
    clusters = [
        Cluster(name, len(rows_of), best, _first(np.setdiff1d(rows_of, best), model.margins_, N_BORDERLINE))
        for name, rows_of, best in zip(names, members, typical, strict=True)
    ]
    return ClusteringResult(options, rows, encoder, features, model, clusters, skipped, time.perf_counter() - start)


def _fit(options: ClusteringOptions, features: Any, scaling: Literal["auto", "unit"], progress: bool) -> ANGPNClusterer:
    model = ANGPNClusterer(options.n_clusters, scaling=scaling, random_state=options.seed, verbose=progress)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of k-means, about fewer clusters; said below
        model.fit(features)
    if model.n_clusters_ == 1:
        raise ValueError("rows must fall into two clusters or more, got one; pass more rows or other columns")
    if options.n_clusters is not None and model.n_clusters_ < options.n_clusters:
        warn(
            f"-k asks for {options.n_clusters} clusters, got {model.n_clusters_}: others would divide rows that "
            "cannot be told apart; ask for fewer"
        )
    return model


def _check_count(n_rows: int, n_clusters: int | None) -> None:
    if n_rows < _LEAST_ROWS:
        raise ValueError(f"at least {_LEAST_ROWS} rows are needed to find clusters, got {n_rows}; pass more")
    if n_clusters is not None and n_clusters > n_rows:
        raise ValueError(f"-k must be at most the number of rows, {n_rows}, got {n_clusters}; ask for fewer clusters")


def _all_alike(features: Any) -> bool:
    if scipy.sparse.issparse(features):
        return bool((features.max(axis=0) != features.min(axis=0)).nnz == 0)
    return bool((features == features[:1]).all())


def _first(rows: Array, keys: Array, count: int) -> list[int]:
    """Return the rows with the smallest keys."""
    return rows[np.argsort(keys[rows], kind="stable")[:count]].tolist()
