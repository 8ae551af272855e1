"""Saved files as a hostile writer makes them: any header and any arrays, under a digest that is right.

The digest guards against accidents only, so every check behind it must hold on its own.
"""

import copy
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

from angpn.utils.container import _digest


class SavedFile(NamedTuple):
    """The parts of a file, free to be changed."""

    kind: str
    format: int
    header: Any  # of JSON
    arrays: dict[str, np.ndarray]


def read_saved(path: Path) -> SavedFile:
    """Read the parts of a good file."""
    with safe_open(path, framework="numpy") as file:
        stamp = file.metadata()
        arrays = {name: file.get_tensor(name).copy() for name in file.keys()}  # noqa: SIM118
    return SavedFile(stamp["angpn"], int(stamp["format"]), json.loads(stamp["header"]), arrays)


def write_saved(path: Path, saved: SavedFile, text: str | None = None) -> Path:
    """Write these parts, or ``text`` in place of the header's JSON, with the digest that belongs to them."""
    text = json.dumps(saved.header) if text is None else text
    arrays = {name: np.ascontiguousarray(array) for name, array in saved.arrays.items()}
    stamp = {"angpn": saved.kind, "format": str(saved.format), "header": text, "sha256": _digest(text, arrays)}
    save_file(arrays, path, metadata=stamp)
    return path


class Mutation(NamedTuple):
    """One change to a good file."""

    what: str
    saved: SavedFile


def mutations(saved: SavedFile, seed: int, count: int) -> Iterator[Mutation]:
    """Yield files that differ from a good one in one value of the header or in one array."""
    generator = np.random.default_rng(seed)
    places = list(_places(saved.header))
    for _ in range(count):
        in_header = not saved.arrays or generator.random() < 0.6
        yield _mutate_header(saved, places, generator) if in_header else _mutate_array(saved, generator)


def at_place(header: Any, place: tuple[Any, ...]) -> Any:
    """Return the part of a header that a path of keys and positions leads to."""
    for key in place:
        header = header[key]
    return header


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if place:
        yield place
    items = value.items() if isinstance(value, dict) else enumerate(value[:5]) if isinstance(value, list) else ()
    for key, item in items:
        yield from _places(item, (*place, key))


def _nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


_VALUES = [
    *(None, True, False, 0, 1, -1, 2, 10**9, 10**18, 10**30, -(10**18), 0.5, -0.5, 1e-300, 1e300, -1e300),
    *("", "NaN", "inf", "auto", "/etc/passwd", "x" * 3000, "\u0000", "<U200000000"),
    *([], {}, [None], [[]], {"a": 1}, [0] * 50, ["a", "a"], [1, 2, 3], {"number": "nan"}, _nested(100), _nested(400)),
]


def _mutate_header(saved: SavedFile, places: list[tuple[Any, ...]], generator: np.random.Generator) -> Mutation:
    header = copy.deepcopy(saved.header)
    *before, key = places[generator.integers(len(places))]
    parent, name = at_place(header, tuple(before)), ".".join(map(str, (*before, key)))
    action = generator.choice(["replace", "replace", "replace", "scale", "drop", "add"])
    old = parent[key]
    if action == "scale" and isinstance(old, int | float) and not isinstance(old, bool):
        factor = [-1, 0, 2, 1e-6, 1e6, 1e12][generator.integers(6)]
        parent[key] = type(old)(old * factor)
        what = f"{name} = {parent[key]}"
    elif action == "scale" and isinstance(old, list):
        parent[key] = [old + old, old[:-1], old[::-1]][generator.integers(3)]
        what = f"{name} doubled, cut or reversed"
    elif action == "drop":
        del parent[key]
        what = f"{name} dropped"
    elif action == "add" and isinstance(parent, dict):
        parent[f"{key}2"] = old
        what = f"{name}2 added"
    else:
        parent[key] = _VALUES[generator.integers(len(_VALUES))]
        what = f"{name} = {str(parent[key])[:40]!r}"
    return Mutation(what, saved._replace(header=header))


def _mutate_array(saved: SavedFile, generator: np.random.Generator) -> Mutation:
    arrays = dict(saved.arrays)
    name = list(arrays)[generator.integers(len(arrays))]
    array = arrays[name].copy()
    actions = {
        "cast": lambda: _cast(array, generator),
        "entry": lambda: _with_entry(array, generator),
        "filled": lambda: np.full_like(array, _entry(array.dtype, generator)),
        "cut": lambda: array[:-1] if array.ndim else array,
        "narrow": lambda: array[..., :-1] if array.ndim else array,
        "repeated": lambda: np.concatenate([array, array]) if array.ndim else array,
        "transposed": lambda: array.T,
        "flat": lambda: array.reshape(-1),
        "deeper": lambda: array[None],
        "empty": lambda: array[:0] if array.ndim else array,
        "reversed": lambda: array[::-1] if array.ndim else array,
    }
    action = generator.choice([*actions, "entry", "entry", "dropped", "renamed", "added"])
    if action in ("dropped", "renamed"):
        del arrays[name]
    if action in ("renamed", "added"):
        arrays[f"{name}2"] = array
    if action in actions:
        arrays[name] = actions[action]()
    return Mutation(f"array {name} {action}", saved._replace(arrays=arrays))


def _cast(array: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    with np.errstate(all="ignore"):
        return array.astype(generator.choice(["f2", "f4", "f8", "i1", "i4", "i8", "u1", "u8", "?"]))


def _entry(dtype: np.dtype[Any], generator: np.random.Generator) -> Any:
    if dtype.kind == "b":
        return bool(generator.integers(2))
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return [limits.min, limits.max, 0, 1, limits.max // 2][generator.integers(5)]
    largest = float(np.finfo(dtype).max)
    return [math.nan, math.inf, -math.inf, largest, -largest, 0.0, -1.0, 2.0, 1e15, -1e15][generator.integers(10)]


def _with_entry(array: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    if array.size:
        array.reshape(-1)[generator.integers(array.size)] = _entry(array.dtype, generator)
    return array
