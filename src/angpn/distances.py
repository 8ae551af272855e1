"""Pairwise distances D of Eq. (5): the full matrix, or each row's m nearest candidates."""

from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from angpn.checks import as_float_tensor, as_sparse_rows, as_tensor, check_choice, check_distances, check_finite
from angpn.neighborhood import Neighborhood

Metric = Literal["chord", "euclidean", "sqeuclidean", "precomputed"]

_BLOCK_BYTES = 2**26
_ROUNDING = 1e-14


def pairwise_distances(
    x: Any,  # (n, d) dense or sparse; (n, n) if precomputed
    metric: Metric = "chord",
) -> Tensor:  # (n, n), zero diagonal
    """Distance of every row to every other.

    ``"chord"`` is ``sqrt(2 - 2 cos)``, the Euclidean distance between L2-normalised rows, except that an empty row
    has cosine 0 with every other row: plain Euclidean distance puts it at 1 from everything, nearer than most real
    neighbours, and so makes it everybody's neighbour.

    >>> pairwise_distances(torch.tensor([[3.0, 4.0], [0.0, 0.0]]), "euclidean")
    tensor([[0., 5.],
            [5., 0.]])
    """
    rows = _Rows(x, metric)
    if rows.n == 0:
        return torch.zeros(0, 0, dtype=rows.dtype)
    blocks = [rows.distances(slice(start, stop)) for start, stop in rows.blocks()]
    return torch.cat(blocks).fill_diagonal_(0).to(rows.dtype)


def nearest_candidates(
    x: Any,  # (n, d) dense or sparse; (n, n) if precomputed
    n_candidates: int,
    metric: Metric = "chord",
    *,
    random_state: int = 0,
) -> Neighborhood:
    """Each row's ``n_candidates`` nearest other rows, by exact search in bounded memory.

    ``metric`` is as for :func:`pairwise_distances`. The default, ``"chord"``, sees directions only, which suits text
    and embeddings; for tables, standardise the columns and use ``"euclidean"``.

    Where several rows tie for the last place, a shuffle seeded by ``random_state`` decides, for each row anew:
    files are often sorted by class, so the order of rows would leak the labels.
    """
    rows = _Rows(x, metric)
    if rows.n < 2:
        raise ValueError(f"candidates need at least 2 samples, got n_samples={rows.n}; pass more data")
    if not 1 <= n_candidates < rows.n:
        raise ValueError(
            f"n_candidates must lie between 1 and n_samples - 1 = {rows.n - 1}, got {n_candidates}; "
            "lower n_candidates or pass more data"
        )
    generator = torch.Generator().manual_seed(int(random_state))
    found = []
    for start, stop in rows.blocks():
        block = rows.distances(slice(start, stop))
        block[torch.arange(stop - start), torch.arange(start, stop)] = torch.inf
        found.append(_nearest(block, n_candidates, generator))
    indices, distances = (torch.cat(parts) for parts in zip(*found, strict=True))
    if torch.isinf(distances).any():
        raise ValueError(
            f"n_candidates={n_candidates} needs that many finite distances in every row, got fewer in row "
            f"{int(torch.isinf(distances).any(dim=1).nonzero()[0, 0])}; lower n_candidates"
        )
    return Neighborhood(indices, distances.to(rows.dtype))


def distances_from(
    x: Any,  # (n, d) dense or sparse; (n, n) if precomputed
    chosen: np.ndarray[Any, Any],  # (r,) rows
    metric: Metric = "chord",
) -> Tensor:  # (r, n), infinite from a row to itself
    """Distances of some rows to every row."""
    rows = _Rows(x, metric)
    distances = rows.distances(chosen)
    distances[torch.arange(len(chosen)), torch.from_numpy(chosen)] = torch.inf
    return distances.to(rows.dtype)


def _nearest(block: Tensor, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Columns and values of the ``count`` smallest entries of each row, smallest first, ties shuffled."""
    values, indices = block.topk(count, largest=False)
    rows = ((block <= values[:, -1:]).sum(dim=1) > count).nonzero().squeeze(1)  # a tie for the last place
    if len(rows):
        shuffle = torch.rand(len(rows), block.shape[1], generator=generator).argsort(dim=1)
        order = block[rows].gather(1, shuffle).argsort(dim=1, stable=True)[:, :count]
        indices[rows] = shuffle.gather(1, order)
        values[rows] = block[rows].gather(1, indices[rows])
    return indices, values


class _Rows:
    """Distances from a block of rows to all rows, computed in float64 whatever the input."""

    def __init__(self, x: Any, metric: Metric) -> None:
        check_choice(metric, "metric", get_args(Metric))
        self.metric = metric
        self.x, self.dtype = _as_float64(x)
        if metric == "precomputed":
            if isinstance(self.x, scipy.sparse.csr_array):
                raise ValueError(
                    "precomputed distances must be a dense (n, n) matrix, got a sparse one; call toarray()"
                )
            check_distances(self.x)
        else:
            if self._sparse:
                sums = torch.from_numpy(self.x.sum(axis=1)[:, None])
                check_finite(sums, "x")  # finite if the entries are, and it knows its row
            else:
                check_finite(self.x, "x")
                if metric != "chord":
                    # Distances do not see a common offset, but the squares they are computed from drown in it.
                    self.x = self.x - self.x.mean(dim=0)
            self.squares = self._row_squares()
            if metric == "chord":
                self._scale_rows(torch.where(self.squares > 0, self.squares, 1).rsqrt())
        self.n: int = self.x.shape[0]

    @property
    def _sparse(self) -> bool:
        return isinstance(self.x, scipy.sparse.csr_array)

    def blocks(self) -> list[tuple[int, int]]:
        size = max(1, _BLOCK_BYTES // (8 * self.n))
        return [(start, min(start + size, self.n)) for start in range(0, self.n, size)]

    def distances(self, rows: slice | np.ndarray[Any, Any]) -> Tensor:  # (r, n)
        if self.metric == "precomputed":
            return self.x[rows].clone()
        if self._sparse:
            gram = torch.from_numpy((self.x[rows] @ self.x.T).toarray())
        else:
            gram = self.x[rows] @ self.x.T
        scale = 2.0 if self.metric == "chord" else self.squares[rows, None] + self.squares
        squared = scale - 2 * gram
        # What the subtraction leaves of equal rows is rounding: let duplicates tie at zero.
        squared = torch.where(squared > _ROUNDING * scale, squared, 0)
        return squared if self.metric == "sqeuclidean" else squared.sqrt()

    def _row_squares(self) -> Tensor:
        if self._sparse:
            return torch.from_numpy(np.asarray(self.x.multiply(self.x).sum(axis=1), dtype=np.float64).ravel())
        return self.x.square().sum(dim=1)

    def _scale_rows(self, scale: Tensor) -> None:
        if self._sparse:
            self.x = scipy.sparse.csr_array(scipy.sparse.diags_array(scale.numpy()) @ self.x)
        else:
            self.x = self.x * scale[:, None]


def _as_float64(x: Any) -> tuple[Any, torch.dtype]:
    """``x`` on the CPU as a float64 tensor or CSR array, and the dtype its distances shall have."""
    sparse = as_sparse_rows(x, torch.float64)
    if sparse is not None:
        return sparse, torch.float64 if x.dtype in (np.float64, torch.float64) else torch.float32
    given = as_tensor(x, "x").detach().cpu()
    return as_float_tensor(given.double(), "x"), as_float_tensor(given, "x").dtype
