import io
import json
import os
import subprocess
import sys
import warnings

import pytest
import typer
from typer.testing import CliRunner

from angpn.cli import app
from angpn.cli.shared import make_streams_lenient, plain_errors, print_data, print_result

BROKEN = b"caf\xe9\x1b[2J.png".decode("utf-8", "surrogateescape")
SHOWN = r"caf\xe9\x1b[2J.png"


def test_names_in_results_show_as_escapes_and_lines_stay_lines(capfd):
    print_result({}, ["first", f"skipped {BROKEN}\nforged: line"], as_json=False, quiet=False)
    assert capfd.readouterr().out == f"first\nskipped {SHOWN}\\nforged: line\n"


def test_names_in_json_come_back_as_they_were(capfd):
    print_result({"name": BROKEN}, [], as_json=True, quiet=False)
    printed = capfd.readouterr().out
    assert printed.isascii()
    assert "\x1b" not in printed
    assert json.loads(printed)["name"] == BROKEN


@pytest.mark.parametrize(
    ("is_terminal", "expected"), [(True, f"id\n{SHOWN}\n".encode()), (False, b"id\ncaf\xe9\x1b[2J.png\n")]
)
def test_data_are_printed_as_they_are_but_not_to_a_terminal(monkeypatch, is_terminal, expected):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict")
    stream.isatty = lambda: is_terminal
    monkeypatch.setattr(sys, "stdout", stream)
    print_data(f"id\n{BROKEN}\n")
    stream.flush()
    assert stream.buffer.getvalue() == expected


def test_names_in_errors_and_warnings_show_as_escapes(capfd):
    def fail():
        with plain_errors():
            warnings.warn(f"{BROKEN} is odd\nand long", stacklevel=1)
            raise ValueError(f"{BROKEN} must be\nan image")

    with pytest.raises(typer.Exit):
        fail()
    assert capfd.readouterr().err == f"warning: {SHOWN} is odd and long\nerror: {SHOWN} must be an image\n"


@pytest.mark.parametrize(
    "arguments", [["label", "x", "\x1b[2J"], ["\x1b[2J"], ["--\x1b[2J"], ["label", "--config", "\x1b[2J", "x"]]
)
def test_arguments_in_messages_about_them_show_as_escapes(arguments):
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "1000"})
    assert done.exit_code == 2
    assert r"\x1b[2J" in done.stderr
    assert "\x1b" not in done.stderr


def test_a_strict_stream_shows_what_it_cannot_encode(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    monkeypatch.setattr(sys, "stdout", stream)
    make_streams_lenient()
    print("é", BROKEN, flush=True)
    assert stream.buffer.getvalue() == b"\\xe9 caf\\udce9\x1b[2J.png\n"


@pytest.mark.skipif(os.name != "posix", reason="arguments of bytes")
def test_the_command_under_a_strict_encoding_prints_a_name_that_it_lacks(tmp_path):
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8:strict", "PYTHONUTF8": "1", "COLUMNS": "1000"}
    command = [sys.executable, "-m", "angpn", "label", tmp_path / "x.npy", "--config", b"caf\xe9.toml"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 2
    assert r"caf\xe9.toml must be a TOML file" in done.stderr
    assert "Traceback" not in done.stderr
