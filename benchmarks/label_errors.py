"""How many wrong labels `angpn label` lists, beside cleanlab on the same probabilities; a table of docs/accuracy.md.

    ANGPN_DATA=folder python benchmarks/label_errors.py [results/label_errors.jsonl]

A fifth of the rows is labelled, at least ten a class. A tenth of these labels is replaced by another class at random,
or none, to count false alarms. Both methods see the probabilities of rows while their labels were held out. One line
for each fit, appended as it comes; a restart resumes. The table is printed at the end.
"""

import csv
import json
import sys
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cleanlab.filter import find_label_issues
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from angpn import ANGPNClassifier
from angpn.datasets import data_folder
from angpn.inspection.label_errors import find_suspects
from angpn.inspection.labelled_rows import N_INFLUENCES

N_SEEDS, LABELLED, MIN_OF_CLASS = 5, 0.2, 10
OF_SKLEARN = {"digits": load_digits, "wine": load_wine, "breast_cancer": load_breast_cancer}
SETS = (*OF_SKLEARN, "led7digit", "optdigits", "page-blocks0")
SHARES = (0.1, 0.0)  # of the labels that are wrong
METHODS = {
    "angpn label": None,
    "cleanlab": "prune_by_noise_rate",
    "cleanlab, both": "both",
}


@cache
def data(name: str) -> tuple[Any, Any]:
    """Return rows and classes; the columns of a table are standardised, names one-hot."""
    if name in OF_SKLEARN:
        return OF_SKLEARN[name](return_X_y=True)
    with (data_folder() / "tables" / f"{name}.csv").open(newline="") as file:
        *columns, classes = zip(*list(csv.reader(file))[1:], strict=True)
    parts = []
    for column in columns:
        try:
            parts.append(np.array(column, dtype=np.float32)[:, None])
        except ValueError:
            parts.append((np.array(column)[:, None] == np.unique(column)).astype(np.float32))
    return StandardScaler().fit_transform(np.hstack(parts)), np.unique(classes, return_inverse=True)[1]


def draw_labels(truth: Any, share: float, seed: int) -> Any:
    """Return the given labels, some of them wrong, and -1 where a row is unlabelled."""
    generator = np.random.default_rng(seed)
    given = np.zeros(len(truth), dtype=bool)
    for code in np.unique(truth):
        rows = generator.permutation(np.flatnonzero(truth == code))
        given[rows[: max(MIN_OF_CLASS, round(LABELLED * len(rows)))]] = True
    labelled, n_classes = np.flatnonzero(given), truth.max() + 1
    wrong = generator.choice(labelled, round(share * len(labelled)), replace=False)
    y = np.where(given, truth, -1)
    y[wrong] = (truth[wrong] + generator.integers(1, n_classes, len(wrong))) % n_classes
    return y


def listed(method: str, model: ANGPNClassifier, y: Any) -> Any:
    """Return the rows whose labels a method takes for wrong."""
    rows, probabilities = np.flatnonzero(model.validation_mask_), model.validation_distributions_
    if METHODS[method] is not None:
        return rows[find_label_issues(y[rows], probabilities, filter_by=METHODS[method], n_jobs=1)]
    given = y != -1
    suspects = find_suspects(
        model.label_distributions_,
        np.where(given, y, model.transduction_),
        given,
        model.validation_mask_,
        probabilities,
        *model.influences(N_INFLUENCES),
    )
    return np.array([suspect.row for suspect in suspects], dtype=int)


def run(name: str, share: float, seed: int) -> dict[str, Any]:
    """Fit once and return the record: how many labels there are, how many are wrong, listed, and both."""
    X, truth = data(name)
    y = draw_labels(truth, share, seed)
    with threadpool_limits(1):
        model = ANGPNClassifier(random_state=seed).fit(X, y)
    wrong = (y != -1) & (y != truth)
    found = {method: listed(method, model, y) for method in METHODS}
    return {
        "dataset": name,
        "share": share,
        "seed": seed,
        "labels": int((y != -1).sum()),
        "held_out": int(model.validation_mask_.sum()),
        "wrong": int(wrong.sum()),
        "listed": {method: len(rows) for method, rows in found.items()},
        "hits": {method: int(wrong[rows].sum()) for method, rows in found.items()},
    }


def outstanding(records: list[dict[str, Any]]) -> Iterator[tuple[str, float, int]]:
    """Yield the fits that have no record."""
    done = {(record["dataset"], record["share"], record["seed"]) for record in records}
    yield from (task for task in product(SETS, SHARES, range(N_SEEDS)) if task not in done)


def measures(records: list[dict[str, Any]], name: str, method: str) -> list[float]:
    """Return precision, recall and F1 over the seeds of a set, and the share of labels listed where none is wrong."""
    noisy = [r for r in records if r["dataset"] == name and r["share"]]
    clean = [r for r in records if r["dataset"] == name and not r["share"]]
    hits, count = (sum(r[what][method] for r in noisy) for what in ("hits", "listed"))
    wrong = sum(r["wrong"] for r in noisy)
    alarms = sum(r["listed"][method] for r in clean) / sum(r["labels"] for r in clean)
    return [hits / max(1, count), hits / wrong, 2 * hits / (count + wrong), alarms]


def table(records: list[dict[str, Any]]) -> str:
    """Return the measures of each method on each set, and their means, in % as Markdown."""
    heads = [f"{method}: {what}" for method in METHODS for what in ("precision", "recall", "F1", "listed at 0 %")]
    lines = ["| | " + " | ".join(heads) + " |", "| --- |" + " ---: |" * len(heads)]
    values = {name: np.concatenate([measures(records, name, method) for method in METHODS]) for name in SETS}
    values["mean"] = np.mean(list(values.values()), axis=0)
    lines += [
        f"| {name} | " + " | ".join(f"{100 * value:.1f}" for value in found) + " |" for name, found in values.items()
    ]
    return "\n".join(lines)


def main() -> None:
    """Execute the outstanding fits, then print the table."""
    torch.set_num_threads(1)
    path = Path(sys.argv[1] if sys.argv[1:] else "results/label_errors.jsonl")
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    with path.open("a") as file:
        for task in outstanding(records):
            records.append(run(*task))
            file.write(json.dumps(records[-1]) + "\n")
            file.flush()
    print(table(records))


if __name__ == "__main__":
    main()
