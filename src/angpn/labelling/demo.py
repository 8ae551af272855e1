"""The labelling job on scikit-learn's digits, beside two methods of scikit-learn."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize
from sklearn.semi_supervised import LabelSpreading

from angpn.inspection.thumbnails import ArrayThumbnails
from angpn.labelling import LabellingOptions, LabellingResult, LabellingTask, Rows
from angpn.utils.labels import UNLABELLED


def digits_task(*, label_rate: float = 0.1, seed: int = 0) -> tuple[LabellingTask, np.ndarray]:
    """Make a labelling task of 1,797 handwritten digits, and return it with the true labels.

    Args:
        label_rate: Share of the rows of each class whose label is given.
        seed: Which rows are labelled, and the seed of the fit.

    Returns:
        The task, and the true label of each row as text.
    """
    digits = load_digits()
    truth = digits.target.astype(str).astype(object)
    labelled, _ = train_test_split(np.arange(len(truth)), train_size=label_rate, stratify=truth, random_state=seed)
    y = np.full(len(truth), None, dtype=object)
    y[labelled] = truth[labelled]
    ids = [f"digit {number}" for number in range(len(truth))]
    thumbnails = list(ArrayThumbnails(-digits.images))  # dark on light
    rows = Rows("array", ids, digits.data.astype(np.float32), None, thumbnails)
    at_random = np.isin(np.arange(len(truth)), labelled)
    return LabellingTask(LabellingOptions(input="digits", seed=seed), rows, y, at_random), truth


def compare_accuracies(result: LabellingResult, truth: np.ndarray) -> dict[str, float]:
    """Return the accuracy on the unlabelled rows of angpn and of two methods of scikit-learn.

    Args:
        result: The result of :func:`digits_task`'s task.
        truth: True label of each row.

    Returns:
        The accuracy by the name of the method.
    """
    task = result.task
    given, rows = task.given, normalize(task.rows.content)
    codes = np.where(given, truth.astype(int), UNLABELLED)
    logistic = LogisticRegression(C=10, max_iter=1000).fit(rows[given], truth[given].astype(str))
    spreading = LabelSpreading(kernel="knn", n_neighbors=10).fit(rows, codes)
    predictions = {
        "logistic regression": logistic.predict(rows),
        "LabelSpreading": spreading.transduction_.astype(str),
        "angpn": result.labels,
    }
    return {name: float(np.mean((predicted == truth)[~given])) for name, predicted in predictions.items()}
