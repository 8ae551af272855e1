"""What the report shows about a result."""

import platform
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import angpn
from angpn.labelling.ensemble_choice import describe_choice
from angpn.labelling.job import LabellingResult
from angpn.labelling.map_layout import map_layout
from angpn.labelling.reading_facts import reading_facts
from angpn.labelling.report import Curve, LabelReport
from angpn.labelling.table_cells import table_cells
from angpn.labelling.unreliable_rows import describe_unreliable

EXCERPT_LENGTH = 240  # characters of a text that the report shows
_MAX_UNRELIABLE = 100  # rows that the report lists for a reason
_MAX_THUMBNAILS = 8000  # about 1.5 kB each


def report_contents(result: LabellingResult) -> LabelReport:
    """Return the content of the page about a result."""
    task, model = result.task, result.model
    codes = {name: code for code, name in enumerate(model.classes_)}
    return LabelReport(
        title=Path(task.options.input).name,
        ids=task.rows.ids,
        classes=[str(name) for name in model.classes_],
        given=np.array([codes[label] if label is not None else -1 for label in task.y]),
        predicted=result.distributions.argmax(axis=1),
        confidence=result.confidence,
        second=np.array([codes[name] for name in result.second]),
        positions=map_layout(model.embedding_, task.options.seed),
        influences=result.influences,
        weights=result.weights,
        estimate=result.estimate,
        uncertain=[found.row for found in result.suggestions],
        suspects=result.suspects,
        curve=Curve(model.loss_curve_, model.validation_scores_, model.best_iter_) if result.unit == "epoch" else None,
        choice=describe_choice(model) if result.unit == "round" else None,
        texts=[text[:EXCERPT_LENGTH] for text in task.rows.content] if task.rows.kind == "text" else None,
        thumbnails=_report_thumbnails(result),
        facts=_facts(result),
        unreliable=_unreliable(result),
        cells=table_cells(task.rows.content) if task.rows.kind == "table" else None,
    )


def _unreliable(result: LabellingResult) -> list[tuple[str, list[int]]]:
    """Return what is said of rows whose label means little, and the first of them."""
    said = describe_unreliable({reason: len(rows) for reason, rows in result.unreliable.items()})
    return [(text, result.unreliable[reason][:_MAX_UNRELIABLE].tolist()) for reason, text in said.items()]


def _report_thumbnails(result: LabellingResult) -> list[str | None] | None:
    listed = [
        *(suspect.row for suspect in result.suspects),
        *(found.row for found in result.suggestions),
        *np.flatnonzero(result.task.given),
    ]
    return limit_thumbnails(result.task.rows.thumbnails, listed, result.task.options.seed)


def limit_thumbnails(thumbnails: Sequence[str] | None, listed: Sequence[int], seed: int) -> list[str | None] | None:
    """Return the thumbnails of at most 8,000 rows, which bound the size of the page; listed rows first."""
    if thumbnails is None or len(thumbnails) <= _MAX_THUMBNAILS:
        return None if thumbnails is None else list(thumbnails)
    by_priority = [*listed, *np.random.default_rng(seed).permutation(len(thumbnails))]
    shown = set(list(dict.fromkeys(int(row) for row in by_priority))[:_MAX_THUMBNAILS])
    return [thumbnail if row in shown else None for row, thumbnail in enumerate(thumbnails)]


def _facts(result: LabellingResult) -> list[tuple[str, str]]:
    task, model = result.task, result.model
    n_trained = model.n_iter_ - (result.unit == "round")  # the first round has no pseudo-labels
    facts = [
        ("input", str(task.options.input)),
        ("kind", task.rows.kind),
        ("rows", f"{len(task.y):,}"),
        ("features", f"{model.n_features_in_:,}"),
        ("labels given", f"{int(task.given.sum()):,}"),
        ("classes", str(len(model.classes_))),
        ("model", type(model).__name__),
        ("rounds of self-training" if result.unit == "round" else "epochs", str(n_trained)),
        ("seconds", f"{result.seconds:.1f}"),
        ("seed", str(task.options.seed)),
        ("angpn", angpn.__version__),
        ("Python", platform.python_version()),
    ]
    facts[4:4] = reading_facts(task.rows, result.encoder, result.empty).pairs()
    if result.skipped:
        facts.insert(3, ("images skipped", f"{len(result.skipped)}: {', '.join(list(result.skipped)[:5])}"))
    return facts
