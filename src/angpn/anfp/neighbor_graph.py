"""Step 1 of ANFP, Eqs. (7)-(9): the neighbour graph S for given features."""

from collections.abc import Callable
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from angpn.anfp.simplex import project_simplex
from angpn.neighbors.neighborhood import DenseNeighborhood, Neighborhood
from angpn.utils.checks import (
    as_common_dtype,
    as_float_tensor,
    check_beta,
    check_choice,
    check_finite,
    check_gamma,
    check_n_neighbors,
    check_same_rows,
)

Rule = Literal["simplex", "printed", "knn"]
Gamma = float | Literal["auto", "local"]

# Below this fraction of the mean, a row's own gamma is rounding: its k + 1 nearest tie.
_TIED = 1e-6


def neighbor_graph(
    distances: Tensor,  # (n, n), diagonal ignored, inf rules a pair out
    features: Tensor | None = None,  # (n, d)
    *,
    n_neighbors: int,
    beta: float = 0.0,
    gamma: Gamma = "auto",
    rule: Rule = "simplex",
) -> Tensor:  # (n, n), zero diagonal; with rule "simplex" or "knn" rows on the simplex
    r"""Learn the neighbour graph that minimises Eq. (8).

    .. math:: \min_{S} \; \sum_{ij} (D - \beta F F^T)_{ij} S_{ij} + \gamma \|S\|_F^2
              \quad \text{s.t.} \quad \sum_j S_{ij} = 1, \; S_{ij} \ge 0, \; S_{ii} = 0

    Args:
        distances: D, of any metric; the diagonal is ignored, and inf rules a pair out.
        features: F; may be left out where ``beta`` is 0.
        n_neighbors: k of Eq. (9), about how many neighbours a row has. There must be at least k + 2 rows.
        beta: weight of the features' inner products beside the distances.
        gamma: weight of the quadratic term. "local" gives each row the gamma by which it has k neighbours at beta = 0,
            "auto" gives all rows the mean of those, and a number is taken as it is.
        rule: "simplex", the exact minimiser: each row of ``-(D - beta F F^T) / (2 gamma)`` projected onto the simplex;
            "printed", Eq. (9) to the letter, whose rows do not sum to 1 once ``beta > 0``, since its eta depends on the
            distances only; or "knn", the fixed graph of Section II-A: weight 1/k on the k nearest, for beta 0.

    Returns:
        S, with a zero diagonal; for "simplex" and "knn" its rows are on the simplex.

    Raises:
        ValueError: if there are too few rows or finite distances for ``n_neighbors``, or an option or shape is wrong.
    """
    neighborhood = DenseNeighborhood.from_matrix(distances)
    check_graph_options(n_neighbors=n_neighbors, beta=beta, gamma=gamma, rule=rule)
    check_candidates(neighborhood, n_neighbors=n_neighbors, gamma=gamma, rule=rule)
    affinities = None
    if beta > 0:
        if features is None:
            raise ValueError(f"beta={beta} weighs the features, got features=None; pass features or beta=0")
        features = as_float_tensor(features, "features")
        check_same_rows(len(features), neighborhood.n_rows, "features", "distances")
        check_finite(features, "features")
        distances, features = as_common_dtype(neighborhood.distances, features)
        neighborhood = DenseNeighborhood(distances)
        affinities = neighborhood.affinities(features)
    return neighbor_weights(
        neighborhood.distances,
        affinities,
        n_neighbors=n_neighbors,
        beta=beta,
        gamma=resolve_gamma(neighborhood.distances, n_neighbors, gamma),
        rule=rule,
    )


def neighbor_weights(
    distances: Tensor,  # (n, m) of each row to its candidates, inf where there is none
    affinities: Tensor | None,  # (n, m) inner products of the features, or None where beta = 0
    *,
    n_neighbors: int,
    beta: float,
    gamma: Tensor,  # () or (n, 1)
    rule: Rule,
) -> Tensor:  # (n, m)
    """Return the rows of :func:`neighbor_graph` on any neighbourhood: one weight for each candidate."""
    if rule == "knn":
        shuffles = torch.rand(distances.shape, generator=torch.Generator().manual_seed(0)).argsort(dim=1)
        return nearest_weights(distances, n_neighbors, shuffles.to(distances.device))
    ruled_out = torch.isinf(distances)  # kept out of the arithmetic: 0 * inf in a gradient is NaN
    cost = distances.masked_fill(ruled_out, 0)
    if affinities is not None:
        cost = cost - beta * affinities
    scores = (-cost / (2 * gamma)).masked_fill(ruled_out, -torch.inf)
    if rule == "simplex":
        return project_simplex(scores)
    nearest = distances.topk(n_neighbors, dim=1, largest=False).values
    eta = 1 / n_neighbors + nearest.sum(dim=1, keepdim=True) / (2 * n_neighbors * gamma)
    return (scores + eta).clamp(min=0)


def nearest_weights(
    distances: Tensor,  # (n, m)
    n_neighbors: int,
    shuffles: Tensor,  # (n, m) an order of the candidates for each row
) -> Tensor:  # (n, m)
    """Return A = D^-1 M of Section II-A: the row-normalised binary k-NN graph; among equals ``shuffles`` decide."""
    order = distances.gather(1, shuffles).argsort(dim=1, stable=True)[:, :n_neighbors]
    return torch.zeros_like(distances).scatter(1, shuffles.gather(1, order), 1 / n_neighbors)


def resolve_gamma(
    distances: Tensor,  # (n, m) of each row to its candidates
    n_neighbors: int,
    gamma: Gamma,
    mean: Tensor | None = None,  # () over other rows, as "auto" gives it; over these by default
    mean_over_rows: Callable[[Tensor], Tensor] = Tensor.mean,  # that of a partition
) -> Tensor:  # () or (n, 1)
    r"""Return the number, or one for each row, that ``gamma`` stands for on these distances.

    ``"local"`` is the rule of Nie et al. (2014), by which a row has exactly k neighbours at beta = 0,

    .. math:: \gamma_i = \tfrac12 \Big( k \, d_{i,(k+1)} - \sum_{j \le k} d_{i,(j)} \Big)

    and ``"auto"`` is its mean over rows. A row whose k + 1 nearest candidates tie (duplicates, or a row equidistant
    from all) has no scale of its own, the rule giving zero: it takes the mean.
    """
    if not isinstance(gamma, str):
        return torch.as_tensor(gamma, dtype=distances.dtype, device=distances.device)
    if mean is not None and gamma == "auto":
        return mean.to(distances)
    own = _own_gamma(distances, n_neighbors)
    mean = mean_over_rows(own) if mean is None else mean.to(distances)
    if mean <= 0:  # every row ties, so at beta = 0 any gamma gives the same graph
        mean = torch.ones_like(mean)
    return mean if gamma == "auto" else torch.where(own > _TIED * mean, own, mean)


def _own_gamma(distances: Tensor, n_neighbors: int) -> Tensor:  # (n, 1)
    nearest = distances.topk(n_neighbors + 1, dim=1, largest=False).values
    return (nearest[:, -1:] - nearest[:, :-1]).sum(dim=1, keepdim=True) / 2  # differences: ties give exactly zero


def check_graph_options(*, n_neighbors: int, beta: float, gamma: Any, rule: Any) -> None:
    """Raise where an option of Step 1 is wrong, whatever the rows."""
    check_choice(rule, "rule", get_args(Rule))
    check_beta(beta)
    check_gamma(gamma)
    if n_neighbors < 1:
        raise ValueError(f"n_neighbors must be at least 1, got {n_neighbors}; 5 to 20 is usual")
    if rule == "knn" and (beta > 0 or gamma != "auto"):
        raise ValueError(
            f"rule='knn' is a fixed graph without beta or gamma, got beta={beta}, gamma={gamma!r}; "
            "pass beta=0 and leave gamma, or use rule='simplex'"
        )


def check_candidates(
    neighborhood: Neighborhood | DenseNeighborhood, *, n_neighbors: int, gamma: Gamma, rule: Rule
) -> None:
    """Raise where there are too few rows, or candidates in one, for the k nearest and the one after them."""
    check_n_neighbors(n_neighbors, neighborhood.total_rows)
    if isinstance(gamma, str):
        needed = n_neighbors + 1
    else:
        needed = n_neighbors if rule == "printed" else 1
    if neighborhood.n_candidates < needed:
        raise ValueError(
            f"n_neighbors={n_neighbors} with gamma={gamma!r} needs at least {needed} candidates for every row, got "
            f"{neighborhood.n_candidates}; lower n_neighbors, or give each row more candidates"
        )
