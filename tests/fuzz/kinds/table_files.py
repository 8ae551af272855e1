"""JSON lines, Arrow files and Excel workbooks, whole and damaged, through ``angpn label`` and ``predict``."""

import json

import numpy as np
import polars

from fuzz import good_files
from fuzz.commands import make_command, run_command
from fuzz.mutations import damaged, pick
from label_inputs import write_workbook

VALUES = (None, True, 0, -1, 1e300, 10**30, "", "1,5", "2024-01-01", "ja", [1, 2], {"a": 1}, "x" * 10_000, "\x00")


def make(seed, folder):
    """Write a table to one of these files, with a few cells changed, and damage some."""
    generator = np.random.default_rng(seed)
    frame = good_files.table().drop("note")
    rows = [dict(zip(frame.columns, row, strict=True)) for row in frame.rows()]
    suffix = pick(generator, [".jsonl", ".arrow", ".xlsx"])
    for _ in range(generator.integers(0, 4)):
        row, name = rows[generator.integers(len(rows))], pick(generator, frame.columns)
        if generator.random() < 0.3:
            row.pop(name, None)
        else:
            row[name] = pick(generator, VALUES)
    path = folder / f"table{suffix}"
    if suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    elif suffix == ".arrow":
        texts = {name: [None if row.get(name) is None else str(row[name]) for row in rows] for name in frame.columns}
        changed = frame if generator.random() < 0.5 else polars.DataFrame(texts)
        changed.write_ipc(path, compression=pick(generator, ["uncompressed", "lz4", "zstd"]))
    else:
        cells = [[_cell(row.get(name)) for name in frame.columns] for row in rows]
        write_workbook(path, {"one": pick(generator, [[], [["a"]], [frame.columns]]), "two": [frame.columns, *cells]})
    if generator.random() < 0.3:
        path.write_bytes(damaged(path.read_bytes(), generator))
    options = ["--label-column", "label", *pick(generator, [["--id-column", "id"], ["--drop", "id"], []])]
    options += pick(generator, [["--impute"], [], ["--categorical", "count"], ["--text", "colour"]])
    return make_command(path, "table", tuple(options), generator)


run = run_command


def _cell(value):
    """Return what a workbook can hold: text, a number or nothing."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300):
        return value
    return str(value).replace("\x00", "")
