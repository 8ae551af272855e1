"""The linear map of a layer and its ReLU as one differentiable operation, see :mod:`angpn.kernels.linear_map`."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from angpn import kernels
from angpn.kernels.threads import over_rows

_OPERATIONS = 2**20  # a thread should have at least


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
            of_weight = torch.empty_like(weight, memory_format=torch.contiguous_format)
            arrays = _array(rows), _array(gradient), of_weight.numpy()
            over_rows(
                kernels.linear_map.weight_gradient,
                len(of_weight),
                *arrays,
                **_shares(rows.numel(), kernels.linear_map.CHANNELS_TOGETHER),
            )
        return of_rows, of_weight, None


def _mapped(rows: Tensor, weight: Tensor, rectify: bool) -> Tensor:
    out = rows.new_empty(len(rows), len(weight))
    arrays = _array(rows), _array(weight), rectify, out.numpy()
    over_rows(
        kernels.linear_map.map_rows, len(rows), *arrays, **_shares(weight.numel(), kernels.linear_map.ROWS_TOGETHER)
    )
    return out


def _shares(operations: int, multiple: int) -> dict[str, int]:
    """Return how to share out loops that have so many operations each."""
    return {"at_least": max(multiple, _OPERATIONS // max(1, operations)), "multiple": multiple}


def _array(values: Tensor) -> Any:
    return values.detach().contiguous().numpy()
