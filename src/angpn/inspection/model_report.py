"""The report of a fitted classifier: what is on the page, for ``angpn label`` and for the estimators' own method."""

import platform
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

import angpn
from angpn.inspection.accuracy_estimate import Estimate
from angpn.inspection.ensemble_choice import describe_choice
from angpn.inspection.fitted_classifier import FittedClassifier
from angpn.inspection.labelled_rows import LabelledRows
from angpn.inspection.map_layout import map_layout
from angpn.inspection.report import Curve, LabelReport, MadeBy
from angpn.inspection.table_cells import Cells
from angpn.inspection.thumbnails import limit_thumbnails
from angpn.inspection.unreliable_rows import describe_unreliable
from angpn.utils.labels import UNLABELLED
from angpn.utils.typing import Array

N_SUGGESTED = 20
EXCERPT_LENGTH = 240  # characters of a text that the report shows
_MAX_UNRELIABLE = 100  # rows that the report lists for a reason


def model_report(
    model: FittedClassifier,
    rows: LabelledRows,
    *,
    title: str,
    ids: Sequence[str],
    estimate: Estimate | None,
    suggested: Sequence[int],
    unreliable: Mapping[str, Array],
    facts: Sequence[tuple[str, str]],
    made_by: MadeBy,
    random_state: int,
    texts: Iterable[str] | None = None,
    thumbnails: Sequence[str] | None = None,
    cells: Cells | None = None,
) -> LabelReport:
    """Return the content of the page about a fitted classifier.

    Args:
        model: The fitted classifier.
        rows: The labels of its rows.
        title: Heading of the page.
        ids: The id of each row.
        estimate: Estimated accuracy, or None.
        suggested: The rows most worth labelling next.
        unreliable: Rows whose label means little, by the reason.
        facts: Names and values for the table about the run.
        made_by: Whether the page advises options of ``angpn label`` or arguments of the estimator.
        random_state: Seed of the map, and of which rows have a thumbnail where they are too many.
        texts: The text of each row.
        thumbnails: A ``data:image/...`` URI of each row.
        cells: The cells of each row of a table.

    Returns:
        The content of the page.
    """
    listed = [*(suspect.row for suspect in rows.suspects), *suggested, *np.flatnonzero(model._codes != UNLABELLED)]
    said = describe_unreliable({reason: len(found) for reason, found in unreliable.items()})
    is_network = model._unit == "epoch"
    return LabelReport(
        title=title,
        ids=ids,
        classes=[str(name) for name in model.classes_],
        given=model._codes,
        predicted=rows.distributions.argmax(axis=1),
        confidence=rows.confidence,
        second=rows.second,
        positions=map_layout(model.embedding_, random_state),
        influences=rows.influences,
        weights=rows.weights,
        estimate=estimate,
        uncertain=suggested,
        suspects=rows.suspects,
        curve=Curve(model.loss_curve_, model.validation_scores_, model.best_iter_) if is_network else None,
        choice=None if is_network else describe_choice(model),
        texts=None if texts is None else [text[:EXCERPT_LENGTH] for text in texts],
        thumbnails=limit_thumbnails(thumbnails, listed, random_state),
        facts=facts,
        unreliable=[(text, unreliable[reason][:_MAX_UNRELIABLE].tolist()) for reason, text in said.items()],
        cells=cells,
        made_by=made_by,
    )


def model_facts(model: FittedClassifier) -> list[tuple[str, str]]:
    """Return what the table about the run says of a fitted classifier."""
    is_network = model._unit == "epoch"
    n_trained = model.n_iter_ - (not is_network)  # the first round has no pseudo-labels
    return [
        ("labels given", f"{int((model._codes != UNLABELLED).sum()):,}"),
        ("classes", str(len(model.classes_))),
        ("model", type(model).__name__),
        ("epochs" if is_network else "rounds of self-training", str(n_trained)),
    ]


def version_facts() -> list[tuple[str, str]]:
    """Return what the table about the run says of the versions."""
    return [("angpn", angpn.__version__), ("Python", platform.python_version())]
