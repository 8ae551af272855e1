"""What a job leaves behind: ``predictions.csv``, ``model`` and ``report.html``; and a saved model used on new rows."""

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
from angpn.labelling.job import N_UNCERTAIN, Outcome
from angpn.labelling.planar import planar_map
from angpn.labelling.report import Curve, LabelReport, write_label_report
from angpn.labelling.rows import TABLES, Rows, read_rows
from angpn.utils.container import read_contents, write_contents

PREDICTIONS, MODEL, REPORT = "predictions.csv", "model", "report.html"
_CLASSIFIER, _ENCODER = "classifier.angpn", "encoder.angpn"
_EXCERPT = 240  # characters of a text that the report shows
_MOST_PICTURES = 8000  # about 1.5 kB each


def write_output(outcome: Outcome, folder: str | os.PathLike[str]) -> dict[str, Path]:
    """Write the three, whole or not at all: they are made in a hidden folder and take their places when done."""
    folder = Path(folder)
    check_folder(folder)
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=".angpn.", dir=folder) as made:
            temporary = Path(made)
            write_lines(_predictions(outcome), temporary / PREDICTIONS)
            _save(outcome, temporary / MODEL)
            write_label_report(_report(outcome), temporary / REPORT)
            _take_places(temporary, folder)
    except BaseException:
        if is_new:
            folder.rmdir()
        raise
    return {name: folder / name for name in (PREDICTIONS, MODEL, REPORT)}


def check_folder(folder: Path) -> None:
    """Refuse a place for the output that is taken or cannot be written, before any work is done."""
    remedy = "name another with --output"
    if str(folder) == "-":
        raise ValueError(f"--output must be a folder, got -; {remedy}")
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} must be a folder for the output, got a file; {remedy}")
    nearest = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not os.access(nearest, os.W_OK | os.X_OK) or not nearest.is_dir():
        raise PermissionError(f"{folder} must be a folder that can be written, got one that cannot; {remedy}")
    for name in (PREDICTIONS, REPORT):
        if (folder / name).is_dir():
            raise IsADirectoryError(f"{folder / name} must be a file or not there, got a folder; {remedy}")
    model = folder / MODEL
    if model.exists() and not (model.is_dir() and {file.name for file in model.iterdir()} <= {_CLASSIFIER, _ENCODER}):
        raise FileExistsError(f"{model} must be a model of angpn or not there, got something else; {remedy}")


def write_lines(lines: str, path: Path) -> None:
    """Names of files that are no valid text are written as the bytes they are."""
    path.write_text(lines, encoding="utf-8", errors="surrogateescape")


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
        "ignored": [*settings.drop, *([settings.label_column] if settings.label_column else [])],
        "state": header,
    }
    folder.mkdir()
    outcome.model.save(folder / _CLASSIFIER)
    write_contents(folder / _ENCODER, "encoder", kept, arrays)


def _load(folder: Path) -> tuple[Mapping[str, Any], Encoder, ANGPNClassifier]:
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} must be the folder of a model that angpn label wrote, got none there")
    if not (folder / _ENCODER).exists() and (folder / MODEL / _ENCODER).exists():
        raise FileNotFoundError(f"{folder} must be the folder of a model, got the one around it; pass {folder / MODEL}")
    header, arrays = read_contents(folder / _ENCODER, "encoder")
    if header.get("kind") not in ENCODERS:
        raise ValueError(f"{folder} must be of a kind that this version knows, got {header.get('kind')}; upgrade")
    encoder = ENCODERS[header["kind"]].from_state(header["state"], arrays)
    return header, encoder, ANGPNClassifier.load(folder / _CLASSIFIER)


def _like_before(path: str | os.PathLike[str], header: Mapping[str, Any]) -> Rows:
    """New rows, read as those of the fit were."""
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


def _take_places(temporary: Path, folder: Path) -> None:
    """Move the three into the folder; if that fails half-way, what was there before is put back."""
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


def _report(outcome: Outcome) -> LabelReport:
    task, model = outcome.task, outcome.model
    codes = {name: code for code, name in enumerate(model.classes_)}
    given = np.array([codes[label] if label is not None else -1 for label in task.y])
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
        influences=outcome.influences,
        weights=outcome.weights,
        estimate=outcome.estimate,
        uncertain=[int(row) for row in model.uncertain(N_UNCERTAIN)],
        suspects=outcome.suspects,
        curve=Curve(model.loss_curve_, validation, model.best_iter_),
        texts=[text[:_EXCERPT] for text in task.rows.content] if task.rows.kind == "text" else None,
        thumbnails=_few_enough(outcome),
        facts=_facts(outcome),
    )


def _few_enough(outcome: Outcome) -> list[str | None] | None:
    """The pictures of all rows, or where those would make the page too heavy, of the rows to look at first."""
    pictures = outcome.task.rows.pictures
    if pictures is None or len(pictures) <= _MOST_PICTURES:
        return None if pictures is None else list(pictures)
    first = [
        *(suspect.row for suspect in outcome.suspects),
        *outcome.model.uncertain(N_UNCERTAIN),
        *np.flatnonzero(outcome.task.given),
        *np.random.default_rng(outcome.task.settings.seed).permutation(len(pictures)),
    ]
    shown = set(list(dict.fromkeys(int(row) for row in first))[:_MOST_PICTURES])
    return [picture if row in shown else None for row, picture in enumerate(pictures)]


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
