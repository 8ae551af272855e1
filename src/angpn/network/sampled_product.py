"""Some entries of a product of two matrices, differentiable."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from angpn.neighbors.list_products import sparse_product

_BLOCK_NUMBERS = 2**18  # gathered at once: few enough for the cache


def sampled_product(
    left: Tensor,  # (n, p)
    right: Tensor,  # (d, p)
    rows: Tensor,  # (e,) int64
    columns: Tensor,  # (e,) int64
) -> Tensor:  # (e,)
    """Return the entries of ``left @ right.T`` in these rows and columns, without computing the others.

    The gradients are products with a sparse matrix instead of the scatters that those of indexing would be.
    """
    return _SampledProduct.apply(left, right, rows, columns)


class _SampledProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        ctx.save_for_backward(left, right, rows, columns)
        out = left.new_empty(len(rows))
        size = max(1, _BLOCK_NUMBERS // max(1, left.shape[1]))
        for row, column, part in zip(rows.split(size), columns.split(size), out.split(size), strict=True):
            torch.sum(left[row] * right[column], dim=1, out=part)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        left, right, rows, columns = ctx.saved_tensors
        of_left = _summed(rows, columns, gradient, len(left), right)
        return of_left, _summed(columns, rows, gradient, len(right), left), None, None


def _summed(rows: Tensor, columns: Tensor, values: Tensor, n_rows: int, dense: Tensor) -> Tensor:  # (n_rows, p)
    """Return the matrix with these entries times a dense one."""
    order = rows.argsort(stable=True)
    starts = torch.zeros(n_rows + 1, dtype=torch.int32, device=rows.device)
    starts[1:] = rows.bincount(minlength=n_rows).cumsum(0)
    return sparse_product(starts, columns[order].int(), values[order], len(dense), dense.contiguous())
