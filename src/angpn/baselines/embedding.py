"""Embeddings that depend on the graph and not on the labels: computed once for each graph, not once for each split."""

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from angpn.utils.files import replacing
from angpn.utils.fingerprint import fingerprint
from angpn.utils.typing import Array

_KEPT = 8


class Embedding(NamedTuple):
    """Rows as vectors, and how long they took to compute, now or then."""

    vectors: Array  # (n, width)
    seconds: float
    spared: float  # the same where they were not computed now, else 0


_memory: OrderedDict[str, Embedding] = OrderedDict()


def cached(
    parts: Mapping[str, Any],  # what the embedding depends on: arrays, sparse matrices, plain values
    folder: str | os.PathLike[str] | None,
    compute: Callable[[], Array],
) -> Embedding:
    """The embedding of these parts: from memory, from a file in ``folder``, or computed now and kept in both."""
    key = fingerprint(parts)
    if key in _memory:
        return _memory[key]
    path = None if folder is None else Path(folder) / f"{key}.npz"
    if path is not None and path.exists():
        with np.load(path, allow_pickle=False) as file:
            vectors, seconds = file["vectors"], float(file["seconds"])
        found = Embedding(vectors, seconds, spared=seconds)
    else:
        start = time.perf_counter()
        vectors = compute()
        seconds = time.perf_counter() - start
        if path is not None:
            with replacing(path) as temporary, temporary.open("wb") as file:
                np.savez(file, vectors=vectors, seconds=seconds)
        found = Embedding(vectors, seconds, spared=0.0)
    _memory[key] = found._replace(spared=found.seconds)
    while len(_memory) > _KEPT:
        _memory.popitem(last=False)
    return found
