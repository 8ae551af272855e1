"""All of MNIST, 70,000 rows of 784 pixels, 1 % labelled: the default beside scikit-learn's LabelSpreading.

    python benchmarks/mnist.py [seed]

Reads `mnist.npz` of the folder that ANGPN_DATA names. Both have the same labels: seconds, and accuracy on the rest.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.semi_supervised import LabelSpreading

from angpn import ANGPNClassifier

RATE = 0.01


def main() -> None:
    """Print one line of JSON for each method."""
    with np.load(Path(os.environ["ANGPN_DATA"]) / "mnist.npz") as file:
        X = np.concatenate([file["X_train"], file["X_test"]]).reshape(70_000, -1).astype(np.float32) / 255
        truth = np.concatenate([file["y_train"], file["y_test"]]).astype(np.int64)
    seed = int(sys.argv[1]) if sys.argv[1:] else 0
    known = np.random.default_rng(seed).permutation(len(X))[: int(RATE * len(X))]
    y = np.full(len(X), -1)
    y[known] = truth[known]
    for model in (ANGPNClassifier(random_state=0), LabelSpreading(kernel="knn")):
        start = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - start
        accuracy = float(np.mean((model.transduction_ == truth)[y == -1]))
        print(json.dumps({"method": type(model).__name__, "seconds": seconds, "accuracy": accuracy}), flush=True)


if __name__ == "__main__":
    main()
