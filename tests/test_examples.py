"""The example notebook, in a real kernel."""

from pathlib import Path

import pytest

from notebooks import run_notebook

NOTEBOOK = Path(__file__).parent.parent / "examples" / "first_steps.ipynb"


def read_notebook():
    nbformat = pytest.importorskip("nbformat", reason="nbformat reads notebooks; it is not installed")
    return nbformat, nbformat.read(NOTEBOOK, as_version=4)


def test_the_notebook_is_valid_and_has_no_outputs():
    nbformat, notebook = read_notebook()
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in cells)


@pytest.mark.slow
def test_the_notebook_runs_and_shows_bar_figures_and_report(tmp_path):
    nbformat, notebook = read_notebook()
    notebook.cells.insert(0, nbformat.v4.new_code_cell("import sys; sys.modules['ipywidgets'] = None"))
    outputs = {cell.source: cell.outputs for cell in run_notebook(notebook, tmp_path) if cell.cell_type == "code"}

    def shown(call, kind):
        (cell,) = (found for source, found in outputs.items() if call in source)
        return [output.data[kind] for output in cell if kind in output.get("data", {})]

    (fit,) = (found for source, found in outputs.items() if "model.fit" in source)
    bars = "".join(output.text for output in fit if output.output_type == "stream")
    assert "rounds" in bars
    assert "█" in bars
    assert "ipywidgets" not in bars
    assert "ANGPNClassifier" in shown("model.fit", "text/html")[0]
    for call in ("plot_confusion", "plot_reliability", "plot_map", "plot_learning_curve"):
        assert len(shown(call, "image/png")) == 1, call
    assert "<iframe srcdoc=" in shown("model.report", "text/html")[0]
    assert (tmp_path / "angpn-report.html").exists()
