"""Output files of a job (``predictions.csv``, ``model``, ``report.html``), and predictions by a saved model."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from angpn.estimators.auto import ANGPNClassifier
from angpn.features.image_file import MAX_PIXELS
from angpn.labelling.encoders import ENCODERS, Encoder, ImageEncoder
from angpn.labelling.input_rows import TABLES, Rows, read_rows
from angpn.labelling.job import LabellingResult
from angpn.labelling.output_folder import CLASSIFIER, ENCODER, MODEL, PREDICTIONS, REPORT, replacing_output
from angpn.labelling.predictions import encode_csv, predictions_csv
from angpn.labelling.report import write_label_report
from angpn.labelling.report_contents import report_contents
from angpn.utils.container import read_contents, write_contents


def write_output(result: LabellingResult, folder: str | os.PathLike[str]) -> dict[str, Path]:
    """Write the predictions, the model and the report to a folder: all three, or none.

    Those of an earlier run are replaced in one step, see :mod:`angpn.labelling.output_folder`. Other files are kept.

    Args:
        result: The result of the job.
        folder: The folder; it is created where it does not exist.

    Returns:
        The path of each of the three by its name.

    Raises:
        OSError: If the folder cannot be used or written.
    """
    folder = Path(folder)
    with replacing_output(folder) as new:
        _save_model(result, new)
        (new / PREDICTIONS).write_bytes(encode_csv(_predictions(result)))
        write_label_report(report_contents(result), new / REPORT)
    return {name: folder / name for name in (PREDICTIONS, MODEL, REPORT)}


def predict_file(
    model: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    skip_bad: bool = False,
    excel_safe: bool = False,
    max_pixels: int = MAX_PIXELS,
    progress: bool = False,
) -> tuple[str, dict[str, str]]:
    """Predict the labels of new rows by a saved model.

    Args:
        model: The folder ``model`` that :func:`write_output` wrote.
        path: New rows of the same kind, see :func:`~angpn.labelling.read_rows`.
        skip_bad: Leave out images that cannot be read.
        excel_safe: Put an apostrophe before ids and labels that a spreadsheet would run as a formula.
        max_pixels: An image with more pixels is one that cannot be read.
        progress: Show a progress bar while images are encoded.

    Returns:
        CSV lines with the header ``id,label,confidence,second,source``, and why images were skipped, by their id.

    Raises:
        ValueError: If the rows are of another kind or cannot be encoded.
        FileNotFoundError: If there is no such model or input.
    """
    header, encoder, classifier = _load_model(Path(model))
    rows = _read_new_rows(path, header)
    if isinstance(encoder, ImageEncoder):
        encoder.skip_bad, encoder.max_pixels, encoder.progress = skip_bad, max_pixels, progress
    features = encoder.transform(rows.content)
    skipped = dict[str, str]()
    ids = rows.ids
    if isinstance(encoder, ImageEncoder) and encoder.unreadable:
        skipped = {ids[row]: reason for row, reason in encoder.unreadable.items()}
        ids = [name for name in ids if name not in skipped]
    probabilities = classifier.predict_proba(features)
    order = np.argsort(-probabilities, axis=1, kind="stable")
    names = classifier.classes_.astype(str)
    lines = zip(
        ids,
        names[order[:, 0]],
        np.take_along_axis(probabilities, order[:, :1], axis=1)[:, 0],
        names[order[:, 1]],
        ["predicted"] * len(ids),
        strict=True,
    )
    return predictions_csv(lines, excel_safe=excel_safe), skipped


def _predictions(result: LabellingResult) -> str:
    task = result.task
    source = np.where(task.given, "given", "predicted")
    lines = zip(task.rows.ids, result.labels, result.confidence, result.second, source, strict=True)
    return predictions_csv(lines, excel_safe=task.options.excel_safe)


def _save_model(result: LabellingResult, folder: Path) -> None:
    options = result.task.options
    state, arrays = result.encoder.to_state()
    header = {
        "kind": result.task.rows.kind,
        "text": options.text,
        "id_column": options.id_column,
        "ignored": [*options.drop, *([options.label_column] if options.label_column else [])],
        "state": state,
    }
    folder.mkdir()
    result.model.save(folder / CLASSIFIER)
    write_contents(folder / ENCODER, "encoder", header, arrays)


def _load_model(folder: Path) -> tuple[Mapping[str, Any], Encoder, Any]:
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} must be the folder of a model that angpn label wrote, got none there")
    if not (folder / ENCODER).exists() and (folder / MODEL / ENCODER).exists():
        raise FileNotFoundError(f"{folder} must be the folder of a model, got the one around it; pass {folder / MODEL}")
    header, arrays, _ = read_contents(folder / ENCODER, "encoder")
    if header.get("kind") not in ENCODERS:
        raise ValueError(f"{folder} must be of a kind that this version knows, got {header.get('kind')}; upgrade")
    encoder = ENCODERS[header["kind"]].from_state(header["state"], arrays)
    return header, encoder, ANGPNClassifier.load(folder / CLASSIFIER)


def _read_new_rows(path: str | os.PathLike[str], header: Mapping[str, Any]) -> Rows:
    """Read new rows with the columns and types of the fitted ones."""
    if str(path) == "-" or Path(path).suffix.lower() in TABLES:
        categories = [column["name"] for column in header["state"].get("columns", ()) if "values" in column]
        rows = read_rows(
            path,
            text=header["text"],
            id_column=header["id_column"],
            categorical=categories,
            ignore=header["ignored"],
        )
    else:
        rows = read_rows(path)
    if rows.kind != header["kind"]:
        raise ValueError(f"{path} must hold {header['kind']} as the model was fitted on, got {rows.kind}; name another")
    return rows
