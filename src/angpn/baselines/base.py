"""Base classes of the baselines: labels, splits, the graph, and selection of hyper-parameters."""

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

HyperParameters = TypeVar("HyperParameters")
Estimator = TypeVar("Estimator")


class Problem(NamedTuple):
    """The input of a method; it does not hold labels of test rows."""

    features: Any  # (n, d) L2-normalised rows, dense or CSR
    graph: scipy.sparse.csr_array  # (n, n) symmetric k-nearest-neighbour graph
    codes: Array  # (n,) class numbers, -1 where unlabelled
    training: Array  # (n,) bool
    validation: Array  # (n,) bool: labelled rows that serve stopping and selection only
    n_classes: int
    seed: int

    @property
    def training_codes(self) -> Array:
        """Class numbers of the training rows, -1 for all others."""
        return np.where(self.training, self.codes, UNLABELLED)


@dataclass_transform(kw_only_default=True, eq_default=False)
def parameters(cls: type[Estimator]) -> type[Estimator]:
    """Make the fields of a class its keyword-only parameters, stored unchanged as scikit-learn requires."""
    return dataclass(kw_only=True, eq=False, repr=False)(cls)


@parameters
class Baseline(ClassifierMixin, BaseEstimator):
    """Base class of semi-supervised classifiers; -1, None or NaN in y marks an unlabelled row.

    A subclass implements ``_distributions``, which returns the probability of each class for each row.

    Args:
        validation_fraction: Share of the labels of each class to hold out where ``fit`` gets no ``validation_mask``.
        random_state: Seed.

    Attributes:
        classes_: The labels, sorted.
        transduction_: The predicted label of each row.
        label_distributions_: The probability of each class for each row.
    """

    validation_fraction: float = 0.1
    random_state: Any = None

    def fit(
        self,
        X: Any,  # (n, d) dense or sparse
        y: Any,  # (n,)
        *,
        validation_mask: Any = None,  # (n,) bool
    ) -> Self:
        """Fit on the labelled rows, and predict the labels of all rows.

        Args:
            X: Features.
            y: Labels; -1, None or NaN where unlabelled.
            validation_mask: Labelled rows whose labels serve early stopping and the selection of hyper-parameters only;
                None holds out ``validation_fraction`` of the labels of each class.

        Returns:
            The fitted estimator.

        Raises:
            ValueError: If the labels or the mask cannot be used.
        """
        return self._fit(X, y, validation_mask, lambda rows: scipy.sparse.csr_array((rows.shape[0],) * 2))

    def _fit(self, X: Any, y: Any, validation_mask: Any, make_graph: Callable[[Any], Any]) -> Self:
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
        graph = scipy.sparse.csr_array(make_graph(rows))
        check_same_rows(graph.shape[0], X.shape[0], "graph", "X")
        self.classes_ = labels.classes
        problem = Problem(rows, graph, labels.codes, training, validation, len(labels.classes), seed)
        self.label_distributions_ = _normalised(self._distributions(problem), problem)
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
    """Base class of methods on a graph, by default :func:`~angpn.baselines.shared_graph` of X.

    Args:
        n_neighbors: Number of nearest neighbours of a row in that graph.
    """

    n_neighbors: int = 10

    def fit(
        self,
        X: Any,  # (n, d) dense or sparse
        y: Any,  # (n,)
        *,
        validation_mask: Any = None,  # (n,) bool
        graph: Any = None,  # (n, n) sparse, symmetric
    ) -> Self:
        """Fit on the labelled rows, and predict the labels of all rows.

        Args:
            X: Features.
            y: Labels; -1, None or NaN where unlabelled.
            validation_mask: Labelled rows whose labels serve early stopping and the selection of hyper-parameters only;
                None holds out ``validation_fraction`` of the labels of each class.
            graph: Graph to use in place of :func:`~angpn.baselines.shared_graph` of X.

        Returns:
            The fitted estimator.

        Raises:
            ValueError: If the labels, the mask or the graph cannot be used.
        """
        return self._fit(
            X, y, validation_mask, lambda rows: shared_graph(rows, self.n_neighbors) if graph is None else graph
        )


class InductiveMixin:
    """Prediction for new rows; a subclass implements ``_probabilities`` of L2-normalised rows."""

    classes_: Array

    def predict_proba(self, X: Any) -> Array:  # (r, c)
        """Return the probability of each class for each row.

        Args:
            X: Features, (r, d).

        Returns:
            The probabilities.
        """
        rows = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return self._probabilities(normalize(rows))

    def predict(self, X: Any) -> Array:  # (r,)
        """Return the most probable label of each row.

        Args:
            X: Features, (r, d).

        Returns:
            The labels.
        """
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    def _probabilities(self, rows: Any) -> Array:
        raise NotImplementedError


def select_hyperparameters(
    problem: Problem,
    candidates: Iterable[HyperParameters],
    distributions: Callable[[HyperParameters], Array],
) -> tuple[HyperParameters, Array]:
    """Return the candidate with the highest validation accuracy, and its label distributions.

    Ties are broken by the validation log-likelihood. Where there are no validation labels, the first is returned.
    """
    best: tuple[tuple[float, float], HyperParameters, Array] | None = None
    validation, truth = problem.validation, problem.codes[problem.validation]
    for candidate in candidates:
        probabilities = distributions(candidate)
        if not validation.any():
            return candidate, probabilities
        of_truth = probabilities[validation, truth]
        accuracy = float(np.mean(probabilities[validation].argmax(axis=1) == truth))
        score = accuracy, float(np.log(of_truth + 1e-12).mean())
        if best is None or score > best[0]:
            best = score, candidate, probabilities
    assert best is not None
    return best[1], best[2]


def expand_classes(
    probabilities: Array,  # (n, trained classes)
    trained: Array,
    n_classes: int,
) -> Array:  # (n, n_classes)
    """Insert zero columns for classes that have no training label."""
    expanded = np.zeros((len(probabilities), n_classes), probabilities.dtype)
    expanded[:, trained] = probabilities
    return expanded


def require_extra(module: str) -> Any:
    """Import a package of the extra ``baselines``."""
    return require(module, 'pip install "angpn[baselines]"')


def softmax(scores: Array) -> Array:
    """Return the softmax of class scores; a single column is the score of the second of two classes."""
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


def _normalised(distributions: Array, problem: Problem) -> Array:
    """Scale rows to sum 1; a row of zeros, which no label was propagated to, becomes the class prior."""
    sums = distributions.sum(axis=1, keepdims=True)
    valid = np.isfinite(sums) & (sums > 0)
    prior = np.bincount(problem.codes[problem.training], minlength=problem.n_classes) / problem.training.sum()
    return np.where(valid, distributions / np.where(valid, sums, 1), prior)
