"""Duration of a default fit, a warm refit and a small predict, beside methods of scikit-learn.

All run in this process and, unless told otherwise, on one thread. In a turn each runs once, so that noise of the
machine affects all; medians over the turns are compared. Self-training and logistic regression get standardised
columns, which counts as part of their fit; ours and LabelSpreading get X as it is. Logistic regression gets the
labelled rows only.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from threadpoolctl import threadpool_limits

from angpn.bench.problems import LabelledRows, labelled_rows
from angpn.estimators.auto import ANGPNClassifier

SHAPES = "150x4", "1797x64", "5000x256", "5000x1280", "50000x256"
TURNS = {"50000x256": 1}  # 3 at the others; a turn takes minutes there
NEW_LABELS, NEW_ROWS = 10, 10  # of a warm refit, and of predict
PREDICTS, WARM_UP = 20, 1_000  # calls of predict in a turn; rows of the first fit, which loads what is compiled


def ours(problem: LabelledRows) -> dict[str, float]:
    """Time a default fit, predict of ten new rows, and a fit again after ten new labels."""
    generator = np.random.default_rng(0)
    new = generator.choice(np.flatnonzero(problem.y == -1), NEW_LABELS, replace=False)
    more = problem.y.copy()
    more[new] = problem.truth[new]
    pairs = generator.choice(len(problem.X), (2, NEW_ROWS), replace=False)
    rows = problem.X[pairs].mean(axis=0)  # midpoints are not among the rows of the fit
    model = ANGPNClassifier(random_state=0, warm_start=True)  # which changes nothing in the first fit
    fit = _seconds(lambda: model.fit(problem.X, problem.y))
    model.predict(rows)
    predict = [_seconds(lambda: model.predict(rows)) for _ in range(PREDICTS)]
    warm = _seconds(lambda: model.fit(problem.X, more))
    return {"ours": fit, "warm": warm, "predict10": float(np.median(predict))}


def label_spreading(problem: LabelledRows) -> None:
    """Fit label spreading on a k-NN graph."""
    LabelSpreading(kernel="knn").fit(problem.X, problem.y)


def self_training(problem: LabelledRows) -> None:
    """Fit logistic regression in rounds of self-training."""
    head = SelfTrainingClassifier(LogisticRegression(C=10, max_iter=1000))
    make_pipeline(StandardScaler(), head).fit(problem.X, problem.y)


def logistic_cv(problem: LabelledRows) -> None:
    """Fit logistic regression on the labelled rows; cross-validation selects C."""
    known = problem.y != -1
    make_pipeline(StandardScaler(), LogisticRegressionCV(max_iter=1000)).fit(problem.X[known], problem.y[known])


PEERS: dict[str, Callable[[LabelledRows], None]] = {
    "label_spreading": label_spreading,
    "self_training": self_training,
    "logistic_cv": logistic_cv,
}


def measure(
    shape: str, *, turns: int | None = None, threads: int = 1, on_step: Callable[[str], None] = lambda what: None
) -> dict[str, float]:
    """Return the median seconds of each at one of :data:`SHAPES`, as ``angpn bench --fits --json`` prints them."""
    problem = labelled_rows(shape)
    found: dict[str, list[float]] = {}
    with _limited(threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence: each runs as far as its defaults let it
        on_step("warming up")
        ours(LabelledRows(*(part[:WARM_UP] for part in problem)))
        for turn in range(1, 1 + (turns or TURNS.get(shape, 3))):
            on_step(f"turn {turn}: ours")
            seconds = ours(problem)
            for name, fit in PEERS.items():
                on_step(f"turn {turn}: {name}")
                seconds[name] = _seconds(lambda fit=fit: fit(problem))  # type: ignore[misc]
            for name, value in seconds.items():
                found.setdefault(name, []).append(value)
    return {name: float(np.median(values)) for name, values in found.items()}


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@contextmanager
def _limited(threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            yield
    finally:
        torch.set_num_threads(before)
