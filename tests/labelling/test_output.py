"""Results on disk when processes are killed while they write, and when names are hostile."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from angpn import ANGPNClassifier
from angpn.cli import app
from angpn.utils import temporary_folders
from label_inputs import read_predictions, write_labels

TESTS = Path(__file__).parents[1]
KILLS = int(os.environ.get("ANGPN_KILLS", "6"))  # of the whole command, each after several seconds
NAMES = ["model", "next.csv", "predictions.csv", "report.html"]
BROKEN = os.fsdecode(b"caf\xe9.png")
HOSTILE = "a\x1b]0;owned\x07\n=1+1.png"
STRICT = {"PYTHONIOENCODING": "utf-8:strict", "PYTHONUTF8": "1"}

posix = pytest.mark.skipif(os.name != "posix", reason="kills by POSIX signals, and names of bytes")


def run_killed_output(*arguments):
    command = [sys.executable, TESTS / "killed_output.py", *map(str, arguments)]
    paths = os.pathsep.join([str(TESTS), *sys.path])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@posix
@pytest.mark.slow
def test_killed_at_any_file_operation_a_real_result_is_the_old_one_or_the_new(tmp_path):
    found = run_killed_output("operations", tmp_path)
    assert found.pop("labels of the model") == ["class 2 0", "class 2 1"]
    assert len(found) == 4
    for counts in found.values():
        assert counts["mixed"] == counts["leftovers"] == 0
        assert counts["kills"] > 30
        assert min(counts["old"], counts["new"]) > 0


@posix
@pytest.mark.slow
def test_killed_at_random_moments_a_save_leaves_the_old_file_and_the_next_save_nothing_else(tmp_path):
    found = run_killed_output("saves", tmp_path, 60)
    assert found["kills"] == 60
    assert found["broken"] == 0
    assert found["most leftovers"] == 1  # each save removed what the one before had left
    assert found["left"] == ["model.angpn"]


def kill_after(process, seconds):
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()


def wait_until_it_writes(process, folder):
    """Until the process has made a temporary folder; others were left by those before it."""
    before = set(os.listdir(folder))
    while process.poll() is None and set(os.listdir(folder)) <= before:
        time.sleep(0.001)


@posix
@pytest.mark.slow
def test_killed_at_random_moments_the_command_leaves_a_result_and_the_next_run_nothing_else(tmp_path):
    """ANGPN_KILLS=60 in the environment kills as often."""
    generator, moments = np.random.default_rng(0), random.Random(0)
    classes = np.arange(60) % 2
    np.save(tmp_path / "rows.npy", (generator.normal(size=(60, 4)) + 6 * classes[:, None]).astype(np.float32))
    labels = write_labels(tmp_path / "labels.csv", map(str, range(20)), [f"class {code}" for code in classes[:20]])
    out = tmp_path / "out"
    command = [sys.executable, "-m", "angpn", "label", tmp_path / "rows.npy", "--labels", labels, "-o", out, "-q"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    out.mkdir()
    start = time.monotonic()
    process = subprocess.Popen(command, env=environment)
    wait_until_it_writes(process, out)
    start_of_writing = time.monotonic()
    while sorted(os.listdir(out)) != NAMES:
        time.sleep(0.001)
    seconds_of_writing = time.monotonic() - start_of_writing
    assert process.wait(300) == 0
    seconds = time.monotonic() - start
    contents = [(out / name).read_bytes() for name in ("predictions.csv", "model/predictions.csv")]
    kills = while_writing = 0
    for turn in range(20 * KILLS):  # a run that ends before its kill does not count, nor does one of another moment
        process = subprocess.Popen(command, env=environment)
        if turn % 2:
            wait_until_it_writes(process, out)
            kill_after(process, moments.uniform(0, seconds_of_writing))
        else:
            kill_after(process, moments.uniform(0, seconds))
        kills += process.wait() == -signal.SIGKILL
        while_writing += sorted(os.listdir(out)) != NAMES
        assert [(out / name).read_bytes() for name in ("predictions.csv", "model/predictions.csv")] == contents
        assert (out / "report.html").read_text().rstrip().endswith("</html>")
        assert list(ANGPNClassifier.load(out / "model" / "classifier.angpn").classes_) == ["class 0", "class 1"]
        if kills >= KILLS and while_writing:
            break
    subprocess.run(command, check=True, timeout=300, env=environment)
    assert sorted(os.listdir(out)) == NAMES
    assert kills >= KILLS
    assert while_writing
    print(f"{kills} kills of a run of {seconds:.1f} s, {while_writing} in the {seconds_of_writing:.3f} s it writes")


@posix
@pytest.mark.slow
def test_file_names_that_are_not_utf8_are_printed_and_come_back(photos, tmp_path):
    """Through the whole command, with the network that encodes images, under a strict encoding."""
    folder, _, truth = photos
    mine = tmp_path / "images"
    mine.mkdir()
    first, second, *others = list(truth)[:40]
    names = {first: BROKEN, second: HOSTILE} | {name: name for name in others}
    for name, new in names.items():
        (mine / new).write_bytes((folder / name).read_bytes())
    (mine / os.fsdecode(b"bad\xff\x1b[2J.png")).write_text("no image")
    labels = tmp_path / "labels.csv"
    labels.write_bytes(
        b"id,label\n" + b"".join(os.fsencode(f'"{names[name]}",{truth[name]}\n') for name in list(names)[:30])
    )

    def run(*arguments):
        command = [sys.executable, "-m", "angpn", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, timeout=300, env={**os.environ, **STRICT})
        assert done.returncode == 0, done.stderr
        assert b"\x1b" not in done.stderr
        return done

    options = ["--skip-bad", "-o", tmp_path / "out"]
    done = run("label", mine, "--labels", labels, *options)
    assert rb"skipped bad\xff\x1b[2J.png: " in done.stdout
    assert b"\x1b" not in done.stdout
    (tmp_path / "out" / "report.html").read_bytes().decode("utf-8", "strict")
    # The predictions of one run are the labels of the next, beside an image that has none yet.
    (mine / "unlabelled.png").write_bytes((folder / list(truth)[50]).read_bytes())
    facts = json.loads(run("label", mine, "--labels", tmp_path / "out" / "predictions.csv", *options, "--json").stdout)
    assert (facts["given"], facts["predicted"]) == (40, 1)
    assert list(facts["skipped"]) == [os.fsdecode(b"bad\xff\x1b[2J.png")]
    printed = run("predict", tmp_path / "out" / "model", mine, "--skip-bad")
    assert rb"skipped bad\xff\x1b[2J.png: " in printed.stderr
    run("predict", tmp_path / "out" / "model", mine, "--skip-bad", "-o", tmp_path / "new.csv")
    assert (tmp_path / "new.csv").read_bytes() == printed.stdout
    assert b"\ncaf\xe9.png," in printed.stdout


@posix
def test_what_a_killed_run_left_is_completed_before_the_next_run_computes(wine, tmp_path, monkeypatch):
    """Between the two renames of systems without an exchange, the result is in the temporary folder alone."""
    path, _ = wine
    left = tmp_path / f".angpn-{temporary_folders._HOST}01234567.model"
    for name in ("old", "new"):
        (left / name).mkdir(parents=True)
        (left / name / "predictions.csv").write_text(name)

    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("angpn.labelling.run_task", interrupt)
    done = CliRunner().invoke(app, ["label", str(path), "--label-column", "cultivar", "-o", str(tmp_path)])
    assert done.exit_code == 130, done.output
    assert os.listdir(tmp_path) == ["model"]
    assert (tmp_path / "model" / "predictions.csv").read_text() == "new"


def test_names_of_classes_in_another_encoding_are_printed_saved_and_read_again(tmp_path):
    x = np.random.default_rng(0).normal(size=(40, 3)) + np.where(np.arange(40) < 20, 9, -9)[:, None]
    np.save(tmp_path / "x.npy", x.astype(np.float32))
    labels = b"id,label\n0,caf\xe9\n1,caf\xe9\n2,caf\xe9\n20,\x1b[31mred\n21,\x1b[31mred\n22,\x1b[31mred\n"
    (tmp_path / "labels.csv").write_bytes(labels)
    command = ["label", str(tmp_path / "x.npy"), "--labels", str(tmp_path / "labels.csv"), "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*command, "--dry-run"])
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[1:] == [r"  \x1b[31mred: 3", "  café: 3"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "\x1b" not in done.output
    assert "\n3,café," in (tmp_path / "out" / "predictions.csv").read_text(encoding="utf-8")
    done = CliRunner().invoke(app, ["predict", str(tmp_path / "out" / "model"), str(tmp_path / "x.npy")])
    assert done.exit_code == 0, done.output
    assert "\n3,café," in done.stdout


def test_an_id_may_be_longer_than_a_csv_reader_expects(tmp_path):
    long = "x" * 200_000
    rows = "".join(f"{row},{row + (50 if row % 2 else 0)},{'ab'[row % 2]}\n" for row in range(20))
    (tmp_path / "t.csv").write_text(f"id,x,y\n{rows}{long},3,\n")
    shared = ["--label-column", "y", "--id-column", "id", "-q", "-o"]
    done = CliRunner().invoke(app, ["label", str(tmp_path / "t.csv"), *shared, str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    command = ["predict", str(tmp_path / "out" / "model"), str(tmp_path / "t.csv"), "-o", str(tmp_path / "new.csv")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert done.stderr == f"21 rows: {tmp_path / 'new.csv'}\n"
    assert f"\n{long}," in (tmp_path / "new.csv").read_text()


def test_excel_safe_is_for_spreadsheets_and_not_the_default(tmp_path):
    rows = "".join(f"=id{row},{row + (50 if row % 2 else 0)},{'-a' if row % 2 else '-1.5'}\n" for row in range(20))
    (tmp_path / "t.csv").write_text("id,x,y\n" + rows + "+new,3,\n")
    shared = ["--label-column", "y", "--id-column", "id", "-q", "-o"]
    for out, options in (("plain", []), ("safe", ["--excel-safe"])):
        command = ["label", str(tmp_path / "t.csv"), *shared, str(tmp_path / out), *options]
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
    plain, safe = (read_predictions(tmp_path / out / "predictions.csv") for out in ("plain", "safe"))
    assert [line["id"] for line in plain[-2:]] == ["=id19", "+new"]
    assert [line["id"] for line in safe[-2:]] == ["'=id19", "'+new"]
    assert {line["label"] for line in plain} == {"-a", "-1.5"}
    assert {line["label"] for line in safe} == {"'-a", "-1.5"}
    command = ["predict", str(tmp_path / "safe" / "model"), str(tmp_path / "t.csv")]
    assert "\n+new," in CliRunner().invoke(app, command).stdout
    assert "\n'+new," in CliRunner().invoke(app, [*command, "--excel-safe"]).stdout
