import ast
import importlib.util
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import angpn

ROOT = Path(__file__).parent.parent
EQUATIONS = (ROOT / "docs" / "equations.md").read_text()
ROWS = [line.strip("| ").split(" | ") for line in EQUATIONS.splitlines() if re.match(r"\| (\(|Algorithm)", line)]


def test_the_readme_example_runs_and_labels_well(tmp_path, monkeypatch):
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    names: dict = {}
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings(action="error"):
        exec(example, names)
    hidden = names["y"] == -1
    assert (names["model"].transduction_ == names["truth"])[hidden].mean() > 0.94
    assert (tmp_path / "digits.angpn").exists()


def test_the_messy_table_of_the_first_page_is_read_as_it_says(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from angpn.cli import app

    page = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    blocks = [re.sub("(?m)^    ", "", block) for block in re.findall("((?:^    .*\n|^\n)+)", page, flags=re.MULTILINE)]
    (table,) = (block.strip("\n") + "\n" for block in blocks if block.lstrip().startswith("flat;rent;"))
    (shown,) = (block for block in blocks if "$ angpn label flats.csv" in block)
    monkeypatch.chdir(tmp_path)
    Path("flats.csv").write_text(table, encoding="utf-8")
    commands = re.findall(r"\$ angpn (.*)\n((?:(?!\$ ).*\n)+)", shown)
    assert len(commands) == 2
    for command, expected in commands:
        done = CliRunner().invoke(app, command.split())
        assert (done.stdout + done.stderr).split() == expected.split()


@pytest.mark.slow
def test_the_example_runs_and_draws_its_map(tmp_path):
    run = [sys.executable, str(ROOT / "examples" / "label_digits.py")]
    shown = subprocess.run(run, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    accuracies = [float(figure) for figure in re.findall(r"(\d+\.\d)% right", shown)]
    assert min(accuracies) > 90
    assert "the loaded model predicts the same: True" in shown
    assert (tmp_path / "digits.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["label_table", "label_texts"])
@pytest.mark.slow
def test_the_other_examples_run_and_label_well(name, tmp_path):
    run = [sys.executable, str(ROOT / "examples" / f"{name}.py")]
    shown = subprocess.run(run, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    (accuracy,) = re.findall(r"(\d+\.\d)% of the others right", shown)
    assert float(accuracy) > 80


def test_the_map_of_equations_is_complete():
    named = [number for row in ROWS for number in re.findall(r"\((\d+)\)", row[0])]
    assert sorted(map(int, named)) == list(range(1, 16))
    assert any(row[0] == "Algorithm 1" for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_each_function_and_test_it_names_exists(row):
    functions, tests = (re.findall(r"`([\w./]+)`", cell) for cell in row[-2:])
    assert functions
    assert tests
    for function in functions:
        room, file, name = function.split(".")
        code = (ROOT / "src" / "angpn" / room / f"{file}.py").read_text()
        assert re.search(rf"(def|class) {name}\b", code), function
    sources = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    for test in tests:
        assert f"def {test}(" in sources, test


ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
ROOMS = sorted(path.parent.name for path in (ROOT / "src" / "angpn").glob("*/__init__.py"))


def test_the_page_on_architecture_names_every_room():
    assert sorted(re.findall(r"^\| `(\w+)` \|", ARCHITECTURE, flags=re.MULTILINE)) == ROOMS


def test_each_function_that_the_page_on_architecture_names_exists():
    named = re.findall(rf"`((?:{'|'.join(ROOMS)})\.\w+\.[\w.]+)`", ARCHITECTURE)
    assert len(named) > 40
    for name in named:
        room, file, *path = name.split(".")
        node = ast.parse((ROOT / "src" / "angpn" / room / f"{file}.py").read_text())
        for part in path:
            inside = {child.name: child for child in node.body if isinstance(child, ast.FunctionDef | ast.ClassDef)}
            assert part in inside, name
            node = inside[part]


def test_the_picture_of_the_architecture_is_that_of_the_import_contract():
    spec = importlib.util.spec_from_file_location("draw_architecture", ROOT / "docs" / "draw_architecture.py")
    draw_architecture = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(draw_architecture)
    assert sorted(room for layer in draw_architecture.layers() for room in layer) == ROOMS
    drawn = draw_architecture.PICTURE.read_text()
    assert drawn == draw_architecture.draw(), "run python docs/draw_architecture.py"


PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / ".github").glob("*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_lead_to_files(page):
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL)  # code may look like a link
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        assert target.startswith("http") or (page.parent / target).exists(), target


def test_everything_public_is_documented():
    for name in angpn.__all__:
        assert getattr(angpn, name).__doc__, name


def test_the_page_of_results_shows_the_committed_results():
    """Every table of the report, as the results files give it now."""
    from angpn.experiments import SUITES, ResultsFile
    from angpn.experiments.report import sections
    from angpn.experiments.results import latest_records
    from angpn.experiments.runner import results_path

    records = {
        name: latest_records(ResultsFile(results_path(ROOT / "results", name)).read(), study.runs())
        for name, study in SUITES.items()
    }
    page = (ROOT / "docs" / "results.md").read_text()
    tables = [table.to_markdown() for section in sections(records) for table in section.tables]
    assert len(tables) >= 7
    for table in tables:
        assert table in page
