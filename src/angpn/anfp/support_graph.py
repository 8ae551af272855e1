"""S by the support of its rows, as the compiled loops make it."""

import numpy as np
import scipy.sparse

from angpn import kernels
from angpn.kernels.threads import over_rows
from angpn.utils.typing import Array


class SupportGraph:
    """Some rows of S, or all, as the support of each and the weights on it, see :mod:`angpn.kernels.rows`."""

    def __init__(self, chosen: Array, sizes: Array, columns: Array, weights: Array) -> None:
        self.chosen = chosen  # (r,) the rows of the data it has, int32
        self.sizes = sizes  # (r,) int32: entries in each row
        self.columns = columns  # (r, m) int32
        self.weights = weights  # (r, m)

    def aggregate(self, keep: float, factor: float, features: Array, out: Array) -> None:
        """out += keep * features[chosen] + factor * S features."""
        kind = features.dtype.type
        parts = self.chosen, self.sizes, self.columns, self.weights, kind(keep), kind(factor)
        over_rows(kernels.rows.aggregate_rows, len(out), *parts, features, out)

    def aggregate_transposed(self, factor: float, features: Array, out: Array) -> None:
        """out += factor * S^T features, these being by row of the graph."""
        ends, sources, places = self._transposed(len(out))
        parts = ends, sources, places, self.weights.reshape(-1), features.dtype.type(factor)
        over_rows(kernels.rows.aggregate_transposed_rows, len(out), *parts, features, out)

    def add_gradients(
        self,
        factor: float,
        of_output: Array,  # by row of the graph
        of_inputs: Array,
        of_affinities: Array,
        graph_features: Array,
        inverse: Array,
        normalize: bool,
        of_graph_features: Array,
    ) -> None:
        """of_inputs += factor * S^T of_output, and add what the affinities pass on to the features of candidates."""
        lists = *self._transposed(len(graph_features)), self.chosen
        propagation = graph_features.dtype.type(factor), self.weights.reshape(-1), of_output, of_inputs
        affinities = of_affinities.reshape(-1), graph_features, inverse, normalize, of_graph_features
        over_rows(kernels.rows.transposed_gradient_rows, len(graph_features), *lists, *propagation, *affinities)

    def to_csr(self, n_columns: int) -> scipy.sparse.csr_array:
        """Return it as a sparse matrix without zeros."""
        held = np.arange(self.columns.shape[1]) < self.sizes[:, None]
        starts = np.concatenate([[0], np.cumsum(self.sizes, dtype=np.int64)])
        parts = self.weights[held], self.columns[held].astype(np.int64), starts
        return scipy.sparse.csr_array(parts, shape=(len(self.sizes), n_columns))

    def _transposed(self, n: int) -> tuple[Array, Array, Array]:
        """Return by column where its list ends, the rows of the graph it is an entry of, and where in the weights."""
        if self._lists is None:
            total = int(self.sizes.sum())
            self._lists = np.empty(n, np.int32), np.empty(total, np.int32), np.empty(total, np.int32)
            kernels.rows.transpose(self.sizes, self.columns, *self._lists)
        return self._lists

    _lists: tuple[Array, Array, Array] | None = None
