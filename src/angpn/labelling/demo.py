"""The labelling job on scikit-learn's digits, beside two of its methods, and on a table as people keep them."""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize
from sklearn.semi_supervised import LabelSpreading

from angpn.inspection.thumbnails import ArrayThumbnails
from angpn.labelling import LabellingOptions, LabellingResult, LabellingTask, Rows, read_task
from angpn.utils.files import replacing
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


def wines_task(path: Path, *, label_rate: float = 0.2, seed: int = 0) -> tuple[LabellingTask, np.ndarray]:
    """Write 178 wines to a file as a spreadsheet of many countries would, and read them back as a labelling task.

    The file is in Latin-1 and has semicolons, decimal commas, thousands separators, percent signs, dates, words for
    true and false, and gaps.

    Args:
        path: The file.
        label_rate: Share of the wines of each cultivar whose label is given.
        seed: Which wines are labelled, which cells are empty, and the seed of the fit.

    Returns:
        The task, and the true label of each row.
    """
    wine, generator = load_wine(), np.random.default_rng(seed)
    truth = np.array([f"cultivar {number + 1}" for number in wine.target], dtype=object)
    labelled, _ = train_test_split(np.arange(len(truth)), train_size=label_rate, stratify=truth, random_state=seed)
    columns = {"Nummer": [f"W{row:03}" for row in range(len(truth))]}
    for name, values in zip(wine.feature_names, wine.data.T, strict=True):
        columns[name] = [f"{value:,.2f}".translate(str.maketrans(",.", ".,")) for value in values]
    columns["alcohol"] = [f"{text} %" for text in columns["alcohol"]]
    columns["proline"] = [f"{value:,.0f}".replace(",", ".") for value in wine.data[:, -1]]
    columns["abgefüllt"] = [
        f"{day:02}.0{month}.2023" for day, month in generator.integers(1, (29, 10), (len(truth), 2))
    ]
    columns["trocken"] = generator.choice(["ja", "nein"], len(truth)).tolist()
    for name in ("ash", "hue", "magnesium"):
        for row in generator.choice(len(truth), 5, replace=False):
            columns[name][row] = ""
    columns["cultivar"] = np.where(np.isin(np.arange(len(truth)), labelled), truth, "").tolist()
    lines = [";".join(columns), *(";".join(cells) for cells in zip(*columns.values(), strict=True))]
    with replacing(path) as temporary:
        temporary.write_bytes(("\r\n".join(lines) + "\r\n").encode("latin-1"))
    options = LabellingOptions(input=str(path), label_column="cultivar", id_column="Nummer", impute=True, seed=seed)
    task = read_task(options)
    return task._replace(labelled_at_random=np.isin(np.arange(len(truth)), labelled)), truth
