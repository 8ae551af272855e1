"""The main job on data that scikit-learn bundles: a few digits are labelled, label the rest."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize
from sklearn.semi_supervised import LabelSpreading

from angpn.distances import nearest_candidates
from angpn.labels import UNLABELLED
from angpn.network import ANGPN
from angpn.training import Epoch, train

N_NEIGHBORS = 10
N_CANDIDATES = 4 * N_NEIGHBORS
MAX_EPOCHS = 500  # keeps the demo under a minute whatever the seed; training mostly stops earlier by itself


class DemoResult(NamedTuple):
    """Accuracies by method, and what the picture shows of ANGPN."""

    accuracy: dict[str, float]  # on the rows whose labels were hidden
    curves: dict[str, list[Epoch]]
    embedding: np.ndarray  # (n, 50) last hidden layer
    predicted: np.ndarray  # (n,)
    truth: np.ndarray  # (n,)
    given: np.ndarray  # (n,) bool


def run_demo(
    *,
    label_rate: float = 0.1,
    random_state: int = 0,
    on_epoch: Callable[[str, Epoch], None] = lambda name, epoch: None,
) -> DemoResult:
    """Train NGPN and ANGPN on digits with ``label_rate`` of the labels, beside two methods of scikit-learn.

    All see the same rows, scaled to unit length, and the same labels; ours hold a fifth of those labels back to know
    when to stop.
    """
    digits = load_digits()
    rows, truth = normalize(digits.data), digits.target
    chosen, _ = train_test_split(
        np.arange(len(truth)), train_size=label_rate, stratify=truth, random_state=random_state
    )
    given = np.zeros(len(truth), dtype=bool)
    given[chosen] = True
    labels = np.where(given, truth, UNLABELLED)

    predictions = {
        "logistic regression": LogisticRegression(C=10, max_iter=1000).fit(rows[given], truth[given]).predict(rows),
        "LabelSpreading": LabelSpreading(kernel="knn", n_neighbors=N_NEIGHBORS).fit(rows, labels).transduction_,
    }
    features = torch.as_tensor(rows, dtype=torch.float32)
    hood = nearest_candidates(features, N_CANDIDATES, random_state=random_state)
    curves: dict[str, list[Epoch]] = {}
    for name, beta in {"NGPN": 0.0, "ANGPN": 0.3}.items():
        network = ANGPN(features.shape[1], 50, 10, beta=beta, n_neighbors=N_NEIGHBORS, normalize_hidden=True)
        curves[name] = []
        for epoch in train(
            network,
            features,
            hood,
            labels,
            validation_fraction=0.2,
            max_epochs=MAX_EPOCHS,
            random_state=random_state,
        ):
            curves[name].append(epoch)
            on_epoch(name, epoch)
        with torch.no_grad():
            predictions[name] = network(features, hood).argmax(dim=1).numpy()
            embedding = network.embed(features, hood).numpy()
    accuracy = {name: float(np.mean((p == truth)[~given])) for name, p in predictions.items()}
    return DemoResult(accuracy, curves, embedding, predictions["ANGPN"], truth, given)
