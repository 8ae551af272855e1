"""The report of a fitted classifier as the value of a notebook's cell."""

import os
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from angpn.inspection.fitted_classifier import FittedClassifier
from angpn.inspection.labelled_rows import labelled_rows
from angpn.inspection.model_report import N_SUGGESTED, model_facts, model_report, version_facts
from angpn.inspection.report import label_page
from angpn.inspection.report_page import write_page
from angpn.inspection.thumbnails import ArrayThumbnails
from angpn.utils.checks import check_same_rows

_HEIGHT = 720  # pixels of the frame in a notebook


class Report:
    """The report of a fitted classifier; a notebook shows it where this is the value of a cell.

    Attributes:
        html: The page: one file that needs no other, and no network.
        path: Where it was written, or None.
    """

    def __init__(self, html: str, path: Path | None) -> None:
        self.html, self.path = html, path

    def __repr__(self) -> str:
        return f"Report(path={None if self.path is None else str(self.path)!r})"

    def _repr_html_(self) -> str:
        # Its scripts may run, but have no access to the notebook.
        return (
            f'<iframe srcdoc="{escape(self.html, quote=True)}" sandbox="allow-scripts" width="100%" height="{_HEIGHT}" '
            'style="border:1px solid #8884;border-radius:6px" title="angpn report"></iframe>'
        )


def make_report(
    model: FittedClassifier,
    path: str | os.PathLike[str] | None,
    *,
    title: str,
    ids: Sequence[Any] | None,  # (n,)
    texts: Sequence[str] | None,  # (n,)
    images: Any,  # (n, h, w[, 3])
    labelled_at_random: Any,  # (n,) bool
    random_state: int,
) -> Report:
    """Make the report of a fitted classifier, and write it where a path is given; see ``ANGPNClassifier.report``."""
    n = len(model._codes)
    thumbnails = None if images is None else ArrayThumbnails(images)
    for name, given in (("ids", ids), ("texts", texts), ("images", thumbnails)):
        if given is not None:
            check_same_rows(len(given), n, name, "X")
    size = [("rows", f"{n:,}"), ("features", f"{model.n_features_in_:,}")]
    contents = model_report(
        model,
        labelled_rows(model),
        title=title,
        ids=[str(name) for name in (range(n) if ids is None else ids)],
        estimate=model.estimate_accuracy(labelled_at_random=labelled_at_random),
        suggested=[found.row for found in model.suggestions(N_SUGGESTED)],
        unreliable=model.unreliable_rows_._asdict(),
        facts=[*size, *model_facts(model), *version_facts()],
        made_by="estimator",
        random_state=random_state,
        texts=None if texts is None else map(str, texts),
        thumbnails=thumbnails,
    )
    html = label_page(contents)
    return Report(html, None if path is None else write_page(html, path))
