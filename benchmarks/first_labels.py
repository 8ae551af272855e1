"""Accuracy of the default after the first labels, by how the rows to label are chosen.

    ANGPN_DATA=folder python benchmarks/first_labels.py [results/first_labels.jsonl] [--seeds 5] [--sets digits,...]

From no labels on, rows are chosen ten at a time: by ``angpn.suggest``, at random, by the smallest margin, and by
scikit-activeml's TypiClust and ProbCover on the same rows (standardised columns of tables, rows of length 1 of all
else, reduced to 50 main directions). After 1, 2, 3, 5, 10 and 20 labels a class on average the default is fitted, and
its accuracy counted on two fifths of the rows, drawn once, which are never labelled. One line for each run, appended as
it comes; a restart resumes. At most 5,000 rows of a set are taken.
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars
import polars.selectors
import scipy.sparse
import torch
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import normalize, scale
from threadpoolctl import threadpool_limits

from angpn import ANGPNClassifier, suggest
from angpn.datasets import SETS

BUDGETS, BATCH, MOST_ROWS, TEST_SHARE, WIDTH = (1, 2, 3, 5, 10, 20), 10, 5000, 0.4, 50
NAMES = ("digits", "optdigits", "mnist10k", "cifar10", "20news", "led7digit", "splice", "pima")
TABLES = ("optdigits", "led7digit", "splice", "pima")


def load(name: str, seed: int) -> tuple[Any, np.ndarray]:
    """Return rows and class numbers of a set, or of some of its rows."""
    if name in TABLES:
        frame = polars.read_csv(Path(os.environ["ANGPN_DATA"]) / "tables" / f"{name}.csv", infer_schema_length=None)
        *columns, label = frame.columns
        X: Any = frame.select(columns).to_dummies(polars.selectors.string()).to_numpy().astype(np.float32)
        y = frame[label].to_numpy()
    else:
        X, y = SETS[name].load(return_X_y=True)
    rows = np.random.default_rng(seed).permutation(X.shape[0])[:MOST_ROWS]
    return X[rows], np.unique(y, return_inverse=True)[1][rows]


def plain_features(X: Any, name: str) -> np.ndarray:
    """Return rows as the rivals see them."""
    if name in TABLES and name != "optdigits":
        return np.asarray(scale(X))
    unit = normalize(X)
    if unit.shape[1] <= WIDTH and not scipy.sparse.issparse(unit):
        return unit
    return normalize(TruncatedSVD(WIDTH, random_state=0).fit_transform(unit))


Choice = Callable[[Any, np.ndarray, np.ndarray, np.ndarray, Any, int], np.ndarray]


def by_suggest(X: Any, features: np.ndarray, y: np.ndarray, pool: np.ndarray, model: Any, n: int) -> np.ndarray:
    """Choose by ``angpn.suggest``, or by the model that is there, among the rows of the pool."""
    candidates = np.isin(np.arange(len(y)), pool)
    if model is None:
        return suggest(X, n, y, candidates=candidates, random_state=0)
    return np.asarray(model.uncertain(n, candidates=candidates))


def at_random(X: Any, features: np.ndarray, y: np.ndarray, pool: np.ndarray, model: Any, n: int) -> np.ndarray:
    """Draw rows."""
    return np.random.default_rng(int((y >= 0).sum())).choice(pool, n, replace=False)


def by_margin(X: Any, features: np.ndarray, y: np.ndarray, pool: np.ndarray, model: Any, n: int) -> np.ndarray:
    """Take the smallest margins of the model, at first at random."""
    if model is None:
        return at_random(X, features, y, pool, model, n)
    top = np.sort(model.label_distributions_[pool], axis=1)[:, -2:]
    return pool[np.argsort(top[:, 1] - top[:, 0], kind="stable")[:n]]


def by_skactiveml(kind: str) -> Choice:
    """Choose by a strategy of scikit-activeml."""

    def choose(X: Any, features: np.ndarray, y: np.ndarray, pool: np.ndarray, model: Any, n: int) -> np.ndarray:
        from skactiveml.pool import ProbCover, TypiClust

        strategy = {"TypiClust": TypiClust, "ProbCover": ProbCover}[kind](missing_label=-1, random_state=0)
        return np.asarray(strategy.query(X=features, y=y, candidates=pool, batch_size=n))

    return choose


METHODS: dict[str, Choice] = {
    "suggest": by_suggest,
    "random": at_random,
    "margin": by_margin,
    "TypiClust": by_skactiveml("TypiClust"),
    "ProbCover": by_skactiveml("ProbCover"),
}
NEED_MODEL = {"suggest", "margin"}


def run(name: str, method: str, seed: int) -> dict[str, Any]:
    """Label rows in batches, and return the accuracy at each budget."""
    X, truth = load(name, seed)
    features, n_classes = plain_features(X, name), int(truth.max()) + 1
    is_test = np.random.default_rng(1000 + seed).random(len(truth)) < TEST_SHARE
    y, model, accuracies, start = np.full(len(truth), -1), None, {}, time.perf_counter()
    for budget in BUDGETS:
        target = budget * n_classes
        if target > 0.8 * (~is_test).sum():
            break
        while (count := int((y >= 0).sum())) < target:
            pool = np.flatnonzero(~is_test & (y < 0))
            rows = METHODS[method](X, features, y, pool, model, min(BATCH, target - count))
            if not len(rows):
                break
            y[rows] = truth[rows]
            if len(np.unique(y)) > 2 and (method in NEED_MODEL or (y >= 0).sum() == target):
                model = ANGPNClassifier(random_state=0).fit(X, y)
        known = np.unique(y[y >= 0])
        predicted = model.transduction_ if model is not None else np.full(len(truth), known[0])
        accuracies[budget] = round(100 * float((predicted == truth)[is_test].mean()), 2)
    seconds = round(time.perf_counter() - start, 1)
    return {"dataset": name, "method": method, "seed": seed, "accuracy": accuracies, "seconds": seconds}


def table(records: list[dict[str, Any]]) -> str:
    """Return the mean accuracy of each method at each budget, and the mean over budgets, as Markdown."""
    lines = ["| set | rows chosen by | " + " | ".join(map(str, BUDGETS)) + " | mean |"]
    lines.append("| --- | --- |" + " ---: |" * (len(BUDGETS) + 1))
    for name in dict.fromkeys(record["dataset"] for record in records):
        for method in METHODS:
            found = [r["accuracy"] for r in records if r["dataset"] == name and r["method"] == method]
            if not found:
                continue
            means = [np.mean([each[str(budget)] for each in found]) for budget in BUDGETS if str(budget) in found[0]]
            cells = [f"{mean:.1f}" for mean in means] + [""] * (len(BUDGETS) - len(means))
            lines.append(f"| {name} | {method} | " + " | ".join(cells) + f" | {np.mean(means):.1f} |")
    return "\n".join(lines)


def main() -> None:
    """Execute the runs that have no record, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("path", nargs="?", default="results/first_labels.jsonl")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", default=",".join(NAMES))
    parser.add_argument("--methods", default=",".join(METHODS))
    options = parser.parse_args()
    path = Path(options.path)
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(record["dataset"], record["method"], record["seed"]) for record in records}
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with threadpool_limits(1):
        for seed in range(options.seeds):
            for name in options.sets.split(","):
                for method in options.methods.split(","):
                    if (name, method, seed) in done:
                        continue
                    record = json.loads(json.dumps(run(name, method, seed)))
                    records.append(record)
                    with path.open("a") as file:
                        file.write(json.dumps(record) + "\n")
    print(table(records))


if __name__ == "__main__":
    main()
