"""Pairwise distances D of Eq. (5): the full matrix, or each row's m nearest candidates."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from angpn import kernels
from angpn.kernels.threads import over_rows
from angpn.neighbors.distance_blocks import BLOCK_BYTES as BLOCK_BYTES
from angpn.neighbors.distance_blocks import DistanceBlocks, in_dtype
from angpn.neighbors.distance_blocks import Metric as Metric
from angpn.neighbors.neighborhood import Neighborhood
from angpn.neighbors.screening import Screened, Screening, nothing_found
from angpn.utils.checks import as_float_tensor

Priorities = Callable[[int], Tensor]  # of all columns, (r, n), for so many rows


def pairwise_distances(
    x: Any,  # (n, d) dense or sparse; (n, n) if precomputed
    metric: Metric = "chord",
) -> Tensor:  # (n, n), zero diagonal
    """Compute the distance of every row to every other.

    ``"chord"`` is ``sqrt(2 - 2 cos)``, the Euclidean distance between L2-normalised rows, except that an empty row
    has cosine 0 with every other row: plain Euclidean distance puts it at 1 from all rows, nearer than most real
    neighbours, and so makes it a neighbour of all.

    Args:
        x: rows of features, dense or sparse.
        metric: "chord", "euclidean", "sqeuclidean", or "precomputed", where ``x`` is the matrix of distances itself.

    Returns:
        D, with a zero diagonal.

    Raises:
        ValueError: if ``x`` has NaN or infinite entries, its dtype cannot hold the distances, or precomputed distances
            are not a square matrix.

    >>> pairwise_distances(torch.tensor([[3.0, 4.0], [0.0, 0.0]]), "euclidean")
    tensor([[0., 5.],
            [5., 0.]])
    """
    rows = DistanceBlocks(x, metric)
    if rows.n == 0:
        return torch.zeros(0, 0, dtype=rows.dtype)
    blocks = [rows.distances(block) for block in rows.blocks(rows.n)]
    return in_dtype(torch.cat(blocks).fill_diagonal_(0), rows.dtype)


def nearest_candidates(
    x: Any,  # (n, d) dense or sparse; (n, n) if precomputed
    n_candidates: int,
    metric: Metric = "chord",
    *,
    random_state: int = 0,
    on_rows: Callable[[int], None] = lambda count: None,
) -> Neighborhood:
    """Find each row's ``n_candidates`` nearest other rows, by exact search in bounded memory.

    Where several rows tie for the last place, a shuffle decides, for each row anew: files are often sorted by class, so
    the order of rows would leak the labels.

    Args:
        x: rows of features, dense or sparse.
        n_candidates: m, the length of the lists.
        metric: as for :func:`pairwise_distances`. The default, "chord", depends on directions only, which suits text
            and embeddings; for tables, standardise the columns and use "euclidean".
        random_state: seed of that shuffle.
        on_rows: called with the number of further rows that are done.

    Returns:
        The candidates and their distances, nearest first.

    Raises:
        ValueError: if there are not so many other rows at finite distance, ``x`` has NaN or infinite entries, or its
            dtype cannot hold the distances.
    """
    rows = DistanceBlocks(x, metric)
    if rows.n < 2:
        raise ValueError(f"candidates need at least 2 samples, got n_samples={rows.n}; pass more data")
    if not 1 <= n_candidates < rows.n:
        raise ValueError(
            f"n_candidates must lie between 1 and n_samples - 1 = {rows.n - 1}, got {n_candidates}; "
            "lower n_candidates or pass more data"
        )
    priorities = _shuffles(rows.n, random_state)
    if rows.is_dense:
        found = _complete(Screening(rows).of_rows(rows, n_candidates, on_rows), rows, priorities, other=True)
    else:
        found = _complete(nothing_found(rows.n, n_candidates), rows, priorities, other=True, on_rows=on_rows)
    indices, distances = found
    if torch.isinf(distances).any():
        raise ValueError(
            f"n_candidates={n_candidates} needs that many finite distances in every row, got fewer in row "
            f"{int(torch.isinf(distances).any(dim=1).nonzero()[0, 0])}; lower n_candidates"
        )
    return Neighborhood(indices, in_dtype(distances, rows.dtype))


def neighbors_from_graph(
    graph: Any,  # (n, n) sparse: the distances of each row to its nearest rows
    n_neighbors: int,
    n_candidates: int | None = None,
    *,
    random_state: int = 0,
) -> Neighborhood:
    """Take the candidates of a sparse graph of distances, as KNeighborsTransformer gives it.

    Entries on the diagonal are dropped; zeros that the graph stores elsewhere are distances to equal rows. Every row
    keeps as many candidates as the row with the fewest has, or ``n_candidates`` if that is fewer; ties for the last
    place fall by a seeded shuffle.
    """
    graph = scipy.sparse.coo_array(graph)
    if graph.shape[0] != graph.shape[1]:
        raise ValueError(
            f"a graph of distances must be square, a row and a column for each sample, got shape {graph.shape}; make "
            "it on the rows of X"
        )
    other = graph.coords[0] != graph.coords[1]
    rows, columns, values = graph.coords[0][other], graph.coords[1][other], graph.data[other]
    if not np.isfinite(values).all() or (values < 0).any():
        raise ValueError(
            f"distances must be finite and >= 0, got {values[~(np.isfinite(values) & (values >= 0))][0]:g}; pass "
            "distances, not similarities"
        )
    n = graph.shape[0]
    counts = np.bincount(rows, minlength=n)
    fewest = int(counts.min())
    if fewest < n_neighbors + 1:
        raise ValueError(
            f"n_neighbors={n_neighbors} needs a graph with at least {n_neighbors + 1} other rows in every row, got "
            f"{fewest} in row {int(counts.argmin())}; a graph by KNeighborsTransformer or NearestNeighbors may count "
            f"the row itself: ask it for n_neighbors={n_neighbors + 2} or more, or lower n_neighbors here"
        )
    order = np.lexsort((np.random.default_rng(random_state).random(len(values)), values, rows))
    starts = np.cumsum(counts) - counts
    kept = order[starts[:, None] + np.arange(min(fewest, n_candidates or fewest))]
    dtype = values.dtype if values.dtype.kind == "f" else np.dtype(np.float64)
    indices = torch.from_numpy(columns[kept].astype(np.int64))
    return Neighborhood(indices, torch.from_numpy(values[kept].astype(dtype)))


class ExactSearch:
    """Compares queries with every one of some rows, which are prepared once for all queries."""

    def __init__(
        self,
        x: Any,  # (n, d) dense or sparse; unused if precomputed
        n_candidates: int,
        metric: Metric = "chord",
        *,
        random_state: int = 0,
        each_anew: bool = False,
    ) -> None:
        n, self._count = x.shape[0], min(n_candidates, x.shape[0])
        self._rows = None if metric == "precomputed" else DistanceBlocks(x, metric)
        self._screening = Screening(self._rows) if self._rows is not None and self._rows.is_dense else None
        self._priorities = _shuffles(n, random_state) if each_anew else _one_shuffle(n, random_state)

    def __call__(self, queries: Any) -> tuple[Tensor, Tensor]:  # (r, m) each
        """Return what :func:`nearest_fitted` does."""
        if self._rows is None:
            matrix = as_float_tensor(queries, "distances")
            known = matrix.double().nan_to_num(nan=torch.inf, posinf=torch.inf)
            indices, distances = _nearest(known, self._count, self._priorities)
            return indices.long(), in_dtype(distances, matrix.dtype)
        rows = self._rows.of_queries(queries)
        if self._screening is not None:
            screened = self._screening.of_queries(rows, self._count)
        else:
            screened = nothing_found(rows.queries.shape[0], self._count)
        indices, distances = _complete(screened, rows, self._priorities)
        return indices.long(), in_dtype(distances, rows.dtype)


def nearest_fitted(
    x: Any,  # (n, d) dense or sparse
    queries: Any,  # (r, d) alike; (r, n) distances if precomputed
    n_candidates: int,
    metric: Metric = "chord",
    *,
    random_state: int = 0,
    each_anew: bool = False,
) -> tuple[Tensor, Tensor]:  # (r, m) rows of x, and their distances, nearest first
    """Find the nearest rows of ``x`` for each query. What one query finds does not depend on the others.

    Where rows tie for the last place, an order of the rows of ``x`` drawn from ``random_state`` decides; or, for lists
    that make a graph and should not all name the same rows, a shuffle for each query anew.
    """
    return ExactSearch(x, n_candidates, metric, random_state=random_state, each_anew=each_anew)(queries)


def distances_from(
    x: Any,  # (n, d) dense or sparse; (n, n) if precomputed
    chosen: np.ndarray[Any, Any],  # (r,) rows
    metric: Metric = "chord",
) -> Tensor:  # (r, n), infinite from a row to itself
    """Compute the distances of some rows to every row."""
    rows = DistanceBlocks(x, metric)
    distances = in_dtype(rows.distances(chosen), rows.dtype)
    distances[torch.arange(len(chosen)), torch.from_numpy(chosen)] = torch.inf
    return distances


def _shuffles(n: int, seed: int) -> Priorities:
    """Return a function that draws priorities of n columns for each of so many rows."""
    generator = torch.Generator().manual_seed(int(seed))
    return lambda count: torch.rand(count, n, generator=generator)


def _one_shuffle(n: int, seed: int) -> Priorities:
    """Return one that draws them once for all rows."""
    places = torch.randperm(n, generator=torch.Generator().manual_seed(int(seed))).argsort()
    return lambda count: places.float().expand(count, -1).contiguous()


def _complete(
    screened: Screened,
    rows: DistanceBlocks,
    priorities: Priorities,
    *,
    other: bool = False,  # than the query itself
    on_rows: Callable[[int], None] = lambda count: None,
) -> tuple[Tensor, Tensor]:  # (r, m) each
    """Search among all distances in float64 where screening could not tell."""
    indices, distances, done = (torch.from_numpy(part) for part in screened)
    left = (~done).nonzero().squeeze(1)
    for block in rows.blocks(len(left)):
        some = left[block]
        to_all = rows.distances(some.numpy())
        if other:
            to_all[torch.arange(len(some)), some] = torch.inf
        indices[some], distances[some] = _nearest(to_all, indices.shape[1], priorities)
        on_rows(len(some))
    return indices, distances


def _nearest(block: Tensor, count: int, priorities: Priorities) -> tuple[Tensor, Tensor]:
    """Return columns and values of the ``count`` smallest entries of each row, smallest first.

    Ties for the last place are decided by ``priorities``, which draws those of all columns for each of some rows.
    """
    n = len(block)
    indices, values = torch.empty(n, count, dtype=torch.int32), torch.empty(n, count, dtype=block.dtype)
    done = torch.empty(n, dtype=torch.bool)
    block = block.contiguous()
    over_rows(kernels.selection.smallest_rows, n, *(part.numpy() for part in (block, indices, values, done)))
    tied = (~done).nonzero().squeeze(1)
    if len(tied):
        shuffled = priorities(len(tied))
        over_rows(
            kernels.selection.tied_rows, len(tied), *(part.numpy() for part in (tied, block, shuffled, indices, values))
        )
    return indices, values
