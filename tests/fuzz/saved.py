"""Hostile saved files: damaged, or changed under a digest that is right."""

import json
import re
from contextlib import suppress
from pathlib import Path

from numpy.random import Generator

from fuzz.mutations import damaged, pick
from saved_files import mutations, read_saved, write_saved

_DEEP = 50_000
TEXTS = ("", "{", "null", "3", "[]", "NaN", '{"a": 1}', "[" * _DEEP + "]" * _DEEP, '{"a":' * _DEEP + "1" + "}" * _DEEP)


def make_hostile(good: Path, path: Path, generator: Generator) -> None:
    """Write what a good file becomes by damage, by a header that is no header, or by one to three changed parts."""
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
    else:
        for _ in range(generator.integers(1, 4)):
            with suppress(RecursionError):  # nested too deeply to be changed once more
                saved = next(mutations(saved, int(generator.integers(2**31)), 1)).saved
        write_saved(path, saved)
