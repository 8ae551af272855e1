import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

import angpn
from angpn.cli import app
from angpn.experiments.figures import save_figure


@pytest.mark.slow
def test_demo_prints_three_accuracies_and_writes_the_outputs_of_label(tmp_path):
    result = CliRunner().invoke(app, ["demo", "--output", str(tmp_path / "new")], catch_exceptions=False)
    assert result.exit_code == 0
    accuracies = {
        method: float(line.split("│")[2].strip(" %"))
        for line in result.stdout.splitlines()
        for method in ("logistic regression", "LabelSpreading", "angpn")
        if line.startswith(f"│ {method} ")
    }
    assert len(accuracies) == 3
    assert all(85 < accuracy <= 100 for accuracy in accuracies.values())
    assert sorted(os.listdir(tmp_path / "new")) == ["model", "next.csv", "predictions.csv", "report.html"]
    assert str(tmp_path / "new" / "report.html") in result.stdout
    assert (tmp_path / "new" / "report.html").read_text().count("data:image/jpeg") == 1797
    wines = tmp_path / "new-table"
    assert b"abgef\xfcllt" in (wines / "wines.csv").read_bytes()  # in Latin-1
    assert "encoded in Windows-1252" in result.stdout
    assert "filled: ash: 5 cells" in result.stdout
    assert float(re.search(r"accuracy on unlabelled rows: ([\d.]+)%", result.stdout)[1]) > 85
    assert (wines / "out" / "report.html").exists()


def test_an_output_that_is_a_file_is_an_error_and_kept(tmp_path):
    path = tmp_path / "precious.txt"
    path.write_text("mine")
    result = CliRunner().invoke(app, ["demo", "--output", str(path)])
    assert result.exit_code == 1
    assert "got a file; name another with --output" in result.stderr
    assert path.read_text() == "mine"


def test_a_figure_that_fails_half_way_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "figure.png"
    path.write_bytes(b"old")

    def full_disk(self, name, **options):
        raise OSError("No space left on device")

    monkeypatch.setattr(Figure, "savefig", full_disk)
    with pytest.raises(OSError, match="No space left"):
        save_figure(Figure(), path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["figure.png"]


def test_bench_of_methods_prints_one_json_object_with_all_of_them(monkeypatch):
    from angpn.baselines import METHODS, LabelPropagation, LogisticRegression

    few = {"LP": LabelPropagation, "LogisticRegression": LogisticRegression}
    monkeypatch.setattr("angpn.baselines.METHODS", few)
    monkeypatch.setattr("angpn.bench.methods.METHODS", few)
    result = CliRunner().invoke(app, ["bench", "--methods", "--rows", "200", "--json"], catch_exceptions=False)
    found = json.loads(result.stdout)
    assert found["rows"] == 200
    assert found["methods"].keys() == few.keys()
    assert all(figures["seconds"] > 0 and figures["accuracy"] > 0.5 for figures in found["methods"].values())
    shown = CliRunner().invoke(app, ["bench", "--methods", "--rows", "200"], catch_exceptions=False).stdout
    assert "LogisticRegression" in shown
    assert len(METHODS) == 17


def test_data_lists_every_set_with_its_source_and_location(tmp_path):
    (tmp_path / "coraml.npz").write_bytes(bytes(2**20))
    result = CliRunner().invoke(app, ["data", "--data-home", str(tmp_path), "--json"], catch_exceptions=False)
    found = json.loads(result.stdout)["sets"]
    assert set(found) == {"svhn", "cifar10", "20news", "coraml", "digits", "wine", "breast_cancer", "mnist10k"}
    assert found["coraml"]["where"] == str(tmp_path / "coraml.npz")
    assert found["coraml"]["megabytes"] == 1.0
    assert found["svhn"]["where"] == "not fetched"
    assert "non-commercial" in found["svhn"]["licence"]
    shown = CliRunner().invoke(app, ["data", "--data-home", str(tmp_path)], catch_exceptions=False).stdout
    assert "coraml          1617 x 8329   7 classes   coraml.npz, 1.0 MB" in shown


def test_data_fetch_prints_the_shape_or_the_remedy(tmp_path):
    result = CliRunner().invoke(app, ["data", "fetch", "wine"], catch_exceptions=False)
    assert result.stdout.startswith("wine: 178 x 13, 3 classes")
    result = CliRunner().invoke(app, ["data", "--data-home", str(tmp_path), "fetch", "coraml"])
    assert result.exit_code == 1
    assert "no stable official download exists" in result.stderr
    result = CliRunner().invoke(app, ["data", "fetch", "mnist"])
    assert result.exit_code == 2


def test_version():
    result = subprocess.run([sys.executable, "-m", "angpn", "--version"], capture_output=True, text=True, check=True)
    assert result.stdout == f"angpn {angpn.__version__}\n"


def test_importing_the_library_imports_no_heavy_package():
    heavy = ["torch_geometric", "gensim", "matplotlib", "typer", "faiss"]
    code = f"import sys, angpn; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


@pytest.mark.slow
def test_bench_prints_one_json_object():
    command = [sys.executable, "-m", "angpn", "bench", "--json", "--sizes", "300"]
    code = (
        "import angpn.bench.epochs as b, sys; b.TURNS[300] = 1;"
        f"sys.argv = {command[2:]!r}; from angpn.cli import main; main()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = json.loads(result.stdout)
    assert set(found["ratios"]["dense_over_ours"]) == {"300"}
    for name in ("gcn", "gat1", "gat8", "sage"):
        assert set(found["ratios"][f"{name}_over_ours"]) == {"300"}
        assert all(ratio > 0 for ratio in found["ratios"][f"{name}_over_ours"].values())
    assert found["peak_bytes_per_row"] > 0
    assert 0 < found["limit_fraction"] < 1.5
    assert "growth_exponent" in found


@pytest.mark.slow
def test_bench_of_scale_prints_one_json_object():
    arguments = ["bench", "--scale", "--sizes", "1000,2000"]
    result = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    found = json.loads(result.stdout)
    assert found["rows"] == 2000
    assert found["recall"] == 1
    assert found["accuracy"] > 0.5
    assert 0 < found["neighbour_seconds"] < found["fit_seconds"]
    assert found["peak_gb"] > 0.05
    assert np.isfinite(found["growth_exponent"])
    shown = CliRunner().invoke(app, arguments, catch_exceptions=False).stdout
    assert "2,000 rows of 64 features" in shown


FITS = "ours", "warm", "predict10", "label_spreading", "self_training", "logistic_cv"
STARTUP = (
    "import_seconds",
    "import_torch_sklearn_seconds",
    "import_angpn_seconds",
    "import_numpy_seconds",
    "version_seconds",
)


@pytest.mark.slow
def test_bench_of_fits_measures_everything():
    arguments = ["bench", "--fits", "--sizes", "150x4", "--turns", "1", "--json"]
    found = json.loads(CliRunner().invoke(app, arguments, catch_exceptions=False).stdout)
    assert found.keys() == {"fits", *STARTUP}
    assert found["fits"].keys() == {"150x4"}
    assert found["fits"]["150x4"].keys() == set(FITS)
    assert all(seconds > 0 for seconds in (*found["fits"]["150x4"].values(), *(found[name] for name in STARTUP)))


def test_bench_of_fits_prints_a_table_or_one_json_object(monkeypatch):
    seconds = dict(zip(FITS, (0.5, 0.25, 0.001, 0.1, 20.0, 1.5), strict=True))
    monkeypatch.setattr("angpn.bench.fits.measure", lambda shape, **options: seconds)
    monkeypatch.setattr("angpn.bench.startup.measure_startup", lambda turns: dict.fromkeys(STARTUP, 0.2))
    result = CliRunner().invoke(app, ["bench", "--fits", "--sizes", "1797x64, 5000x1280", "--json"])
    fits = {"1797x64": seconds, "5000x1280": seconds}
    assert json.loads(result.stdout) == {"fits": fits, **dict.fromkeys(STARTUP, 0.2)}
    assert "5000x1280: ours 500 ms" in result.stderr
    shown = CliRunner().invoke(app, ["bench", "--fits"], catch_exceptions=False).stdout
    (line,) = (line for line in shown.splitlines() if "│ 50000x256 " in line)
    cells = [cell.strip() for cell in line.strip("│").split("│")]
    assert cells == ["50000x256", "500 ms", "250 ms", "1 ms", "100 ms", "20.0 s", "1.50 s"]
    assert "import angpn: 200 ms (import numpy: 200 ms)" in shown


def test_bench_of_fits_refuses_unknown_shapes():
    result = CliRunner().invoke(app, ["bench", "--fits", "--sizes", "150x4,5000"])
    assert result.exit_code == 2
    assert "must be among 150x4, 1797x64, 5000x256, 5000x1280, 50000x256, got '5000'" in _unwrapped(result.stderr)


def test_bench_measures_one_thing_at_a_time():
    result = CliRunner().invoke(app, ["bench", "--fits", "--scale"])
    assert result.exit_code == 2
    assert "name one of them" in _unwrapped(result.stderr)


def _unwrapped(message):
    """Return the text of an error that was broken into lines inside a box."""
    return " ".join(message.replace("│", " ").split())


def test_bench_of_scale_needs_two_sizes():
    result = CliRunner().invoke(app, ["bench", "--scale", "--sizes", "1000"])
    assert result.exit_code == 2
    assert "at least 2 numbers" in result.output


@pytest.mark.parametrize(
    ("sizes", "message"), [("a,b", "whole numbers separated by commas"), ("10", "at least 100, got 10")]
)
def test_bench_with_bad_sizes(sizes, message):
    result = CliRunner().invoke(app, ["bench", "--sizes", sizes])
    assert result.exit_code == 2
    assert message in result.stderr
