"""Pairwise distances D of Eq. (5): the full matrix, or each row's m nearest candidates."""

from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from angpn.neighbors.neighborhood import Neighborhood
from angpn.utils.checks import as_float_tensor, as_sparse_rows, as_tensor, check_choice, check_distances, check_finite

Metric = Literal["chord", "euclidean", "sqeuclidean", "precomputed"]

# Of distances at once; a search takes several times that. More than 32 MB, since smaller arrays that come and go leave
# holes in the heap, and a process may grow to twice what it needs.
BLOCK_BYTES = 3 * 2**24
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
    on_rows: Callable[[int], None] = lambda count: None,  # told how many more rows are done
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
    shuffles = _shuffles(rows.n, random_state)
    found = []
    for start, stop in rows.blocks():
        block = rows.distances(slice(start, stop))
        block[torch.arange(stop - start), torch.arange(start, stop)] = torch.inf
        found.append(_nearest(block, n_candidates, shuffles))
        on_rows(stop - start)
    indices, distances = (torch.cat(parts) for parts in zip(*found, strict=True))
    if torch.isinf(distances).any():
        raise ValueError(
            f"n_candidates={n_candidates} needs that many finite distances in every row, got fewer in row "
            f"{int(torch.isinf(distances).any(dim=1).nonzero()[0, 0])}; lower n_candidates"
        )
    return Neighborhood(indices, distances.to(rows.dtype))


def neighbors_from_graph(
    graph: Any,  # (n, n) sparse: the distances of each row to its nearest rows
    n_neighbors: int,
    n_candidates: int | None = None,
    *,
    random_state: int = 0,
) -> Neighborhood:
    """The candidates of a sparse graph of distances, as KNeighborsTransformer gives it.

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


def nearest_fitted(
    x: Any,  # (n, d) dense or sparse
    queries: Any,  # (r, d) alike; (r, n) distances if precomputed
    n_candidates: int,
    metric: Metric = "chord",
    *,
    random_state: int = 0,
    each_anew: bool = False,
) -> tuple[Tensor, Tensor]:  # (r, m) rows of x, and their distances, nearest first
    """For each query the nearest rows of ``x``. What one query finds does not depend on the others.

    Where rows tie for the last place, an order of the rows of ``x`` drawn from ``random_state`` decides; or, for lists
    that make a graph and shall not all name the same rows, a shuffle for each query anew.
    """
    if metric == "precomputed":
        matrix = as_float_tensor(queries, "distances")
        blocks: Iterator[Tensor] = iter([matrix.double()])
        dtype = matrix.dtype
    else:
        rows = _Rows(x, metric, queries)
        blocks = (rows.distances(slice(start, stop)) for start, stop in rows.blocks())
        dtype = rows.dtype
    order = torch.randperm(x.shape[0], generator=torch.Generator().manual_seed(int(random_state)))
    shuffles = _shuffles(x.shape[0], random_state) if each_anew else lambda count: order.expand(count, -1)
    found = [_nearest(block, n_candidates, shuffles) for block in blocks]
    indices, distances = (torch.cat(parts) for parts in zip(*found, strict=True))
    return indices, distances.to(dtype)


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


def _shuffles(n: int, seed: int) -> Callable[[int], Tensor]:
    """What gives so many orders of n columns."""
    generator = torch.Generator().manual_seed(int(seed))
    return lambda count: torch.rand(count, n, generator=generator).argsort(dim=1)


def _nearest(block: Tensor, count: int, shuffles: Callable[[int], Tensor]) -> tuple[Tensor, Tensor]:
    """Columns and values of the ``count`` smallest entries of each row, smallest first.

    Ties for the last place are decided by ``shuffles``, which gives an order of the columns for each of some rows.
    """
    values, indices = block.topk(min(count + 1, block.shape[1]), largest=False)
    rows = (values[:, count - 1] == values[:, -1]).nonzero().squeeze(1) if values.shape[1] > count else ()
    values, indices = values[:, :count].clone(), indices[:, :count].clone()
    # Rows in which the next one is as near as the last: a tie for the last place.
    if len(rows):
        shuffle = shuffles(len(rows))
        order = block[rows].gather(1, shuffle).argsort(dim=1, stable=True)[:, :count]
        indices[rows] = shuffle.gather(1, order)
        values[rows] = block[rows].gather(1, indices[rows])
    return indices, values


class _Rows:
    """Distances from a block of queries (by default of the rows themselves) to all rows, computed in float64."""

    def __init__(self, x: Any, metric: Metric, queries: Any = None) -> None:
        check_choice(metric, "metric", get_args(Metric))
        self.metric = metric
        self.x, self.dtype = _as_float64(x)
        self.n: int = self.x.shape[0]
        if metric == "precomputed":
            if isinstance(self.x, scipy.sparse.csr_array):
                raise ValueError(
                    "precomputed distances must be a dense (n, n) matrix, got a sparse one; call toarray()"
                )
            check_distances(self.x)
            self.queries = self.x
            return
        _check_finite_rows(self.x)
        # Distances do not see a common offset, but the squares they are computed from drown in it.
        offset = 0.0 if metric == "chord" or not isinstance(self.x, Tensor) else self.x.mean(dim=0)
        self.x, self.squares = _prepared(self.x, metric, offset)
        self.queries, self.query_squares = self.x, self.squares
        if queries is not None:
            self.queries = _as_float64(queries)[0]
            _check_finite_rows(self.queries)
            self.queries, self.query_squares = _prepared(self.queries, metric, offset)

    def blocks(self) -> list[tuple[int, int]]:
        size, count = max(1, BLOCK_BYTES // (8 * self.n)), self.queries.shape[0]
        return [(start, min(start + size, count)) for start in range(0, count, size)]

    def distances(self, rows: slice | np.ndarray[Any, Any]) -> Tensor:  # (r, n)
        if self.metric == "precomputed":
            return self.queries[rows].clone()
        product = self.queries[rows] @ self.x.T
        gram = product if isinstance(product, Tensor) else torch.from_numpy(product.toarray())
        # In place, and each pass over the block counts: at 50,000 rows these take as long as the product.
        # What the subtraction leaves of equal rows is rounding: let duplicates tie at zero.
        if self.metric == "chord":
            squared = torch.threshold_(gram.mul_(-2).add_(2), 2 * _ROUNDING, 0.0)
        else:
            scale = self.query_squares[rows, None] + self.squares
            squared = torch.add(scale, gram, alpha=-2, out=gram)
            squared.masked_fill_(squared <= scale.mul_(_ROUNDING), 0)
        return squared if self.metric == "sqeuclidean" else squared.sqrt_()


def _prepared(x: Any, metric: Metric, offset: Any) -> tuple[Any, Tensor]:
    """Rows as their products need them, and their squared lengths before scaling."""
    if isinstance(x, Tensor):
        x = x - offset
        squares = x.square().sum(dim=1)
    else:
        squares = torch.from_numpy(np.asarray(x.multiply(x).sum(axis=1), dtype=np.float64).ravel())
    if metric == "chord":
        scale = torch.where(squares > 0, squares, 1).rsqrt()
        if isinstance(x, Tensor):
            x = x * scale[:, None]
        else:
            x = scipy.sparse.csr_array(scipy.sparse.diags_array(scale.numpy()) @ x)
    return x, squares


def _check_finite_rows(x: Any) -> None:
    # A sparse row's sum is finite if its entries are, and it knows its row.
    check_finite(x if isinstance(x, Tensor) else torch.from_numpy(x.sum(axis=1)[:, None]), "x")


def _as_float64(x: Any) -> tuple[Any, torch.dtype]:
    """``x`` on the CPU as a float64 tensor or CSR array, and the dtype its distances shall have."""
    sparse = as_sparse_rows(x, torch.float64)
    if sparse is not None:
        return sparse, torch.float64 if x.dtype in (np.float64, torch.float64) else torch.float32
    given = as_tensor(x, "x").detach().cpu()
    return as_float_tensor(given.double(), "x"), as_float_tensor(given, "x").dtype
