"""What `import angpn` and the command load: nothing that takes seconds, before a name that needs it is used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import angpn

HEAVY = "numpy", "scipy", "sklearn", "torch", "numba", "polars", "matplotlib", "pooch"


def loaded_after(code):
    """Return which heavy packages a new process has loaded after this code."""
    code += f"; import sys; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("code", ["import angpn; angpn.__version__; dir(angpn)", "import angpn.cli"])
def test_nothing_heavy_is_loaded_before_it_is_used(code):
    assert loaded_after(code) == []


def test_an_estimator_is_made_without_the_compiler():
    assert "numba" not in loaded_after("from angpn import ANGPNClassifier, ANGPNNetworkClassifier; ANGPNClassifier()")


def test_an_estimator_is_made_without_other_estimators_of_scikit_learn():
    code = "import sys; from angpn import ANGPNClassifier; ANGPNClassifier(); "
    code += "print(*(f'sklearn.{name}' in sys.modules for name in ('cluster', 'linear_model', 'metrics')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"] * 3


def test_the_annotation_server_reads_rows_and_answers_without_what_learns(tmp_path):
    (tmp_path / "texts.txt").write_text("one\ntwo\n")
    code = "from angpn.annotation.command import AnnotationOptions, AnnotationServer; from pathlib import Path; "
    code += "from angpn.annotation.views import next_view, state_view; "
    code += "from angpn.labelling.input_options import InputOptions; "
    code += f"options = InputOptions(input={str(tmp_path / 'texts.txt')!r}); "
    code += f"given = AnnotationOptions(output=Path({str(tmp_path)!r}) / 'out'); "
    code += "server = AnnotationServer(options, options.read(), given); "
    code += "state_view(server.session); assert len(next_view(server.session, 'page', 5)['rows']) == 2; server.close()"
    assert not {"sklearn", "torch", "numba", "matplotlib"} & set(loaded_after(code))


@pytest.mark.parametrize("option", ["--version", "--help", "label --help", "bench --help"])
def test_the_command_answers_without_loading_anything_heavy(option):
    code = f"import contextlib, io, sys; sys.argv = ['angpn', *{option.split()!r}]; from angpn.cli import main\n"
    code += "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit): main()\n"
    code += f"print(*(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_every_name_is_listed_and_can_be_used():
    assert set(angpn.__all__) <= set(dir(angpn))
    for name in angpn.__all__:
        assert getattr(angpn, name) is not None
    with pytest.raises(AttributeError, match="NoSuchName"):
        _ = angpn.NoSuchName


def test_type_checkers_see_the_same_names():
    stub = ast.parse(Path(angpn.__file__).with_suffix(".pyi").read_text())
    (names,) = (ast.literal_eval(node.value) for node in stub.body if isinstance(node, ast.Assign))
    assert sorted(names) == sorted(angpn.__all__)


def test_a_name_is_what_its_room_defines():
    from angpn.estimators.auto import ANGPNClassifier
    from angpn.network.training import train

    assert angpn.ANGPNClassifier is ANGPNClassifier
    assert angpn.train is train
