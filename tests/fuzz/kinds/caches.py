"""Damaged files of cached features."""

import hashlib
import warnings

import numpy as np

from angpn.features.feature_cache import FeatureCache
from fuzz.checks import Fault
from fuzz.mutations import damaged

DIGESTS = [hashlib.sha256(bytes([number])).digest() for number in range(12)]


def make(seed, folder):
    """Write the cache of a few values, and damage it."""
    generator = np.random.default_rng(seed)
    values = {digest: generator.bytes(generator.integers(1, 6000)) for digest in DIGESTS}
    path = folder / "features.sqlite"
    with FeatureCache("fuzz", path) as cache:
        cache.put(values)
    path.write_bytes(damaged(path.read_bytes(), generator))
    return path, values


def run(case):
    """Read it, write it and read it again: never an error, and each value as it was put or not at all."""
    path, values = case
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with FeatureCache("fuzz", path) as cache:
                found.append({digest: cache.get(digest) for digest in values})
                cache.put(values)
    for digest, value in values.items():
        if not {found[0][digest], found[1][digest]} <= {None, value}:
            raise Fault("result", "a value must come back as it was put or not at all, got another")
    return found[0] == values
