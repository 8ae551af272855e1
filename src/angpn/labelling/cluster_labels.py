"""Labels of typical rows, from the names that a person gave to clusters."""

import os
from collections.abc import Sequence
from pathlib import Path

from angpn.labelling.input_rows import check_unique
from angpn.labelling.label_file import RowLabels, check_known, read_csv_lines
from angpn.labelling.output_folder import CLUSTERS, NAMES

SOURCE = "cluster"  # of a label that comes from the name of a cluster
_MOST_LABELS, _LARGEST_SHARE = 10, 0.2  # of a cluster: its other rows are less certain to be what its name says


def read_cluster_labels(folder: str | os.PathLike[str], ids: Sequence[str]) -> RowLabels:
    """Give the label of each named cluster to its most typical rows: ten, and at most a fifth of the cluster.

    Args:
        folder: The folder that ``angpn cluster`` wrote, with labels filled into its ``names.csv``. A cluster without a
            label is left out; several may have the same.
        ids: The ids of the input, in the order of the result.

    Returns:
        The label of each id, None where there is none, and its source.

    Raises:
        ValueError: If a file cannot be read, no label is filled in, or a cluster or an id is unknown.
    """
    folder = Path(folder)
    path = folder / CLUSTERS
    lines = read_csv_lines(path, "clusters", ("id", "cluster", "typicality"), "run angpn cluster again")
    rows = [(line["id"] or "", line["cluster"] or "", _number(line["typicality"], path)) for line in lines]
    named = [name for name, _, _ in rows]
    check_unique(named, str(path))
    check_known(named, ids, path, "pass the input and the --id-column that angpn cluster had")
    clusters: dict[str, list[tuple[float, str]]] = {}
    for name, cluster, typicality in rows:
        clusters.setdefault(cluster, []).append((-typicality, name))
    labels: dict[str, str] = {}
    for cluster, label in _read_names(folder / NAMES, sorted(clusters, key=lambda text: (len(text), text))).items():
        members = sorted(clusters[cluster], key=lambda member: member[0])
        count = max(1, min(_MOST_LABELS, int(_LARGEST_SHARE * len(members))))
        labels |= dict.fromkeys((name for _, name in members[:count]), label)
    return RowLabels([labels.get(name) for name in ids], [SOURCE if name in labels else "" for name in ids])


def join_labels(own: RowLabels, clustered: RowLabels) -> RowLabels:
    """Return a person's own labels, and those by clusters where there is none."""
    sources = own.sources or [""] * len(own.labels)
    named = clustered.sources or [""] * len(own.labels)
    return RowLabels(
        [first if first is not None else second for first, second in zip(own.labels, clustered.labels, strict=True)],
        [
            source if label is not None else of_cluster
            for label, source, of_cluster in zip(own.labels, sources, named, strict=True)
        ],
    )


def _read_names(path: Path, known: Sequence[str]) -> dict[str, str]:
    """Return the labels that were filled in, by cluster."""
    lines = read_csv_lines(path, "names", ("cluster", "label"), "run angpn cluster again")
    written = [(line["cluster"] or "").strip() for line in lines]
    check_unique(written, str(path))
    unknown = [cluster for cluster in written if cluster not in known]
    if unknown:
        raise ValueError(
            f"{path} must name clusters of {CLUSTERS}, from {known[0]} to {known[-1]}, got {unknown[0]!r}; correct it"
        )
    labels = {cluster: (line["label"] or "").strip() for cluster, line in zip(written, lines, strict=True)}
    if not any(labels.values()):
        raise ValueError(f"{path} must have a label for some clusters, got none; fill in its column label")
    return {cluster: label for cluster, label in labels.items() if label}


def _number(text: str | None, path: Path) -> float:
    try:
        return float(text or "")
    except ValueError:
        raise ValueError(f"{path} must have numbers in its column typicality, got {text!r}; correct it") from None
