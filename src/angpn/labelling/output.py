"""Output files of a job (``predictions.csv``, ``model``, ``report.html``), and predictions by a saved model."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from angpn.estimators.auto import ANGPNClassifier
from angpn.features import TableEncoder
from angpn.features.image_file import MAX_PIXELS
from angpn.inspection.report import write_label_report
from angpn.labelling.embedding_encoder import EmbeddingEncoder
from angpn.labelling.empty_rows import EMPTY, find_empty
from angpn.labelling.encoder_choice import name_again
from angpn.labelling.image_encoder import ImageEncoder
from angpn.labelling.input_rows import Rows, read_rows
from angpn.labelling.job import LabellingResult
from angpn.labelling.joint_encoder import blocks_of, images_of
from angpn.labelling.named_encoder import AUTO
from angpn.labelling.output_folder import CLASSIFIER, ENCODER, MODEL, PREDICTIONS, REPORT, replacing_output
from angpn.labelling.predictions import encode_csv, predictions_csv
from angpn.labelling.reading_facts import ReadingFacts, reading_facts
from angpn.labelling.report_contents import report_contents
from angpn.labelling.saved_encoder import SavedEncoder, read_encoder, write_encoder
from angpn.labelling.suggest_job import NEXT, free_path, suggested_rows, write_suggestions
from angpn.labelling.table_file import table_suffix


def write_output(result: LabellingResult, folder: str | os.PathLike[str]) -> dict[str, Path]:
    """Write the predictions, the model and the report to a folder: all three, or none; then the rows to label next.

    Those of an earlier run are replaced in one step, see :mod:`angpn.labelling.output_folder`. Other files are kept,
    and so is a ``next.csv`` into which labels were filled: the new one then has a number.

    Args:
        result: The result of the job.
        folder: The folder; it is created where it does not exist.

    Returns:
        The path of each by its name.

    Raises:
        OSError: If the folder cannot be used or written.
    """
    folder = Path(folder)
    with replacing_output(folder) as new:
        _save_model(result, new)
        (new / PREDICTIONS).write_bytes(encode_csv(_predictions(result)))
        write_label_report(report_contents(result), new / REPORT)
    files = {name: folder / name for name in (PREDICTIONS, MODEL, REPORT)}
    ids, suggestions = result.task.rows.ids, result.suggestions
    if suggestions:
        path = free_path(folder)
        rows = suggested_rows(ids, suggestions, result.labels)
        write_suggestions(rows, path, excel_safe=result.task.options.excel_safe)
        files[NEXT] = path
    return files


class NewPredictions(NamedTuple):
    """Predictions for the rows of a file.

    Attributes:
        csv: CSV lines with the header ``id,label,confidence,second,source``.
        n_rows: How many rows have one.
        skipped: Why an image could not be read, by its id.
        reading: How the input was read.
    """

    csv: str
    n_rows: int
    skipped: dict[str, str]
    reading: ReadingFacts


def predict_file(
    model: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    table: str | os.PathLike[str] | None = None,
    encoder: str = AUTO,
    skip_bad: bool = False,
    excel_safe: bool = False,
    max_pixels: int = MAX_PIXELS,
    cache: bool = True,
    progress: bool = False,
) -> NewPredictions:
    """Predict the labels of new rows by a saved model.

    Args:
        model: The folder ``model`` that :func:`write_output` wrote.
        path: New rows of the same kind, see :func:`~angpn.labelling.read_rows`.
        table: Table with columns of the images, by their id, where the model was fitted on such.
        encoder: The encoder that the model was fitted with, where that is not packaged: a file may not choose what code
            is loaded.
        skip_bad: Leave out images that cannot be read.
        excel_safe: Put an apostrophe before ids and labels that a spreadsheet would run as a formula.
        max_pixels: An image with more pixels is one that cannot be read.
        cache: Take the features of images from the user's cache, and keep new ones there.
        progress: Show a progress bar while images are encoded.

    Returns:
        The predictions as CSV, their number, and what was skipped.

    Raises:
        ValueError: If the rows are of another kind or cannot be encoded.
        FileNotFoundError: If there is no such model or input.
    """
    saved, classifier = _load_model(Path(model))
    rows, fitted = _read_new_rows(path, saved, table), saved.encoder
    name_again(fitted, encoder)
    for block in blocks_of(fitted):
        if isinstance(block.encoder, ImageEncoder):
            block.encoder.skip_bad, block.encoder.max_pixels = skip_bad, max_pixels
        if isinstance(block.encoder, ImageEncoder | EmbeddingEncoder):
            block.encoder.cache, block.encoder.progress = cache, progress
    features = fitted.transform(rows.encoded_content)
    skipped = dict[str, str]()
    ids = rows.ids
    images = images_of(fitted)
    if images is not None and images.unreadable:
        skipped = {ids[row]: reason for row, reason in images.unreadable.items()}
        ids = [name for name in ids if name not in skipped]
    probabilities, empty = classifier.predict_proba(features), find_empty(fitted, features)
    probabilities[empty] = classifier.class_prior_
    order = np.argsort(-probabilities, axis=1, kind="stable")
    names = classifier.classes_.astype(str)
    lines = zip(
        ids,
        names[order[:, 0]],
        np.take_along_axis(probabilities, order[:, :1], axis=1)[:, 0],
        names[order[:, 1]],
        np.where(empty, EMPTY, "predicted"),
        strict=True,
    )
    return NewPredictions(
        predictions_csv(lines, excel_safe=excel_safe), len(ids), skipped, reading_facts(rows, fitted, empty)
    )


def _predictions(result: LabellingResult) -> str:
    task = result.task
    source = np.where(task.given, "given", np.where(result.empty, EMPTY, "predicted"))
    lines = zip(task.rows.ids, result.labels, result.labelled.confidence, result.second, source, strict=True)
    return predictions_csv(lines, excel_safe=task.options.excel_safe)


def _save_model(result: LabellingResult, folder: Path) -> None:
    options, rows = result.task.options, result.task.rows
    ignored = [*options.drop, *(name for name in (options.label_column, options.source_column) if name)]
    folder.mkdir()
    result.model.save(folder / CLASSIFIER)
    used = any(isinstance(block.encoder, TableEncoder) for block in blocks_of(result.encoder))
    columns = rows.columns.columns if rows.columns is not None and used else []
    saved = SavedEncoder(rows.kind, options.text, options.id_column, ignored, result.encoder, columns)
    write_encoder(folder / ENCODER, saved)


def _load_model(folder: Path) -> tuple[SavedEncoder, Any]:
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} must be the folder of a model that angpn label wrote, got none there")
    if not (folder / ENCODER).exists() and (folder / MODEL / ENCODER).exists():
        raise FileNotFoundError(f"{folder} must be the folder of a model, got the one around it; pass {folder / MODEL}")
    saved, classifier = read_encoder(folder / ENCODER), ANGPNClassifier.load(folder / CLASSIFIER)
    made, expected = saved.encoder.n_features, classifier.n_features_in_
    if made not in (None, expected):
        raise ValueError(
            f"{folder / ENCODER} must be the encoder of {CLASSIFIER} beside it, got one that makes {made} features "
            f"for a model of {expected}; restore both from one run"
        )
    return saved, classifier


def _read_new_rows(path: str | os.PathLike[str], saved: SavedEncoder, table: str | os.PathLike[str] | None) -> Rows:
    """Read new rows with the columns and types of the fitted ones."""
    if saved.kind == "images" and bool(saved.columns) != (table is not None):
        raise ValueError(
            "--table FILE must have the columns of the images, as the model was fitted on them, got none; pass it"
            if saved.columns
            else "--table is for a model that was fitted with it, got one of images alone; leave it out"
        )
    tables = [block.encoder for block in blocks_of(saved.encoder) if isinstance(block.encoder, TableEncoder)]
    how: dict[str, Any] = {
        "id_column": saved.id_column,
        "categorical": [name for one in tables for name in one.describe().get("categories", [])],
        "columns": saved.columns if tables else [],
    }
    if table is not None and tables:
        rows = read_rows(path, table=table, **how)
    elif table_suffix(Path(path)) is not None:
        rows = read_rows(path, text=saved.text, ignore=saved.ignored, **how)
    else:
        rows = read_rows(path)
    if rows.kind != saved.kind:
        raise ValueError(f"{path} must hold {saved.kind} as the model was fitted on, got {rows.kind}; name another")
    return rows
