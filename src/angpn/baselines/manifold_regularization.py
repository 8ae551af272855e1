"""Manifold regularisation; implemented here, since no maintained library has it."""

from typing import Any, Literal, get_args

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.csgraph
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel

from angpn.baselines.base import GraphBaseline, InductiveMixin, Problem, parameters, softmax
from angpn.neighbors.exact import nearest_candidates
from angpn.utils.checks import check_choice
from angpn.utils.typing import Array

Kernel = Literal["rbf", "linear"]


@parameters
class ManifoldRegularization(InductiveMixin, GraphBaseline):
    r"""Belkin, Niyogi, Sindhwani (2006), *Manifold regularization*: Laplacian regularised least squares, one-vs-rest.

    .. math:: \min_f \tfrac1l \sum_{i \le l} (y_i - f(x_i))^2 + \gamma_A \|f\|_K^2
              + \tfrac{\gamma_I}{(l+u)^2} \mathbf f^T L \mathbf f, \qquad f = \sum_i a_i K(x_i, \cdot)

    solved by one linear system, (J K + gamma_A l I + gamma_I l / (l + u)^2 L K) a = y, for all classes at once (y is 1
    for rows of the class, -1 for other labelled rows, 0 for unlabelled ones). L is the normalised Laplacian of the
    shared graph.

    Args:
        ambient: gamma_A l; 0.005 in the paper's experiments on digits.
        intrinsic: gamma_I l / (l + u)^2; 0.045 there.
        kernel: "rbf" or "linear".
        gamma: Of the RBF kernel, exp(-gamma d^2); None is 1 / (2 s^2) with s the mean distance to the k-th neighbour.

    Attributes:
        coefficients_: The coefficients a, (n, c).
        gamma_: The gamma that was used.
    """

    ambient: float = 0.005
    intrinsic: float = 0.045
    kernel: Kernel = "rbf"
    gamma: float | None = None

    def _distributions(self, problem: Problem) -> Array:
        check_choice(self.kernel, "kernel", get_args(Kernel))
        self.gamma_ = _gamma(problem, self.n_neighbors) if self.gamma is None else self.gamma
        self._fit_rows = problem.features
        kernel = self._kernel(problem.features)
        laplacian = scipy.sparse.csgraph.laplacian(problem.graph, normed=True)
        system = self.intrinsic * (laplacian @ kernel)
        system[problem.training] += kernel[problem.training]
        system[np.diag_indices_from(system)] += self.ambient
        self.coefficients_ = scipy.linalg.solve(system, one_vs_rest(problem))
        return softmax(kernel @ self.coefficients_)

    def _kernel(self, rows: Any) -> Array:  # (r, n)
        if self.kernel == "linear":
            products = linear_kernel(rows, self._fit_rows, dense_output=True)
            return np.asarray(products, dtype=np.float64)
        return np.asarray(rbf_kernel(rows, self._fit_rows, gamma=self.gamma_), dtype=np.float64)

    def _probabilities(self, rows: Any) -> Array:
        return softmax(self._kernel(rows) @ self.coefficients_)


def one_vs_rest(problem: Problem) -> Array:  # (n, c)
    """Return 1 for training rows of the class, -1 for other training rows, 0 for all others."""
    targets = np.zeros((len(problem.codes), problem.n_classes))
    targets[problem.training] = -1
    targets[problem.training, problem.codes[problem.training]] = 1
    return targets


def _gamma(problem: Problem, n_neighbors: int) -> float:
    n = problem.features.shape[0]
    width = float(nearest_candidates(problem.features, min(n_neighbors, n - 1)).distances[:, -1].double().mean())
    return 1 / (2 * width**2) if width > 0 else 1.0
