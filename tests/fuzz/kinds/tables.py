"""CSV and TSV tables through ``angpn label`` and ``predict``."""

import bz2
import csv
import gzip
import io
import lzma

import numpy as np

from fuzz import good_files
from fuzz.commands import make_command, run_command
from fuzz.mutations import damaged, pick

CELLS = (
    *("", " ", "nan", "NaN", "NA", "null", "inf", "-inf", "1e400", "-1e400", "1e-400", "1e308", "0x10", "1,5", "007"),
    *("true", "-1", "9" * 40, "1970-01-01", "12:30", "=1+1", "@sum", "'", '"', '""', "\t", "a\nb", "\x00", "\x1b[2J"),
    *("1.234,50 €", "12 %", "(5)", "31.12.2024", "2024-02-30", "0000-00-00", "99999-01-01", "25:61", "ja", "nein", "T"),
    *("x" * 200_000, "\ufeff", "\u202e", "\U0001d518", "日本", "(missing)", "?"),
)


def make(seed, folder):
    """Write a table with a few things wrong, and choose options for it."""
    generator = np.random.default_rng(seed)
    suffix = pick(generator, [".csv", ".csv", ".tsv"])
    frame = good_files.table()
    lines = [frame.columns, *([("" if value is None else str(value)) for value in row] for row in frame.rows())]
    for _ in range(generator.integers(0, 4)):
        lines = _hostile_lines(lines, generator)
    buffer = io.StringIO(newline="")
    separator = "\t" if suffix == ".tsv" else pick(generator, [","] * 8 + [";", "|"])
    ends = pick(generator, ["\n"] * 5 + ["\r\n", "\r"])
    quoting = pick(generator, [csv.QUOTE_MINIMAL] * 4 + [csv.QUOTE_ALL])
    csv.writer(buffer, delimiter=separator, lineterminator=ends, quoting=quoting).writerows(lines)
    encoding = pick(generator, ["utf-8"] * 8 + ["utf-8-sig", "utf-16", "latin-1", "cp1252"])
    content = buffer.getvalue().encode(encoding, errors="replace")
    if generator.random() < 0.25:
        content = damaged(content, generator)
    if generator.random() < 0.15:
        content = pick(generator, [gzip, bz2, lzma]).compress(content)
        content = damaged(content, generator) if generator.random() < 0.3 else content
    path = folder / f"table{suffix}"
    path.write_bytes(content)
    kind = pick(generator, ["table", "text"])
    return make_command(path, kind, _options(kind, generator), generator)


run = run_command


def _options(kind, generator):
    options = ["--label-column", pick(generator, ["label"] * 9 + ["colour"])]
    options += pick(generator, [["--id-column", "id"]] * 3 + [["--drop", "id"], []])
    options += ["--text", "note"] if kind == "text" else pick(generator, [["--drop", "note"]] * 4 + [[]])
    if kind == "table":
        options += pick(generator, [["--impute"], [], []])
        options += pick(generator, [["--categorical", "count"], ["--categorical", "size,colour"], [], [], []])
    return tuple(options)


def _hostile_lines(lines, generator):
    lines = [list(line) for line in lines]
    row, column = generator.integers(len(lines)), generator.integers(6)
    action = generator.integers(12)
    if action <= 3 and column < len(lines[row]):
        lines[row][column] = pick(generator, CELLS)
    elif action == 4:
        value = pick(generator, CELLS)
        lines[1:] = [[*line[:column], value, *line[column + 1 :]] for line in lines[1:]]
    elif action == 5:
        lines[row] = pick(generator, [lines[row][:-1], [*lines[row], "more"], [], [""], lines[row] * 2])
    elif action == 6:
        lines = lines[: pick(generator, [0, 1, 2, 3, row])]
    elif action == 7 and lines:
        lines[0] = [
            *lines[0][:column],
            pick(generator, ["", "id", "size", "label", "SIZE", "x" * 5000, "\x00"]),
            *lines[0][column + 1 :],
        ]
    elif action == 8:
        lines = [line[:column] + line[column + 1 :] for line in lines]
    elif action == 9:
        lines = [[*line, pick(generator, CELLS)] for line in lines]
    elif action == 10:
        lines += lines[1:] * 2
    else:
        lines[1:] = [lines[row]] * len(lines[1:])
    return lines or [[]]
