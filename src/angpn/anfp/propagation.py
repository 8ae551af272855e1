"""Step 2 of ANFP: feature propagation on a given graph, Eqs. (1)-(3), (11) and (13)."""

from typing import Literal, get_args

import torch
from torch import Tensor

from angpn.neighbors.neighborhood import DenseNeighborhood, Neighborhood
from angpn.utils.checks import (
    as_common_dtype,
    as_float_tensor,
    check_alpha,
    check_choice,
    check_finite,
    check_same_rows,
    check_square,
)

Method = Literal["step", "iterate", "closed"]
Direction = Literal["directed", "symmetric", "normalized"]


def propagate(
    graph: Tensor,  # (n, n)
    features: Tensor,  # (n, d)
    alpha: float,
    method: Method = "step",
    *,
    max_iter: int = 1000,
    tol: float = 1e-10,
) -> Tensor:  # (n, d)
    r"""Propagate features on a graph: each row absorbs a fraction ``alpha`` from its neighbours.

    - ``"step"``, Eq. (13): :math:`F = \alpha S H + (1 - \alpha) H`;
    - ``"iterate"``, Eq. (2): :math:`F^{(t+1)} = \alpha S F^{(t)} + (1 - \alpha) H` from :math:`F^{(0)} = H`, until it
      converges;
    - ``"closed"``, Eqs. (3) and (11): its limit :math:`F = (1 - \alpha)(I - \alpha S)^{-1} H`.

    Args:
        graph: S, or A; taken as it is.
        features: H.
        alpha: fraction between 0 and 1 that comes from the neighbours.
        method: "step", "iterate" or "closed".
        max_iter: steps of "iterate" at most.
        tol: "iterate" ends when no entry moves by more than this (or rounding) times the largest entry.

    Returns:
        F.

    Raises:
        ValueError: if "iterate" does not converge, or an argument is wrong.
    """
    graph = as_float_tensor(graph, "graph")
    features = as_float_tensor(features, "features")
    check_alpha(alpha)
    check_choice(method, "method", get_args(Method))
    check_square(graph, "graph")
    check_same_rows(len(features), len(graph), "features", "graph")
    check_finite(features, "features")
    graph, features = as_common_dtype(graph, features)
    if method == "step":
        return alpha * (graph @ features) + (1 - alpha) * features
    if method == "closed":
        return closed_form(graph, features, alpha)
    return _iterate(graph, features, alpha, max_iter, tol)


def closed_form(graph: Tensor, features: Tensor, alpha: float) -> Tensor:
    """Solve Eqs. (3) and (11) by one linear system."""
    identity = torch.eye(len(graph), dtype=graph.dtype, device=graph.device)
    return torch.linalg.solve(identity - alpha * graph, (1 - alpha) * features)


def _iterate(graph: Tensor, features: Tensor, alpha: float, max_iter: int, tol: float) -> Tensor:
    tol = max(tol, 4 * torch.finfo(features.dtype).eps)
    propagated = features
    for _ in range(max_iter):
        previous = propagated
        propagated = alpha * (graph @ previous) + (1 - alpha) * features
        if not torch.isfinite(propagated).all():
            break
        if (propagated - previous).abs().max() <= tol * propagated.abs().max():
            return propagated
    raise ValueError(
        f"Eq. (2) did not settle to tol={tol:g} in max_iter={max_iter} steps; it converges where alpha times the "
        f"largest row sum is below 1, here {alpha:g} * {float(graph.sum(dim=1).max()):.4g}; "
        "lower alpha, raise max_iter, or pass a graph whose rows sum to 1"
    )


def aggregate(
    neighborhood: Neighborhood | DenseNeighborhood,
    weights: Tensor,  # (n, m) of S
    features: Tensor,  # (n, d)
    direction: Direction,
) -> Tensor:  # (n, d)
    r"""Return what each row receives from its neighbours: ``A H``.

    ``"directed"``: :math:`A = S`, as the paper has it. ``"symmetric"``: :math:`A = (S + S^T)/2`, which is the matrix
    of the objective (5), since :math:`Tr(F^T S F)` is the same for S and its transpose. ``"normalized"``: that one
    with its degrees divided out, :math:`Q^{-1/2} (S + S^T) Q^{-1/2}` with :math:`Q` its row sums, so that a row which
    many others chose does not dominate them.
    """
    if direction == "directed":
        return neighborhood.aggregate(weights, features)
    scale = None
    if direction == "normalized":
        ones = weights.new_ones(neighborhood.n_rows, 1)
        degree = neighborhood.aggregate(weights, ones) + neighborhood.aggregate_transposed(weights, ones)
        scale = torch.where(degree > 0, degree, 1).rsqrt()
        features = scale * features
    received = neighborhood.aggregate(weights, features) + neighborhood.aggregate_transposed(weights, features)
    return received / 2 if scale is None else scale * received
