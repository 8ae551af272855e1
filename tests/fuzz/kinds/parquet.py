"""Parquet tables of all column types, and damaged ones, through ``angpn label`` and ``predict``."""

import datetime
import decimal

import numpy as np
import polars

from fuzz import good_files
from fuzz.commands import make_command, run_command
from fuzz.mutations import damaged, pick


def make(seed, folder):
    """Write a table in which a few columns have another type."""
    generator = np.random.default_rng(seed)
    frame = good_files.table().drop("note")
    for _ in range(generator.integers(0, 3)):
        name = pick(generator, [*frame.columns, "new", "size", "count", "colour"])
        frame = frame.with_columns(_column(name, frame.height, generator))
    action = generator.integers(12)
    if action == 0:
        frame = frame.head(pick(generator, [0, 1, 2, 3]))
    elif action == 1:
        frame = frame.select(pick(generator, [[], ["label"], ["id"], ["size", "label"]]))
    elif action == 2:  # a column of vectors, as embeddings are stored
        frame = frame.select("id", "label", _vectors(frame.height, generator))
    path = folder / "table.parquet"
    frame.write_parquet(path, compression=pick(generator, ["zstd", "snappy", "uncompressed", "gzip"]))
    if generator.random() < 0.2:
        path.write_bytes(damaged(path.read_bytes(), generator))
    options = ["--label-column", "label", *pick(generator, [["--id-column", "id"], ["--drop", "id"], []])]
    options += pick(generator, [["--impute"], [], ["--categorical", "count"], ["--text", "colour"]])
    return make_command(path, "table", tuple(options), generator)


run = run_command


def _column(name, height, generator):
    """Return a column of some type, with nulls in it now and then."""
    numbers = generator.normal(size=height)
    day = datetime.date(2020, 1, 1)
    values, dtype = pick(
        generator,
        [
            (numbers.tolist(), polars.Float32),
            ([pick(generator, [float("nan"), float("inf"), 1e300, 5e-324, -0.0]) for _ in numbers], polars.Float64),
            ([float("nan")] * height, polars.Float64),
            ([None] * height, polars.Null),
            ([None] * height, polars.Float64),
            ([2**64 - 1 - row for row in range(height)], polars.UInt64),
            ([2**100 + row for row in range(height)], polars.Int128),
            ([row % 2 == 0 for row in range(height)], polars.Boolean),
            ([decimal.Decimal(row) / 7 for row in range(height)], polars.Decimal(38, 10)),
            ([day + datetime.timedelta(row) for row in range(height)], polars.Date),
            ([datetime.datetime(2020, 1, 1, row % 24) for row in range(height)], polars.Datetime("us", "UTC")),
            ([datetime.timedelta(row) for row in range(height)], polars.Duration),
            ([datetime.time(row % 24) for row in range(height)], polars.Time),
            (["ab"[row % 2] for row in range(height)], polars.Categorical),
            (["ab"[row % 2] for row in range(height)], polars.Enum(["a", "b", "c"])),
            ([bytes([row]) for row in range(height)], polars.Binary),
            ([[row] * (row % 3) for row in range(height)], polars.List(polars.Int64)),
            ([[[1.0], [float(row)]] for row in range(height)], polars.List(polars.List(polars.Float64))),
            ([{"a": row, "b": "x"} for row in range(height)], polars.Struct({"a": polars.Int64, "b": polars.String})),
            ([f"text {row}" for row in range(height)], polars.String),
            (["\x00\x1b[2J" if row % 2 else "" for row in range(height)], polars.String),
            (["x" * 100_000] * height, polars.String),
            (["1e400"] * height, polars.String),
        ],
    )
    if generator.random() < 0.3:
        values = [None if generator.random() < 0.3 else value for value in values]
    return polars.Series(name, values, dtype=dtype)


def _vectors(height, generator):
    lengths = pick(generator, [[5] * height, [5] * height, [0] * height, [row % 3 for row in range(height)]])
    value = pick(generator, [0.5, 0.5, None, float("nan"), 1e39, 1e300])
    vectors = [[float(row % 2), *[value] * length][:length] for row, length in enumerate(lengths)]
    return polars.Series("vector", vectors, dtype=polars.List(pick(generator, [polars.Float64, polars.Float32])))
