"""``angpn.suggest``: which rows to label next."""

from typing import Any, Literal

import numpy as np
import scipy.sparse
from sklearn.utils import check_array, check_random_state

from angpn.estimators.auto import ANGPNClassifier
from angpn.estimators.suggestion import Strategy, Suggestion, checked_candidates, choose, pool_without_model
from angpn.utils.checks import check_same_rows
from angpn.utils.inputs import naming_table_encoder, without_torch
from angpn.utils.labels import UNLABELLED, encode_labels
from angpn.utils.typing import Array


def suggest(
    X: Any,  # (n, d)
    n: int = 10,
    y: Any = None,  # (n,)
    *,
    strategy: Strategy = "herding",
    candidates: Any = None,  # (n,) bool
    random_state: int | np.random.RandomState | None = None,
) -> Array:
    """Return the rows to label next, from no labels on.

    Without labels these are typical rows that differ from each other and together cover the data. With labels of two
    classes a classifier is fitted, and rows count by how uncertain it is of them. A fitted classifier has
    :meth:`ANGPNClassifier.suggestions`, which does not fit it again.

    Args:
        X: features: dense or sparse, numpy, pandas, polars or torch.
        n: how many rows.
        y: labels; -1, None or NaN where a row is unlabelled. None: no row is labelled yet.
        strategy: "herding", "typiclust", "probcover", "margin" (with labels) or "random", see
            :meth:`ANGPNClassifier.suggestions`.
        candidates: marks the rows that can be labelled, all by default; the others are covered, but never suggested.
        random_state: an int gives the same rows every time.

    Returns:
        Positions of the rows, best first; fewer than ``n`` where fewer can be suggested, since of equal rows one is,
        and none that is empty. A row that equals a labelled one comes after all others, and only until the labels of
        equal rows settle theirs: two that agree do.

    Raises:
        ValueError: if the input cannot be used; the message says what to change.

    >>> from sklearn.datasets import load_digits
    >>> X, truth = load_digits(return_X_y=True)
    >>> first = suggest(X, 20, random_state=0)
    >>> len(np.unique(truth[first])) >= 9  # of ten classes, without any label
    True
    """
    found_rows = find_suggestions(X, n, y, strategy, random_state, candidates=candidates)
    return np.array([found.row for found in found_rows], dtype=np.int64)


def find_suggestions(
    X: Any,
    n: int,
    y: Any = None,
    strategy: Strategy = "herding",
    random_state: Any = None,
    scaling: Literal["auto", "unit"] = "auto",
    candidates: Any = None,  # (n,) bool
) -> list[Suggestion]:
    """Return what :func:`suggest` does, with the reasons, for rows with this scaling."""
    X = without_torch(X)
    with naming_table_encoder(X):
        X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=3)
    X = scipy.sparse.csr_array(X) if scipy.sparse.issparse(X) else X
    mask = checked_candidates(candidates, X.shape[0])
    codes = np.full(X.shape[0], UNLABELLED)
    if y is not None:
        labels = encode_labels(y)
        codes = labels.codes
        check_same_rows(len(codes), X.shape[0], "y", "X")
        if len(labels.classes) >= 2:
            model = ANGPNClassifier(scaling=scaling, random_state=random_state)
            return model.fit(X, y).suggestions(n, strategy=strategy, candidates=mask)
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    return choose(pool_without_model(X, codes, seed, scaling, mask), n, strategy, seed)
