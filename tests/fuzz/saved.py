"""Hostile saved files: damaged, or changed under a digest that is right."""

import json
import re
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.random import Generator

from fuzz.mutations import damaged, pick
from saved_files import SavedFile, mutations, read_saved, write_saved

_DEEP = 50_000
TEXTS = ("", "{", "null", "3", "[]", "NaN", '{"a": 1}', "[" * _DEEP + "]" * _DEEP, '{"a":' * _DEEP + "1" + "}" * _DEEP)


def make_hostile(good: Path, path: Path, generator: Generator) -> None:
    """Write what a good file becomes by damage, by a header that is no header, by other numbers or changed parts."""
    way = generator.random()
    if way < 0.2:
        path.write_bytes(damaged(good.read_bytes(), generator))
        return
    saved = read_saved(good)
    text = json.dumps(saved.header)
    if way < 0.25:
        write_saved(path, saved, pick(generator, [*TEXTS, text[: len(text) // 2], text + " "]))
    elif way < 0.35:  # numbers that JSON does not have, though Python reads them
        number = pick(generator, list(re.finditer(r"(?<=[ \[])-?\d[\d.e+-]*", text)) or [re.search("$", text)])
        new = pick(generator, ["NaN", "Infinity", "-Infinity", "1e999", "1" * 5000, "1e-999"])
        write_saved(path, saved, text[: number.start()] + new + text[number.end() :])
    elif way < 0.55:
        write_saved(path, _other_numbers(saved, generator))
    else:
        for _ in range(generator.integers(1, 4)):
            with suppress(RecursionError):  # nested too deeply to be changed once more
                saved = next(mutations(saved, int(generator.integers(2**31)), 1)).saved
        write_saved(path, saved)


def _other_numbers(saved: SavedFile, generator: Generator) -> SavedFile:
    """Return it with the numbers of an array scaled or in another order: of the right kind, and perhaps absurd."""
    if not saved.arrays:
        return saved
    name = pick(generator, sorted(saved.arrays))
    array = saved.arrays[name]
    factor = pick(generator, [1.0, -1.0, 0.0, 2.0, 1e-3, 1e3, 1e-30, 1e15, 1e30])
    with np.errstate(all="ignore"):
        scaled = array * array.dtype.type(factor) if array.dtype.kind == "f" else array
    return saved._replace(arrays={**saved.arrays, name: generator.permutation(scaled) if array.ndim else scaled})
