"""Adaptive neighbourhood feature propagation (ANFP): the objective of Eq. (5), and its solver."""

from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from angpn.anfp.neighbor_graph import (
    Gamma,
    Rule,
    check_candidates,
    check_graph_options,
    neighbor_weights,
    resolve_gamma,
)
from angpn.anfp.propagation import closed_form
from angpn.neighbors.neighborhood import DenseNeighborhood
from angpn.utils.checks import (
    as_common_dtype,
    as_float_tensor,
    check_alpha,
    check_choice,
    check_finite,
    check_same_rows,
)

Step2 = Literal["exact", "printed", "step"]


class ANFPResult(NamedTuple):
    """The solution of :func:`solve_anfp`.

    Attributes:
        features: F.
        graph: S.
        objective: Eq. (5) after each half-step, in float64: Step 1, Step 2, Step 1, ...
        n_iter: number of iterations, each of two half-steps.
        converged: whether F changed by no more than ``tol`` in the last of them.
    """

    features: Tensor  # (n, d)
    graph: Tensor  # (n, n)
    objective: Tensor  # (2 * n_iter,)
    n_iter: int
    converged: bool


def anfp_objective(
    distances: Tensor,  # (n, n)
    inputs: Tensor,  # (n, d) H
    graph: Tensor,  # (n, n) S
    features: Tensor,  # (n, d) F
    *,
    beta: float,
    mu: float,
    gamma: Tensor | float,  # one for all rows, or (n, 1)
) -> Tensor:  # ()
    r"""Return the objective of Eq. (5), in float64 so that descent and rounding can be distinguished.

    .. math:: \sum_{ij} D_{ij} S_{ij} + \gamma \|S\|_F^2 + \beta \, Tr(F^T (I - S) F) + \mu \|F - H\|_F^2

    With one gamma for each row the second term is :math:`\sum_i \gamma_i \|s_i\|^2`.
    """
    distances, inputs, graph, features = (t.double() for t in (distances, inputs, graph, features))
    linear = torch.where(graph > 0, distances * graph, 0).sum()  # a pair ruled out is 0 * inf
    quadratic = (torch.as_tensor(gamma).double() * graph.square()).sum()
    smoothness = (features * (features - graph @ features)).sum()
    return linear + quadratic + beta * smoothness + mu * (features - inputs).square().sum()


def solve_anfp(
    distances: Tensor,  # (n, n), diagonal ignored, inf rules a pair out
    features: Tensor,  # (n, d) H
    *,
    n_neighbors: int,
    beta: float,
    mu: float | None = None,
    alpha: float | None = None,
    gamma: Gamma = "auto",
    rule: Rule = "simplex",
    step2: Step2 = "exact",
    max_iter: int = 100,
    tol: float = 1e-6,
) -> ANFPResult:
    r"""Minimise Eq. (5) over S and F by alternating Step 1 and Step 2 from F = H.

    Step 1 is :func:`angpn.neighbor_graph`. Step 2, which finds F for fixed S, has three forms:

    - ``"exact"``: the minimiser of Eq. (5), from :math:`(\beta (I - (S + S^T)/2) + \mu I) F = \mu H`. With rule
      ``"simplex"`` no half-step then increases the objective. Here :math:`\alpha = \beta / (\beta + \mu)`.
    - ``"printed"``: Eq. (11), which drops beta and takes S for symmetric; :math:`\alpha = 1 / (1 + \mu)`.
    - ``"step"``: Eq. (13), one power step; with ``max_iter=T`` and ``tol=0`` this is Algorithm 1.

    Args:
        distances: D; the diagonal is ignored, and inf rules a pair out.
        features: H, the input features.
        n_neighbors: k of Eq. (9), see :func:`angpn.neighbor_graph`.
        beta: weight of the smoothness of F on S.
        mu: weight of the distance of F from H. Give this or ``alpha``; the other follows.
        alpha: fraction that a row takes from its neighbours.
        gamma: "auto", "local" or a number, see :func:`angpn.neighbor_graph`.
        rule: "simplex" or "printed", see :func:`angpn.neighbor_graph`.
        step2: "exact", "printed" or "step".
        max_iter: iterations at most.
        tol: the iteration ends when no entry of F moves by more than this times the largest.

    Returns:
        F, S, the objective after each half-step, and whether it converged.

    Raises:
        ValueError: if Step 2 has no minimiser or overflows (the message names an alpha for which it has one), or an
            argument is wrong.
    """
    neighborhood = DenseNeighborhood.from_matrix(distances)
    inputs = as_float_tensor(features, "features")
    check_same_rows(len(inputs), neighborhood.n_rows, "features", "distances")
    check_finite(inputs, "features")
    distances, inputs = as_common_dtype(neighborhood.distances, inputs)
    neighborhood = DenseNeighborhood(distances)
    check_graph_options(n_neighbors=n_neighbors, beta=beta, gamma=gamma, rule=rule)
    check_candidates(neighborhood, n_neighbors=n_neighbors, gamma=gamma, rule=rule)
    check_choice(step2, "step2", get_args(Step2))
    if max_iter < 1:
        raise ValueError(f"max_iter must be at least 1, got {max_iter}; 100 is the default")
    alpha, mu = _alpha_and_mu(alpha, mu, beta, step2)

    gammas = resolve_gamma(neighborhood.distances, n_neighbors, gamma)
    propagated = inputs
    objective = []
    converged = False
    for iteration in range(1, max_iter + 1):
        affinities = neighborhood.affinities(propagated) if beta > 0 else None
        graph = neighbor_weights(
            neighborhood.distances, affinities, n_neighbors=n_neighbors, beta=beta, gamma=gammas, rule=rule
        )
        previous = propagated
        terms: dict[str, Any] = {"beta": beta, "mu": mu, "gamma": gammas}
        objective.append(anfp_objective(neighborhood.distances, inputs, graph, previous, **terms))
        if step2 == "exact":
            propagated = _minimise_features(graph, inputs, beta, mu, iteration)
        elif step2 == "printed":
            propagated = closed_form(graph, inputs, alpha)
        else:
            propagated = alpha * (graph @ inputs) + (1 - alpha) * inputs
        if not torch.isfinite(propagated).all():
            raise ValueError(
                f"the features must stay finite, got an overflow at iteration {iteration}; rows of S by rule='printed' "
                "do not sum to 1: use rule='simplex', a smaller alpha, or features of unit length"
            )
        objective.append(anfp_objective(neighborhood.distances, inputs, graph, propagated, **terms))
        if (propagated - previous).abs().max() <= tol * propagated.abs().max():
            converged = True
            break
    return ANFPResult(propagated, graph, torch.stack(objective), iteration, converged)


def _alpha_and_mu(alpha: float | None, mu: float | None, beta: float, step2: Step2) -> tuple[float, float]:
    """Return both of alpha and mu from the one that was given: alpha = weight / (weight + mu)."""
    if (alpha is None) == (mu is None):
        raise ValueError(f"give exactly one of alpha and mu, got alpha={alpha}, mu={mu}; each follows from the other")
    weight = beta if step2 == "exact" else 1.0  # what Tr(F^T (I - S) F) is multiplied by in Step 2
    if mu is not None:
        if not 0 < mu < float("inf"):
            raise ValueError(f"mu must be a finite number > 0, got {mu}; it ties F to the input features")
        return weight / (weight + mu), mu
    assert alpha is not None
    check_alpha(alpha)
    if weight == 0:
        raise ValueError(
            f"alpha={alpha} says nothing about mu where beta=0 and step2='exact' (alpha = beta / (beta + mu)), "
            "got beta=0; pass mu, or use step2='printed' or 'step'"
        )
    return alpha, weight * (1 - alpha) / alpha


def _minimise_features(graph: Tensor, inputs: Tensor, beta: float, mu: float, iteration: int) -> Tensor:
    r"""Return the F that minimises Eq. (5) for fixed S, or raise where there is none.

    There is one while :math:`\alpha \, \lambda_{max}((S + S^T)/2) < 1`. The largest eigenvalue that rows on the simplex
    allow is :math:`\sqrt{n + 2} / 2`: every row chooses one hub, and the hub one of them.
    """
    n = len(graph)
    symmetric = (graph + graph.T) / 2
    identity = torch.eye(n, dtype=graph.dtype, device=graph.device)
    factor, failed = torch.linalg.cholesky_ex(beta * (identity - symmetric) + mu * identity)
    if failed:
        largest = float(torch.linalg.eigvalsh(symmetric)[-1])
        raise ValueError(
            f"Step 2 has no minimiser at iteration {iteration}: beta (I - (S + S^T)/2) + mu I must be positive "
            f"definite, which needs alpha * lambda_max((S + S^T)/2) < 1, got {beta / (beta + mu):.4g} * {largest:.4g}; "
            f"lower alpha below {1.999 / (n + 2) ** 0.5:.4g} (mu above {1.001 * beta * ((n + 2) ** 0.5 / 2 - 1):.4g}), "
            f"safe for any graph on {n} rows whose rows sum to 1 (for this one {0.999 / largest:.4g} would do), "
            "pass features of unit length, or use step2='printed'"
        )
    return torch.cholesky_solve(mu * inputs, factor)
