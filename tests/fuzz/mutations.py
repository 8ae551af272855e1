"""Damage to bytes and arrays."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator

Array = np.ndarray[Any, Any]


def pick(generator: Generator, values: Any) -> Any:
    """Return one of a sequence, as it is; numpy's own choice would make an array of them."""
    return values[generator.integers(len(values))]


def damaged(content: bytes, generator: Generator) -> bytes:
    """Return the bytes with one to three places damaged, as disks, networks and editors do."""
    for _ in range(generator.integers(1, 4)):
        place = int(generator.integers(len(content) + 1))
        length = int(generator.integers(1, 64))
        before, inside, after = content[:place], content[place : place + length], content[place + length :]
        content = pick(
            generator,
            [
                before,
                before + after,
                before + bytes(len(inside)) + after,
                before + generator.bytes(len(inside)) + after,
                before + generator.bytes(length) + inside + after,
                before + inside * 3 + after,
                before + bytes(byte ^ 1 << int(generator.integers(8)) for byte in inside[:1]) + inside[1:] + after,
                content + generator.bytes(length),
            ],
        )
    return content


def hostile_array(array: Array, generator: Generator) -> Array:
    """Return an array with other values, another type or another shape."""
    changes: list[Callable[[Array], Array]] = [
        *[lambda a: _with_values(a, generator)] * 4,
        lambda a: a.astype(pick(generator, [np.float16, np.float32, np.float64, np.int8, np.int64, np.uint8, bool])),
        lambda a: a.reshape(-1),
        lambda a: a[:-1],
        lambda a: np.concatenate([a, a]),
        lambda a: a[:0],
        lambda a: a.T,
        lambda a: a[..., None],
        lambda a: a[..., :-1],
        lambda a: np.zeros((0, 2**40), a.dtype),
        lambda a: a[::-1],
    ]
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(pick(generator, changes)(array))


def _with_values(array: Array, generator: Generator) -> Array:
    """Return a copy in which one, a third or all of the values are others."""
    array = array.copy()
    limits: list[Any] = [0, 1]
    if array.dtype.kind == "f":
        limits = [np.nan, np.inf, -np.inf, 0.0, -1.0, 1e30, float(np.finfo(array.dtype).max), 1e-40]
    elif array.dtype.kind in "iu":
        limits = [0, 1, 3, np.iinfo(array.dtype).max, np.iinfo(array.dtype).min]
    count = pick(generator, [1, 1, max(1, array.size // 3), array.size])
    array.reshape(-1)[generator.integers(array.size, size=count)] = pick(generator, limits)
    return array
