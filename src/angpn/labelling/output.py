"""What a job leaves behind: ``predictions.csv``, ``model`` and ``report.html``; and a saved model used on new rows."""

import csv
import io
import os
import platform
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import angpn
from angpn.container import read_contents, write_contents
from angpn.estimator import ANGPNClassifier
from angpn.labelling.encoders import ENCODERS, Encoder, ImageEncoder
from angpn.labelling.job import N_CARRIERS, N_UNCERTAIN, Outcome
from angpn.labelling.rows import Rows, read_rows
from angpn.report.label_report import Curve, LabelReport, write_label_report
from angpn.report.planar import planar_map

Array = np.ndarray[Any, Any]

PREDICTIONS, MODEL, REPORT = "predictions.csv", "model", "report.html"
_CLASSIFIER, _ENCODER = "classifier.angpn", "encoder.angpn"
_EXCERPT = 240  # characters of a text that the report shows


def write_output(outcome: Outcome, folder: str | os.PathLike[str]) -> dict[str, Path]:
    """Write the three, whole or not at all: they are made beside the folder and moved into it when all are done."""
    folder = Path(folder)
    check_folder(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as made:
        temporary = Path(made)
        (temporary / PREDICTIONS).write_text(_predictions(outcome), encoding="utf-8")
        _save(outcome, temporary / MODEL)
        write_label_report(_report(outcome), temporary / REPORT)
        folder.mkdir(exist_ok=True)
        for name in (PREDICTIONS, MODEL, REPORT):
            _replace(temporary / name, folder / name)
    return {name: folder / name for name in (PREDICTIONS, MODEL, REPORT)}


def check_folder(folder: Path) -> None:
    """Refuse a place for the output that is taken, before any work is done."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} must be a folder for the output, got a file; name another with --output")


def predict_file(
    model: str | os.PathLike[str], path: str | os.PathLike[str], *, skip_bad: bool = False, progress: bool = False
) -> tuple[str, dict[str, str]]:
    """The lines ``id,label,confidence,second,source`` for new rows, and the images that could not be read."""
    header, encoder, classifier = _load(Path(model))
    rows = _like_before(path, header)
    if isinstance(encoder, ImageEncoder):
        encoder.skip_bad, encoder.progress = skip_bad, progress
    features = encoder.transform(rows.content)
    bad = dict[str, str]()
    ids = rows.ids
    if isinstance(encoder, ImageEncoder) and encoder.bad:
        bad = {ids[row]: reason for row, reason in encoder.bad.items()}
        ids = [name for name in ids if name not in bad]
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
    return _csv(lines), bad


def _predictions(outcome: Outcome) -> str:
    source = np.where(outcome.task.given, "given", "predicted")
    return _csv(zip(outcome.task.rows.ids, outcome.labels, outcome.confidence, outcome.second, source, strict=True))


def _csv(lines: Iterable[tuple[str, Any, float, Any, str]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["id", "label", "confidence", "second", "source"])
    writer.writerows(
        [name, label, f"{confidence:.4f}", second, source] for name, label, confidence, second, source in lines
    )
    return buffer.getvalue()


def _save(outcome: Outcome, folder: Path) -> None:
    settings = outcome.task.settings
    header, arrays = outcome.encoder.to_state()
    kept = {
        "kind": outcome.task.rows.kind,
        "text": settings.text,
        "id_column": settings.id_column,
        "state": header,
    }
    folder.mkdir()
    outcome.model.save(folder / _CLASSIFIER)
    write_contents(folder / _ENCODER, "encoder", kept, arrays)


def _load(folder: Path) -> tuple[Mapping[str, Any], Encoder, ANGPNClassifier]:
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} must be the folder of a model that angpn label wrote, got none there")
    header, arrays = read_contents(folder / _ENCODER, "encoder")
    if header.get("kind") not in ENCODERS:
        raise ValueError(f"{folder} must be of a kind that this version knows, got {header.get('kind')}; upgrade")
    encoder = ENCODERS[header["kind"]].from_state(header["state"], arrays)
    return header, encoder, ANGPNClassifier.load(folder / _CLASSIFIER)


def _like_before(path: str | os.PathLike[str], header: Mapping[str, Any]) -> Rows:
    """New rows, read as those of the fit were."""
    is_table = str(path) == "-" or Path(path).suffix.lower() in (".csv", ".tsv", ".parquet")
    rows = read_rows(path, text=header["text"], id_column=header["id_column"]) if is_table else read_rows(path)
    if rows.kind != header["kind"]:
        raise ValueError(f"{path} must hold {header['kind']} as the model was fitted on, got {rows.kind}; name another")
    return rows


def _replace(made: Path, place: Path) -> None:
    """Put a file or folder where another of the same kind may be."""
    if place.is_dir():
        old = made.with_name(f"{place.name}.old")
        place.rename(old)
        made.rename(place)
        shutil.rmtree(old)
    else:
        made.replace(place)


def _report(outcome: Outcome) -> LabelReport:
    task, model = outcome.task, outcome.model
    codes = {name: code for code, name in enumerate(model.classes_)}
    given = np.array([codes[label] if label is not None else -1 for label in task.y])
    rows, weights = model.carriers(N_CARRIERS)
    validation = model.validation_scores_
    return LabelReport(
        title=Path(task.settings.input).name,
        ids=task.rows.ids,
        classes=[str(name) for name in model.classes_],
        given=given,
        predicted=model.label_distributions_.argmax(axis=1),
        confidence=outcome.confidence,
        second=np.array([codes[name] for name in outcome.second]),
        positions=planar_map(model.embedding_, task.settings.seed),
        carriers=rows,
        weights=weights,
        estimate=outcome.estimate,
        uncertain=[int(row) for row in model.uncertain(N_UNCERTAIN)],
        suspects=outcome.suspects,
        curve=Curve(model.loss_curve_, validation, model.best_iter_),
        texts=[text[:_EXCERPT] for text in task.rows.content] if task.rows.kind == "text" else None,
        thumbnails=task.rows.pictures,
        facts=_facts(outcome),
    )


def _facts(outcome: Outcome) -> list[tuple[str, str]]:
    task, model = outcome.task, outcome.model
    facts = [
        ("input", str(task.settings.input)),
        ("kind", task.rows.kind),
        ("rows", f"{len(task.y):,}"),
        ("features", f"{model.n_features_in_:,}"),
        ("labels given", f"{int(task.given.sum()):,}"),
        ("classes", str(len(model.classes_))),
        ("epochs", str(model.n_iter_)),
        ("seconds", f"{outcome.seconds:.1f}"),
        ("seed", str(task.settings.seed)),
        ("angpn", angpn.__version__),
        ("Python", platform.python_version()),
    ]
    if outcome.bad:
        facts.insert(3, ("images skipped", f"{len(outcome.bad)}: {', '.join(list(outcome.bad)[:5])}"))
    return facts
