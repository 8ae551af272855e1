"""The products on candidate lists, differentiable, and those with the halo of other processes.

The backward pass of each is written with the others: indexing's own gradient is a scatter over n * m * d numbers, an
order of magnitude slower than everything else an epoch does.
"""

import warnings
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from angpn import kernels
from angpn.kernels.threads import over_rows
from angpn.neighbors.halo import Halo

# From so many columns on a compiled product takes from three quarters (64) to less than half (256) of the time of
# torch's; of fewer, as few as 10, torch's takes less than half of the time.
_WIDE = 64


class CandidateLists:
    """Lists as the products need them: by row, and by candidate."""

    def __init__(self, indices: Tensor, n_columns: int) -> None:
        self.indices = indices  # (n, m) int32, below n_columns
        self.n_rows, self.n_columns = len(indices), n_columns

    @cached_property
    def row_starts(self) -> Tensor:
        """Where each list begins among the flat indices."""
        n, m = self.indices.shape
        return torch.arange(0, n * m + 1, m, dtype=torch.int32, device=self.indices.device)

    @cached_property
    def transpose(self) -> tuple[Tensor, Tensor, Tensor]:
        """The lists by candidate: where each begins, the rows that list it, and where in the lists they do.

        Made once, so that the transposed product is a gather like the plain one, never a scatter.
        """
        m, flat = self.indices.shape[1], self.indices.flatten()
        position = flat.argsort(stable=True)
        starts = torch.zeros(self.n_columns + 1, dtype=torch.int32, device=flat.device)
        starts[1:] = flat.bincount(minlength=self.n_columns).cumsum(0)
        return starts, (position // m).int(), position


def list_affinities(lists: CandidateLists, halo: Halo, features: Tensor) -> Tensor:  # (n, m)
    """Return <f_i, f_j> for each candidate j of row i."""
    return _Product.apply(lists, features, _HaloExchange.apply(halo, features))


def list_aggregate(lists: CandidateLists, halo: Halo, weights: Tensor, features: Tensor) -> Tensor:  # (n, d)
    """Return ``S H``."""
    return _Aggregate.apply(lists, weights, _HaloExchange.apply(halo, features))


def list_aggregate_transposed(lists: CandidateLists, halo: Halo, weights: Tensor, features: Tensor) -> Tensor:  # (n, d)
    """Return ``S^T H``."""
    return _HaloReduce.apply(halo, _AggregateTransposed.apply(lists, weights, features))


def sparse_product(
    starts: Tensor,
    columns: Tensor,
    values: Tensor,
    n_columns: int,
    features: Tensor,  # (n_columns, p)
    alpha: float = 1.0,
) -> Tensor:  # (n, p)
    """Return alpha times a CSR matrix times a dense one, plus (1 - alpha) times the first rows of that."""
    n = len(starts) - 1
    if (
        features.shape[1] >= _WIDE
        and features.device.type == "cpu"
        and features.dtype in (torch.float32, torch.float64)
    ):
        parts = [part.detach().contiguous().numpy() for part in (starts, columns, values.to(features), features)]
        # By numpy, which asks for huge pages: to touch 50 MB page by page takes as long as the product.
        out = np.empty((n, features.shape[1]), parts[-1].dtype)
        over_rows(kernels.sparse.hop_rows, n, alpha, *parts, out)
        return torch.from_numpy(out)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        matrix = torch.sparse_csr_tensor(starts, columns, values, size=(n, n_columns), check_invariants=False)
    product = matrix @ features
    return product if alpha == 1 else torch.lerp(features[:n], product, alpha, out=product)


class _Product(torch.autograd.Function):
    """out[i, l] = <a_i, b_j> with j the l-th candidate of i."""

    @staticmethod
    def forward(ctx: Any, lists: CandidateLists, a: Tensor, b: Tensor) -> Tensor:
        ctx.lists = lists
        ctx.save_for_backward(a, b)
        # In blocks, so that the gathered (rows, m, d) copy stays small enough for the cache.
        rows = max(1, 2**18 // (lists.indices.shape[1] * max(1, b.shape[1])))
        out = b.new_empty(lists.indices.shape)  # one piece: small results between the copies would fragment the heap
        for index, block, part in zip(lists.indices.split(rows), a.split(rows), out.split(rows), strict=True):
            torch.bmm(b[index], block.unsqueeze(2), out=part.unsqueeze(2))
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, b = ctx.saved_tensors
        return (
            None,
            _Aggregate.apply(ctx.lists, grad, b) if ctx.needs_input_grad[1] else None,
            _AggregateTransposed.apply(ctx.lists, grad, a) if ctx.needs_input_grad[2] else None,
        )


class _Aggregate(torch.autograd.Function):
    """out_i = sum_l w[i, l] h_j with j the l-th candidate of i."""

    @staticmethod
    def forward(ctx: Any, lists: CandidateLists, weights: Tensor, features: Tensor) -> Tensor:
        ctx.lists = lists
        ctx.save_for_backward(weights, features)
        return sparse_product(
            lists.row_starts,
            lists.indices.flatten(),
            weights.flatten(),
            lists.n_columns,
            features,
        )

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, features = ctx.saved_tensors
        return (
            None,
            _Product.apply(ctx.lists, grad, features) if ctx.needs_input_grad[1] else None,
            _AggregateTransposed.apply(ctx.lists, weights, grad) if ctx.needs_input_grad[2] else None,
        )


class _AggregateTransposed(torch.autograd.Function):
    """out_j = sum of w[i, l] h_i over all i that list j, l being where."""

    @staticmethod
    def forward(ctx: Any, lists: CandidateLists, weights: Tensor, features: Tensor) -> Tensor:
        ctx.lists = lists
        ctx.save_for_backward(weights, features)
        starts, rows, position = lists.transpose
        return sparse_product(starts, rows, weights.flatten()[position], lists.n_rows, features)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, features = ctx.saved_tensors
        return (
            None,
            _Product.apply(ctx.lists, features, grad) if ctx.needs_input_grad[1] else None,
            _Aggregate.apply(ctx.lists, weights, grad) if ctx.needs_input_grad[2] else None,
        )


class _HaloExchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, halo: Halo, features: Tensor) -> Tensor:
        ctx.halo = halo
        return halo.exchange(features)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        return None, _HaloReduce.apply(ctx.halo, grad)


class _HaloReduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, halo: Halo, gradient: Tensor) -> Tensor:
        ctx.halo = halo
        return halo.reduce(gradient)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        return None, _HaloExchange.apply(ctx.halo, grad)
