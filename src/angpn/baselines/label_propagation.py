"""Label propagation and label spreading on the shared graph, by scikit-learn."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
import sklearn.semi_supervised

from angpn.baselines.base import GraphBaseline, Problem, all_columns, choose, parameters
from angpn.baselines.graph import connected
from angpn.utils.typing import Array


@parameters
class LabelPropagation(GraphBaseline):
    """Zhu, Ghahramani, Lafferty (2003), *Semi-supervised learning using Gaussian fields and harmonic functions*.

    Labelled rows are clamped; every other row takes the mean of its neighbours until nothing moves.
    """

    max_iter: int = 10_000
    tol: float = 1e-3

    def _distributions(self, problem: Problem) -> Array:
        model = sklearn.semi_supervised.LabelPropagation(kernel=_given(problem), max_iter=self.max_iter, tol=self.tol)
        return _fitted(model, problem)


@parameters
class LabelSpreading(GraphBaseline):
    """Zhou et al. (2004), *Learning with local and global consistency*, alpha chosen on the validation labels."""

    alphas: tuple[float, ...] = (0.8, 0.2, 0.5, 0.95, 0.99)
    max_iter: int = 1000

    def _distributions(self, problem: Problem) -> Array:
        def spread(alpha: float) -> Array:
            model = sklearn.semi_supervised.LabelSpreading(kernel=_given(problem), alpha=alpha, max_iter=self.max_iter)
            return _fitted(model, problem)

        self.alpha_, found = choose(problem, self.alphas, spread)
        return found


def _given(problem: Problem) -> Callable[[Any, Any], Any]:
    """The graph in place of a kernel; as the older kind of sparse matrix, which older releases of scikit-learn need."""
    return lambda rows, others: scipy.sparse.csr_matrix(connected(problem.graph))


def _fitted(model: Any, problem: Problem) -> Array:
    nothing = np.zeros((len(problem.codes), 1))  # the graph is given, so scikit-learn need not see the features
    model.fit(nothing, problem.training_codes)
    return all_columns(model.label_distributions_, model.classes_, problem.n_classes)
