"""Poisson learning, for very few labels."""

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
import scipy.sparse.linalg

from angpn.baselines.base import GraphBaseline, Problem, parameters, softmax
from angpn.utils.typing import Array


@parameters
class PoissonLearning(GraphBaseline):
    r"""Calder, Cook, Thorpe, Slepcev (2020), *Poisson learning: graph based semi-supervised learning at very low label
    rates*.

    Labels are sources and sinks instead of boundary values:

    .. math:: L u_i = \sum_{j \in \text{labelled}} (y_j - \bar y) \, \delta_{ij}, \qquad \sum_i d_i u_i = 0

    with L = D - W of the shared graph, solved by conjugate gradients. Each connected component is solved separately,
    with its own labels and their mean. The class of a row is that of the largest u.

    Args:
        tol: Relative tolerance of conjugate gradients.

    Attributes:
        potential_: The solution u, (n, c).
    """

    tol: float = 1e-8

    def _distributions(self, problem: Problem) -> Array:
        _, component = scipy.sparse.csgraph.connected_components(problem.graph, directed=False)
        n = len(component)
        labels = np.zeros((n, problem.n_classes))
        labels[problem.training] = np.eye(problem.n_classes)[problem.codes[problem.training]]
        indicator = scipy.sparse.csr_array((np.ones(n), (component, np.arange(n))))  # (components, n)
        counts = indicator @ labels  # of each class in each component
        totals = counts.sum(axis=1, keepdims=True)
        sources = np.where(problem.training[:, None], labels - (counts / np.maximum(totals, 1))[component], 0)
        self.potential_ = _solve(problem.graph, indicator, sources, self.tol)
        largest = np.abs(self.potential_).max()
        scores = softmax(self.potential_ / (largest if largest > 0 else 1))
        # A class without a label in a component has probability 0 there; with no label at all, the row is zero and the
        # class prior takes its place.
        return scores * (counts > 0)[component]


def _solve(
    graph: scipy.sparse.csr_array, indicator: scipy.sparse.csr_array, sources: Array, tol: float
) -> Array:  # (n, c)
    """Return u of the equation above, with weighted mean zero in each component."""
    degree = np.asarray(graph.sum(axis=1)).ravel()
    scale = 1 / np.sqrt(np.where(degree > 0, degree, 1))
    # D^-1/2 L D^-1/2: the same equation, better conditioned.
    laplacian = scipy.sparse.csgraph.laplacian(graph, normed=True)
    potential = np.empty_like(sources)
    for column in range(sources.shape[1]):
        solution, _ = scipy.sparse.linalg.cg(laplacian, scale * sources[:, column], rtol=tol, maxiter=10 * len(degree))
        potential[:, column] = scale * solution
    weights = indicator.multiply(np.where(degree > 0, degree, 1)[None, :])
    means = (weights @ potential) / np.asarray(weights.sum(axis=1)).ravel()[:, None]
    return potential - indicator.T @ means
