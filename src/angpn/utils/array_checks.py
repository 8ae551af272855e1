"""Checks of the arrays of a saved file, once, where they are read; what works on them trusts them."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from angpn.utils.typing import Array

FLOATS = ("float32", "float64")
MAX_WEIGHT = 1e15  # far beyond what any training arrives at; products of two are still finite in float32
_LARGEST = float(np.finfo(np.float64).max)


class ArraySpec(NamedTuple):
    """What an array of a file must be."""

    dtypes: tuple[str, ...]
    shape: tuple[int | str, ...]  # a name stands for the same length wherever it occurs
    low: float = -_LARGEST  # NaN and infinity lie outside all limits
    high: float = _LARGEST


def floats(*shape: int | str, low: float = -_LARGEST, high: float = _LARGEST) -> ArraySpec:
    """Finite numbers in either precision."""
    return ArraySpec(FLOATS, shape, low, high)


def singles(*shape: int | str, low: float = -MAX_WEIGHT, high: float = MAX_WEIGHT) -> ArraySpec:
    """Numbers in single precision, as models learn them."""
    return ArraySpec(("float32",), shape, low, high)


def integers(*shape: int | str, low: int, high: int) -> ArraySpec:
    """Whole numbers from ``low`` to ``high``."""
    return ArraySpec(("int32", "int64"), shape, low, high)


def flags(*shape: int | str) -> ArraySpec:
    """True or False."""
    return ArraySpec(("bool",), shape)


def check_arrays(arrays: Mapping[str, Array], specs: Mapping[str, ArraySpec]) -> dict[str, int]:
    """Check that these and no other arrays are there, and what they hold.

    Args:
        arrays: Arrays by name.
        specs: What each of them must be.

    Returns:
        The lengths that names in shapes stand for.

    Raises:
        ValueError: If an array is missing, unknown, or not as declared.
    """
    unknown = sorted(arrays.keys() - specs.keys())
    if unknown:
        raise ValueError(f"there is an array {unknown[0]!r} that does not belong there")
    lengths: dict[str, int] = {}
    for name, spec in specs.items():
        if name not in arrays:
            raise ValueError(f"the array {name!r} is missing")
        array = arrays[name]
        expected = tuple(lengths.get(part, part) if isinstance(part, str) else part for part in spec.shape)
        fits = array.ndim == len(expected) and all(
            isinstance(part, str) or part == length for part, length in zip(expected, array.shape, strict=True)
        )
        if not fits or array.dtype.name not in spec.dtypes:
            raise ValueError(
                f"the array {name!r} is {array.dtype} of shape {array.shape} and not {' or '.join(spec.dtypes)} of "
                f"shape ({', '.join(map(str, expected))})"
            )
        lengths |= {part: array.shape[place] for place, part in enumerate(spec.shape) if isinstance(part, str)}
        # A minimum takes no further memory, and is NaN where anything is.
        low, high = (array.min().item(), array.max().item()) if array.size else (spec.low, spec.high)
        if array.dtype != bool and not spec.low <= low <= high <= spec.high:
            raise ValueError(f"the array {name!r} has values from {low:g} to {high:g}, not all {_describe(spec)}")
    return lengths


def _describe(spec: ArraySpec) -> str:
    if (spec.low, spec.high) == (-_LARGEST, _LARGEST):
        return "finite"
    return f"finite and at least {spec.low:g}" if spec.high == _LARGEST else f"in [{spec.low:g}, {spec.high:g}]"
