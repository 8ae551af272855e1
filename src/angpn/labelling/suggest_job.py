"""The rows to label next: read the input and the labels so far, choose rows, and write a file to fill in."""

import csv
import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from angpn.estimators.auto import ANGPNClassifier
from angpn.estimators.clustering import ANGPNClusterer
from angpn.estimators.suggest import find_suggestions
from angpn.estimators.suggestion import Strategy, Suggestion
from angpn.labelling.empty_rows import find_empty, without_empty
from angpn.labelling.input_options import InputOptions
from angpn.labelling.input_rows import Rows
from angpn.labelling.joint_encoder import images_of, scaling_of
from angpn.labelling.label_file import DRAWN_AT_RANDOM, parse_csv, read_label_files
from angpn.labelling.predictions import csv_text, encode_csv, escape_formula
from angpn.labelling.reading_facts import ReadingFacts, reading_facts
from angpn.utils.files import replacing
from angpn.utils.text_encoding import decode_text
from angpn.utils.typing import Array

NEXT = "next.csv"
HEADER = ("id", "label", "suggestion", "reason")

_Scaling = Literal["auto", "unit"]


@dataclass(frozen=True, kw_only=True)
class SuggestOptions(InputOptions):
    """Options of a job that suggests rows, beside those of its input.

    Attributes:
        labels: CSV files with the header ``id,label``; a label may be empty. Later files win.
        label_column: Column of the table that holds labels.
        n: How many rows to suggest.
        strategy: How rows are chosen, see :func:`angpn.suggest`.
        per_cluster: Suggest the most typical rows of each cluster instead, for who wants to name classes first.
    """

    labels: Sequence[str | os.PathLike[str]] = ()
    label_column: str | None = None
    n: int = 20
    strategy: Strategy = "herding"
    per_cluster: bool = False


class SuggestedRow(NamedTuple):
    """A row to label.

    Attributes:
        id: Its id.
        suggestion: The label that the model predicts for it, or "" where there is no model.
        reason: Why it was chosen.
    """

    id: str
    suggestion: str
    reason: str


class SuggestResult(NamedTuple):
    """What a job suggests.

    Attributes:
        rows: The rows, best first.
        n_rows: How many rows the input has.
        n_labelled: How many of them are labelled.
        classes: The names of their classes.
        skipped: Why an image could not be read, by its id.
        reading: How the input was read.
    """

    rows: list[SuggestedRow]
    n_rows: int
    n_labelled: int
    classes: list[str]
    skipped: dict[str, str]
    reading: ReadingFacts


def suggest_rows(options: SuggestOptions, *, progress: bool = False) -> SuggestResult:
    """Choose the rows to label next.

    Args:
        options: Options of the job.
        progress: Show a progress bar while images are encoded.

    Returns:
        The rows and why they were chosen.

    Raises:
        ValueError: If the input or its labels cannot be used; the message names the remedy.
        FileNotFoundError: If the input does not exist.
    """
    if options.labels and options.label_column is not None:
        raise ValueError("labels must come from --labels FILE or --label-column NAME, got both; pass one of them")
    rows = options.read(label_column=options.label_column)
    options.check_id_column(rows)
    labels = _labels(options, rows)
    with_labels = len(set(labels.tolist()) - {None}) > 1 and not options.per_cluster
    encoder = options.make_encoder(rows, with_labels=with_labels, progress=progress)
    features = encoder.fit_transform(rows.encoded_content, labels)
    ids, skipped = rows.ids, dict[str, str]()
    images = images_of(encoder)
    if images is not None and images.unreadable:
        skipped = {ids[row]: reason for row, reason in images.unreadable.items()}
        kept = [row for row in range(len(ids)) if row not in images.unreadable]
        ids, labels = [ids[row] for row in kept], labels[kept]
    given, empty = labels != np.array(None), find_empty(encoder, features)
    classes = sorted(set(labels[given].tolist()))
    scaling = scaling_of(encoder, features)
    found = (
        _per_cluster(features, ids, given | empty, options, scaling)
        if options.per_cluster
        else _chosen(features, ids, labels, empty, options, scaling)
    )
    if not found:
        raise ValueError(
            "some row must be left to suggest, got none that is unlabelled, not empty and unlike the labelled ones"
        )
    return SuggestResult(found, len(ids), int(given.sum()), classes, skipped, reading_facts(rows, encoder, empty))


def write_suggestions(rows: Sequence[SuggestedRow], path: str | os.PathLike[str], *, excel_safe: bool = False) -> None:
    """Write a CSV file with an empty column ``label``, to be filled in and passed as ``--labels``.

    Args:
        rows: The rows.
        path: The file; one that is there is replaced, unless labels were filled into it.
        excel_safe: Put an apostrophe before ids and labels that a spreadsheet would run as a formula.

    Raises:
        ValueError: If the file has labels, which would be lost.
    """
    n_labels = _n_labels(Path(path))
    if n_labels:
        raise ValueError(
            f"{path} must hold no labels that would be lost, got {n_labels}; pass it as --labels, and write to another "
            "file"
        )
    with replacing(path) as temporary:
        temporary.write_bytes(encode_csv(suggestions_csv(rows, excel_safe=excel_safe)))


def suggestions_csv(rows: Sequence[SuggestedRow], *, excel_safe: bool = False) -> str:
    """Return the lines of the file.

    Args:
        rows: The rows.
        excel_safe: Put an apostrophe before ids and labels that a spreadsheet would run as a formula.

    Returns:
        CSV with the header ``id,label,suggestion,reason``.
    """
    cell = escape_formula if excel_safe else str
    return csv_text(HEADER, ((cell(row.id), "", cell(row.suggestion), row.reason) for row in rows))


def suggested_rows(
    ids: Sequence[str], found: Sequence[Suggestion], predicted: Array | None, strategy: Strategy = "herding"
) -> list[SuggestedRow]:
    """Return suggestions by their ids, with the label that is predicted and the reason in words."""
    rows = []
    for row, stands_for, confidence in found:
        reasons = [f"stands for about {stands_for} row{'' if stands_for == 1 else 's'}"] if stands_for else []
        reasons += [] if confidence is None else [f"confidence {confidence:.2f}"]
        reason = DRAWN_AT_RANDOM if strategy == "random" else ", ".join(reasons) or "unlike the others"
        rows.append(SuggestedRow(ids[row], "" if predicted is None else str(predicted[row]), reason))
    return rows


def free_path(folder: Path) -> Path:
    """Return where suggestions may be written: ``next.csv``, or with a number where labels were filled into that."""
    names = (NEXT if number == 1 else f"next-{number}.csv" for number in itertools.count(1))
    return next(folder / name for name in names if not _n_labels(folder / name))


def _labels(options: SuggestOptions, rows: Rows) -> Array:  # (n,) object, None where unlabelled
    found = read_label_files(options.labels, rows.ids).labels if options.labels else rows.labels
    return np.array(found or [None] * len(rows.ids), dtype=object)


def _chosen(
    features: Any, ids: Sequence[str], labels: Array, empty: Array, options: SuggestOptions, scaling: _Scaling
) -> list[SuggestedRow]:
    n = options.n + bool(empty.any())  # of empty rows, which are all alike, one may be among them
    given = labels != np.array(None)
    if len(set(labels[given].tolist())) < 2:
        y = np.where(given, 0, -1)  # one class teaches no model, but its rows are covered
        found = find_suggestions(features, n, y, options.strategy, options.seed, scaling)
        return suggested_rows(ids, without_empty(found, empty)[: options.n], None, options.strategy)
    model = ANGPNClassifier(scaling=scaling, random_state=options.seed).fit(features, labels)
    found = without_empty(model.suggestions(n, strategy=options.strategy), empty)
    return suggested_rows(ids, found[: options.n], model.transduction_, options.strategy)


def _per_cluster(
    features: Any, ids: Sequence[str], left_out: Array, options: SuggestOptions, scaling: _Scaling
) -> list[SuggestedRow]:
    """Return the most typical rows of each cluster, one of each in turn."""
    model = ANGPNClusterer(scaling=scaling, random_state=options.seed).fit(features)
    order = np.argsort(-model.typicality_, kind="stable")
    members = [order[(model.labels_[order] == cluster) & ~left_out[order]] for cluster in range(model.n_clusters_)]
    turns = [(turn, cluster) for turn in range(options.n) for cluster in range(model.n_clusters_)]
    sizes = np.bincount(model.labels_)
    found = [
        SuggestedRow(ids[members[cluster][turn]], "", f"typical of cluster {cluster}, {sizes[cluster]} rows")
        for turn, cluster in turns
        if turn < len(members[cluster])
    ]
    return found[: options.n]


def _n_labels(path: Path) -> int:
    """Count the labels of an earlier file of suggestions; 0 where it is none."""
    try:
        return sum(bool((line.get("label") or "").strip()) for line in parse_csv(decode_text(path.read_bytes()).text))
    except (OSError, csv.Error):
        return 0
