"""Adaptive neighbourhood feature propagation (ANFP): the objective of Eq. (5), its solver, and Algorithm 1."""

from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from angpn.anfp.graph import Gamma, Rule, check_candidates, check_graph_options, neighbor_weights, resolve_gamma
from angpn.anfp.propagation import Direction, aggregate, closed_form
from angpn.neighbors.neighborhood import DenseNeighborhood, Neighborhood
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
    """What :func:`solve_anfp` found."""

    features: Tensor  # (n, d) F
    graph: Tensor  # (n, n) S
    objective: Tensor  # (2 * n_iter,) Eq. (5) after each half-step, float64: Step 1, Step 2, Step 1, ...
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
    r"""The objective of Eq. (5), in float64 so that a descent is told from rounding.

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

    Step 1 is :func:`angpn.neighbor_graph`. ``step2`` says how F is found for fixed S:

    - ``"exact"``: the minimiser of Eq. (5), from :math:`(\beta (I - (S + S^T)/2) + \mu I) F = \mu H`. With rule
      ``"simplex"`` no half-step then increases the objective. Here :math:`\alpha = \beta / (\beta + \mu)`.
    - ``"printed"``: Eq. (11), which drops beta and takes S for symmetric; :math:`\alpha = 1 / (1 + \mu)`.
    - ``"step"``: Eq. (13), one power step; with ``max_iter=T`` and ``tol=0`` this is Algorithm 1.

    Give one of ``mu`` and ``alpha``; the other follows. The iteration ends when no entry of F moves by more than
    ``tol`` times the largest.
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
    """Both of alpha and mu from the one that was given: alpha = weight / (weight + mu)."""
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
    r"""The F that minimises Eq. (5) for fixed S, or an error where there is none.

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


def unit_rows(features: Tensor) -> Tensor:
    """Rows at unit length; a row of no length (every unit dead) stays zero and has no gradient."""
    squares = features.square().sum(dim=-1, keepdim=True)
    alive = squares > 1e-12
    return features * torch.where(alive, torch.where(alive, squares, 1).rsqrt(), 0)


def algorithm1(
    neighborhood: Neighborhood | DenseNeighborhood,
    features: Tensor,  # (n, d) H
    *,
    n_neighbors: int,
    alpha: float,
    beta: float,
    gamma: Gamma,
    rule: Rule,
    num_steps: int | None,
    direction: Direction,
    graph_gradient: bool,
    normalize: bool,
    max_steps: int = 100,
    tol: float = 1e-5,
) -> tuple[Tensor, Tensor]:  # F (n, d), and the weights of S (n, m)
    r"""Algorithm 1 on a neighbourhood: from F = H, ``num_steps`` times S from F by Eq. (9), then F by Eq. (13).

    ``num_steps=None`` runs it until F settles to ``tol``, at most ``max_steps`` times. Without ``graph_gradient`` S is
    a constant to autograd. With ``normalize`` the graph sees the rows of F at unit length; what is propagated keeps
    its length. At beta = 0 the graph does not depend on F, so one step is all.
    """
    distances = neighborhood.distances.to(features.dtype)
    gammas = resolve_gamma(distances, n_neighbors, gamma, mean_over_rows=neighborhood.partition.mean)
    limit = 1 if beta == 0 else num_steps or max_steps
    propagated = features
    for _ in range(limit):
        graph_features = propagated if graph_gradient else propagated.detach()
        if normalize:
            graph_features = unit_rows(graph_features)
        affinities = neighborhood.affinities(graph_features) if beta > 0 else None
        weights = neighbor_weights(distances, affinities, n_neighbors=n_neighbors, beta=beta, gamma=gammas, rule=rule)
        previous = propagated
        propagated = alpha * aggregate(neighborhood, weights, features, direction) + (1 - alpha) * features
        if num_steps is None:
            change, largest = (
                neighborhood.partition.all_reduce_max(part.detach().abs().max())
                for part in (propagated - previous, propagated)
            )
            if change <= tol * largest:
                break
    return propagated, weights
