"""Messy tables through the real commands: each kind of file and of mess, the warnings, and new rows."""

import bz2
import gzip
import json

import numpy as np
import polars
import pytest
from typer.testing import CliRunner

from angpn.cli import app
from label_inputs import read_predictions, write_workbook

N_ROWS = 60


def run(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def flats(n_rows=N_ROWS):
    """Return the cells of a German table of flats, the header first, of which a third is labelled, and the truth."""
    generator = np.random.default_rng(0)
    is_city = np.arange(n_rows) % 2 == 0
    rents = np.where(is_city, 1500, 600) + generator.normal(0, 300, n_rows)
    months = np.where(is_city, 3, 9)
    lines = [["Miete", "Anteil", "Balkon", "Bezug", "Größe", "Art", "Lage"]]
    for row in range(n_rows):
        rent = f"{rents[row]:,.2f}".translate(str.maketrans(",.", ".,"))
        lines.append(
            [
                f"{rent} €",
                f"{generator.integers(5, 95)} %",
                "ja" if generator.random() < (0.8 if is_city[row] else 0.3) else "nein",
                f"{generator.integers(1, 28):02}.{months[row]:02}.20{generator.integers(10, 24)}",
                f"{generator.uniform(30, 90):.1f}".replace(".", ","),
                generator.choice(["Alt", "Neu"]),
                ("Stadt" if is_city[row] else "Land") if row % 3 == 0 else "",
            ]
        )
    return lines, np.where(is_city, "Stadt", "Land")


def semicolons(lines):
    return "".join(";".join(line) + "\n" for line in lines)


def tabs(lines):
    return "".join("\t".join(line) + "\n" for line in lines)


def json_lines(lines):
    header, *rest = lines
    return "".join(json.dumps(dict(zip(header, line, strict=True)), ensure_ascii=False) + "\n" for line in rest)


def filled_cells(lines):
    return [[cell or None for cell in line] for line in lines]


def arrow(lines, path):
    header, *rest = lines
    polars.DataFrame(rest, schema=header, orient="row").write_ipc(path)


WRITERS = {
    "flats.csv": lambda lines, path: path.write_text(semicolons(lines), encoding="utf-8"),
    "latin.csv": lambda lines, path: path.write_text(semicolons(lines), encoding="cp1252"),
    "wide.csv": lambda lines, path: path.write_text(semicolons(lines), encoding="utf-16"),
    "flats.tsv": lambda lines, path: path.write_text(tabs(lines), encoding="utf-8"),
    "flats.csv.gz": lambda lines, path: path.write_bytes(gzip.compress(semicolons(lines).encode())),
    "flats.tsv.bz2": lambda lines, path: path.write_bytes(bz2.compress(tabs(lines).encode())),
    "flats.jsonl": lambda lines, path: path.write_text(json_lines(lines), encoding="utf-8"),
    "flats.xlsx": lambda lines, path: write_workbook(path, {"Wohnungen": filled_cells(lines)}),
    "flats.arrow": arrow,
    "flats.feather": arrow,
}  # fmt: skip
NOTES = {
    "flats.csv": ["separated by semicolons"],
    "latin.csv": ["separated by semicolons", "encoded in Windows-1252"],
    "wide.csv": ["separated by semicolons", "encoded in UTF-16"],
    "flats.csv.gz": ["packed by gzip", "separated by semicolons"],
    "flats.tsv.bz2": ["packed by bzip2"],
    "flats.xlsx": ["sheet 'Wohnungen'"],
}
AS_READ = {"numbers": ["Miete", "Anteil", "Größe"], "categories": ["Art"], "booleans": ["Balkon"], "dates": ["Bezug"]}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The folder of a model of the table with semicolons, and what the command printed."""
    folder = tmp_path_factory.mktemp("flats")
    lines, truth = flats()
    WRITERS["flats.csv"](lines, folder / "flats.csv")
    done = run("label", folder / "flats.csv", "--label-column", "Lage", "-o", folder / "out")
    assert done.exit_code == 0, done.stderr
    found = read_predictions(folder / "out" / "predictions.csv")
    assert np.mean([line["label"] == label for line, label in zip(found, truth, strict=True)]) > 0.9
    return folder / "out" / "model", done, found


def test_the_result_says_how_texts_were_read(model):
    folder, done, _ = model
    read = "read as: separated by semicolons; Miete: '1."
    assert read in done.stdout
    assert "€' is 1" in done.stdout
    assert "Bezug: " in done.stdout
    assert "Balkon: " in done.stdout
    page = (folder.parent / "report.html").read_text(encoding="utf-8")
    assert "separated by semicolons; Miete: '1." in page


@pytest.mark.parametrize("name", WRITERS)
def test_every_kind_of_file_is_read_alike_by_every_command(name, model, tmp_path):
    lines, _ = flats()
    WRITERS[name](lines, tmp_path / name)
    for command in ("label", "cluster"):
        options = ["--label-column", "Lage"] if command == "label" else ["--drop", "Lage"]
        done = run(command, tmp_path / name, *options, "--dry-run", "--json")
        assert done.exit_code == 0, done.stderr
        facts = json.loads(done.stdout)
        assert facts["rows"] == N_ROWS
        assert {kind: facts[kind] for kind in AS_READ} == AS_READ
        notes = NOTES.get(name, [])
        assert facts["read"][: len(notes)] == notes
        assert [note.split(":")[0] for note in facts["read"][len(notes) :]] == [
            *("Miete", "Anteil", "Balkon", "Bezug", "Größe")
        ]
        shown = run(command, tmp_path / name, *options, "--dry-run").stdout
        assert "dates: Bezug\n" in shown
        assert "'ja' is true" in shown or "'nein' is false" in shown
    new = run("predict", model[0], tmp_path / name, "-o", tmp_path / "new.csv")
    assert new.exit_code == 0, new.stderr
    assert [line["label"] for line in read_predictions(tmp_path / "new.csv")] == [
        line["label"] for line in read_predictions(model[0].parent / "predictions.csv")
    ]
    done = run("suggest", tmp_path / name, "--label-column", "Lage", "-n", 2, "-o", tmp_path / "next.csv", "--json")
    assert done.exit_code == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["labelled"] == 20
    assert {kind: facts[kind] for kind in AS_READ} == AS_READ


def test_all_columns_that_cannot_be_used_are_named_by_every_command(tmp_path):
    lines = [["x", "note", "day", "y"]]
    for row in range(60):
        day = "" if row == 7 else f"2024-01-{row % 28 + 1:02}"
        lines.append([str(row) if row else "many", f"words {row}", day, "ab"[row % 2]])
    path = tmp_path / "t.csv"
    path.write_text("".join(",".join(line) + "\n" for line in lines))
    message = (
        "got 3 of 3 that are not: 'x' holds numbers and text, such as 'many' (correct it, leave the cell empty where a "
        "number is missing, or pass --categorical x); 'note' holds 60 different texts, such as 'words 0' (--text note "
        "labels by it, --id-column note if they are ids, --drop note leaves it out, --categorical note keeps it); "
        "'day' lacks 1 of 60 values, the first in row 7 (--impute fills them, --drop day leaves it out)\n"
    )
    labels = tmp_path / "labels.csv"
    labels.write_text("id,label\n1,a\n2,b\n")
    options = ["--drop", "y"]
    for command in (
        ["label", path, "--labels", labels, *options, "-o", tmp_path / "out"],
        ["label", path, "--labels", labels, *options, "--dry-run"],
        ["cluster", path, *options, "-o", tmp_path / "out"],
        ["suggest", path, *options, "-o", tmp_path / "next.csv"],
    ):
        done = run(*command)
        assert done.exit_code == 1
        assert done.stderr.endswith(message), done.stderr
        assert done.stderr.startswith("error: every column of a table must be usable, ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["labels.csv", "t.csv"]


def test_what_was_filled_is_said_by_every_command(model, tmp_path):
    lines, _ = flats()
    lines[5][0], lines[7][0], lines[7][5] = "", "n/a", ""
    path = tmp_path / "holes.csv"
    WRITERS["flats.csv"](lines, path)
    done = run("label", path, "--label-column", "Lage", "--impute", "-o", tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    assert "filled: Miete: 2 cells with the median " in done.stdout
    assert ", the first in row 4; Art: 1 cell with the category (missing), the first in row 6\n" in done.stdout
    assert "Art: 1 cell with the category (missing)" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    facts = json.loads(run("label", path, "--label-column", "Lage", "--impute", "--dry-run", "--json").stdout)
    assert [(filled["column"], filled["cells"], filled["first_row"]) for filled in facts["imputed"]] == [
        *(("Miete", 2, 4), ("Art", 1, 6))
    ]
    new = run("predict", tmp_path / "out" / "model", path, "-o", tmp_path / "new.csv")
    assert "filled: Miete: 2 cells with the median" in new.stderr
    done = run("predict", model[0], path)  # of a model that did not impute
    assert done.exit_code == 1
    assert (
        "'Miete' lacks 2 of 60 values, the first in row 4 (fill them; a model of --impute does so itself)"
        in done.stderr
    )
    np.save(tmp_path / "a.npy", np.where(np.eye(20, 3) == 1, np.nan, np.random.default_rng(0).normal(size=(20, 3))))
    assert (
        "filled: column 0: 1 cell with the median" in run("cluster", tmp_path / "a.npy", "--impute", "--dry-run").stdout
    )


def test_cells_of_new_rows_that_are_not_as_in_the_fit_are_named_by_row_and_value(model, tmp_path):
    lines, _ = flats()
    lines[5][0], lines[9][3] = "auf Anfrage", "sofort"
    WRITERS["flats.csv"](lines, tmp_path / "new.csv")
    done = run("predict", model[0], tmp_path / "new.csv", "-o", tmp_path / "out.csv")
    assert done.exit_code == 1
    assert "'Miete' must hold numbers as it did in the fit, got 'auf Anfrage' in row 4 (correct the cell" in done.stderr
    assert "'Bezug' must hold dates as it did in the fit, got 'sofort' in row 8" in done.stderr
    assert not (tmp_path / "out.csv").exists()


def test_columns_to_look_at_are_warned_of_by_name(tmp_path):
    lines, truth = flats()
    lines = [[*lines[0], "Land", "Nummer", "Lageplan"]] + [
        [*line, "DE", str(1000 + row), f"Blatt {truth[row]}"] for row, line in enumerate(lines[1:])
    ]
    path = tmp_path / "t.csv"
    WRITERS["flats.csv"](lines, path)
    done = run("label", path, "--label-column", "Lage", "-o", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.stderr
    facts = json.loads(done.stdout)
    assert [warning.split("'")[1] for warning in facts["warnings"]] == ["Land", "Nummer", "Lageplan"]
    for warning in facts["warnings"]:
        assert f"warning: {warning}\n" in done.stderr
        assert warning.split("'")[2][:40] in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    done = run("label", path, "--label-column", "Lage", "--drop", "Land,Nummer,Lageplan", "--dry-run")
    assert done.stderr == ""


def test_labels_as_a_spreadsheet_writes_them_are_read_and_never_overwritten(tmp_path):
    lines, _ = flats()
    path = tmp_path / "flats.csv"
    WRITERS["latin.csv"]([line[:-1] for line in lines], path)
    labels = tmp_path / "next.csv"
    cells = [f"{row};{'städtisch' if row % 2 == 0 else 'ländlich'};;" for row in range(0, 20)]
    labels.write_text("id;label;suggestion;reason\n" + "\n".join(cells) + "\n", encoding="cp1252")
    facts = json.loads(run("label", path, "--labels", labels, "--dry-run", "--json").stdout)
    assert facts["classes"] == {"ländlich": 10, "städtisch": 10}
    done = run("suggest", path, "-n", 3, "-o", labels)
    assert done.exit_code == 1
    assert "must hold no labels that would be lost, got 20" in done.stderr
