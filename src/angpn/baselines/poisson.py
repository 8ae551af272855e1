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

    with L = D - W of the shared graph, solved by conjugate gradients. Each component of the graph is a problem of its
    own, with its own labels and their mean. A row's class is that of the largest u.
    """

    tol: float = 1e-8

    def _distributions(self, problem: Problem) -> Array:
        _, part = scipy.sparse.csgraph.connected_components(problem.graph, directed=False)
        labels = np.zeros((len(part), problem.n_classes))
        labels[problem.training] = np.eye(problem.n_classes)[problem.codes[problem.training]]
        members = scipy.sparse.csr_array((np.ones(len(part)), (part, np.arange(len(part)))))  # (parts, n)
        counts = members @ labels  # of each class in each component
        totals = counts.sum(axis=1, keepdims=True)
        sources = np.where(problem.training[:, None], labels - (counts / np.maximum(totals, 1))[part], 0)
        self.potential_ = _solved(problem.graph, members, sources, self.tol)
        spread = np.abs(self.potential_).max()
        scores = softmax(self.potential_ / (spread if spread > 0 else 1))
        # A class that no label brings into a component cannot be told from it; where there is none, nothing is known.
        return scores * (counts > 0)[part]


def _solved(
    graph: scipy.sparse.csr_array, members: scipy.sparse.csr_array, sources: Array, tol: float
) -> Array:  # (n, c)
    """u of the equation above, of mean zero in each component."""
    degree = np.asarray(graph.sum(axis=1)).ravel()
    scale = 1 / np.sqrt(np.where(degree > 0, degree, 1))
    # D^-1/2 L D^-1/2: the same equation, better to solve.
    laplacian = scipy.sparse.csgraph.laplacian(graph, normed=True)
    potential = np.empty_like(sources)
    for column in range(sources.shape[1]):
        solution, _ = scipy.sparse.linalg.cg(laplacian, scale * sources[:, column], rtol=tol, maxiter=10 * len(degree))
        potential[:, column] = scale * solution
    weights = members.multiply(np.where(degree > 0, degree, 1)[None, :])
    means = (weights @ potential) / np.asarray(weights.sum(axis=1)).ravel()[:, None]
    return potential - members.T @ means
