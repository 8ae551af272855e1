"""The default beside others on random tables: is it fitted to the tables it was developed on?

    python benchmarks/unseen_tables.py [--labels 0.1 10 5 3] [--tables 160] [--jobs 2] [--out records.jsonl]

Tables of ``random_tables.py``: 400 to 1,500 rows, 2 to 30 columns, 2 to 6 classes; those are left out whose classes
trees on half the rows can hardly tell. Labels below 1 are a share of each class (two at least), others a number. The
others are scikit-learn's logistic regression and SVM (hyper-parameters by cross-validation from six labels a class on),
nearest neighbours and extremely randomised trees. Printed for each number of labels: mean accuracies, that of the best
other on each table, found by looking, and on how many tables the default is at most a point below that; the same by
kind of table. With ``--out`` each table's record is appended as it comes.
"""

import argparse
import json
import warnings
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from random_tables import KINDS, random_table
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from angpn import ANGPNClassifier

N_SPLITS = 2
LEAST_GAIN = 0.15  # of what always answering the largest class gets wrong, by trees on half the rows
LEAST_ROWS = 25  # of a class


def make_table(number: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Return rows, classes and the kind of the table of this number."""
    generator = np.random.default_rng((number, 1))
    while True:
        kind = str(generator.choice(list(KINDS)))
        p, n = round(float(np.exp(generator.uniform(np.log(2), np.log(30))))), int(generator.integers(400, 1500))
        n_classes = int(generator.choice([2, 3, 4, 6], p=[0.6, 0.2, 0.1, 0.1]))
        with np.errstate(all="ignore"):
            X, y = random_table(generator, n, p, n_classes, kind)
            X = X.astype(np.float32)
        if not np.isfinite(X).all() or np.bincount(y, minlength=n_classes).min() < LEAST_ROWS:
            continue
        half = n // 2
        right = ExtraTreesClassifier(100, random_state=0).fit(X[:half], y[:half]).score(X[half:], y[half:])
        constant = np.bincount(y[half:]).max() / (n - half)
        if right >= constant + LEAST_GAIN * (1 - constant):
            return StandardScaler().fit_transform(X), y, kind


def draw_labels(y: np.ndarray, labels: float, seed: int) -> np.ndarray:  # (n,) bool
    """Return which rows are labelled."""
    generator, labelled = np.random.default_rng(seed), np.zeros(len(y), dtype=bool)
    for code in np.unique(y):
        rows = generator.permutation(np.flatnonzero(y == code))
        labelled[rows[: max(2, round(labels * len(rows))) if labels < 1 else int(labels)]] = True
    return labelled


def others(y: np.ndarray, seed: int) -> dict[str, Any]:
    """Return what the default is compared with, for these labels."""
    grids = {
        "logistic regression": (LogisticRegression(max_iter=300), {"C": [1, 0.1, 10]}),
        "RBF SVM": (SVC(), {"C": [10, 1], "gamma": ["scale", 0.02]}),
        "nearest neighbours": (KNeighborsClassifier(), {"n_neighbors": [1, 5]}),
        "extra trees": (ExtraTreesClassifier(300, random_state=seed), {}),
    }
    folds, few = StratifiedKFold(3, shuffle=True, random_state=0), np.bincount(y).min() < 6
    return {
        name: model.set_params(**{key: values[0] for key, values in grid.items()})
        if few or not grid
        else GridSearchCV(model, grid, cv=folds)
        for name, (model, grid) in grids.items()
    }


def run(number: int, labels: float) -> dict[str, Any]:
    """Return mean accuracies in % on a table."""
    warnings.filterwarnings("ignore")
    X, y, kind = make_table(number)
    found: dict[str, list[float]] = {}
    for seed in range(N_SPLITS):
        labelled = draw_labels(y, labels, seed)
        rest = ~labelled
        model = ANGPNClassifier(random_state=seed).fit(X, np.where(labelled, y, -1))
        said = {"default": model.transduction_[rest]}
        for name, other in others(y[labelled], seed).items():
            said[name] = other.fit(X[labelled], y[labelled]).predict(X[rest])
        for name, codes in said.items():
            found.setdefault(name, []).append(100 * float(np.mean(codes == y[rest])))
    accuracy = {name: round(float(np.mean(values)), 2) for name, values in found.items()}
    return {"table": number, "kind": kind, "shape": X.shape, "labels": labels, "accuracy": accuracy}


def show(records: list[dict[str, Any]], title: str) -> None:
    """Print the means of some tables."""
    default = np.array([record["accuracy"]["default"] for record in records])
    best = np.array([max(v for k, v in record["accuracy"].items() if k != "default") for record in records])
    means = {name: np.mean([record["accuracy"][name] for record in records]) for name in records[0]["accuracy"]}
    print(f"{title}, {len(records)} tables:", ", ".join(f"{name} {mean:.1f}" for name, mean in means.items()), end="; ")
    print(f"best of each {best.mean():.1f}; at most 1 below it on {np.mean(default >= best - 1):.0%}", flush=True)


def main() -> None:
    """Read the options, run, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=float, nargs="+", default=[0.1, 10, 5, 3])
    parser.add_argument("--tables", type=int, default=160)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out")
    options = parser.parse_args()
    for labels in options.labels:
        tasks = (delayed(run)(number, labels) for number in range(options.tables))
        records = []
        for record in Parallel(options.jobs, return_as="generator")(tasks):
            records.append(record)
            if options.out:
                with open(options.out, "a") as file:
                    file.write(json.dumps(record) + "\n")
        show(records, f"labels {labels:g}")
        for kind in KINDS:
            of_kind = [record for record in records if record["kind"] == kind]
            if of_kind:
                show(of_kind, f"  {kind}")


if __name__ == "__main__":
    main()
