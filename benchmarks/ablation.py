"""The ablation of docs/accuracy.md: the default with one component removed or changed.

    ANGPN_DATA=folder python benchmarks/ablation.py [results/ablation.jsonl]

Ten of the tasks are tables, read from the folder ``tables`` of ANGPN_DATA (CSV, the last column is the label). One line
for each fit, appended as it comes; a restart resumes. The results are printed at the end. Accuracy and calibration
error are those of test rows, which no decision was based on.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache, partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import polars
import polars.selectors
import scipy.sparse
import torch
from sklearn.neighbors import kneighbors_graph
from sklearn.preprocessing import normalize, scale
from threadpoolctl import threadpool_limits

from angpn import ANGPNClassifier, ANGPNNetworkClassifier, EnsembleConfig
from angpn.datasets import SETS
from angpn.experiments.splits import SPLITS

N_SPLITS, BINS, CANDIDATES = 5, 15, 80
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
TABLES = (
    "australian", "chess", "contraceptive", "glass1", "led7digit", "mammographic", "pima", "sonar", "splice", "yeast4",
)  # fmt: skip
TABLE_TASKS = tuple((name, "paper", 10) for name in TABLES)
Fit = Callable[[Any, Any, Any, int], ANGPNClassifier | ANGPNNetworkClassifier]


def fit(X: Any, y: Any, mask: Any, seed: int, **options: Any) -> ANGPNClassifier:
    """Fit the default, or with other parameters."""
    return ANGPNClassifier(random_state=seed, **options).fit(X, y, validation_mask=mask)


def fit_network(X: Any, y: Any, mask: Any, seed: int) -> ANGPNNetworkClassifier:
    """Fit a network with hidden layers."""
    return ANGPNNetworkClassifier(random_state=seed).fit(X, y, validation_mask=mask)


def fit_on_refreshed_distances(X: Any, y: Any, mask: Any, seed: int) -> ANGPNClassifier:
    """Fit with D^h of the paper's footnote: neighbours of rows concatenated with the probabilities of a first fit."""
    rows = normalize(X)
    probabilities = normalize(fit(X, y, mask, seed).label_distributions_)
    joined = (
        scipy.sparse.hstack([rows, probabilities], "csr")
        if scipy.sparse.issparse(rows)
        else np.hstack([rows, probabilities])
    )
    graph = kneighbors_graph(joined, min(CANDIDATES, rows.shape[0] - 1), mode="distance")
    return ANGPNClassifier(random_state=seed).fit(X, y, validation_mask=mask, distances=graph)


LINEAR = EnsembleConfig(first_heads=((None, 10.0),), more_heads=((None, 1.0), (None, 100.0)))
# In the order of execution: each on all sets before the next.
VARIANTS: dict[str, Fit] = {
    "the default": fit,
    "no propagation": partial(fit, config=EnsembleConfig(hops=((0.0, 0),), spreading_alphas=())),
    "no self-training": partial(fit, max_rounds=0),
    "directed graph": partial(fit, direction="directed"),
    "L2-normalised rows only": partial(fit, metric="chord"),
    "one base learner": partial(fit, config=EnsembleConfig(n_of_family=1, min_weight=1.0)),
    "no trees": partial(fit, config=EnsembleConfig(trees=())),
    "no label spreading": partial(fit, config=EnsembleConfig(spreading_alphas=())),
    "no class prior shift": partial(fit, config=EnsembleConfig(shift_penalty=1e9)),
    "scored on validation labels only": partial(fit, config=EnsembleConfig(min_held_out=0)),
    "linear heads only": partial(fit, config=LINEAR),
    "no reselection": partial(fit, config=EnsembleConfig(n_reselection_candidates=0)),
    "no whitened heads": partial(fit, config=EnsembleConfig(whitening=0.0)),
    "one temperature for all rows": partial(fit, config=EnsembleConfig(slope_penalty=1e9)),
    "graph learnt (beta 0.1)": partial(fit, beta=0.1),
    "graph learnt more (beta 1)": partial(fit, beta=1.0),
    "distances refreshed (D^h)": fit_on_refreshed_distances,
    "hidden layers, end to end": fit_network,
}


@cache
def data(name: str, protocol: str) -> tuple[Any, Any]:
    """Return rows and labels, standardised where the protocol does so."""
    X, y = read_table(name) if name in TABLES else SETS[name].load(return_X_y=True)
    codes = np.unique(y, return_inverse=True)[1]
    return (scale(X) if protocol == "lds" and name != "digits" else X), codes


def read_table(name: str) -> tuple[Any, Any]:
    """Return the columns of a table, numbers standardised and names one-hot, and the labels."""
    frame = polars.read_csv(Path(os.environ["ANGPN_DATA"]) / "tables" / f"{name}.csv", infer_schema_length=None)
    *columns, label = frame.columns
    encoded = frame.select(columns).to_dummies(polars.selectors.string())
    return scale(encoded.to_numpy().astype(np.float64)).astype(np.float32), frame[label].to_numpy()


def run(variant: str, task: tuple[str, str, int], split: int) -> dict[str, Any]:
    """Fit once and return the record."""
    torch.set_num_threads(1)
    X, truth = data(*task[:2])
    parts = SPLITS[task[1]](truth, task[2], split)
    with threadpool_limits(1):
        model = VARIANTS[variant](X, np.where(parts.test, -1, truth), parts.validation, split)
    correct = (model.transduction_ == truth)[parts.test]
    confidence = model.label_distributions_[parts.test].max(axis=1)
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = [abs((correct - confidence)[bins == bin].mean()) * (bins == bin).mean() for bin in np.unique(bins)]
    return {
        "variant": variant,
        "dataset": task[0],
        "split": split,
        "accuracy": round(100 * float(correct.mean()), 4),
        "calibration_error": round(float(sum(gaps)), 4),
    }


def outstanding(records: list[dict[str, Any]]) -> Iterator[tuple[str, tuple[str, str, int], int]]:
    """Yield the fits that have no record."""
    done = {(record["variant"], record["dataset"], record["split"]) for record in records}
    for variant, task, split in product(VARIANTS, (*TASKS, *TABLE_TASKS), range(N_SPLITS)):
        if (variant, task[0], split) not in done:
            yield variant, task, split


def table(records: list[dict[str, Any]], names: Sequence[str], what: str, form: str) -> str:
    """Return mean and standard deviation of each complete variant on each set, as Markdown."""
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
    """Execute the outstanding fits, then print the tables."""
    path = Path(sys.argv[1] if sys.argv[1:] else "results/ablation.jsonl")
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool, path.open("a") as file:
        for future in as_completed([pool.submit(run, *arguments) for arguments in outstanding(records)]):
            records.append(future.result())
            file.write(json.dumps(records[-1]) + "\n")
            file.flush()
    for names in ([task[0] for task in TASKS], TABLES):
        print(table(records, names, "accuracy", ".1f"), end="\n\n")
        print(table(records, names, "calibration_error", ".3f"), end="\n\n")


if __name__ == "__main__":
    main()
