"""What an annotation leaves in its folder: the labels, and what ``angpn label`` makes of them."""

import dataclasses
from pathlib import Path
from typing import NamedTuple

import numpy as np

from angpn.annotation.label_export import RowLabel, write_labels
from angpn.annotation.state import AnnotationState
from angpn.annotation.votes import OTHER
from angpn.labelling.input_options import InputOptions
from angpn.labelling.input_rows import Rows
from angpn.labelling.label_file import drawn_at_random


class Results(NamedTuple):
    """Files that were written.

    Attributes:
        files: Their names in the folder.
        missing: Why there are no predictions, or None.
    """

    files: list[str]
    missing: str | None


def row_labels(state: AnnotationState) -> list[RowLabel]:
    """Return what was said of the rows, in their order, without those in dispute."""
    votes = state.votes
    return [
        RowLabel(
            row,
            None if found.label == OTHER else state.classes[found.label].name,
            found.source,
            ",".join(votes.people(row)),
        )
        for row, found in sorted(votes.final.items())
        if found.label is not None
    ]


def write_results(state: AnnotationState, options: InputOptions, rows: Rows, folder: Path) -> Results:
    """Write the labels, then fit a model to them and write predictions, model and report.

    Rows that belong to none of the classes are no part of that: no class is predicted for them.

    Args:
        state: The labels.
        options: Options of the input.
        rows: Its rows.
        folder: The output folder.

    Raises:
        OSError: If they cannot be written; earlier ones are then as they were.
        ValueError: If no model can be fitted.
    """
    try:
        return _write(state, options, rows, folder)
    except OSError as error:
        if error.errno is None:  # one of ours
            raise
        raise OSError(
            f"{folder} must take the results, got {error.strerror}; make room, then run angpn annotate --export "
            f"{folder}: all labels are in the log there"
        ) from None


def _write(state: AnnotationState, options: InputOptions, rows: Rows, folder: Path) -> Results:
    labels = row_labels(state)
    written = write_labels(labels, rows, folder)
    put_aside = {one.row for one in labels if one.label is None}
    kept = [row for row in range(len(rows.ids)) if row not in put_aside]
    named = {one.row: one for one in labels if one.label is not None}
    n_classes = len({one.label for one in named.values()})
    if n_classes < 2 or len(named) == len(kept):
        got = ("no class", "1 class")[n_classes] if n_classes < 2 else "no row without a label"
        return Results(written, f"predictions need labels of two classes and rows without one, got {got}")
    # Imported here, since they need torch, and a server should be ready before that is there.
    from angpn.labelling.job import LabellingOptions, LabellingTask, run_task
    from angpn.labelling.output import write_output

    y = [named[row].label if row in named else None for row in kept]
    sources = [named[row].source if row in named else "" for row in kept]
    of_input = {field.name: getattr(options, field.name) for field in dataclasses.fields(InputOptions)}
    task = LabellingTask(
        LabellingOptions(**{**of_input, "skip_bad": True}),
        rows.take(kept) if put_aside else rows,
        np.array(y, dtype=object),
        drawn_at_random(y, sources),
    )
    files = write_output(run_task(task), folder)
    return Results([*written, *(path.name for path in files.values())], None)
