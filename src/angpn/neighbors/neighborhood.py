"""A neighbourhood: for each row its candidate rows, and their distances.

The learnt graph S lives on a neighbourhood and nowhere else, in every layer, so S is stored as *weights*: one
number for each candidate. Everything the method does with S is then one of two products, which each kind of
neighbourhood provides: the affinities ``<f_i, f_j>`` of each row with its candidates (Eq. (8)), and the sum of the
candidates' features by weight (Eq. (13)). They are each other's derivatives.

:class:`Neighborhood` holds lists of m candidates. :class:`DenseNeighborhood` is the full problem, where every other
row is a candidate; it is also the oracle for the lists, since lists can be written as a dense neighbourhood.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from angpn.neighbors.halo import Halo
from angpn.neighbors.list_checks import check_lists
from angpn.neighbors.list_products import CandidateLists, list_affinities, list_aggregate, list_aggregate_transposed
from angpn.neighbors.partition import ALL_ROWS, Partition
from angpn.utils.checks import as_float_tensor, check_distances
from angpn.utils.typing import Array


@dataclass(frozen=True, eq=False)
class DenseNeighborhood:
    """A neighbourhood in which every other row is a candidate, except where the distance is infinite."""

    distances: Tensor  # (n, n), infinite on the diagonal
    partition: ClassVar[Partition] = ALL_ROWS

    @classmethod
    def from_matrix(cls, distances: Any) -> "DenseNeighborhood":
        """Make it from any square matrix; the diagonal is ignored, since a row is never its own candidate."""
        if isinstance(distances, Neighborhood):
            raise ValueError(
                "this needs the full (n, n) matrix of distances, got a Neighborhood; use pairwise_distances"
            )
        distances = as_float_tensor(distances, "distances")
        check_distances(distances)
        return cls(distances.clone().fill_diagonal_(torch.inf))

    def to(self, *args: Any, **kwargs: Any) -> "DenseNeighborhood":
        """Move or cast it, as :meth:`torch.Tensor.to`."""
        return DenseNeighborhood(self.distances.to(*args, **kwargs))

    @property
    def n_rows(self) -> int:
        """The number of rows that have lists."""
        return self.distances.shape[0]

    @property
    def total_rows(self) -> int:
        """The number of rows of all processes."""
        return self.n_rows

    @property
    def n_candidates(self) -> int:
        """The number of candidates that every row has at least."""
        return int(torch.isfinite(self.distances).sum(dim=1).min())

    def affinities(self, features: Tensor) -> Tensor:
        """Return ``F F^T``."""
        return features @ features.T

    def aggregate(self, weights: Tensor, features: Tensor) -> Tensor:
        """Return ``S H``."""
        return weights @ features

    def aggregate_transposed(self, weights: Tensor, features: Tensor) -> Tensor:
        """Return ``S^T H``."""
        return weights.T @ features

    def to_matrix(self, weights: Tensor) -> Tensor:
        """Return S as an (n, n) matrix."""
        return weights


@dataclass(frozen=True, eq=False)
class Neighborhood:
    """Each row's list of candidates, and their distances.

    Args:
        indices: for each row its candidates, rows from 0; it is not on its own list, and no row is on a list twice.
            Stored as int32, whatever integers they were.
        distances: of the candidates, nearest first.
        partition: which rows of the data these are; all, in their order, by default.

    Raises:
        ValueError: if lists or distances are not so.
    """

    indices: Tensor  # (n, m)
    distances: Tensor  # (n, m)
    partition: Partition = field(default=ALL_ROWS, kw_only=True)

    def __post_init__(self) -> None:
        check_lists(self.indices, self.distances, self.n_columns)
        object.__setattr__(self, "indices", self.indices.int())

    def __reduce__(self) -> tuple[Any, ...]:
        if self.partition is not ALL_ROWS:
            raise TypeError(
                f"the lists of a {type(self.partition).__name__} partition are of use while a model is trained only, "
                "got a request to pickle them; pickle those of in_data_order()"
            )
        return Neighborhood, (self.indices, self.distances)  # without what was computed from the lists

    @property
    def n_rows(self) -> int:
        """The number of rows that have lists."""
        return self.distances.shape[0]

    @property
    def total_rows(self) -> int:
        """The number of rows of all processes."""
        return self.partition.total_rows(self.n_rows)

    @property
    def n_columns(self) -> int:
        """The number of rows that lists may name: own rows, then those of the halo."""
        return self.n_rows + self.partition.halo.n_rows

    @property
    def n_candidates(self) -> int:
        """The number of candidates of every row."""
        return self.distances.shape[1]

    @property
    def all_tied(self) -> Tensor:
        """(n,) True where all candidates are equally far, so that distances do not order them."""
        return self.distances[:, 0] == self.distances[:, -1]

    def affinities(self, features: Tensor) -> Tensor:
        """Return ``<f_i, f_j>`` for each candidate j of row i, (n, m)."""
        return list_affinities(self._lists, self.partition.halo, features)

    def aggregate(self, weights: Tensor, features: Tensor) -> Tensor:
        """Return ``S H``, (n, d)."""
        return list_aggregate(self._lists, self.partition.halo, weights, features)

    def aggregate_transposed(self, weights: Tensor, features: Tensor) -> Tensor:
        """Return ``S^T H``, (n, d)."""
        return list_aggregate_transposed(self._lists, self.partition.halo, weights, features)

    def to_matrix(self, weights: Tensor) -> Tensor:
        """Return S as an (n, n) matrix."""
        return weights.new_zeros(self.n_rows, self.n_rows).scatter(1, self.indices.long(), weights)

    def to_csr(self, weights: Tensor) -> scipy.sparse.csr_array:
        """Return S as a sparse matrix, without its zeros."""
        n, m = self.indices.shape
        # Copies, since scipy drops zeros and sorts columns in place.
        parts = weights.cpu().numpy().flatten(), self.indices.cpu().numpy().flatten(), np.arange(0, n * m + 1, m)
        graph = scipy.sparse.csr_array(parts, shape=(n, self.n_columns))
        graph.eliminate_zeros()
        return graph

    def to_dense(self) -> DenseNeighborhood:
        """Return the same candidates as an (n, n) matrix, infinite where a pair is not on a list."""
        matrix = torch.full((self.n_rows, self.n_rows), torch.inf).to(self.distances)
        return DenseNeighborhood(matrix.scatter(1, self.indices.long(), self.distances))

    def to(self, *args: Any, **kwargs: Any) -> "Neighborhood":
        """Move it to another device, or cast its distances, as :meth:`torch.Tensor.to`."""
        distances = self.distances.to(*args, **kwargs)
        if distances is self.distances:
            return self  # with all that was computed from it
        return replace(self, indices=self.indices.to(distances.device), distances=distances)

    def in_data_order(self) -> "Neighborhood":
        """Return the lists of all rows of all processes, in the order of the data."""
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
        """Add the gradients of halo rows to those of their owners' rows: the adjoint of :meth:`halo_exchange`."""
        return self._halo(queried_rows).reduce(gradient)

    def forget_halos(self) -> None:
        """Drop the halos of queried rows, in all processes together.

        Making one is a collective, so no process may have one that another still has to make.
        """
        self.memo.pop("halos", None)

    def _halo(self, queried_rows: Array | None) -> Halo:
        """Return the halo of the lists of these rows; made once, since the same rows are queried in every epoch."""
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
        """Results that depend on these lists only, kept so that not every epoch computes them again."""
        return {}

    @cached_property
    def all_rows(self) -> Array:
        """0 to n - 1."""
        return np.arange(self.n_rows, dtype=np.int32)

    def as_arrays(self, dtype: np.dtype[Any]) -> tuple[Array, Array]:
        """Return indices as int32 and distances in ``dtype``, contiguous, for compiled code."""
        key = ("arrays", dtype)
        if key not in self.memo:
            distances = np.ascontiguousarray(self.distances.numpy(), dtype)
            self.memo[key] = np.ascontiguousarray(self.indices.numpy(), np.int32), distances
        return self.memo[key]

    @cached_property
    def _lists(self) -> CandidateLists:
        return CandidateLists(self.indices, self.n_columns)


def as_neighborhood(
    distances: "Tensor | Neighborhood | DenseNeighborhood",
) -> "Neighborhood | DenseNeighborhood":
    """Return a matrix of distances as the full problem, a neighbourhood as it is."""
    if isinstance(distances, Neighborhood | DenseNeighborhood):
        return distances
    return DenseNeighborhood.from_matrix(distances)
