"""Folds of the labelled rows; unlabelled rows are trained on in all of them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from angpn.utils.checks import check_same_rows
from angpn.utils.labels import UNLABELLED, encode_labels
from angpn.utils.typing import Array


class SemiSupervisedKFold(StratifiedKFold):
    """Stratified folds of the labelled rows, for ``cross_val_score``, ``GridSearchCV`` and the like.

    Each labelled row is in the test part of one fold; folds have about the same share of every class. Unlabelled rows
    are in the training part of all folds and in no test part, so that any ``scoring`` works: scores other than the
    default would take an unlabelled row for one of a class of its own. Folds that scikit-learn makes by default from
    names and None are not stratified, and a fold may lack classes.

    Args:
        n_splits: How many folds, at least 2.
        shuffle: Whether to shuffle the rows of each class before they are divided.
        random_state: With ``shuffle``, an int gives the same folds every time.

    >>> y = ["a", "b", None, "a", None, "b"]
    >>> for train, test in SemiSupervisedKFold(2).split(y, y):
    ...     print(train, test)
    [2 3 4 5] [0 1]
    [0 1 2 4] [3 5]
    """

    def __init__(
        self, n_splits: int = 5, *, shuffle: bool = False, random_state: int | np.random.RandomState | None = None
    ) -> None:
        super().__init__(n_splits, shuffle=shuffle, random_state=random_state)

    def split(
        self,
        X: Any,  # (n, d)
        y: Any,  # (n,)
        groups: Any = None,
    ) -> Iterator[tuple[Array, Array]]:
        """Yield the rows to train on and the rows to test on, for each fold.

        Args:
            X: Rows, of which the number alone counts.
            y: Labels; -1, None or NaN where a row is unlabelled.
            groups: Ignored; for compatibility.

        Yields:
            Positions of the rows to train on, in order, and of those to test on.

        Raises:
            ValueError: If no class has as many labels as there are folds.
        """
        codes = encode_labels(y).codes
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        check_same_rows(len(codes), n_rows, "y", "X")
        labelled = np.flatnonzero(codes != UNLABELLED)
        most = int(np.bincount(codes[labelled]).max(initial=0))
        if most < self.n_splits:
            raise ValueError(
                f"n_splits={self.n_splits} needs a class of as many labels, got {len(labelled)} labelled rows and at "
                f"most {most} of a class; label more rows, or lower n_splits"
            )
        unlabelled = np.flatnonzero(codes == UNLABELLED)
        for train, test in super().split(np.zeros(len(labelled)), codes[labelled]):
            yield np.sort(np.concatenate([labelled[train], unlabelled])), labelled[test]
