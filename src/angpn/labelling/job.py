"""The job itself: what was understood of the input, the fit, and what is worth telling about it."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.stats
from sklearn.metrics import confusion_matrix

from angpn.estimators.auto import ANGPNClassifier
from angpn.labelling.encoders import Encoder, ImageEncoder, encoder_for
from angpn.labelling.label_file import read_labels
from angpn.labelling.report import Estimate, Suspect
from angpn.labelling.rows import Rows, read_rows
from angpn.utils.checks import warn
from angpn.utils.typing import Array

N_INFLUENCES = 8
N_UNCERTAIN = 20
N_SUSPECTS = 50
SUSPICIOUS = 0.6  # the share of a labelled row's neighbourhood that speaks for another class


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the user asks for."""

    input: str | os.PathLike[str]
    labels: str | os.PathLike[str] | None = None  # a file id,label
    label_column: str | None = None
    text: str | None = None
    id_column: str | None = None
    drop: Sequence[str] = ()
    categorical: Sequence[str] = ()
    impute: bool = False
    skip_bad: bool = False
    holdout: float = 0.0
    seed: int = 0
    distributed: bool | None = None  # as for ANGPNClassifier


class Task(NamedTuple):
    """What was understood of the input."""

    settings: Settings
    rows: Rows
    y: Array  # (n,) object: a label, or None

    @property
    def given(self) -> Array:  # (n,) bool
        """Whether the user labelled the row."""
        return np.array([label is not None for label in self.y])

    def counts(self) -> dict[str, int]:
        """The given labels of each class."""
        names, counts = np.unique(self.y[self.given].astype(str), return_counts=True)
        return dict(zip(names.tolist(), counts.tolist(), strict=True))


class Outcome(NamedTuple):
    """What came out."""

    task: Task  # of the rows that could be read
    encoder: Encoder
    model: ANGPNClassifier
    labels: Array  # (n,) object: the given label, or the predicted one
    confidence: Array  # (n,) the model's probability of that label
    second: Array  # (n,) object: the most probable other label
    influences: Array  # (n, t) the rows that carried each row's label, -1 where fewer
    weights: Array  # (n, t)
    estimate: Estimate | None
    suspects: list[Suspect]
    bad: dict[str, str]  # images that could not be read, and why
    seconds: float


def understand(settings: Settings) -> Task:
    """Read the input and its labels, and refuse what cannot be labelled; nothing is computed yet."""
    if not 0 <= settings.holdout < 1:
        raise ValueError(f"--holdout must lie between 0 and 1, got {settings.holdout}; 0.2 hides a fifth of the labels")
    if settings.labels is None and settings.label_column is None:
        raise ValueError("labels must come from --labels FILE or --label-column NAME, got none; pass one of them")
    if settings.labels is not None and settings.label_column is not None:
        raise ValueError("labels must come from --labels FILE or --label-column NAME, got both; pass one of them")
    rows = read_rows(
        settings.input,
        text=settings.text,
        label_column=settings.label_column,
        id_column=settings.id_column,
        drop=settings.drop,
        categorical=settings.categorical,
    )
    if settings.labels is not None and rows.kind == "table" and settings.id_column is None and "id" in rows.content:
        raise ValueError(
            "the table has a column 'id', got no --id-column; pass --id-column id, or --drop id to count rows"
        )
    labels = rows.labels if settings.labels is None else read_labels(settings.labels, rows.ids)
    assert labels is not None
    y = np.array(labels, dtype=object)
    _check_names({label for label in labels if label is not None})
    task = Task(settings, rows, y)
    counts = task.counts()
    if not counts:
        raise ValueError("a few rows must be labelled, got none; label at least one row of each class")
    if len(counts) == 1:
        (name,) = counts
        raise ValueError(f"labels must name at least two classes, got only {name!r}; label a row of another class")
    if task.given.all():
        raise ValueError(f"some rows must be unlabelled, got a label for all {len(y)}; there is nothing to label")
    return task


def _check_names(names: set[str]) -> None:
    """Labels that a spreadsheet may have made of something else."""
    disguised = names & {"-1", "nan", "NaN", "NaT", "<NA>"}
    if disguised:
        raise ValueError(
            f"a label must be a name or a number >= 0, got {disguised.pop()!r}, which often means none; leave the cell "
            "empty, or write the class otherwise"
        )
    numbers: dict[float, str] = {}
    for name in sorted(names):
        try:
            twin = numbers.setdefault(float(name), name)
        except ValueError:
            continue
        if twin != name:
            warn(f"{twin!r} and {name!r} are two classes, since their texts differ; write a class in one way")


def encoder_of(task: Task, *, progress: bool = False) -> Encoder:
    """The encoder for the rows of a task, not fitted yet."""
    settings = task.settings
    return encoder_for(
        task.rows,
        impute=settings.impute,
        categorical=settings.categorical,
        skip_bad=settings.skip_bad,
        progress=progress,
    )


def run(task: Task, *, progress: bool = False) -> Outcome:
    """Fit on the given labels and label the rest."""
    start = time.perf_counter()
    settings = task.settings
    encoder = encoder_of(task, progress=progress)
    features = encoder.fit(task.rows.content)
    bad: dict[str, str] = {}
    if isinstance(encoder, ImageEncoder):
        bad = {task.rows.ids[row]: reason for row, reason in encoder.bad.items()}
        task = _without(task, set(encoder.bad)) if bad else task
        task = task._replace(rows=task.rows._replace(pictures=encoder.thumbnails))

    def fitted(y: Array) -> ANGPNClassifier:
        return ANGPNClassifier(random_state=settings.seed, distributed=settings.distributed, verbose=progress).fit(
            features, y
        )

    estimate = None
    if settings.holdout:
        hidden = _hidden(task, settings.holdout, settings.seed)
        trial = fitted(np.where(hidden, np.array(None), task.y))
        estimate = _estimate("held out", task.y[hidden].astype(str), trial.transduction_[hidden].astype(str), trial)
    model = fitted(task.y)
    if estimate is None and model.validation_mask_.any():
        held = model.validation_mask_
        estimate = _estimate("validation", task.y[held].astype(str), model.validation_transduction_.astype(str), model)
    given = task.given
    shown = np.where(given, np.searchsorted(model.classes_, np.where(given, task.y, model.classes_[0])), 0)
    codes = np.where(given, shown, model.label_distributions_.argmax(axis=1))
    influences, weights = model.influences(N_INFLUENCES)
    others = model.label_distributions_.copy()
    others[np.arange(len(codes)), codes] = -1
    return Outcome(
        task,
        encoder,
        model,
        model.classes_[codes],
        model.label_distributions_[np.arange(len(codes)), codes],
        model.classes_[others.argmax(axis=1)],
        influences,
        weights,
        estimate,
        _suspects(model, codes, given, influences, weights),
        bad,
        time.perf_counter() - start,
    )


def _without(task: Task, places: set[int]) -> Task:
    """The task without some rows, as long as it is still one."""
    kept = [row for row in range(len(task.y)) if row not in places]
    rows = task.rows._replace(
        ids=[task.rows.ids[row] for row in kept], content=[task.rows.content[row] for row in kept]
    )
    smaller = task._replace(rows=rows, y=task.y[kept])
    lost = task.counts().keys() - smaller.counts().keys()
    if lost:
        warn(f"class {', '.join(sorted(lost))} is not learnt: no image with that label could be read; label others")
    if len(smaller.counts()) < 2 or smaller.given.all():
        raise ValueError(
            "labels of two classes and unlabelled rows must remain, got none without the unreadable images"
        )
    return smaller


def _hidden(task: Task, share: float, seed: int) -> Array:  # (n,) bool
    """A share of the given labels of each class, at least one where it has three or more."""
    generator = np.random.default_rng(seed)
    hidden = np.zeros(len(task.y), dtype=bool)
    for name in task.counts():
        rows = generator.permutation(np.flatnonzero(task.y == name))
        count = min(max(1, round(share * len(rows))), len(rows) - 2)
        hidden[rows[: max(0, count)]] = True
    if not hidden.any():
        raise ValueError(
            "--holdout must leave two labels of each class to learn from, got no class with three; label more rows"
        )
    return hidden


def _estimate(kind: str, truth: Array, predicted: Array, model: ANGPNClassifier) -> Estimate:
    """The share that is right, with Wilson's 95 % interval."""
    hits = int((truth == predicted).sum())
    interval = scipy.stats.binomtest(hits, len(truth)).proportion_ci(0.95, method="wilson")
    matrix = confusion_matrix(truth, predicted, labels=model.classes_.astype(str))
    return Estimate(kind, hits / len(truth), float(interval.low), float(interval.high), len(truth), matrix)


def _suspects(model: ANGPNClassifier, codes: Array, given: Array, influences: Array, weights: Array) -> list[Suspect]:
    """Given labels that the neighbourhood contradicts: most of its heaviest influences speak for another class.

    A row has no vote on itself. A labelled neighbour votes for its label, another one for the classes by their
    probability.
    """
    n_classes = len(model.classes_)
    votes = np.where(given[:, None], np.eye(n_classes)[codes], model.label_distributions_)
    labelled = np.flatnonzero(given)
    found = []
    for row in labelled:
        near = influences[row] >= 0
        share = weights[row][near] @ votes[influences[row][near]]
        share /= share.sum() or 1.0
        other = int(share.argmax())
        if other != codes[row] and share[other] >= SUSPICIOUS:
            found.append(Suspect(int(row), other, float(share[other])))
    return sorted(found, key=lambda suspect: -suspect.probability)[:N_SUSPECTS]
