"""The partition of one of several processes: its own rows, and the halo that their lists name."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import scipy.sparse
import torch
import torch.distributed as dist
from torch import Tensor

from angpn.neighbors.collectives import all_gather, all_reduce, all_to_all, all_to_all_counts
from angpn.neighbors.halo import DistributedHalo, HaloExchange, counts_by_owner
from angpn.neighbors.partition import Reordered


@dataclass(frozen=True, eq=False)
class Shard(Reordered):
    """The rows of one of several processes; in its lists, numbers from its number of rows on are those of its halo."""

    bounds: Sequence[int]  # numbers at which the rows of each process begin, and the last end
    halo: DistributedHalo = field()

    def total_rows(self, n_rows: int) -> int:
        """Return the number of rows of all processes, given that of this one."""
        return self.bounds[-1]

    @property
    def n_processes(self) -> int:  # type: ignore[override]
        """The number of processes that share the rows."""
        return len(self.bounds) - 1

    def with_transpose(self, graph: scipy.sparse.csr_array) -> tuple[scipy.sparse.csr_array, HaloExchange]:
        """Return own rows of ``S + S^T``, and the halo exchange for products with it.

        It is another halo: rows that list a row of this process are known only once the others have sent them.
        """
        own, start = len(self.rows), self.bounds[dist.get_rank()]
        within = graph[:, :own]
        entries = graph[:, own:].tocoo()  # to be sent to the owners of their columns
        rows, columns, weights = (torch.from_numpy(part) for part in (entries.row, entries.col, entries.data))
        rows, columns = start + rows.long(), self.halo.numbers[columns.long()]
        order = columns.argsort(stable=True)  # by number, and so by owner
        counts = counts_by_owner(columns, self.bounds)
        received = all_to_all_counts(counts)
        back = [all_to_all(part[order], counts, received) for part in (columns, rows, weights)]
        rows, columns, weights = (torch.cat(pair) for pair in zip((rows, columns, weights), back, strict=True))
        halo = DistributedHalo(columns.unique(), self.bounds)
        positions = (rows - start).numpy(), torch.searchsorted(halo.numbers, columns).numpy()
        beyond = scipy.sparse.csr_array((weights.numpy(), positions), shape=(own, halo.n_rows))
        return scipy.sparse.hstack([within + within.T, beyond], format="csr"), halo.exchange

    def all_reduce_sum(self, value: Tensor) -> Tensor:
        """Sum over all processes."""
        return all_reduce(value, dist.ReduceOp.SUM)

    def all_reduce_sums(self, values: list[Tensor]) -> list[Tensor]:
        """Sum several tensors of one dtype over all processes, in one collective."""
        flat = self.all_reduce_sum(torch.cat([value.flatten() for value in values]))
        parts = flat.split([value.numel() for value in values])
        return [part.view_as(value) for part, value in zip(parts, values, strict=True)]

    def all_reduce_max(self, value: Tensor) -> Tensor:
        """Take the maximum over all processes."""
        return all_reduce(value, dist.ReduceOp.MAX)

    def mean(self, values: Tensor) -> Tensor:
        """Take the mean over the rows of all processes."""
        return self.all_reduce_sum(values.sum()) / self.bounds[-1]

    def all_gather(self, values: Tensor) -> Tensor:
        """Concatenate the values of all processes."""
        return all_gather(values)

    def gather_in_data_order(self, values: Tensor) -> Tensor:  # (total_rows, ...)
        """Return the values of all rows of all processes, in the order of the data."""
        found = values.new_empty(self.bounds[-1], *values.shape[1:])
        found[all_gather(self.rows)] = all_gather(values)
        return found
