"""Label rows in turns, some drawn at random and some by ``uncertain``: is the estimated accuracy the true one?

    python benchmarks/labelling_loop.py [--seeds 3] [tables/pima.csv ...]

scikit-learn's digits, and tables whose last column is the class. 20 rows drawn at random are labelled first; each of
eight turns labels the ten most uncertain rows and five drawn at random among those still unlabelled. Printed after each
turn, as means over seeds: the accuracy on the unlabelled rows; on all rows, where a labelled row counts as it was
predicted while its label was held out; the estimate by the labels drawn at random, and that by all labels. In the end:
how many of the intervals of the two estimates have the accuracy on all rows, and that on the unlabelled ones.
"""

import argparse
import os

import numpy as np
import polars
from sklearn.datasets import load_digits

from angpn import ANGPNClassifier

N_FIRST, N_TURNS, N_UNCERTAIN, N_RANDOM = 20, 8, 10, 5


def read_table(path: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns as numbers, categories one-hot, standardised; and the class, the last column."""
    frame = polars.read_csv(path, infer_schema_length=None)
    *features, target = frame.columns
    texts = [name for name in features if frame.schema[name] == polars.String]
    X = frame.select(features).to_dummies(texts).to_numpy().astype(np.float32)
    return (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-6), frame[target].cast(polars.String).to_numpy()


def run_turns(X: np.ndarray, truth: np.ndarray, seed: int) -> np.ndarray:  # (turns + 1, 9)
    """Return labels, two accuracies, two estimates, and which of their intervals have which, after each turn."""
    generator = np.random.default_rng(seed)
    truth = np.unique(truth, return_inverse=True)[1]
    y, at_random = np.full(len(X), -1), np.zeros(len(X), dtype=bool)
    chosen, n_random = np.zeros(0, dtype=int), N_FIRST
    found = []
    for _ in range(N_TURNS + 1):
        y[chosen] = truth[chosen]
        drawn = generator.choice(np.flatnonzero(y == -1), n_random, replace=False)
        y[drawn], at_random[drawn] = truth[drawn], True
        model = ANGPNClassifier(random_state=seed).fit(X, y)
        predicted = model.transduction_.copy()
        predicted[model.validation_mask_] = model.validation_transduction_
        right = predicted == truth
        accuracies = [right[y == -1].mean(), right.mean()]
        both = [model.estimate_accuracy(labelled_at_random=mask) for mask in (at_random, None)]
        covered = [estimate.low <= accuracy <= estimate.high for accuracy in accuracies for estimate in both]
        found.append([np.sum(y != -1), *accuracies, *(estimate.accuracy for estimate in both), *covered])
        chosen, n_random = model.uncertain(N_UNCERTAIN), N_RANDOM
    return np.array(found, dtype=float)


def main() -> None:
    """Read the options, run, and print a line a turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("tables", nargs="*")
    options = parser.parse_args()
    problems = {"digits": load_digits(return_X_y=True)}
    problems |= {os.path.splitext(os.path.basename(path))[0]: read_table(path) for path in options.tables}
    for name, (X, truth) in problems.items():
        runs = np.array([run_turns(X, truth, seed) for seed in range(options.seeds)])
        print(f"{name}: labels; accuracy, unlabelled and all rows; estimate by random labels, and by all")
        for n_labels, *shares in runs.mean(axis=0)[:, :5]:
            print(f"  {n_labels:3.0f}", *(f"{share:.3f}" for share in shares))
        of_unlabelled, naive_of_unlabelled, of_all, naive_of_all = runs[:, :, 5:].mean(axis=(0, 1))
        print(f"  intervals with the accuracy of all rows: {of_all:.2f}, {naive_of_all:.2f}", end="; ")
        print(f"of unlabelled ones: {of_unlabelled:.2f}, {naive_of_unlabelled:.2f}", flush=True)


if __name__ == "__main__":
    main()
