"""New rows in batches: each is scaled, attached to fitted rows and predicted before the next, so memory is bounded.

What a row gets does not depend on its batch, but for rounding.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from angpn.estimators.fitted_models import Fitted
from angpn.estimators.neighbor_search import Search
from angpn.neighbors.metric_rows import blocks_of
from angpn.utils.typing import Array

Answer = Callable[[Any, Tensor, Tensor], Array]  # of scaled rows and the fitted rows nearest to each

_MOST_ROWS = 2**12  # a multiple of what the libraries take at once; more are no faster
_MOST_NUMBERS = 2**23  # of the widest array of a batch


def batch_rows(fitted: Fitted, n_columns: int) -> int:
    """Return how many rows are predicted at once, where a row has so many columns or distances."""
    lists = 8 * fitted.neighborhood.n_candidates  # several arrays have a number for each candidate
    return max(1, min(_MOST_ROWS, _MOST_NUMBERS // max(1, n_columns, lists)))


def in_batches(
    answer: Answer,
    fitted: Fitted,
    search: Search,
    X: Any,  # (r, d) dense or CSR
    distances: Array | None,  # (r, n) to the fitted rows, where these are given
) -> Array:  # (r, ...)
    """Return the answers for all rows."""
    out: Array | None = None
    n_columns = X.shape[1] if distances is None else max(X.shape[1], distances.shape[1])
    for batch in blocks_of(X.shape[0], batch_rows(fitted, n_columns)):
        rows = fitted.scale(X[batch])
        found = answer(rows, *search(rows if distances is None else distances[batch]))
        if not np.isfinite(found).all():
            raise ValueError(
                "results must be finite, got NaN: numbers of X, or of a model that was loaded, are too large or too "
                "small to compute with; bring X to the scale that the model was fitted on"
            )
        if out is None:
            out = np.empty((X.shape[0], *found.shape[1:]), found.dtype)
        out[batch] = found
    assert out is not None
    return out
