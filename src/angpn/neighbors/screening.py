"""Exact search in two steps: a product in float32 rules out most pairs, and the few others get float64 distances."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from angpn import kernels
from angpn.kernels.threads import over_rows
from angpn.neighbors.distance_blocks import ROUNDING, DistanceBlocks
from angpn.utils.powers_of_two import exponents
from angpn.utils.typing import Array


class Screened(NamedTuple):
    """The nearest rows of each query, as far as screening can tell."""

    indices: Array  # (r, m) int32
    distances: Array  # (r, m) float64, nearest first
    done: Array  # (r,) False where it cannot: too many rows are almost as near as the last, or one ties with it


def nothing_found(n_queries: int, count: int) -> Screened:
    """Return lists that are still to be filled."""
    shape = n_queries, count
    return Screened(np.empty(shape, np.int32), np.empty(shape), np.zeros(n_queries, np.bool_))


class Screening:
    r"""Dense rows in float32, and what their products tell of distances.

    Let u = 2^-24. Conversion to float32 changes an entry by at most u times itself, and a sum of d products, in any
    order, with or without fused multiplications, is off by at most d u / (1 - d u) times the sum of their absolute
    values. Both together:

    .. math:: |fl(x \cdot y) - x \cdot y| \le \frac{(d + 2) u}{1 - (d + 2) u} \sum_k |x_k y_k|
        \le \frac{(d + 2) u}{1 - (d + 2) u} \cdot \frac{|x|^2 + |y|^2}{2}

    The keys by which rows y are compared are half of what distinguishes their squared distances, y^2 / 2 - x . y. To
    compute them adds a few u times the same. The bound used is E (x^2 + y^2) / 2 with E = 2 (d + 8) u, twice what is
    needed. That covers the denominator, and the rounding of float64 distances too, that of small ones to 0 included:
    what is ruled out is farther than the last also in float64, and does not tie with it.

    All rows are first divided by a power of two, so that the longest has a length of about 1. What float32 flushes to
    zero is then less than 2^-120 in each product. A query so long that float32 overflows is never done.
    """

    def __init__(self, rows: DistanceBlocks) -> None:
        d = rows.x.shape[1]
        self._relative, self._absolute = 2 * (d + 8) * 2.0**-24, d * 2.0**-110
        self._unit = 2.0 ** -int(exponents(np.sqrt(rows.squares.max().numpy())))
        self._x = torch.mul(rows.x, self._unit, out=torch.empty(rows.x.shape, dtype=torch.float32))
        squares = rows.squares * self._unit**2
        self._lower = (squares * (0.5 - self._relative / 2)).float().numpy()
        self._width = (squares * self._relative).float().numpy()

    def of_rows(self, rows: DistanceBlocks, count: int, on_rows: Callable[[int], None]) -> Screened:
        """Find the nearest other rows of each row. Each product serves the rows on both sides of it."""
        collected = self._none_collected(rows.squares, count)
        tiles = _slices(rows.n, _tile_rows())
        room, turned_room = torch.empty(2, tiles[0].stop ** 2, dtype=torch.float32)
        for number, tile in enumerate(tiles):
            negative = -self._x[tile]
            for other in tiles[number:]:
                product = _view(room, tile, other)
                torch.mm(negative, self._x[other].T, out=product)
                if other == tile:
                    product.fill_diagonal_(torch.inf)
                else:
                    turned = _view(turned_room, other, tile).copy_(product.T)
                    self._collect(turned, tile, collected.of(other), count)
                self._collect(product, other, collected.of(tile), count)
            on_rows(tile.stop - tile.start)
        return self._nearest(rows, slice(0, rows.n), collected, count)

    def of_queries(self, rows: DistanceBlocks, count: int) -> Screened:
        """Find the nearest rows of each query."""
        found = []
        for block in _slices(len(rows.queries), _tile_rows()):
            collected = self._none_collected(rows.query_squares[block], count)
            negative = (rows.queries[block] * -self._unit).float()
            for tile in _slices(rows.n, _tile_rows() ** 2 // len(negative)):
                self._collect(negative @ self._x[tile].T, tile, collected, count)
            found.append(self._nearest(rows, block, collected, count))
        return Screened(*(np.concatenate(parts) for parts in zip(*found, strict=True)))

    def _none_collected(self, squares: Tensor, count: int) -> "_Collected":
        n, room = len(squares), count + max(96, count // 2)
        slack = squares * self._unit**2 * self._relative + self._absolute
        return _Collected(
            slack.float().numpy(),
            np.zeros(n, np.int64),
            np.full(n, np.inf, np.float32),
            np.empty((n, room), np.int32),
            np.empty((n, room), np.float32),
        )

    def _collect(self, products: Tensor, columns: slice, collected: "_Collected", count: int) -> None:
        """Collect the rows that may be nearest from negative products with some columns."""
        known = products.numpy(), columns.start, self._lower, self._width, count
        over_rows(kernels.selection.collect_rows, len(products), *known, *collected)

    def _nearest(self, rows: DistanceBlocks, queries: slice, collected: "_Collected", count: int) -> Screened:
        n = queries.stop - queries.start
        found = nothing_found(n, count)
        over_rows(
            kernels.selection.nearest_rows,
            n,
            rows.queries[queries].numpy(),
            rows.query_squares[queries].numpy(),
            rows.x.numpy(),
            rows.squares.numpy(),
            ROUNDING,
            0.0 if rows.metric == "sqeuclidean" else 2.0**rows.shift,
            self._unit**2,
            self._lower,
            self._width,
            *collected,
            *found,
        )
        return found


class _Collected(NamedTuple):
    """Entries of rows as :mod:`angpn.kernels.selection` has them."""

    slack: Array  # (r,)
    sizes: Array  # (r,)
    limits: Array  # (r,)
    columns: Array  # (r, room)
    keys: Array  # (r, room)

    def of(self, rows: slice) -> "_Collected":
        return _Collected(*(part[rows] for part in self))


def _tile_rows() -> int:
    """Return of how many rows a product is: few, so that it stays in the cache, but some for each thread."""
    return 256 * min(max(2, torch.get_num_threads()), 8)


def _slices(n: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def _view(room: Tensor, rows: slice, columns: slice) -> Tensor:
    shape = rows.stop - rows.start, columns.stop - columns.start
    return room[: shape[0] * shape[1]].view(shape)
