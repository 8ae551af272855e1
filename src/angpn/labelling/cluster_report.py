"""The report of a clustering: a map of the rows, and of each cluster its typical and its borderline rows."""

import os
import platform
from pathlib import Path
from typing import Any

import numpy as np
import polars
import scipy.sparse
from sklearn.decomposition import TruncatedSVD

import angpn
from angpn.features import TableEncoder
from angpn.features.column_state import MISSING
from angpn.inspection.map_layout import map_layout
from angpn.inspection.model_report import EXCERPT_LENGTH
from angpn.inspection.report_page import make_page, packed_array, read_template, write_page
from angpn.inspection.thumbnails import limit_thumbnails
from angpn.labelling.cluster_job import ClusteringResult
from angpn.labelling.cluster_names import order_columns
from angpn.labelling.empty_rows import find_empty
from angpn.labelling.reading_facts import reading_facts
from angpn.utils.typing import Array

_MAP_FEATURES = 50  # that t-SNE is computed of
_MOST_CELLS = 8  # of a row of a table that the page shows
_N_NEAREST = 8  # rows that are listed and linked on the map for the selected one


def write_cluster_report(result: ClusteringResult, path: str | os.PathLike[str]) -> Path:
    """Write the page; it opens in any browser, also offline.

    Args:
        result: The clusters.
        path: The file to write; an existing one is replaced as a whole.

    Returns:
        The path of the file.
    """
    template = read_template("angpn.labelling", "cluster_report.html")
    return write_page(make_page(template, Path(result.options.input).name, _data(result)), path)


def _data(result: ClusteringResult) -> dict[str, Any]:
    model, rows, seed = result.model, result.rows, result.options.seed
    listed = [row for cluster in result.clusters for row in (*cluster.typical, *cluster.borderline)]
    typical = np.full(len(rows.ids), -1)
    for number, cluster in enumerate(result.clusters):
        typical[cluster.typical] = number
    nearest, weights = nearest_rows(model.affinity_matrix_, _N_NEAREST)
    return {
        "ids": rows.ids,
        "classes": [f"{number}: {cluster.name}" for number, cluster in enumerate(result.clusters)],
        "texts": _excerpts(result),
        "thumbnails": limit_thumbnails(rows.thumbnails, listed, seed),
        "facts": _facts(result),
        "given": packed_array(typical, "<i4"),
        "predicted": packed_array(model.labels_, "<i4"),
        "second": packed_array(next_clusters(model.embedding_, model.labels_), "<i4"),
        "confidence": packed_array(model.margins_, "<f4"),
        "positions": packed_array(map_layout(map_features(result), seed), "<f4"),
        "influences": packed_array(nearest, "<i4"),
        "weights": packed_array(weights, "<f4"),
        "eigengap": model.eigengap_,
        "clusters": [
            {"size": cluster.size, "typical": cluster.typical, "borderline": cluster.borderline}
            for cluster in result.clusters
        ],
    }


def map_features(result: ClusteringResult) -> Array:  # (n, p)
    """Return features to lay out the map by: few, and smoothed by the graph, which the clusters were found on.

    In the diffusion map that was divided, rows of a cluster are nearly the same: the map would show a point for each.
    """
    features, affinity = result.features, result.model.affinity_matrix_
    n, d = features.shape
    if d > _MAP_FEATURES:
        reduce = TruncatedSVD(min(_MAP_FEATURES, n - 1), random_state=result.options.seed)
        features = reduce.fit_transform(features)
    elif scipy.sparse.issparse(features):
        features = features.toarray()
    return features + (affinity @ features) / np.maximum(affinity.sum(axis=1), np.finfo(np.float32).tiny)[:, None]


def nearest_rows(
    affinity: Any,  # (n, n) CSR
    count: int,
) -> tuple[Array, Array]:  # (n, count), (n, count)
    """Return the rows with the largest weights in each row of a graph, -1 where there are fewer, and the weights."""
    nearest = np.full((affinity.shape[0], count), -1)
    weights = np.zeros((affinity.shape[0], count))
    for row, (start, stop) in enumerate(zip(affinity.indptr, affinity.indptr[1:], strict=False)):
        largest = start + np.argsort(-affinity.data[start:stop], kind="stable")[:count]
        nearest[row, : len(largest)], weights[row, : len(largest)] = affinity.indices[largest], affinity.data[largest]
    return nearest, weights


def next_clusters(
    embedding: Array,  # (n, d)
    labels: Array,  # (n,)
) -> Array:  # (n,)
    """Return for each row the cluster whose centre is nearest beside that of its own."""
    centers = [embedding[labels == cluster].mean(axis=0) for cluster in range(int(labels.max()) + 1)]
    distances = np.stack([np.linalg.norm(embedding - center, axis=1) for center in centers], axis=1)
    distances[np.arange(len(labels)), labels] = np.inf
    return distances.argmin(axis=1)


def _excerpts(result: ClusteringResult) -> list[str] | None:
    """Return the beginning of each text, or the most telling cells of each row of a table."""
    rows, encoder = result.rows, result.encoder
    if rows.kind == "text":
        return [text[:EXCERPT_LENGTH] for text in rows.content]
    if isinstance(encoder, TableEncoder):
        names = order_columns(result.features, result.model.labels_, encoder.feature_columns)
        columns = [_cells(rows.content[name]) for name in names[:_MOST_CELLS]]
        return [" · ".join(cells)[:EXCERPT_LENGTH] for cells in zip(*columns, strict=True)]
    return None


def _cells(column: polars.Series) -> list[str]:
    return [f"{column.name} {_shown(value)}" for value in column.to_list()]


def _shown(value: Any) -> str:
    """Return a cell with few digits, also where a number is text."""
    try:
        return MISSING if value is None else f"{float(value):.4g}" if "." in str(value) else str(value)
    except ValueError:
        return str(value)


def _facts(result: ClusteringResult) -> list[tuple[str, str]]:
    model, options = result.model, result.options
    facts = [
        ("input", str(options.input)),
        ("kind", result.rows.kind),
        ("rows", f"{len(result.rows.ids):,}"),
        ("features", f"{model.n_features_in_:,}"),
        ("clusters", f"{model.n_clusters_}, {'found' if options.n_clusters is None else 'asked for'}"),
        ("model", type(model).__name__),
        ("seconds", f"{result.seconds:.1f}"),
        ("seed", str(options.seed)),
        ("angpn", angpn.__version__),
        ("Python", platform.python_version()),
    ]
    facts[4:4] = reading_facts(result.rows, result.encoder, find_empty(result.encoder, result.features)).pairs()
    if result.skipped:
        facts.insert(3, ("images skipped", f"{len(result.skipped)}: {', '.join(list(result.skipped)[:5])}"))
    return facts
