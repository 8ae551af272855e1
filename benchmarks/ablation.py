"""The ablation of docs/accuracy.md: the default with one idea left out, or one added that was dropped.

    ANGPN_DATA=folder python benchmarks/ablation.py [results/ablation.jsonl]

A line a fit, written as it comes; started again it goes on. The table of all lines is printed at the end. Accuracy and
calibration are those of test rows; no choice was made by them.
"""

import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from functools import cache, partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse
import torch
from sklearn.neighbors import kneighbors_graph
from sklearn.preprocessing import normalize, scale
from threadpoolctl import threadpool_limits

from angpn import ANGPNClassifier
from angpn.datasets import SETS
from angpn.experiments.splits import SPLITS

N_SPLITS, BINS, CANDIDATES = 10, 15, 80
# Set, protocol, and per cent or number of labels.
TASKS = (
    ("coraml", "paper", 10),
    ("20news", "paper", 10),
    ("svhn", "paper", 10),
    ("cifar10", "paper", 10),
    ("wine", "lds", 10),
    ("breast_cancer", "lds", 10),
    ("digits", "lds", 50),
)
Fit = Callable[[Any, Any, Any, int], ANGPNClassifier]


def fit(X: Any, y: Any, mask: Any, seed: int, **options: Any) -> ANGPNClassifier:
    """The default, or with other parameters."""
    return ANGPNClassifier(random_state=seed, **options).fit(X, y, validation_mask=mask)


def fit_changed(X: Any, y: Any, mask: Any, seed: int, *, constants: dict[str, Any]) -> ANGPNClassifier:
    """The default, with constants inside the committee changed."""
    with ExitStack() as stack:
        for name, value in constants.items():
            stack.enter_context(patch(f"angpn.committee.{name}", value))
        return fit(X, y, mask, seed)


def fit_on_refreshed_distances(X: Any, y: Any, mask: Any, seed: int) -> ANGPNClassifier:
    """D^h of the paper's footnote: neighbours are found once more, in rows joined with what is believed of them."""
    rows = normalize(X)
    believed = normalize(fit(X, y, mask, seed).label_distributions_)
    joined = (
        scipy.sparse.hstack([rows, believed], "csr") if scipy.sparse.issparse(rows) else np.hstack([rows, believed])
    )
    graph = kneighbors_graph(joined, min(CANDIDATES, rows.shape[0] - 1), mode="distance")
    return ANGPNClassifier(random_state=seed).fit(X, y, validation_mask=mask, distances=graph)


LINEAR = {"search.FIRST_READOUTS": ((None, 10.0),), "search.MORE_READOUTS": ((None, 1.0), (None, 100.0))}
# In the order in which they are run: each on all sets before the next.
VARIANTS: dict[str, Fit] = {
    "the default": fit,
    "graph fixed (beta 0)": partial(fit, beta=0.0),
    "distances refreshed (D^h)": fit_on_refreshed_distances,
    "no propagation": partial(fit_changed, constants={"fitting.REACHES": ((0.0, 0),), "fitting.SPREADS": ()}),
    "no self-teaching": partial(fit, num_steps=0),
    "directed graph": partial(fit, direction="directed"),
    "rows of unit length alone": partial(fit, metric="chord"),
    "one member": partial(fit_changed, constants={"fitting.MEMBERS": 1}),
    "no labels that spread": partial(fit_changed, constants={"fitting.SPREADS": ()}),
    "no shift of classes": partial(fit_changed, constants={"calibration._PENALTY": 1e9}),
    "hidden layers, end to end": partial(fit, hidden_layer_sizes=(50, 50)),
    "training labels do not judge": partial(fit_changed, constants={"search._ENOUGH_HELD_OUT": 0}),
    "linear readouts alone": partial(fit_changed, constants=LINEAR),
    "no second election": partial(fit_changed, constants={"fitting.CANDIDATES": 0}),
    "graph learnt more (beta 1)": partial(fit, beta=1.0),
}


@cache
def data(name: str, protocol: str) -> tuple[Any, Any]:
    """Rows and labels, scaled as the protocol has them."""
    X, y = SETS[name].load(return_X_y=True)
    codes = np.unique(y, return_inverse=True)[1]
    return (scale(X) if protocol == "lds" and name != "digits" else X), codes


def run(variant: str, task: tuple[str, str, int], split: int) -> dict[str, Any]:
    """One fit."""
    torch.set_num_threads(1)
    X, truth = data(*task[:2])
    parts = SPLITS[task[1]](truth, task[2], split)
    with threadpool_limits(1):
        model = VARIANTS[variant](X, np.where(parts.test, -1, truth), parts.validation, split)
    right = (model.transduction_ == truth)[parts.test]
    sure = model.label_distributions_[parts.test].max(axis=1)
    place = np.minimum((sure * BINS).astype(int), BINS - 1)
    gaps = [abs((right - sure)[place == bin].mean()) * (place == bin).mean() for bin in np.unique(place)]
    return {
        "variant": variant,
        "dataset": task[0],
        "split": split,
        "accuracy": round(100 * float(right.mean()), 4),
        "calibration_error": round(float(sum(gaps)), 4),
    }


def outstanding(records: list[dict[str, Any]]) -> Iterator[tuple[str, tuple[str, str, int], int]]:
    """Fits that are not among the records."""
    done = {(record["variant"], record["dataset"], record["split"]) for record in records}
    for variant, task, split in product(VARIANTS, TASKS, range(N_SPLITS)):
        if (variant, task[0], split) not in done:
            yield variant, task, split


def table(records: list[dict[str, Any]], what: str, form: str) -> str:
    """Mean and standard deviation of each variant on each set, as Markdown; of those that were run on all."""
    names = [task[0] for task in TASKS]
    lines = ["| | " + " | ".join(names) + " |", "| --- |" + " ---: |" * len(names)]
    for variant in VARIANTS:
        cells = []
        for name in names:
            found = [r[what] for r in records if r["variant"] == variant and r["dataset"] == name]
            if len(found) == N_SPLITS:
                cells.append(f"{np.mean(found):{form}} ({np.std(found):{form}})")
        if len(cells) == len(names):
            lines.append(f"| {variant} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Do what is outstanding, then print the tables."""
    path = Path(sys.argv[1] if sys.argv[1:] else "results/ablation.jsonl")
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool, path.open("a") as file:
        for future in as_completed([pool.submit(run, *arguments) for arguments in outstanding(records)]):
            records.append(future.result())
            file.write(json.dumps(records[-1]) + "\n")
            file.flush()
    print(table(records, "accuracy", ".1f"))
    print()
    print(table(records, "calibration_error", ".3f"))


if __name__ == "__main__":
    main()
