"""txt inputs, label files and TOML configurations through ``angpn label`` and ``predict``."""

import numpy as np

from fuzz import good_files
from fuzz.commands import Command, make_command, run_command
from fuzz.kinds.tables import CELLS
from fuzz.mutations import damaged, pick

OPTIONS = (
    *("labels", "label_column", "text", "id-column", "drop", "categorical", "impute", "model", "holdout", "seed"),
    *("quiet", "output", "config", "input", "unknown", "help", "dry-run", "''", "a.b"),
)
VALUES = (
    *("true", "1", "-1", "0.5", "1e400", "nan", "inf", "''", "'label'", "'x\\u0000'", "'auto'", "1979-05-27"),
    *("[]", "['a', 1]", "[[1]]", "{a = 1}"),
)


def make(seed, folder):
    """Write a text file, a label file or a configuration with something wrong."""
    generator = np.random.default_rng(seed)
    return pick(generator, [_text, _labels, _config])(folder, generator)


run = run_command


def _text(folder, generator):
    lines = [str(text) for text in good_files.table()["note"]]
    for _ in range(generator.integers(0, 4)):
        lines[generator.integers(len(lines))] = pick(generator, CELLS)
    if generator.random() < 0.2:
        lines = pick(generator, [[], [""], ["", ""], ["."] * 24, ["a"], [pick(generator, CELLS)] * 24, lines * 3])
    path = folder / "notes.txt"
    encoding = pick(generator, ["utf-8"] * 6 + ["utf-8-sig", "utf-16", "latin-1"])
    content = pick(generator, ["\n", "\n", "\r\n", "\r"]).join(lines).encode(encoding, errors="replace")
    path.write_bytes(damaged(content, generator) if generator.random() < 0.25 else content)
    return make_command(path, "text", ("--labels", str(good_files.label_file())), generator)


def _labels(folder, generator):
    lines = good_files.label_file().read_text().splitlines()
    for _ in range(generator.integers(0, 4)):
        row = generator.integers(len(lines))
        name, _, label = lines[row].partition(",")
        cell = pick(generator, CELLS)
        changed = [
            f"{name},{cell}",
            f"{cell},{label}",
            cell,
            f'"{name},{label}',
            f"{name};{label}",
            f"{name},{label},x",
        ]
        lines[row] = pick(generator, [*changed, lines[0]])
    path = folder / "labels.csv"
    content = "\n".join(lines).encode(pick(generator, ["utf-8"] * 6 + ["utf-8-sig", "utf-16"]))
    path.write_bytes(damaged(content, generator) if generator.random() < 0.25 else content)
    rows = good_files.labelling_input("array")[0]
    mode = pick(generator, [("--dry-run",), ("--dry-run",), (), ("--json",), ("--holdout", "0.3")])
    return Command(folder, ("label", str(rows), "--labels", str(path), *mode, "-o", str(folder / "out")))


def _config(folder, generator):
    lines = ["label-column = 'label'", "id_column = 'id'", "drop = ['note']"]
    for _ in range(generator.integers(0, 3)):
        lines.append(f"{pick(generator, OPTIONS)} = {pick(generator, VALUES)}")
    if generator.random() < 0.1:
        lines.append(pick(generator, ["[table]", "x =", "=" * 3, "a = " + "[" * 2000, "'\\u0000' = 1"]))
    path = folder / "angpn.toml"
    content = "\n".join(dict.fromkeys(lines)).encode(errors="replace")
    path.write_bytes(damaged(content, generator) if generator.random() < 0.2 else content)
    rows = good_files.labelling_input("table")[0]
    mode = pick(generator, [("--dry-run",)] * 3 + [()])
    return Command(folder, ("label", str(rows), "--config", str(path), *mode, "-o", str(folder / "out")))
