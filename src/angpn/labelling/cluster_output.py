"""Output files of a clustering: ``clusters.csv``, ``names.csv`` for a person to fill in, and ``report.html``."""

import os
from pathlib import Path

from angpn.labelling.cluster_job import ClusteringResult
from angpn.labelling.cluster_report import write_cluster_report
from angpn.labelling.label_file import read_csv_lines
from angpn.labelling.output_folder import (
    CLUSTERED,
    CLUSTERS,
    NAMES,
    REPORT,
    check_output_folder,
    recover_output,
    replacing_output,
)
from angpn.labelling.predictions import csv_text, encode_csv, escape_formula

_N_EXAMPLES, _EXAMPLE_LENGTH = 3, 60  # of a cluster in names.csv, and characters of a text


def check_clusters_folder(folder: Path) -> None:
    """Check, before any work is done, that clusters can be written to a folder.

    Args:
        folder: The folder, which need not exist.

    Raises:
        OSError: If it cannot be written, or holds something else under the name of an output.
        ValueError: If a person has filled in names there, which would be lost.
    """
    recover_output(folder, CLUSTERED)
    check_output_folder(folder, CLUSTERED)
    names = folder / NAMES
    if not names.exists():
        return
    remedy = "name another folder with --output, or remove the file"
    try:
        lines = read_csv_lines(names, "names", ("cluster", "label"), remedy)
    except ValueError:
        raise ValueError(f"{names} must be one of angpn or not there, got another file; {remedy}") from None
    labels = [label for line in lines if (label := (line["label"] or "").strip())]
    if labels:
        raise ValueError(f"{names} must have no labels to be replaced, got {labels[0]!r} filled in; {remedy}")


def write_clusters(result: ClusteringResult, folder: str | os.PathLike[str]) -> dict[str, Path]:
    """Write the clusters, the file for their names and the report to a folder: all three, or none.

    Those of an earlier run are replaced in one step, see :mod:`angpn.labelling.output_folder`. Other files are kept.

    Args:
        result: The clusters.
        folder: The folder; it is created where it does not exist.

    Returns:
        The path of each of the three by its name.

    Raises:
        OSError: If the folder cannot be used or written.
        ValueError: If a person has filled in names there.
    """
    folder = Path(folder)
    check_clusters_folder(folder)
    with replacing_output(folder, CLUSTERED) as new:
        new.mkdir()
        (new / CLUSTERS).write_bytes(encode_csv(_clusters_csv(result)))
        (new / NAMES).write_bytes(encode_csv(_names_csv(result)))
        write_cluster_report(result, new / REPORT)
    return {name: folder / name for name in (CLUSTERS, NAMES, REPORT)}


def _clusters_csv(result: ClusteringResult) -> str:
    model = result.model
    measured = zip(result.rows.ids, model.labels_, model.typicality_, model.margins_, strict=True)
    return csv_text(
        ("id", "cluster", "name", "typicality", "margin"),
        (
            (name, cluster, result.clusters[cluster].name, f"{typicality:.6f}", f"{margin:.4f}")
            for name, cluster, typicality, margin in measured
        ),
    )


def _names_csv(result: ClusteringResult) -> str:
    """Return a line for each cluster; it is opened in spreadsheets, so no cell may be run as a formula."""
    return csv_text(
        ("cluster", "label", "size", "name", "examples"),
        (
            (number, "", cluster.size, escape_formula(cluster.name), escape_formula(_examples(result, cluster.typical)))
            for number, cluster in enumerate(result.clusters)
        ),
    )


def _examples(result: ClusteringResult, typical: list[int]) -> str:
    shown = result.rows.content if result.rows.kind == "text" else result.rows.ids
    return " | ".join(" ".join(shown[row].split())[:_EXAMPLE_LENGTH] for row in typical[:_N_EXAMPLES])
