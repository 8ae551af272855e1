"""Cache of embeddings that do not depend on labels: computed once for each graph, not for each split."""

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

_MAX_EMBEDDINGS = 8


class Embedding(NamedTuple):
    """An embedding and the time that it took."""

    vectors: Array  # (n, width)
    seconds: float
    cached_seconds: float  # the same where it came from the cache, else 0


_memory: OrderedDict[str, Embedding] = OrderedDict()


def cached_embedding(
    parts: Mapping[str, Any],  # all inputs of the embedding: arrays, sparse matrices, plain values
    folder: str | os.PathLike[str] | None,
    compute: Callable[[], Array],
) -> Embedding:
    """Return the embedding of these inputs from memory or a file in ``folder``, or compute it and store it in both."""
    key = fingerprint(parts)
    if key in _memory:
        return _memory[key]
    path = None if folder is None else Path(folder) / f"{key}.npz"
    if path is not None and path.exists():
        with np.load(path, allow_pickle=False) as file:
            vectors, seconds = file["vectors"], float(file["seconds"])
        embedding = Embedding(vectors, seconds, cached_seconds=seconds)
    else:
        start = time.perf_counter()
        vectors = compute()
        seconds = time.perf_counter() - start
        if path is not None:
            with replacing(path) as temporary, temporary.open("wb") as file:
                np.savez(file, vectors=vectors, seconds=seconds)
        embedding = Embedding(vectors, seconds, cached_seconds=0.0)
    _memory[key] = embedding._replace(cached_seconds=embedding.seconds)
    while len(_memory) > _MAX_EMBEDDINGS:
        _memory.popitem(last=False)
    return embedding
