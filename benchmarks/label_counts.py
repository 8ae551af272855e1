"""Does accuracy rise with the number of labels, or is there a cliff where another rule begins?

    python benchmarks/label_counts.py [--draws 10] tables/heart.csv [tables/pima.csv ...]

Tables whose last column is the class. In each draw the labels of 2, 3, 4, 5, 6, 8 and 10 rows a class are given, each
time those of before and some more, and accuracy is that on the rows that are labelled in none of them. Printed are the
means over draws, and the largest step down from one number of labels to the next with its standard error.
"""

import argparse
import os
import warnings

import numpy as np
from labelling_loop import read_table

from angpn import ANGPNClassifier

COUNTS = (2, 3, 4, 5, 6, 8, 10)


def accuracies(X: np.ndarray, truth: np.ndarray, seed: int) -> list[float]:
    """Return the accuracy in % with so many labels of each class."""
    generator, truth = np.random.default_rng(seed), np.unique(truth, return_inverse=True)[1]
    order = [generator.permutation(np.flatnonzero(truth == code)) for code in np.unique(truth)]
    judged = np.concatenate([rows[COUNTS[-1] :] for rows in order])
    found = []
    for count in COUNTS:
        y, labelled = np.full(len(X), -1), np.concatenate([rows[:count] for rows in order])
        y[labelled] = truth[labelled]
        predicted = ANGPNClassifier(random_state=seed).fit(X, y).transduction_
        found.append(100 * float(np.mean(predicted[judged] == truth[judged])))
    return found


def main() -> None:
    """Read the options, run, and print a line a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("tables", nargs="+")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    print("labels a class", *(f"{count:5d}" for count in COUNTS))
    for path in options.tables:
        X, truth = read_table(path)
        runs = np.array([accuracies(X, truth, seed) for seed in range(options.draws)])
        steps = np.diff(runs, axis=1)
        worst = steps.mean(axis=0).argmin()
        error = steps[:, worst].std(ddof=1) / options.draws**0.5
        name = os.path.splitext(os.path.basename(path))[0]
        down = max(0.0, -float(steps.mean(axis=0)[worst]))
        print(
            f"{name:14s}",
            *(f"{mean:5.1f}" for mean in runs.mean(axis=0)),
            f" down {down:.1f} ({error:.1f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
