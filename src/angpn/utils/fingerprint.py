"""A digest of data and parameters, by which a file knows what it belongs to."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse


def fingerprint(parts: Mapping[str, Any]) -> str:
    """The digest of arrays (dense, sparse or None) and plain values, by name."""
    digest = hashlib.sha256()
    for name, part in sorted(parts.items()):
        digest.update(name.encode())
        if scipy.sparse.issparse(part):
            arrays = [part.data, part.indices, part.indptr]
        else:
            arrays = [part] if isinstance(part, np.ndarray) and part.dtype.kind != "O" else []
            if not arrays:
                digest.update(repr(part).encode())
        for array in arrays:
            digest.update(f"{array.dtype} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
