"""Poisson learning, for very few labels."""

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
import scipy.sparse.linalg

from angpn.baselines.base import Array, GraphBaseline, Problem, parameters, softmax


@parameters
class PoissonLearning(GraphBaseline):
    r"""Calder, Cook, Thorpe, Slepcev (2020), *Poisson learning: graph based semi-supervised learning at very low label
    rates*.

    Labels are sources and sinks instead of boundary values:

    .. math:: L u_i = \sum_{j \in \text{labelled}} (y_j - \bar y) \, \delta_{ij}, \qquad \sum_i d_i u_i = 0

    with L = D - W of the shared graph, solved in each of its components by conjugate gradients. A row's class is that
    of the largest u.
    """

    tol: float = 1e-8

    def _distributions(self, problem: Problem) -> Array:
        self.potential_ = poisson_potential(problem, self.tol)
        spread = np.abs(self.potential_).max()
        scores = softmax(self.potential_ / (spread if spread > 0 else 1))
        # A component without a label has no source: nothing is known of its rows.
        _, part = scipy.sparse.csgraph.connected_components(problem.graph, directed=False)
        return np.where(np.isin(part, part[problem.training])[:, None], scores, 0)


def poisson_potential(problem: Problem, tol: float) -> Array:  # (n, c)
    """u of the equation above."""
    graph, n = problem.graph, len(problem.codes)
    sources = np.zeros((n, problem.n_classes))
    sources[problem.training] = np.eye(problem.n_classes)[problem.codes[problem.training]]
    sources[problem.training] -= sources[problem.training].mean(axis=0)
    count, part = scipy.sparse.csgraph.connected_components(graph, directed=False)
    # The equation has a solution only where what comes out of a component also goes in.
    members = scipy.sparse.csr_array((np.ones(n), (part, np.arange(n))), shape=(count, n))
    sizes = members.sum(axis=1)
    sources -= members.T @ ((members @ sources) / sizes[:, None])
    degree = np.asarray(graph.sum(axis=1)).ravel()
    scale = 1 / np.sqrt(np.where(degree > 0, degree, 1))
    laplacian = scipy.sparse.csgraph.laplacian(
        graph, normed=True
    )  # D^-1/2 L D^-1/2: the same equation, better to solve
    potential = np.empty_like(sources)
    for column in range(problem.n_classes):
        solution, _ = scipy.sparse.linalg.cg(laplacian, scale * sources[:, column], rtol=tol, maxiter=10 * n)
        potential[:, column] = scale * solution
    weights = members.multiply(degree[None, :] + (degree == 0)[None, :])
    means = (weights @ potential) / np.asarray(weights.sum(axis=1)).ravel()[:, None]
    return potential - members.T @ means
