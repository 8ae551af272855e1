"""Which rows of the data a process holds, in which order, and the collectives over all processes.

A neighbourhood has a partition. :class:`Partition` is the usual one: all rows, in the order of the data, in one
process, where every method is the identity. :class:`Reordered` holds all rows in another order, and
:class:`angpn.neighbors.shard.Shard` those of one of several processes.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from angpn.neighbors.halo import Halo, HaloExchange
from angpn.utils.typing import Array


class Partition:
    """All rows of the data, in their order, in one process."""

    n_processes = 1
    halo = Halo()

    def total_rows(self, n_rows: int) -> int:
        """Return the number of rows of all processes, given that of this one."""
        return n_rows

    def with_transpose(self, graph: scipy.sparse.csr_array) -> tuple[scipy.sparse.csr_array, HaloExchange]:
        """Return ``S + S^T``, and the halo exchange for products with it."""
        return scipy.sparse.csr_array(graph + graph.T), self.halo.exchange

    def all_reduce_sum(self, value: Tensor) -> Tensor:
        """Sum over all processes."""
        return value

    def all_reduce_sums(self, values: list[Tensor]) -> list[Tensor]:
        """Sum several tensors of one dtype over all processes, in one collective."""
        return values

    def all_reduce_max(self, value: Tensor) -> Tensor:
        """Take the maximum over all processes."""
        return value

    def mean(self, values: Tensor) -> Tensor:
        """Take the mean over the rows of all processes."""
        return values.mean()

    def all_gather(self, values: Tensor) -> Tensor:
        """Concatenate the values of all processes."""
        return values

    def global_ids(self, numbers: Tensor) -> Tensor:
        """Return the rows of the data that the local rows with these numbers are."""
        return numbers

    def local_index(self, rows: Array) -> tuple[Array, Array]:
        """Return the local numbers of those of these rows of the data that are held here, and their positions."""
        return rows, np.arange(len(rows))

    def local_rows(self, values: Any) -> Any:
        """Select the rows held here, in local order, from a tensor, array or CSR array of all rows of the data."""
        return values

    def gather_rows(self, values: Tensor, rows: Array) -> Tensor:
        """Return the values of these rows of the data, whichever process holds them."""
        return values[rows]

    def gather_in_data_order(self, values: Tensor) -> Tensor:  # (total_rows, ...)
        """Return the values of all rows of all processes, in the order of the data."""
        return values


ALL_ROWS = Partition()


@dataclass(frozen=True, eq=False)
class Reordered(Partition):
    """All rows of the data, in another order."""

    rows: Tensor  # (n_rows,) which rows of the data these are

    def global_ids(self, numbers: Tensor) -> Tensor:
        """Return the rows of the data that the local rows with these numbers are."""
        return self.rows[numbers]

    def local_index(self, rows: Array) -> tuple[Array, Array]:
        """Return the local numbers of those of these rows of the data that are held here, and their positions."""
        ordered, numbers = self._sorted_rows
        near = np.minimum(np.searchsorted(ordered, rows), len(ordered) - 1)
        found = ordered[near] == rows
        return numbers[near[found]], np.flatnonzero(found)

    def local_rows(self, values: Any) -> Any:
        """Select the rows held here, in local order, from a tensor, array or CSR array of all rows of the data."""
        return values[self.rows.to(values.device)] if isinstance(values, Tensor) else values[self.rows.numpy()]

    def gather_rows(self, values: Tensor, rows: Array) -> Tensor:
        """Return the values of these rows of the data, whichever process holds them."""
        numbers, positions = self.local_index(rows)
        found = values.new_zeros(len(rows), *values.shape[1:])
        found[positions] = values[numbers]
        return self.all_reduce_sum(found)

    def gather_in_data_order(self, values: Tensor) -> Tensor:  # (total_rows, ...)
        """Return the values of all rows of all processes, in the order of the data."""
        found = torch.empty_like(values)
        found[self.rows] = values
        return found

    @cached_property
    def _sorted_rows(self) -> tuple[Array, Array]:
        numbers = np.argsort(self.rows.numpy())
        return self.rows.numpy()[numbers], numbers
