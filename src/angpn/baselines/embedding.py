"""Embeddings that depend on the graph and not on the labels: computed once for each graph, not once for each split."""

import os
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from angpn.baselines.base import Array
from angpn.files import replacing
from angpn.fingerprint import fingerprint

_KEPT = 8
_memory: OrderedDict[str, Array] = OrderedDict()


def cached(
    parts: Mapping[str, Any],  # what the embedding depends on: arrays, sparse matrices, plain values
    folder: str | os.PathLike[str] | None,
    compute: Callable[[], Array],
) -> Array:
    """The embedding of these parts: from memory, from a file in ``folder``, or computed now and kept in both."""
    key = fingerprint(parts)
    if key not in _memory:
        path = None if folder is None else Path(folder) / f"{key}.npy"
        if path is not None and path.exists():
            found = np.load(path, allow_pickle=False)
        else:
            found = compute()
            if path is not None:
                with replacing(path) as temporary, temporary.open("wb") as file:
                    np.save(file, found)
        _memory[key] = found
        while len(_memory) > _KEPT:
            _memory.popitem(last=False)
    return _memory[key]
