"""Does the 95 % interval of the estimated accuracy have the true one? Runs with labels drawn at random.

    python benchmarks/interval_coverage.py [--runs 200] [tables/pima.csv ...]

scikit-learn's digits and cancer, and tables whose last column is the class, take turns; each run draws 10 to 200 labels
(their number log-uniform) among at most 2,000 rows. True is the accuracy on all rows, where a labelled row counts as it
was predicted while its label was held out. Runs in which no label can be held out have no estimate; they are counted.
"""

import argparse
import os
import warnings

import numpy as np
from labelling_loop import read_table
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.preprocessing import StandardScaler

from angpn import ANGPNClassifier

FEWEST, MOST, MAX_ROWS = 10, 200, 2000


def run(X: np.ndarray, truth: np.ndarray, seed: int) -> tuple[float, float, float] | None:
    """Return the accuracy and the interval of its estimate, or None where there is none."""
    generator = np.random.default_rng(seed)
    rows = generator.permutation(len(X))[:MAX_ROWS]
    X, truth = X[rows], np.unique(truth[rows], return_inverse=True)[1]
    count = round(float(np.exp(generator.uniform(np.log(FEWEST), np.log(MOST)))))
    y = np.full(len(X), -1)
    y[:count] = truth[:count]
    if len(np.unique(y[:count])) < 2:
        return None
    model = ANGPNClassifier(random_state=seed).fit(X, y)
    estimate = model.estimate_accuracy(labelled_at_random=y >= 0)
    if estimate is None:
        return None
    predicted = model.transduction_.copy()
    predicted[model.validation_mask_] = model.validation_transduction_
    return float(np.mean(predicted == truth)), estimate.low, estimate.high


def main() -> None:
    """Read the options, run, and print a line a set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("tables", nargs="*")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    X, y = load_breast_cancer(return_X_y=True)
    problems = {"digits": load_digits(return_X_y=True), "cancer": (StandardScaler().fit_transform(X), y)}
    problems |= {os.path.splitext(os.path.basename(path))[0]: read_table(path) for path in options.tables}
    inside: dict[str, list[bool]] = {name: [] for name in problems}
    without = 0
    for seed in range(options.runs):
        name = list(problems)[seed % len(problems)]
        found = run(*problems[name], seed)
        if found is None:
            without += 1
            continue
        accuracy, low, high = found
        inside[name].append(low <= accuracy <= high)
    for name, each in inside.items():
        print(f"{name}: {np.mean(each):.1%} of {len(each)}")
    together = [each for several in inside.values() for each in several]
    print(f"all: {np.mean(together):.1%} of {len(together)}; {without} without an estimate")


if __name__ == "__main__":
    main()
