"""The main job on data that scikit-learn bundles: a few digits are labelled, label the rest."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize
from sklearn.semi_supervised import LabelSpreading

from angpn.labelling import Outcome, Rows, Settings, Task
from angpn.labelling.encoders import thumbnail
from angpn.utils.labels import UNLABELLED


def digits_task(*, label_rate: float = 0.1, seed: int = 0) -> tuple[Task, np.ndarray]:
    """1,797 handwritten digits with ``label_rate`` of their labels, as the command would read them; and the truth."""
    digits = load_digits()
    truth = digits.target.astype(str).astype(object)
    chosen, _ = train_test_split(np.arange(len(truth)), train_size=label_rate, stratify=truth, random_state=seed)
    y = np.full(len(truth), None, dtype=object)
    y[chosen] = truth[chosen]
    ids = [f"digit {number}" for number in range(len(truth))]
    pictures = [thumbnail(_enlarged(image)) for image in digits.images]
    rows = Rows("array", ids, digits.data.astype(np.float32), None, pictures)
    return Task(Settings(input="digits", seed=seed), rows, y), truth


def accuracies(outcome: Outcome, truth: np.ndarray) -> dict[str, float]:
    """On the labels that were hidden: ours, and two methods of scikit-learn that see the same rows and labels."""
    task = outcome.task
    given, rows = task.given, normalize(task.rows.content)
    codes = np.where(given, truth.astype(int), UNLABELLED)
    logistic = LogisticRegression(C=10, max_iter=1000).fit(rows[given], truth[given].astype(str))
    spreading = LabelSpreading(kernel="knn", n_neighbors=10).fit(rows, codes)
    predictions = {
        "logistic regression": logistic.predict(rows),
        "LabelSpreading": spreading.transduction_.astype(str),
        "angpn": outcome.labels,
    }
    return {name: float(np.mean((found == truth)[~given])) for name, found in predictions.items()}


def _enlarged(image: np.ndarray) -> np.ndarray:  # (8, 8) from 0 to 16, to (32, 32, 3) uint8, dark on light
    grey = np.uint8(255 - image * 255 / 16)
    return np.repeat(np.kron(grey, np.ones((4, 4), np.uint8))[:, :, None], 3, axis=2)
