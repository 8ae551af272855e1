"""The inductive rule: what a new row takes from the fitted rows nearest to it, by Eq. (8) with these as candidates."""

from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from angpn.anfp.algorithm import unit_rows
from angpn.anfp.neighbor_graph import Rule, nearest_weights, neighbor_weights


def new_row_weights(
    indices: Tensor,  # (r, m) the fitted rows nearest to each new one
    distances: Tensor,  # (r, m)
    affinities: Tensor | None,  # (r, m), or None: from the distances alone
    *,
    n_neighbors: int,
    beta: float,
    gamma: Tensor,  # () or (r, 1), see resolve_gamma
    rule: Rule,
    degree_scale: Tensor | None = None,  # (n,) for direction "normalized"
) -> Tensor:  # (r, m)
    r"""Return the weights by which new rows receive from fitted ones.

    With direction "symmetric" or "normalized" the fitted rows are taken to choose a new row as much as it chooses them,
    so that it has an edge :math:`2 s_j` to row j and degree 2; with the degrees divided out,
    :math:`2 s_j / \sqrt{2 q_j}` with :math:`q_j` the degree of row j in S + S^T.
    """
    if rule == "knn":  # one shuffle for all rows: what a row receives must not depend on its place among others
        shuffle = torch.randperm(distances.shape[1], generator=torch.Generator().manual_seed(0))
        weights = nearest_weights(distances, n_neighbors, shuffle.to(distances.device).expand(len(distances), -1))
    else:
        weights = neighbor_weights(
            distances,
            affinities,
            n_neighbors=n_neighbors,
            beta=0.0 if affinities is None else beta,
            gamma=gamma,
            rule=rule,
        )
    return weights if degree_scale is None else weights * degree_scale.to(weights)[indices] * 2**0.5


def degree_scale(graph: scipy.sparse.csr_array) -> Tensor:  # (n,)
    """Return degree^-1/2 of the fitted rows in S + S^T; 1 for a row without edges."""
    degree = torch.from_numpy(np.asarray(graph.sum(axis=1) + graph.sum(axis=0)))
    return torch.where(degree > 0, degree, 1).rsqrt()


def new_row_affinities(
    rows: Any,  # (r, d) dense or sparse
    fitted: Any,  # (n, d) alike
    indices: Tensor,  # (r, m)
    *,
    normalize: bool = False,
    block_numbers: int = 2**20,  # of candidates' features gathered at once, few enough for the cache
) -> Tensor:  # (r, m)
    """Return <f_i, f_j> for each new row i and each of its candidates j, of rows at unit length with ``normalize``."""
    if not isinstance(fitted, Tensor):
        return torch.from_numpy((rows @ fitted.T).toarray()).gather(1, indices)
    size = max(1, block_numbers // max(1, indices.shape[1] * fitted.shape[1]))
    found = [indices.new_empty(0, indices.shape[1], dtype=fitted.dtype)]
    for block, listed in zip(rows.split(size), indices.split(size), strict=True):
        candidates = fitted[listed]
        if normalize:
            block, candidates = unit_rows(block), unit_rows(candidates)
        found.append(torch.bmm(candidates, block.unsqueeze(2)).squeeze(2))
    return torch.cat(found)


def as_matrix(weights: Tensor, indices: Tensor, n_rows: int) -> scipy.sparse.csr_array:  # (r, n_rows)
    """Return weights on candidates as a sparse matrix, without the many that are zero."""
    kept = weights != 0
    starts = np.zeros(len(weights) + 1, np.int32)
    starts[1:] = kept.sum(dim=1).cumsum(0).numpy()
    return scipy.sparse.csr_array((weights[kept].numpy(), indices[kept].numpy(), starts), shape=(len(weights), n_rows))


def find_duplicates(
    fitted: Any,  # (n, d) dense or sparse
    new: Any,  # (r, d) alike
    indices: Tensor,  # (r, m) the fitted rows nearest to each new one
    distances: Tensor,  # (r, m)
    empty_row: int | None,  # the fitted row that empty rows equal, though their distance is not 0
) -> tuple[Tensor, Tensor]:  # (r,) bool, (r,)
    """Tell which new rows equal a fitted one, and which that is."""
    same = torch.zeros(len(indices), dtype=torch.bool, device=indices.device)
    original = indices[:, 0].clone()
    for place in range(indices.shape[1]):
        rows = ((distances[:, place] == 0) & ~same).nonzero().squeeze(1)
        if not len(rows):
            break
        found = rows[_equal(fitted, indices[rows, place], new, rows)]
        same[found], original[found] = True, indices[found, place]
    if empty_row is not None:
        alike = _empty(new).to(same.device) & ~same
        same, original = same | alike, original.masked_fill(alike, empty_row)
    return same, original


def first_empty_row(
    fitted: Any,  # (n, d) dense or sparse
) -> int | None:
    """Return the first row without an entry, or None."""
    empty = _empty(fitted).nonzero()
    return int(empty[0]) if len(empty) else None


def _equal(fitted: Any, fitted_rows: Tensor, new: Any, rows: Tensor) -> Tensor:  # (r,) bool
    if isinstance(fitted, Tensor):
        return (fitted[fitted_rows] == new[rows]).all(dim=1)
    difference = abs(fitted[fitted_rows.numpy()] - new[rows.numpy()]).sum(axis=1)
    return torch.from_numpy(np.asarray(difference == 0).ravel())


def _empty(rows: Any) -> Tensor:  # (n,) bool
    if isinstance(rows, Tensor):
        return ~rows.any(dim=1)
    return torch.from_numpy(np.asarray(abs(rows).sum(axis=1) == 0).ravel())
