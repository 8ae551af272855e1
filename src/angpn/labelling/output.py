"""Output files of a job (``predictions.csv``, ``model``, ``report.html``), and predictions by a saved model."""

import csv
import io
import os
import platform
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import angpn
from angpn.estimators.auto import ANGPNClassifier
from angpn.labelling.encoders import ENCODERS, Encoder, ImageEncoder
from angpn.labelling.input_rows import TABLES, Rows, read_rows
from angpn.labelling.job import N_UNCERTAIN, LabellingResult
from angpn.labelling.map_layout import map_layout
from angpn.labelling.report import Curve, LabelReport, write_label_report
from angpn.utils.container import read_contents, write_contents

PREDICTIONS, MODEL, REPORT = "predictions.csv", "model", "report.html"
_CLASSIFIER, _ENCODER = "classifier.angpn", "encoder.angpn"
_EXCERPT_LENGTH = 240  # characters of a text that the report shows
_MAX_THUMBNAILS = 8000  # about 1.5 kB each


def write_output(result: LabellingResult, folder: str | os.PathLike[str]) -> dict[str, Path]:
    """Write the predictions, the model and the report to a folder: all three, or none.

    They are written to a temporary folder inside it first. Files of an earlier run are replaced, others are kept.

    Args:
        result: The result of the job.
        folder: The folder; it is created where it does not exist.

    Returns:
        The path of each of the three by its name.

    Raises:
        OSError: If the folder cannot be used or written.
    """
    folder = Path(folder)
    check_output_folder(folder)
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=".angpn.", dir=folder) as made:
            temporary = Path(made)
            write_lines(_predictions(result), temporary / PREDICTIONS)
            _save_model(result, temporary / MODEL)
            write_label_report(_report(result), temporary / REPORT)
            _replace_files(temporary, folder)
    except BaseException:
        if is_new:
            folder.rmdir()
        raise
    return {name: folder / name for name in (PREDICTIONS, MODEL, REPORT)}


def check_output_folder(folder: Path) -> None:
    """Check, before any work is done, that the output can be written to a folder.

    Args:
        folder: The folder, which need not exist.

    Raises:
        ValueError: If it is ``-``.
        OSError: If it cannot be written, or holds something else under the name of an output.
    """
    remedy = "name another with --output"
    if str(folder) == "-":
        raise ValueError(f"--output must be a folder, got -; {remedy}")
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} must be a folder for the output, got a file; {remedy}")
    parent = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not os.access(parent, os.W_OK | os.X_OK) or not parent.is_dir():
        raise PermissionError(f"{folder} must be a folder that can be written, got one that cannot; {remedy}")
    for name in (PREDICTIONS, REPORT):
        if (folder / name).is_dir():
            raise IsADirectoryError(f"{folder / name} must be a file or not there, got a folder; {remedy}")
    model = folder / MODEL
    if model.exists() and not (model.is_dir() and {file.name for file in model.iterdir()} <= {_CLASSIFIER, _ENCODER}):
        raise FileExistsError(f"{model} must be a model of angpn or not there, got something else; {remedy}")


def write_lines(lines: str, path: Path) -> None:
    """Write text as UTF-8; names of files that are not valid UTF-8 are written as their original bytes."""
    path.write_text(lines, encoding="utf-8", errors="surrogateescape")


def predict_file(
    model: str | os.PathLike[str], path: str | os.PathLike[str], *, skip_bad: bool = False, progress: bool = False
) -> tuple[str, dict[str, str]]:
    """Predict the labels of new rows by a saved model.

    Args:
        model: The folder ``model`` that :func:`write_output` wrote.
        path: New rows of the same kind, see :func:`~angpn.labelling.read_rows`.
        skip_bad: Leave out images that cannot be read.
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
        encoder.skip_bad, encoder.progress = skip_bad, progress
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
    return _csv(lines), skipped


def _predictions(result: LabellingResult) -> str:
    source = np.where(result.task.given, "given", "predicted")
    return _csv(zip(result.task.rows.ids, result.labels, result.confidence, result.second, source, strict=True))


def _csv(lines: Iterable[tuple[str, Any, float, Any, str]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["id", "label", "confidence", "second", "source"])
    writer.writerows(
        [name, label, f"{confidence:.4f}", second, source] for name, label, confidence, second, source in lines
    )
    return buffer.getvalue()


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
    result.model.save(folder / _CLASSIFIER)
    write_contents(folder / _ENCODER, "encoder", header, arrays)


def _load_model(folder: Path) -> tuple[Mapping[str, Any], Encoder, Any]:
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} must be the folder of a model that angpn label wrote, got none there")
    if not (folder / _ENCODER).exists() and (folder / MODEL / _ENCODER).exists():
        raise FileNotFoundError(f"{folder} must be the folder of a model, got the one around it; pass {folder / MODEL}")
    header, arrays, _ = read_contents(folder / _ENCODER, "encoder")
    if header.get("kind") not in ENCODERS:
        raise ValueError(f"{folder} must be of a kind that this version knows, got {header.get('kind')}; upgrade")
    encoder = ENCODERS[header["kind"]].from_state(header["state"], arrays)
    return header, encoder, ANGPNClassifier.load(folder / _CLASSIFIER)


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


def _replace_files(temporary: Path, folder: Path) -> None:
    """Move the three outputs into the folder; where that fails half-way, restore those of an earlier run."""
    old = temporary / "old"
    old.mkdir()
    names = (PREDICTIONS, MODEL, REPORT)
    try:
        for name in names:
            if (folder / name).exists():
                (folder / name).rename(old / name)
            (temporary / name).rename(folder / name)
    except BaseException:
        for name in names:
            if (old / name).exists():
                if (folder / name).exists():
                    (folder / name).rename(temporary / name)
                (old / name).rename(folder / name)
        raise


def _report(result: LabellingResult) -> LabelReport:
    task, model = result.task, result.model
    codes = {name: code for code, name in enumerate(model.classes_)}
    return LabelReport(
        title=Path(task.options.input).name,
        ids=task.rows.ids,
        classes=[str(name) for name in model.classes_],
        given=np.array([codes[label] if label is not None else -1 for label in task.y]),
        predicted=model.label_distributions_.argmax(axis=1),
        confidence=result.confidence,
        second=np.array([codes[name] for name in result.second]),
        positions=map_layout(model.embedding_, task.options.seed),
        influences=result.influences,
        weights=result.weights,
        estimate=result.estimate,
        uncertain=[int(row) for row in model.uncertain(N_UNCERTAIN)],
        suspects=result.suspects,
        curve=Curve(model.loss_curve_, model.validation_scores_, model.best_iter_, result.unit),
        texts=[text[:_EXCERPT_LENGTH] for text in task.rows.content] if task.rows.kind == "text" else None,
        thumbnails=_report_thumbnails(result),
        facts=_facts(result),
    )


def _report_thumbnails(result: LabellingResult) -> list[str | None] | None:
    """Return the thumbnails of at most 8,000 rows, which bound the size of the page; listed and labelled rows first."""
    thumbnails = result.task.rows.thumbnails
    if thumbnails is None or len(thumbnails) <= _MAX_THUMBNAILS:
        return None if thumbnails is None else list(thumbnails)
    by_priority = [
        *(suspect.row for suspect in result.suspects),
        *result.model.uncertain(N_UNCERTAIN),
        *np.flatnonzero(result.task.given),
        *np.random.default_rng(result.task.options.seed).permutation(len(thumbnails)),
    ]
    shown = set(list(dict.fromkeys(int(row) for row in by_priority))[:_MAX_THUMBNAILS])
    return [thumbnail if row in shown else None for row, thumbnail in enumerate(thumbnails)]


def _facts(result: LabellingResult) -> list[tuple[str, str]]:
    task, model = result.task, result.model
    facts = [
        ("input", str(task.options.input)),
        ("kind", task.rows.kind),
        ("rows", f"{len(task.y):,}"),
        ("features", f"{model.n_features_in_:,}"),
        ("labels given", f"{int(task.given.sum()):,}"),
        ("classes", str(len(model.classes_))),
        ("model", type(model).__name__),
        (f"{result.unit}s", str(model.n_iter_)),
        ("seconds", f"{result.seconds:.1f}"),
        ("seed", str(task.options.seed)),
        ("angpn", angpn.__version__),
        ("Python", platform.python_version()),
    ]
    if result.skipped:
        facts.insert(3, ("images skipped", f"{len(result.skipped)}: {', '.join(list(result.skipped)[:5])}"))
    return facts
