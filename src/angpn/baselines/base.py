"""What all baselines share: labels, splits, the graph, and how a setting is chosen on the validation labels."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeVar, dataclass_transform

import numpy as np
import scipy.sparse
import scipy.special
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data
from torch import Tensor

from angpn.baselines.graph import shared_graph
from angpn.utils.checks import as_sparse_rows, check_same_rows
from angpn.utils.labels import UNLABELLED, check_enough_classes, encode_labels
from angpn.utils.optional import require
from angpn.utils.typing import Array
from angpn.utils.validation import hold_out

Setting = TypeVar("Setting")
Estimator = TypeVar("Estimator")


class Problem(NamedTuple):
    """What a method may see: the labels of other rows are not in it."""

    features: Any  # (n, d) rows of unit length, dense or CSR
    graph: scipy.sparse.csr_array  # (n, n) symmetric, 1 where one row is among the other's nearest
    codes: Array  # (n,) class numbers, -1 where unlabelled
    training: Array  # (n,) bool
    validation: Array  # (n,) bool: labelled rows that serve stopping and selection only
    n_classes: int
    seed: int

    @property
    def training_codes(self) -> Array:
        """The labels to train on, -1 everywhere else."""
        return np.where(self.training, self.codes, UNLABELLED)


@dataclass_transform(kw_only_default=True, eq_default=False)
def parameters(cls: type[Estimator]) -> type[Estimator]:
    """The fields of a class as its keyword-only parameters, stored as they come: what scikit-learn wants of them."""
    return dataclass(kw_only=True, eq=False, repr=False)(cls)


@parameters
class Baseline(ClassifierMixin, BaseEstimator):
    """A semi-supervised classifier: -1, None or NaN in y is unlabelled; ``transduction_`` labels every row.

    A subclass has ``_distributions``, which gives the probability of each class for each row.
    """

    validation_fraction: float = 0.1  # of the labels of each class, held out where no mask is given
    random_state: Any = None

    def fit(
        self,
        X: Any,  # (n, d) dense or sparse
        y: Any,  # (n,)
        *,
        validation_mask: Any = None,  # (n,) bool
    ) -> Self:
        """Learn from the labelled rows, and label all.

        ``validation_mask`` marks labelled rows whose labels serve stopping and selection only; without it,
        ``validation_fraction`` of the labels of each class is held out for that.
        """
        return self._fit(X, y, validation_mask, lambda rows: scipy.sparse.csr_array((rows.shape[0], rows.shape[0])))

    def _fit(self, X: Any, y: Any, validation_mask: Any, graph_of: Callable[[Any], Any]) -> Self:
        labels = encode_labels(y)
        if isinstance(X, Tensor):
            sparse = as_sparse_rows(X, X.dtype)
            X = X.detach().cpu().numpy() if sparse is None else sparse
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32])
        if scipy.sparse.issparse(X):
            X = scipy.sparse.csr_array(X)
        check_same_rows(len(labels.codes), X.shape[0], "y", "X")
        check_enough_classes(labels)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        validation = _validation_rows(labels.codes, validation_mask, self.validation_fraction, seed)
        training = (labels.codes != UNLABELLED) & ~validation
        if not training.any():
            raise ValueError("training needs labelled rows outside the validation set, got none; unmark some")
        rows = normalize(X)
        graph = scipy.sparse.csr_array(graph_of(rows))
        check_same_rows(graph.shape[0], X.shape[0], "graph", "X")
        self.classes_ = labels.classes
        problem = Problem(rows, graph, labels.codes, training, validation, len(labels.classes), seed)
        self.label_distributions_ = _proper(self._distributions(problem), problem)
        self.transduction_ = self.classes_[self.label_distributions_.argmax(axis=1)]
        return self

    def _distributions(self, problem: Problem) -> Array:  # (n, c)
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@parameters
class GraphBaseline(Baseline):
    """A baseline that works on a graph: by default :func:`~angpn.baselines.shared_graph` of X."""

    n_neighbors: int = 10

    def fit(
        self,
        X: Any,  # (n, d) dense or sparse
        y: Any,  # (n,)
        *,
        validation_mask: Any = None,  # (n,) bool
        graph: Any = None,  # (n, n) sparse, symmetric
    ) -> Self:
        """As :meth:`Baseline.fit`; ``graph`` replaces the one that would be made of X."""
        return self._fit(
            X, y, validation_mask, lambda rows: shared_graph(rows, self.n_neighbors) if graph is None else graph
        )


class Inductive:
    """A baseline that can also label rows it has not seen: it has ``_probabilities`` of rows of unit length."""

    classes_: Array

    def predict_proba(self, X: Any) -> Array:  # (r, c)
        """The probability of each class for each row."""
        rows = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return self._probabilities(normalize(rows))

    def predict(self, X: Any) -> Array:  # (r,)
        """The most probable label of each row."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    def _probabilities(self, rows: Any) -> Array:
        raise NotImplementedError


def choose(
    problem: Problem,
    settings: Iterable[Setting],
    distributions: Callable[[Setting], Array],
) -> tuple[Setting, Array]:
    """The setting that labels most validation rows right, the more confident one of equals, and its distributions.

    Where no labels are held out it is the first.
    """
    best: tuple[tuple[float, float], Setting, Array] | None = None
    held, truth = problem.validation, problem.codes[problem.validation]
    for setting in settings:
        found = distributions(setting)
        if not held.any():
            return setting, found
        of_truth = found[held, truth]
        score = float(np.mean(found[held].argmax(axis=1) == truth)), float(np.log(of_truth + 1e-12).mean())
        if best is None or score > best[0]:
            best = score, setting, found
    assert best is not None
    return best[1], best[2]


def all_columns(probabilities: Array, seen: Array, n_classes: int) -> Array:
    """Probabilities of the classes that were trained on as those of all classes."""
    full = np.zeros((len(probabilities), n_classes), probabilities.dtype)
    full[:, seen] = probabilities
    return full


def require_extra(module: str) -> Any:
    """Import a package that only some baselines need."""
    return require(module, "pip install angpn[baselines]")


def softmax(scores: Array) -> Array:
    """Scores of each class as a distribution; one column is the score of the second of two classes."""
    if scores.ndim == 1:
        scores = np.stack([-scores, scores], axis=1) / 2
    return scipy.special.softmax(scores, axis=1)


def _validation_rows(codes: Array, mask: Any, fraction: float, seed: int) -> Array:
    if mask is None:
        generator = torch.Generator().manual_seed(seed)
        return hold_out(torch.from_numpy(codes), fraction, generator).numpy()
    mask = np.asarray(mask)
    if mask.dtype != bool or mask.shape != codes.shape:
        raise ValueError(
            f"validation_mask must be one bool a row, got shape {mask.shape} of {mask.dtype}; mark validation rows True"
        )
    if (mask & (codes == UNLABELLED)).any():
        raise ValueError("validation_mask must mark labelled rows only, got an unlabelled one; unmark it or label it")
    return mask


def _proper(distributions: Array, problem: Problem) -> Array:
    """Rows that sum to 1; one that no label reached takes the shares of the classes in training."""
    sums = distributions.sum(axis=1, keepdims=True)
    reached = np.isfinite(sums) & (sums > 0)
    prior = np.bincount(problem.codes[problem.training], minlength=problem.n_classes) / problem.training.sum()
    return np.where(reached, distributions / np.where(reached, sums, 1), prior)
