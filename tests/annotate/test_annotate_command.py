"""The command itself: its address, its end, its errors, and SIGKILL at any moment."""

import http.client
import json
import random
import signal
import socket
import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from angpn.cli import app
from angpn.cli.annotate import _say_ready
from annotate_served import Served

KILLS = 5


@pytest.mark.parametrize("quiet", [False, True])
def test_the_address_stands_alone_and_then_how_to_end(capsys, quiet):
    _say_ready("http://127.0.0.1:8000/?token=x", Path("out"), open_browser=False, quiet=quiet)
    address, *more = capsys.readouterr().out.splitlines()
    assert address == "http://127.0.0.1:8000/?token=x"
    assert more == ([] if quiet else ["label on this page; Ctrl-C here ends it and writes the results to out"])


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_its_address_and_writes_the_results_when_it_ends(digits, tmp_path, number):
    path, images, truth = digits
    served = Served(path, "--images", images, "-o", tmp_path / "out", "--port", 0, "--target", 0.9, "--user", "anna")
    state = served.request("/api/state")
    assert (state["user"], state["target"], state["n_rows"]) == ("anna", 0.9, 150)
    for row in range(12):
        served.label(row, truth[row], f"id{row}")
    end = time.monotonic() + 120
    while served.request("/api/state")["model"]["version"] == 0:
        assert time.monotonic() < end, served.request("/api/state")
        time.sleep(0.2)
    assert served.request("/api/rows/100")["guess"]["name"].startswith("digit")
    code, out, err = served.end(number)
    assert (code, err) == (0, "")
    assert "wrote labels.csv" in out
    for name in ("labels.csv", "predictions.csv", "report.html", "model"):
        assert (tmp_path / "out" / name).exists()
    done = CliRunner().invoke(app, ["annotate", "--export", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "predictions.csv" in done.output


@pytest.mark.slow
def test_a_second_start_and_a_taken_port_are_one_line(digits, tmp_path):
    served = Served(digits[0], "-o", tmp_path / "out", "--port", 0)
    try:
        again = CliRunner().invoke(app, ["annotate", str(digits[0]), "-o", str(tmp_path / "out"), "--no-browser"])
        assert again.exit_code == 1
        assert f"must be open once, got a server that has it open at {served.address}" in again.stderr
        assert again.stderr.count("\n") == 1
    finally:
        served.end()


def test_a_taken_port_is_one_line_and_locks_nothing(digits, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = CliRunner().invoke(app, ["annotate", str(digits[0]), "-o", str(tmp_path / "out"), "--port", str(port)])
    assert done.exit_code == 1
    assert (
        f"error: 127.0.0.1 port {port} must be free to serve the page, got: Address already in use; pass" in done.stderr
    )
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "an input must be named, got none; pass a folder of images or a file, or --export OUT"),
        (["-"], "the input must be a file that can be read again after a restart, got -"),
        (["{digits}", "--table", "-"], "--table must be a file that can be read again after a restart, got -"),
        (["{digits}", "--table", "a.csv"], "--table is for columns of a folder of images, got"),
        (["{digits}", "--columns", "a"], "--columns is for columns beside --text, got no --text"),
        (["nowhere"], "nowhere must be a file or folder, got none there"),
        (["--export", "nowhere"], "must be an output folder of angpn annotate, got one without a project"),
        (["{digits}", "--audit", "2"], "--audit must lie between 0 and 1, got 2.0"),
        (["{digits}", "--target", "95"], "--target must lie between 0 and 1, got 95.0"),
        (["{digits}", "--user", " "], "--user must have 1 to 200 characters, got 0"),
        (["{digits}", "--images", "{digits}"], "must have shape"),
    ],
)
def test_what_cannot_be_used_is_one_line(digits, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    given = [argument.replace("{digits}", str(digits[0])) for argument in arguments]
    done = CliRunner().invoke(app, ["annotate", *given, "--no-browser"])
    assert done.exit_code == 1
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def post_until_killed(served, ids, acknowledged):
    """Post labels one after another until no answer comes; a retry of the last one comes first."""
    while True:
        number = ids[-1]
        try:
            served.label(number % 150, f"class {number % 7}", f"id{number}")
        except (OSError, http.client.HTTPException):
            return
        acknowledged.append(f"id{number}")
        ids.append(number + 1)


@pytest.mark.slow
def test_whatever_was_acknowledged_survives_sigkill_and_nothing_is_there_twice(digits, tmp_path):
    generator = random.Random(0)
    ids, acknowledged = [0], []
    for _ in range(KILLS):
        served = Served(digits[0], "-o", tmp_path / "out", "--port", 0)
        poster = threading.Thread(target=post_until_killed, args=(served, ids, acknowledged))
        poster.start()
        time.sleep(generator.uniform(0.05, 0.6))
        served.kill()
        poster.join()
    served = Served(digits[0], "-o", tmp_path / "out", "--port", 0)
    seq = served.request("/api/state")["seq"]
    served.kill()
    lines = [json.loads(line) for line in (tmp_path / "out" / "annotate" / "log.jsonl").read_text().splitlines()]
    written = [line["id"] for line in lines if line["id"]]
    assert len(acknowledged) > KILLS
    assert set(acknowledged) <= set(written)
    assert len(written) == len(set(written))
    assert lines[-1]["seq"] == seq
