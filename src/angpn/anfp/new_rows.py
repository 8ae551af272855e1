"""The inductive rule: what a new row takes from the fitted rows nearest to it, by Eq. (8) with these as candidates."""

from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from angpn.anfp.algorithm import unit_rows
from angpn.anfp.neighbor_graph import Rule, neighbor_weights


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
    block_numbers: int = 2**23,  # of candidates' features gathered at once
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
    """Return weights on candidates as a sparse matrix."""
    r, m = indices.shape
    parts = weights.numpy().flatten(), indices.numpy().flatten(), np.arange(0, r * m + 1, m)
    return scipy.sparse.csr_array(parts, shape=(r, n_rows))


def find_duplicates(
    fitted: Any,  # (n, d) dense or sparse
    new: Any,  # (r, d) alike
    indices: Tensor,  # (r, m) the fitted rows nearest to each new one
    distances: Tensor,  # (r, m)
    match_empty: bool,  # whether empty rows are equal, though their distance is not 0
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
    empty = _empty(fitted).nonzero().squeeze(1) if match_empty else indices[:0, 0]
    if len(empty):
        alike = _empty(new).to(same.device) & ~same
        same, original = same | alike, torch.where(alike, empty[0].to(original.device), original)
    return same, original


def _equal(fitted: Any, fitted_rows: Tensor, new: Any, rows: Tensor) -> Tensor:  # (r,) bool
    if isinstance(fitted, Tensor):
        return (fitted[fitted_rows] == new[rows]).all(dim=1)
    difference = abs(fitted[fitted_rows.numpy()] - new[rows.numpy()]).sum(axis=1)
    return torch.from_numpy(np.asarray(difference == 0).ravel())


def _empty(rows: Any) -> Tensor:  # (n,) bool
    if isinstance(rows, Tensor):
        return ~rows.any(dim=1)
    return torch.from_numpy(np.asarray(abs(rows).sum(axis=1) == 0).ravel())
