"""The linear map of a layer and its ReLU as one differentiable operation, see :mod:`angpn.kernels.linear_map`."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from angpn import kernels
from angpn.kernels.threads import over_rows

_OPERATIONS = 2**20  # a thread should have at least
_ROWS_OF_BLOCK, _MAX_BLOCKS = 1024, 64


def linear_map(rows: Tensor, weight: Tensor, *, rectify: bool = False) -> Tensor:  # (n, c)
    """Return the rows (n, d) times the transposed weights (c, d), negative entries set to 0 if ``rectify``."""
    mapped: Tensor = _LinearMap.apply(rows, weight, rectify)
    return mapped


class _LinearMap(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, rectify: bool) -> Tensor:
        out = _mapped(rows, weight, rectify)
        ctx.rectify = rectify
        ctx.save_for_backward(rows, weight, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        rows, weight, out = ctx.saved_tensors
        if ctx.rectify:
            gradient = torch.ops.aten.threshold_backward(gradient, out, 0)
        of_rows = of_weight = None
        if ctx.needs_input_grad[0]:
            of_rows = _mapped(gradient, weight.t(), False)
        if ctx.needs_input_grad[1]:
            blocks = rows.new_empty(_n_blocks(rows, weight), *weight.shape)
            arrays = _array(rows), _array(gradient), blocks.numpy()
            over_rows(kernels.linear_map.weight_gradients, len(blocks), *arrays, at_least=1)
            of_weight = blocks.sum(dim=0) if len(blocks) > 1 else blocks[0]
        return of_rows, of_weight, None


def _mapped(rows: Tensor, weight: Tensor, rectify: bool) -> Tensor:
    out = rows.new_empty(len(rows), len(weight))
    arrays = _array(rows), _array(weight), rectify, out.numpy()
    multiple = kernels.linear_map.ROWS_TOGETHER
    at_least = max(multiple, _OPERATIONS // max(1, weight.numel()))
    over_rows(kernels.linear_map.map_rows, len(rows), *arrays, at_least=at_least, multiple=multiple)
    return out


def _n_blocks(rows: Tensor, weight: Tensor) -> int:
    """Return in how many blocks of rows the gradient of the weights is summed: a power of two, whatever the threads.

    All blocks together are at most an eighth as large as the rows.
    """
    at_least = max(_ROWS_OF_BLOCK, 8 * len(weight))
    return min(_MAX_BLOCKS, 2 ** max(0, (len(rows) // at_least).bit_length() - 1))


def _array(values: Tensor) -> Any:
    return values.detach().contiguous().numpy()
