"""Common methods of scikit-learn, with a few hyper-parameters selected on the validation labels."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import sklearn.linear_model
import sklearn.neighbors
import sklearn.semi_supervised
import sklearn.svm

from angpn.baselines.base import (
    Baseline,
    InductiveMixin,
    Problem,
    expand_classes,
    parameters,
    select_hyperparameters,
    softmax,
)
from angpn.utils.typing import Array


@parameters
class _Supervised(InductiveMixin, Baseline):
    """Base class of scikit-learn's classifiers, fitted on the training rows.

    A subclass implements ``_candidates``, which returns hyper-parameters to select from, and ``_classifier``.

    Attributes:
        best_params_: The selected hyper-parameters.
        model_: The fitted classifier of scikit-learn.
    """

    def _candidates(self, problem: Problem) -> Sequence[dict[str, Any]]:
        raise NotImplementedError

    def _classifier(self, hyperparameters: dict[str, Any]) -> Any:
        raise NotImplementedError

    def _fit_classifier(self, classifier: Any, problem: Problem) -> Any:
        return classifier.fit(problem.features[problem.training], problem.codes[problem.training])

    def _distributions(self, problem: Problem) -> Array:
        candidates = self._candidates(problem)
        models: dict[int, Any] = {}

        def distributions(number: int) -> Array:
            self.model_ = models[number] = self._fit_classifier(self._classifier(candidates[number]), problem)
            return self._probabilities(problem.features)

        best, probabilities = select_hyperparameters(problem, range(len(candidates)), distributions)
        self.best_params_, self.model_ = candidates[best], models[best]
        return probabilities

    def _probabilities(self, rows: Any) -> Array:
        if hasattr(self.model_, "predict_proba"):
            probabilities = self.model_.predict_proba(rows)
        else:
            probabilities = softmax(self.model_.decision_function(rows))
        return expand_classes(probabilities, self.model_.classes_, len(self.classes_))


@parameters
class LogisticRegression(_Supervised):
    """Logistic regression on the labelled rows alone.

    Args:
        Cs: Candidates of the inverse regularisation strength C.
    """

    Cs: tuple[float, ...] = (10.0, 1.0, 100.0, 1000.0)

    def _candidates(self, problem: Problem) -> Sequence[dict[str, Any]]:
        return [{"C": C} for C in self.Cs]

    def _classifier(self, hyperparameters: dict[str, Any]) -> Any:
        return sklearn.linear_model.LogisticRegression(max_iter=2000, **hyperparameters)


@parameters
class SVM(_Supervised):
    """An RBF support vector machine on the labelled rows alone; its probabilities are a softmax of its scores.

    Args:
        Cs: Candidates of the inverse regularisation strength C.
        gammas: Candidates of the kernel coefficient gamma.
    """

    Cs: tuple[float, ...] = (10.0, 1.0, 100.0)
    gammas: tuple[float | str, ...] = ("scale", 0.5, 2.0)

    def _candidates(self, problem: Problem) -> Sequence[dict[str, Any]]:
        return [{"C": C, "gamma": gamma} for C in self.Cs for gamma in self.gammas]

    def _classifier(self, hyperparameters: dict[str, Any]) -> Any:
        return sklearn.svm.SVC(decision_function_shape="ovr", break_ties=True, **hyperparameters)


@parameters
class KNN(_Supervised):
    """Vote of the nearest labelled rows, weighted by inverse distance.

    Args:
        counts: Candidates of the number of neighbours; numbers above that of the training rows are lowered to it.
    """

    counts: tuple[int, ...] = (5, 1, 3, 10, 20)

    def _candidates(self, problem: Problem) -> Sequence[dict[str, Any]]:
        counts = dict.fromkeys(min(count, int(problem.training.sum())) for count in self.counts)
        return [{"n_neighbors": count} for count in counts]

    def _classifier(self, hyperparameters: dict[str, Any]) -> Any:
        # By angle: in Euclidean distance an empty row would be nearer to all others than they are to each other.
        return sklearn.neighbors.KNeighborsClassifier(weights="distance", metric="cosine", **hyperparameters)


@parameters
class SelfTraining(_Supervised):
    """Yarowsky (1995): logistic regression, fitted again with its confident predictions as pseudo-labels.

    Args:
        Cs: Candidates of the inverse regularisation strength C.
        thresholds: Candidates of the probability from which on a prediction becomes a pseudo-label.
    """

    Cs: tuple[float, ...] = (100.0, 1000.0, 10.0)
    thresholds: tuple[float, ...] = (0.9, 0.75)

    def _candidates(self, problem: Problem) -> Sequence[dict[str, Any]]:
        return [{"C": C, "threshold": threshold} for C in self.Cs for threshold in self.thresholds]

    def _classifier(self, hyperparameters: dict[str, Any]) -> Any:
        logistic = sklearn.linear_model.LogisticRegression(C=hyperparameters["C"], max_iter=2000)
        return sklearn.semi_supervised.SelfTrainingClassifier(logistic, threshold=hyperparameters["threshold"])

    def _fit_classifier(self, classifier: Any, problem: Problem) -> Any:
        return classifier.fit(problem.features, problem.training_codes)


def logistic_distributions(
    embedding: Array,  # (n, d)
    problem: Problem,
) -> Array:  # (n, c)
    """Return the probabilities of logistic regression on an embedding, with C selected on the validation labels."""

    def distributions(C: float) -> Array:
        model = sklearn.linear_model.LogisticRegression(C=C, max_iter=2000)
        model.fit(embedding[problem.training], problem.codes[problem.training])
        return expand_classes(model.predict_proba(embedding), model.classes_, problem.n_classes)

    return select_hyperparameters(problem, (1.0, 0.01, 0.1, 10.0, 100.0), distributions)[1].astype(np.float64)
