"""The labelling job: read the input and its labels, fit a classifier, and collect the results."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from angpn.estimators.auto import ANGPNClassifier
from angpn.estimators.base import BaseANGPNClassifier
from angpn.estimators.network import ANGPNNetworkClassifier
from angpn.estimators.suggestion import Suggestion
from angpn.inspection.accuracy_estimate import Estimate, estimate_from
from angpn.inspection.fitted_classifier import Unit
from angpn.inspection.labelled_rows import LabelledRows, labelled_rows
from angpn.inspection.model_report import N_SUGGESTED
from angpn.labelling.cluster_labels import join_labels, read_cluster_labels
from angpn.labelling.empty_rows import EMPTY, find_empty, without_empty
from angpn.labelling.encoders import Encoder
from angpn.labelling.input_options import InputOptions
from angpn.labelling.input_rows import Rows
from angpn.labelling.joint_encoder import images_of, scaling_of
from angpn.labelling.label_file import RowLabels, drawn_at_random, read_label_files, read_labels
from angpn.utils.checks import warn
from angpn.utils.typing import Array

Model = Literal["auto", "network"]


@dataclass(frozen=True, kw_only=True)
class LabellingOptions(InputOptions):
    """Options of a labelling job, beside those of its input.

    Attributes:
        labels: CSV file with the header ``id,label`` or ``id,label,source``, or several, of which later ones win; give
            this or ``label_column``.
        label_column: Column of the table that holds the labels, empty where a row is unlabelled.
        clusters: Folder that ``angpn cluster`` wrote, with labels filled into its ``names.csv``: they are given to the
            most typical rows of each cluster that have no other.
        source_column: Column of the table that says how the labelled rows were chosen: ``random``, or any other word.
        excel_safe: Put an apostrophe before ids and labels in ``predictions.csv`` that a spreadsheet would run as a
            formula.
        holdout: Share of the given labels to hold out of a first fit, to measure accuracy on them; of those drawn at
            random, where their source is known.
        model: "auto" fits :class:`angpn.ANGPNClassifier`, "network" ``angpn.ANGPNNetworkClassifier``.
        distributed: Whether to distribute the rows among the processes of torchrun, see the classifier.
    """

    labels: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None
    label_column: str | None = None
    clusters: str | os.PathLike[str] | None = None
    source_column: str | None = None
    excel_safe: bool = False
    holdout: float = 0.0
    model: Model = "auto"
    distributed: bool | None = None


class LabellingTask(NamedTuple):
    """The rows and labels that were read for a job.

    Attributes:
        options: Options of the job.
        rows: The rows of the input.
        y: The given label of each row, or None.
        labelled_at_random: Whether each row was labelled because it was drawn at random; None where nobody said.
    """

    options: LabellingOptions
    rows: Rows
    y: Array  # (n,) object
    labelled_at_random: Array | None = None  # (n,) bool

    @property
    def given(self) -> Array:  # (n,) bool
        """Whether the label of each row was given."""
        return np.array([label is not None for label in self.y])

    def counts(self) -> dict[str, int]:
        """Count the given labels of each class.

        Returns:
            The number of labels by the name of the class.
        """
        names, counts = np.unique(self.y[self.given].astype(str), return_counts=True)
        return dict(zip(names.tolist(), counts.tolist(), strict=True))


class LabellingResult(NamedTuple):
    """The labels of all rows and what is reported about them.

    Attributes:
        task: The task, without images that could not be read.
        encoder: The fitted encoder.
        model: The fitted classifier.
        labelled: The labels of all rows; their probabilities are those of the model, and the shares of the given labels
            for empty rows.
        empty: Whether each row is empty, see :func:`~angpn.labelling.empty_rows.find_empty`.
        estimate: Estimated accuracy, or None where no label was held out.
        suggestions: The rows most worth labelling next.
        skipped: Why an image could not be read, by its id.
        seconds: Duration of the job.
    """

    task: LabellingTask
    encoder: Encoder
    model: Any
    labelled: LabelledRows
    empty: Array  # (n,) bool
    estimate: Estimate | None
    suggestions: list[Suggestion]
    skipped: dict[str, str]
    seconds: float

    @property
    def labels(self) -> Array:  # (n,) object
        """The given label of each row, or the predicted one."""
        return self.model.classes_[self.labelled.codes]

    @property
    def second(self) -> Array:  # (n,) object
        """The most probable other label of each row."""
        return self.model.classes_[self.labelled.second]

    @property
    def never_predicted(self) -> list[str]:
        """The classes that no unlabelled row was given, though labels of them were."""
        predicted = set(self.labels[~self.task.given].tolist())
        return [str(name) for name in self.model.classes_.tolist() if name not in predicted]

    @property
    def unreliable(self) -> dict[str, Array]:
        """The rows whose label means little, by the reason."""
        return {**self.model.unreliable_rows_._asdict(), EMPTY: np.flatnonzero(self.empty)}

    @property
    def unit(self) -> Unit:
        """What the classifier counts in ``n_iter_``: epochs of a network, or rounds of self-training."""
        return self.model._unit


def read_task(options: LabellingOptions) -> LabellingTask:
    """Read the input and its labels, and check that there is something to label; compute nothing yet.

    Args:
        options: Options of the job.

    Returns:
        The rows and their labels.

    Raises:
        ValueError: If the input, its labels or the options cannot be used; the message names the remedy.
        FileNotFoundError: If the input does not exist.
    """
    if not 0 <= options.holdout < 1:
        raise ValueError(
            f"--holdout must lie between 0 and 1, got {options.holdout}; 0.2 holds out a fifth of the labels"
        )
    if options.labels is None and options.label_column is None and options.clusters is None:
        raise ValueError(
            "labels must come from --labels FILE or --label-column NAME, got none; pass one of them, or name the "
            "clusters that angpn cluster finds and pass --clusters FOLDER"
        )
    if options.labels is not None and options.label_column is not None:
        raise ValueError(
            "labels must come from --labels FILE or --label-column NAME, got both; pass one of them, and write the "
            f"labels of the file into the column {options.label_column!r} to use all"
        )
    if options.source_column is not None and options.label_column in (None, options.source_column):
        raise ValueError(
            "--source-column must name the sources of the labels in --label-column, got "
            + ("no --label-column" if options.label_column is None else "the same column")
            + "; a file of --labels has them in its own column source"
        )
    rows = options.read(label_column=options.label_column, source_column=options.source_column)
    if options.labels is not None or options.clusters is not None:
        options.check_id_column(rows)
    labels, sources = _read_labels(options, rows)
    y = np.array(labels, dtype=object)
    _check_class_names({label for label in labels if label is not None})
    task = LabellingTask(options, rows, y, drawn_at_random(labels, sources))
    counts = task.counts()
    if not counts:
        column = options.label_column
        where = "the column label of the file of --labels" if column is None else f"the column {column!r}"
        raise ValueError(
            f"a few rows must be labelled, got none; label at least one row of each class: fill in {where}"
        )
    if len(counts) == 1:
        (name,) = counts
        raise ValueError(f"labels must name at least two classes, got only {name!r}; label a row of another class")
    if task.given.all():
        raise ValueError(f"some rows must be unlabelled, got a label for all {len(y)}; there is nothing to label")
    return task


def _read_labels(options: LabellingOptions, rows: Rows) -> RowLabels:
    """Return the labels from a file or a column, and those of named clusters for rows without one."""
    if isinstance(options.labels, str | os.PathLike):
        own = read_labels(options.labels, rows.ids)
    elif options.labels is not None:
        own = read_label_files(options.labels, rows.ids)
    else:
        own = RowLabels(rows.labels or [None] * len(rows.ids), rows.sources)
    return own if options.clusters is None else join_labels(own, read_cluster_labels(options.clusters, rows.ids))


def _check_class_names(names: set[str]) -> None:
    """Refuse names that usually mean a missing label, and warn of names that are equal as numbers."""
    missing = names & {"-1", "nan", "NaN", "NaT", "<NA>"}
    if missing:
        raise ValueError(
            f"a label must be a name or a number >= 0, got {missing.pop()!r}, which often means none; leave the cell "
            "empty, or write the class otherwise"
        )
    numbers: dict[float, str] = {}
    for name in sorted(names):
        try:
            first = numbers.setdefault(float(name), name)
        except ValueError:
            continue
        if first != name:
            warn(f"{first!r} and {name!r} are two classes, since their texts differ; write a class in one way")


def make_encoder(task: LabellingTask, *, progress: bool = False) -> Encoder:
    """Return the unfitted encoder for the rows of a task.

    Args:
        task: The task.
        progress: Show a progress bar while images are encoded.

    Returns:
        The encoder for this kind of rows.
    """
    return task.options.make_encoder(task.rows, progress=progress)


def make_classifier(
    options: LabellingOptions, *, scaling: Literal["auto", "unit"] = "auto", progress: bool = False
) -> BaseANGPNClassifier:
    """Return the unfitted classifier that the options ask for.

    Args:
        options: Options of the job.
        scaling: How an ``ANGPNClassifier`` scales rows; a network always gives them unit length.
        progress: Show progress bars during the fit.

    Returns:
        An ``ANGPNClassifier``, or an ``ANGPNNetworkClassifier`` for ``model="network"``.
    """
    common: dict[str, Any] = {"random_state": options.seed, "distributed": options.distributed, "verbose": progress}
    if options.model == "network":
        return ANGPNNetworkClassifier(**common)
    return ANGPNClassifier(scaling=scaling, **common)


def run_task(task: LabellingTask, *, progress: bool = False) -> LabellingResult:
    """Fit a classifier on the given labels and label the other rows.

    Args:
        task: The task, see :func:`read_task`.
        progress: Show progress bars on standard error.

    Returns:
        The labels and what is reported about them.

    Raises:
        ValueError: If the rows cannot be encoded, or too few labels remain.
    """
    start = time.perf_counter()
    options = task.options
    encoder = make_encoder(task, progress=progress)
    held_out = _held_out_mask(task, options.holdout, options.seed) if options.holdout else np.zeros(len(task.y), bool)
    features = encoder.fit_transform(task.rows.encoded_content, np.where(held_out, np.array(None), task.y))
    skipped: dict[str, str] = {}
    images = images_of(encoder)
    if images is not None:
        skipped = {task.rows.ids[row]: reason for row, reason in images.unreadable.items()}
        if skipped:
            task = _drop_rows(task, set(images.unreadable))
            held_out = _held_out_mask(task, options.holdout, options.seed) if options.holdout else held_out
        task = task._replace(rows=task.rows._replace(thumbnails=images.thumbnails))
    estimate, scaling = None, scaling_of(encoder, features)
    if options.holdout:
        model = make_classifier(options, scaling=scaling, progress=progress).fit(
            features, np.where(held_out, np.array(None), task.y)
        )
        truth, predicted = (np.searchsorted(model.classes_, of[held_out]) for of in (task.y, model.transduction_))
        at_random = None if task.labelled_at_random is None else task.labelled_at_random[held_out]
        estimate = estimate_from("held out", truth, predicted, len(model.classes_), at_random)
    model = make_classifier(options, scaling=scaling, progress=progress).fit(features, task.y)
    if estimate is None:
        estimate = model.estimate_accuracy(labelled_at_random=task.labelled_at_random)
    empty = find_empty(encoder, features)
    distributions = np.where((empty & ~task.given)[:, None], model.class_prior_, model.label_distributions_)
    return LabellingResult(
        task,
        encoder,
        model,
        labelled_rows(model, distributions),
        empty,
        estimate,
        without_empty(model.suggestions(N_SUGGESTED + 1), empty)[:N_SUGGESTED],
        skipped,
        time.perf_counter() - start,
    )


def _drop_rows(task: LabellingTask, dropped: set[int]) -> LabellingTask:
    """Return the task without some rows, if labels of two classes and unlabelled rows remain."""
    kept = [row for row in range(len(task.y)) if row not in dropped]
    rows = task.rows.take_images(kept)
    at_random = None if task.labelled_at_random is None else task.labelled_at_random[kept]
    smaller = task._replace(rows=rows, y=task.y[kept], labelled_at_random=at_random)
    lost = task.counts().keys() - smaller.counts().keys()
    if lost:
        warn(f"class {', '.join(sorted(lost))} is left out: no image with that label could be read; label others")
    if len(smaller.counts()) < 2 or smaller.given.all():
        raise ValueError(
            "labels of two classes and unlabelled rows must remain, got none without the unreadable images"
        )
    return smaller


def _held_out_mask(task: LabellingTask, share: float, seed: int) -> Array:  # (n,) bool
    """Draw a share of the given labels of each class, at least one where it has three or more.

    Where the source of labels is known, it is a share of those drawn at random, since others would say little.
    """
    generator = np.random.default_rng(seed)
    held_out = np.zeros(len(task.y), dtype=bool)
    eligible = task.given if task.labelled_at_random is None else task.labelled_at_random
    for name, n_labels in task.counts().items():
        rows = generator.permutation(np.flatnonzero((task.y == name) & eligible))
        count = min(max(1, round(share * len(rows))), n_labels - 2)
        held_out[rows[: max(0, count)]] = True
    if not held_out.any() and task.labelled_at_random is not None:
        raise ValueError(
            "--holdout must find labels whose source is random, beside two others of their class to train on, got "
            f"{int(eligible.sum())} such labels and no class with enough; label more rows drawn at random, or leave it "
            "out"
        )
    if not held_out.any():
        raise ValueError(
            "--holdout must leave two labels of each class to train on, got no class with three; label more rows"
        )
    return held_out
