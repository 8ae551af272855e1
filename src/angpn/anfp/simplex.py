"""Projection of rows onto the probability simplex, with its exact gradient."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from angpn.utils.checks import as_float_tensor


def project_simplex(
    z: Tensor,  # (n, m), -inf rules an entry out
) -> Tensor:  # (n, m), rows on the simplex
    r"""Project each row onto the probability simplex, differentiably.

    .. math:: \min_{s} \; \|s - z_i\|^2 \quad \text{s.t.} \quad \sum_j s_j = 1, \; s_j \ge 0

    The solution is ``max(z - tau, 0)`` with one threshold ``tau`` a row. Its Jacobian on the support of
    ``s`` is ``I - 11^T / |support|``, and zero elsewhere.

    Args:
        z: the points, one a row; an entry of -inf is ruled out and gets 0.

    Returns:
        The nearest point of the simplex to each row: entries >= 0 that sum to 1.

    Raises:
        ValueError: if a row has no finite entry, or NaN.

    >>> project_simplex(torch.tensor([[0.4, 0.2, -3.0]]))
    tensor([[0.6000, 0.4000, 0.0000]])
    """
    z = as_float_tensor(z, "z")
    if z.shape[1] == 0:
        raise ValueError("z must have at least 1 column, got 0; a row of nothing has no simplex")
    projected: Tensor = _ProjectSimplex.apply(z)
    return projected


class _ProjectSimplex(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, z: Tensor) -> Tensor:
        # tau >= max - 1, so what lies more than 1 below the maximum gets 0. Shifting and clamping
        # first keeps every number in [-1, 0]: in float32 a row near 1e8 would otherwise lose the 1.
        largest = z.amax(dim=1, keepdim=True)
        if not torch.isfinite(largest).all():
            row = int((~torch.isfinite(largest)).nonzero()[0, 0])
            raise ValueError(
                f"each row needs a finite largest entry and no NaN, got {float(largest[row])} in row {row}; "
                "look for NaN, overflow or rows that are ruled out altogether in what made it"
            )
        z = (z - largest).clamp(min=-1)
        projected = (z - _threshold(z)).clamp(min=0)
        # One ulp of tau counts once for each entry of the support; dividing takes that back out.
        projected = projected / projected.sum(dim=1, keepdim=True)
        ctx.save_for_backward(projected)
        return projected

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (projected,) = ctx.saved_tensors
        support = projected > 0
        on_support = torch.where(support, grad, 0)
        mean = on_support.sum(dim=1, keepdim=True) / support.sum(dim=1, keepdim=True)
        return torch.where(support, grad - mean, 0)


def _threshold(z: Tensor) -> Tensor:
    """Return the tau of each row, from the largest prefix of the sorted row whose mean excess stays positive."""
    descending = z.sort(dim=1, descending=True).values
    excess = descending.cumsum(dim=1) - 1
    rank = torch.arange(1, z.shape[1] + 1, dtype=z.dtype, device=z.device)
    size = (rank * descending > excess).sum(dim=1, keepdim=True)
    return excess.gather(1, size - 1) / size
