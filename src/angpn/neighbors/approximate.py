"""The nearest candidates among very many rows, by an inverted index instead of every pair.

A row is compared with those of the nearest groups only. How many groups it takes is found on a sample of rows whose
nearest are also searched for exactly; what share of these the lists then hold is measured on another sample. Of the
index only the choice of candidates is taken: their distances are computed again, from differences, so that equal rows
are at distance 0.

The index holds a float32 copy of dense rows, which are not copied whole beside that, so ``x`` may be mapped from a
file; of sparse rows it holds their main directions.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from angpn.neighbors.exact import Metric
from angpn.neighbors.inverted_index import DEFAULT_CONFIG, IndexConfig, IndexState, InvertedIndex
from angpn.neighbors.metric_rows import MetricRows, blocks_of, exact_nearest_distances, recall_of
from angpn.neighbors.neighborhood import Neighborhood
from angpn.utils.checks import warn
from angpn.utils.typing import Array

EXACT_ROWS = 20_000  # up to so many rows comparing every pair takes seconds
EXACT_PAIRS = EXACT_ROWS**2
_SLACK = 0.02  # by which a measured recall may miss the target before a warning says so


def has_index(n_rows: int) -> bool:
    """Tell whether there is a library for an index; if not, warn that the search will take long."""
    if find_spec("faiss") is None:
        warn(
            f"{n_rows} rows should be searched with an index, got no faiss, so every pair is compared, which takes "
            'long; pip install "angpn[scale]"'
        )
        return False
    return True


class Found(NamedTuple):
    """Lists of candidates, and how good they are."""

    neighborhood: Neighborhood
    recall: float  # share of the true nearest rows that are on the lists, on a sample
    index_state: IndexState | None = None  # of the index by which they were found


def approximate_candidates(
    x: Any,  # (n, d) array or CSR array
    n_candidates: int,
    metric: Metric = "chord",
    *,
    recall: float = 0.9,
    random_state: int = 0,
    on_rows: Callable[[int], None] = lambda count: None,  # called with how many more rows are done
    config: IndexConfig = DEFAULT_CONFIG,
) -> Found:
    """Find about the ``n_candidates`` nearest other rows of each row; a share of ``recall`` are to be the true ones.

    ``metric`` is as for :func:`angpn.nearest_candidates`, and so are ties: rows enter the index in an order drawn from
    ``random_state``. Where the target is missed, a warning says so.
    """
    rows = MetricRows(x, metric)
    n = len(rows)
    index, measured = _tuned_index(rows, n_candidates, recall, random_state, config)
    indices, distances = np.empty((n, n_candidates), np.int32), np.empty((n, n_candidates), x.dtype)
    for block in blocks_of(n, config.block_rows):
        own = np.arange(block.start, block.stop)
        indices[block], distances[block] = index.nearest(rows[block], n_candidates, own)
        on_rows(len(own))
    found = recall_of(
        distances[measured], exact_nearest_distances(rows, measured, n_candidates, block_rows=config.block_rows)
    )
    warn_low_recall(found, recall, rows.is_sparse, config)
    return Found(Neighborhood(torch.from_numpy(indices), torch.from_numpy(distances)), found, index.state)


def warn_low_recall(found: float, wanted: float, sparse: bool, config: IndexConfig = DEFAULT_CONFIG) -> None:
    """Warn where the target was missed."""
    if found < wanted - _SLACK:
        why = f", since {config.n_directions} main directions of the rows do not tell more" if sparse else ""
        warn(
            f"neighbours were to be found with a recall of {wanted:.2f}, got {found:.2f}{why}; pass recall=1 to "
            "compare every pair, which takes long"
        )


class FittedSearch:
    """An index of rows that is made once, or restored, to find the nearest of them to many queries."""

    def __init__(
        self,
        x: Any,  # (n, d) array or CSR array
        n_candidates: int,
        metric: Metric = "chord",
        *,
        recall: float = 0.9,
        random_state: int = 0,
        config: IndexConfig = DEFAULT_CONFIG,
        state: IndexState | None = None,  # of an index of these rows with that recall
    ) -> None:
        self._metric, self._count, self._config = metric, n_candidates, config
        rows = MetricRows(x, metric)
        if state is None:
            self._index, _ = _tuned_index(rows, n_candidates, recall, random_state, config)
        else:
            self._index = InvertedIndex.restore(rows, state, config)

    def __call__(self, queries: Any) -> tuple[Tensor, Tensor]:  # (r, m) rows of x, and their distances, nearest first
        """Find about the nearest rows of each query; what one query finds does not depend on the others."""
        rows = MetricRows(queries, self._metric)
        blocks = blocks_of(len(rows), self._config.block_rows)
        found = [self._index.nearest(rows[block], self._count) for block in blocks]
        indices, distances = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return torch.from_numpy(indices), torch.from_numpy(distances)

    @property
    def state(self) -> IndexState:
        """What the index has learnt, to restore it from."""
        return self._index.state


def _tuned_index(
    rows: MetricRows, n_candidates: int, recall: float, seed: int, config: IndexConfig
) -> tuple[InvertedIndex, Array]:
    """Return an index of all rows that reaches the recall, and other rows to measure it on."""
    generator = np.random.default_rng(seed)
    index = InvertedIndex.learn(rows, generator, config)
    index.add(np.arange(len(rows)))
    sample = index.sample_rows(generator)
    index.tune(sample[0], n_candidates, recall)
    return index, sample[1]
