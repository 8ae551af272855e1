"""Label propagation and label spreading on the shared graph, by scikit-learn."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
import sklearn.semi_supervised

from angpn.baselines.base import GraphBaseline, Problem, expand_classes, parameters, select_hyperparameters
from angpn.baselines.graph import connected
from angpn.utils.typing import Array


@parameters
class LabelPropagation(GraphBaseline):
    """Zhu, Ghahramani, Lafferty (2003), *Semi-supervised learning using Gaussian fields and harmonic functions*.

    Labelled rows are clamped; every other row takes the mean of its neighbours until convergence.

    Args:
        max_iter: Maximal number of iterations.
        tol: Convergence tolerance.
    """

    max_iter: int = 10_000
    tol: float = 1e-3

    def _distributions(self, problem: Problem) -> Array:
        model = sklearn.semi_supervised.LabelPropagation(
            kernel=_graph_kernel(problem), max_iter=self.max_iter, tol=self.tol
        )
        return _fit_distributions(model, problem)


@parameters
class LabelSpreading(GraphBaseline):
    """Zhou et al. (2004), *Learning with local and global consistency*; alpha is selected on the validation labels.

    Args:
        alphas: Candidates of alpha, the fraction that a row takes from its neighbours.
        max_iter: Maximal number of iterations.

    Attributes:
        alpha_: The selected alpha.
    """

    alphas: tuple[float, ...] = (0.8, 0.2, 0.5, 0.95, 0.99)
    max_iter: int = 1000

    def _distributions(self, problem: Problem) -> Array:
        def distributions(alpha: float) -> Array:
            model = sklearn.semi_supervised.LabelSpreading(
                kernel=_graph_kernel(problem), alpha=alpha, max_iter=self.max_iter
            )
            return _fit_distributions(model, problem)

        self.alpha_, selected = select_hyperparameters(problem, self.alphas, distributions)
        return selected


def _graph_kernel(problem: Problem) -> Callable[[Any, Any], Any]:
    """Return a kernel that ignores its rows and returns the graph, as the kind of matrix older scikit-learn takes."""
    return lambda rows, others: scipy.sparse.csr_matrix(connected(problem.graph))


def _fit_distributions(model: Any, problem: Problem) -> Array:
    placeholder = np.zeros((len(problem.codes), 1))  # the kernel is the graph, so features are not used
    model.fit(placeholder, problem.training_codes)
    return expand_classes(model.label_distributions_, model.classes_, problem.n_classes)
