"""A neighbourhood: for each row its candidate rows, and their distances.

The learnt graph S lives on a neighbourhood and nowhere else, in every layer, so S is stored as *weights*: one
number for each candidate. Everything the method does with S is then one of two products, which each kind of
neighbourhood provides: the affinities ``<f_i, f_j>`` of each row with its candidates (Eq. (8)), and the sum of the
candidates' features by weight (Eq. (13)). They are each other's derivatives.

:class:`Neighborhood` holds lists of m candidates. :class:`DenseNeighborhood` is the full problem, where every other
row is a candidate; it is also the oracle for the lists, since lists can be written as a dense neighbourhood.
"""

import warnings
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from angpn.neighbors.partition import ALL_ROWS, Halo, Partition
from angpn.utils.checks import as_float_tensor, check_distances
from angpn.utils.typing import Array

_ROWS_CHECKED = 2**16  # at once, so that a check takes little memory beside the lists


@dataclass(frozen=True, eq=False)
class DenseNeighborhood:
    """Every other row is a candidate, except where the distance is infinite."""

    distances: Tensor  # (n, n), infinite on the diagonal
    partition: ClassVar[Partition] = ALL_ROWS

    @classmethod
    def from_matrix(cls, distances: Any) -> "DenseNeighborhood":
        """From any square matrix; the diagonal is ignored, since a row is never its own candidate."""
        if isinstance(distances, Neighborhood):
            raise ValueError(
                "this needs the full (n, n) matrix of distances, got a Neighborhood; use pairwise_distances"
            )
        distances = as_float_tensor(distances, "distances")
        check_distances(distances)
        return cls(distances.clone().fill_diagonal_(torch.inf))

    def to(self, *args: Any, **kwargs: Any) -> "DenseNeighborhood":
        """As :meth:`torch.Tensor.to`."""
        return DenseNeighborhood(self.distances.to(*args, **kwargs))

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self.distances.shape[0]

    @property
    def total_rows(self) -> int:
        """How many rows the data have."""
        return self.n_rows

    @property
    def n_candidates(self) -> int:
        """How many candidates every row has at least."""
        return int(torch.isfinite(self.distances).sum(dim=1).min())

    def affinities(self, features: Tensor) -> Tensor:
        """``F F^T``."""
        return features @ features.T

    def aggregate(self, weights: Tensor, features: Tensor) -> Tensor:
        """``S H``."""
        return weights @ features

    def aggregate_transposed(self, weights: Tensor, features: Tensor) -> Tensor:
        """``S^T H``."""
        return weights.T @ features

    def to_matrix(self, weights: Tensor) -> Tensor:
        """S as an (n, n) matrix."""
        return weights


@dataclass(frozen=True, eq=False)
class Neighborhood:
    """Each row's list of candidates. A row is not on its own list, and no row is listed twice."""

    indices: Tensor  # (n, m) int32, whatever integers it was made from: half the memory
    distances: Tensor  # (n, m), nearest first
    partition: Partition = field(default=ALL_ROWS, kw_only=True)

    def __post_init__(self) -> None:
        _check_lists(self.indices, self.distances, self.n_columns)
        object.__setattr__(self, "indices", self.indices.int())

    def __reduce__(self) -> tuple[Any, ...]:
        if self.partition is not ALL_ROWS:
            raise TypeError(
                f"the lists of a {type(self.partition).__name__} partition are of use while a model is trained only, "
                "got a request to pickle them; pickle those of in_data_order()"
            )
        return Neighborhood, (self.indices, self.distances)  # what was worked out from the lists is left behind

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self.distances.shape[0]

    @property
    def total_rows(self) -> int:
        """How many rows the data have."""
        return self.partition.total_rows(self.n_rows)

    @property
    def n_columns(self) -> int:
        """How many rows the lists may name: own rows, then those of the halo."""
        return self.n_rows + self.partition.halo.n_rows

    @property
    def n_candidates(self) -> int:
        """How many candidates every row has."""
        return self.distances.shape[1]

    @property
    def all_tied(self) -> Tensor:
        """(n,) True where all candidates are equally far, so that the distances say nothing."""
        return self.distances[:, 0] == self.distances[:, -1]

    def affinities(self, features: Tensor) -> Tensor:
        """``<f_i, f_j>`` for each candidate j of row i, (n, m)."""
        return _Product.apply(self, features, _HaloExchange.apply(self, features))

    def aggregate(self, weights: Tensor, features: Tensor) -> Tensor:
        """``S H``, (n, d)."""
        return _Aggregate.apply(self, weights, _HaloExchange.apply(self, features))

    def aggregate_transposed(self, weights: Tensor, features: Tensor) -> Tensor:
        """``S^T H``, (n, d)."""
        return _HaloReduce.apply(self, _AggregateTransposed.apply(self, weights, features))

    def to_matrix(self, weights: Tensor) -> Tensor:
        """S as an (n, n) matrix."""
        return weights.new_zeros(self.n_rows, self.n_rows).scatter(1, self.indices.long(), weights)

    def to_csr(self, weights: Tensor) -> scipy.sparse.csr_array:
        """S as a sparse matrix, without its zeros."""
        n, m = self.indices.shape
        # Copies, since scipy drops zeros and sorts columns in place.
        parts = weights.cpu().numpy().flatten(), self.indices.cpu().numpy().flatten(), np.arange(0, n * m + 1, m)
        graph = scipy.sparse.csr_array(parts, shape=(n, self.n_columns))
        graph.eliminate_zeros()
        return graph

    def to_dense(self) -> DenseNeighborhood:
        """The same candidates as an (n, n) matrix, infinite where a pair is not on a list."""
        matrix = torch.full((self.n_rows, self.n_rows), torch.inf).to(self.distances)
        return DenseNeighborhood(matrix.scatter(1, self.indices.long(), self.distances))

    def to(self, *args: Any, **kwargs: Any) -> "Neighborhood":
        """As :meth:`torch.Tensor.to`: another device, or another dtype of the distances."""
        distances = self.distances.to(*args, **kwargs)
        if distances is self.distances:
            return self  # with all that was worked out from it
        return replace(self, indices=self.indices.to(distances.device), distances=distances)

    def in_data_order(self) -> "Neighborhood":
        """The lists of all rows of all processes, in the order of the data."""
        if self.partition is ALL_ROWS:
            return self
        listed = self.halo_exchange(self.partition.global_ids(torch.arange(self.n_rows))).int()[self.indices]
        return Neighborhood(*(self.partition.gather_in_data_order(part) for part in (listed, self.distances)))

    def halo_exchange(self, features: Any, queried_rows: Array | None = None) -> Any:  # (n_columns, ...)
        """Append the halo rows, to dense features or a CSR array.

        With ``queried_rows`` only those are exchanged that the lists of these rows name, and the others are zero.
        """
        return self._halo(queried_rows).exchange(features)

    def halo_reduce(self, gradient: Tensor, queried_rows: Array | None = None) -> Tensor:  # (n_rows, ...)
        """The adjoint of :meth:`halo_exchange`: add the gradients of halo rows to those of their owners' rows."""
        return self._halo(queried_rows).reduce(gradient)

    def forget_halos(self) -> None:
        """Drop the halos of queried rows, in all processes together.

        Making one is a collective, so that none may know a halo that another has yet to make.
        """
        self.memo.pop("halos", None)

    def _halo(self, queried_rows: Array | None) -> Halo:
        """The halo of the lists of these rows; made once, since the same rows are queried in every epoch."""
        if queried_rows is None or self.partition.n_processes == 1:
            return self.partition.halo
        halos = self.memo.setdefault("halos", {})
        key = queried_rows.tobytes()
        if key not in halos:
            listed = self.indices[queried_rows].unique().long()
            halos[key] = self.partition.halo.subset(listed[listed >= self.n_rows] - self.n_rows)
        found: Halo = halos[key]
        return found

    @cached_property
    def memo(self) -> dict[Hashable, Any]:
        """What others worked out from these lists and would otherwise work out again in every epoch."""
        return {}

    @cached_property
    def all_rows(self) -> Array:
        """0 to n - 1."""
        return np.arange(self.n_rows, dtype=np.int32)

    def as_arrays(self, dtype: np.dtype[Any]) -> tuple[Array, Array]:
        """Indices as int32 and distances in ``dtype``, contiguous, for compiled code."""
        key = ("arrays", dtype.name)
        if key not in self.memo:
            distances = np.ascontiguousarray(self.distances.numpy(), dtype)
            self.memo[key] = np.ascontiguousarray(self.indices.numpy(), np.int32), distances
        return self.memo[key]

    @cached_property
    def _row_starts(self) -> Tensor:
        n, m = self.indices.shape
        return torch.arange(0, n * m + 1, m, dtype=torch.int32, device=self.indices.device)

    @cached_property
    def _transpose(self) -> tuple[Tensor, Tensor, Tensor]:
        """The lists by candidate: where each begins, the rows that list it, and where in the lists they do.

        Made once, so that the transposed product is a gather like the plain one, never a scatter.
        """
        m, flat = self.n_candidates, self.indices.flatten()
        position = flat.argsort(stable=True)
        starts = torch.zeros(self.n_columns + 1, dtype=torch.int32, device=flat.device)
        starts[1:] = flat.bincount(minlength=self.n_columns).cumsum(0)
        return starts, (position // m).int(), position


def _check_lists(indices: Tensor, distances: Tensor, n_columns: int) -> None:
    """A row out of range would read foreign memory further on, so lists are checked when they are made."""
    kinds = [part.dtype if isinstance(part, Tensor) else type(part).__name__ for part in (indices, distances)]
    if kinds[0] not in (torch.int32, torch.int64) or not isinstance(distances, Tensor):
        raise ValueError(
            f"candidates must be a tensor of integers, the rows, and a tensor of distances, got {kinds[0]} and "
            f"{kinds[1]}; convert them, or let nearest_candidates make them"
        )
    if indices.ndim != 2 or indices.shape != distances.shape or indices.shape[1] < 1:
        raise ValueError(
            f"candidates and distances must be two (n, m) tensors with m >= 1, got shapes {tuple(indices.shape)} and "
            f"{tuple(distances.shape)}; give one distance for each candidate"
        )
    n = len(indices)
    if indices.numel() >= 2**31:
        raise ValueError(
            f"lists may have up to 2^31 - 1 entries in one process, got {n} rows of {indices.shape[1]}; lower "
            "n_candidates, or share the rows out among processes"
        )
    for start in range(0, n, _ROWS_CHECKED):
        rows = slice(start, start + _ROWS_CHECKED)
        _check_block(start, n_columns, indices[rows], distances[rows])


def _check_block(start: int, n: int, indices: Tensor, distances: Tensor) -> None:
    if not 0 <= int(indices.min()) <= int(indices.max()) < n:
        raise ValueError(
            f"candidates must be rows 0 to {n - 1}, got {int(indices.min())} to {int(indices.max())}; "
            "number the rows from 0"
        )
    if (indices == torch.arange(start, start + len(indices), device=indices.device)[:, None]).any():
        raise ValueError("a row must not be its own candidate, got one that is; leave the row itself out of its list")
    if (indices.sort(dim=1).values.diff(dim=1) == 0).any():
        raise ValueError("a candidate must be listed once, got a row with repeats; remove them")
    if not torch.isfinite(distances).all():
        raise ValueError(
            "distances of candidates must be finite, got NaN or inf; list only rows that may be neighbours"
        )
    if (distances.diff(dim=1) < 0).any():
        raise ValueError("candidates must be listed nearest first, got distances out of order; sort each row")


# The three products on lists. The backward pass is written with them again: indexing's own gradient is a scatter
# over n * m * d numbers, an order of magnitude slower than everything else an epoch does.


class _Product(torch.autograd.Function):
    """out[i, l] = <a_i, b_j> with j the l-th candidate of i."""

    @staticmethod
    def forward(ctx: Any, neighborhood: Neighborhood, a: Tensor, b: Tensor) -> Tensor:
        ctx.neighborhood = neighborhood
        ctx.save_for_backward(a, b)
        # In blocks, so that the gathered (rows, m, d) copy stays small enough for the cache.
        rows = max(1, 2**18 // (neighborhood.indices.shape[1] * max(1, b.shape[1])))
        out = b.new_empty(
            neighborhood.indices.shape
        )  # one piece: small results between the copies would fragment the heap
        for index, block, part in zip(neighborhood.indices.split(rows), a.split(rows), out.split(rows), strict=True):
            torch.bmm(b[index], block.unsqueeze(2), out=part.unsqueeze(2))
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, b = ctx.saved_tensors
        return (
            None,
            _Aggregate.apply(ctx.neighborhood, grad, b) if ctx.needs_input_grad[1] else None,
            _AggregateTransposed.apply(ctx.neighborhood, grad, a) if ctx.needs_input_grad[2] else None,
        )


class _Aggregate(torch.autograd.Function):
    """out_i = sum_l w[i, l] h_j with j the l-th candidate of i."""

    @staticmethod
    def forward(ctx: Any, neighborhood: Neighborhood, weights: Tensor, features: Tensor) -> Tensor:
        ctx.neighborhood = neighborhood
        ctx.save_for_backward(weights, features)
        return sparse_product(
            neighborhood._row_starts,
            neighborhood.indices.flatten(),
            weights.flatten(),
            neighborhood.n_columns,
            features,
        )

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, features = ctx.saved_tensors
        return (
            None,
            _Product.apply(ctx.neighborhood, grad, features) if ctx.needs_input_grad[1] else None,
            _AggregateTransposed.apply(ctx.neighborhood, weights, grad) if ctx.needs_input_grad[2] else None,
        )


class _AggregateTransposed(torch.autograd.Function):
    """out_j = sum of w[i, l] h_i over all i that list j, l being where."""

    @staticmethod
    def forward(ctx: Any, neighborhood: Neighborhood, weights: Tensor, features: Tensor) -> Tensor:
        ctx.neighborhood = neighborhood
        ctx.save_for_backward(weights, features)
        starts, rows, position = neighborhood._transpose
        return sparse_product(starts, rows, weights.flatten()[position], neighborhood.n_rows, features)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, features = ctx.saved_tensors
        return (
            None,
            _Product.apply(ctx.neighborhood, features, grad) if ctx.needs_input_grad[1] else None,
            _Aggregate.apply(ctx.neighborhood, weights, grad) if ctx.needs_input_grad[2] else None,
        )


class _HaloExchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, neighborhood: Neighborhood, features: Tensor) -> Tensor:
        ctx.neighborhood = neighborhood
        return neighborhood.halo_exchange(features)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        return None, _HaloReduce.apply(ctx.neighborhood, grad)


class _HaloReduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, neighborhood: Neighborhood, gradient: Tensor) -> Tensor:
        ctx.neighborhood = neighborhood
        return neighborhood.halo_reduce(gradient)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        return None, _HaloExchange.apply(ctx.neighborhood, grad)


def sparse_product(starts: Tensor, columns: Tensor, values: Tensor, n_columns: int, features: Tensor) -> Tensor:
    """A CSR matrix times a dense one."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        matrix = torch.sparse_csr_tensor(
            starts, columns, values, size=(len(starts) - 1, n_columns), check_invariants=False
        )
    return matrix @ features


def as_neighborhood(
    distances: "Tensor | Neighborhood | DenseNeighborhood",
) -> "Neighborhood | DenseNeighborhood":
    """A matrix of distances as the full problem; a neighbourhood as it is."""
    if isinstance(distances, Neighborhood | DenseNeighborhood):
        return distances
    return DenseNeighborhood.from_matrix(distances)
