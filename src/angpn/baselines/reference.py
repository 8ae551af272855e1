"""What a practitioner would try first, by scikit-learn; the few settings are chosen on the validation labels."""

from typing import Any

import numpy as np
import sklearn.linear_model
import sklearn.neighbors
import sklearn.semi_supervised
import sklearn.svm

from angpn.baselines.base import Baseline, Inductive, Problem, all_columns, choose, parameters, softmax
from angpn.utils.typing import Array


@parameters
class _Supervised(Inductive, Baseline):
    """A supervised classifier of scikit-learn on the training rows."""

    def _settings(self, problem: Problem) -> Any:
        raise NotImplementedError

    def _fitted(self, setting: Any, problem: Problem) -> Any:
        raise NotImplementedError

    def _distributions(self, problem: Problem) -> Array:
        models = {}

        def distributions(setting: Any) -> Array:
            models[setting] = self._fitted(setting, problem)
            self.model_ = models[setting]
            return self._probabilities(problem.features)

        self.setting_, found = choose(problem, self._settings(problem), distributions)
        self.model_ = models[self.setting_]
        return found

    def _probabilities(self, rows: Any) -> Array:
        if hasattr(self.model_, "predict_proba"):
            found = self.model_.predict_proba(rows)
        else:
            found = softmax(self.model_.decision_function(rows))
        return all_columns(found, self.model_.classes_, len(self.classes_))


@parameters
class LogisticRegression(_Supervised):
    """Logistic regression on the labelled rows alone."""

    Cs: tuple[float, ...] = (10.0, 1.0, 100.0, 1000.0)

    def _settings(self, problem: Problem) -> Any:
        return self.Cs

    def _fitted(self, setting: float, problem: Problem) -> Any:
        model = sklearn.linear_model.LogisticRegression(C=setting, max_iter=2000)
        return model.fit(problem.features[problem.training], problem.codes[problem.training])


@parameters
class SVM(_Supervised):
    """An RBF support vector machine on the labelled rows alone; its scores pass through a softmax."""

    Cs: tuple[float, ...] = (10.0, 1.0, 100.0)
    gammas: tuple[float | str, ...] = ("scale", 0.5, 2.0)

    def _settings(self, problem: Problem) -> Any:
        return [(C, gamma) for C in self.Cs for gamma in self.gammas]

    def _fitted(self, setting: tuple[float, Any], problem: Problem) -> Any:
        model = sklearn.svm.SVC(C=setting[0], gamma=setting[1], decision_function_shape="ovr", break_ties=True)
        return model.fit(problem.features[problem.training], problem.codes[problem.training])


@parameters
class KNN(_Supervised):
    """The nearest labelled rows vote by their distance."""

    counts: tuple[int, ...] = (5, 1, 3, 10, 20)

    def _settings(self, problem: Problem) -> Any:
        return list(dict.fromkeys(min(count, int(problem.training.sum())) for count in self.counts))

    def _fitted(self, setting: int, problem: Problem) -> Any:
        # By angle: in Euclidean distance an empty row would be nearer to all others than they are to each other.
        model = sklearn.neighbors.KNeighborsClassifier(setting, weights="distance", metric="cosine")
        return model.fit(problem.features[problem.training], problem.codes[problem.training])


@parameters
class SelfTraining(_Supervised):
    """Yarowsky (1995): logistic regression that adds its own confident labels to the given ones and fits again."""

    Cs: tuple[float, ...] = (100.0, 1000.0, 10.0)
    thresholds: tuple[float, ...] = (0.9, 0.75)

    def _settings(self, problem: Problem) -> Any:
        return [(C, threshold) for C in self.Cs for threshold in self.thresholds]

    def _fitted(self, setting: tuple[float, float], problem: Problem) -> Any:
        inner = sklearn.linear_model.LogisticRegression(C=setting[0], max_iter=2000)
        model = sklearn.semi_supervised.SelfTrainingClassifier(inner, threshold=setting[1])
        return model.fit(problem.features, problem.training_codes)


def logistic_distributions(embedding: Array, problem: Problem) -> Array:  # (n, c)
    """Logistic regression on an embedding of the rows, C chosen on the validation labels."""

    def distributions(C: float) -> Array:
        model = sklearn.linear_model.LogisticRegression(C=C, max_iter=2000)
        model.fit(embedding[problem.training], problem.codes[problem.training])
        return all_columns(model.predict_proba(embedding), model.classes_, problem.n_classes)

    return choose(problem, (1.0, 0.01, 0.1, 10.0, 100.0), distributions)[1].astype(np.float64)
