"""The driver notices what goes wrong; and a short seeded run over all kinds in which nothing may."""

import subprocess
import sys
from pathlib import Path

import pytest

import angpn
from angpn.utils.container import _digest
from fuzz import toy
from fuzz.checks import Fault, check_predictions, check_unchanged, listing
from fuzz.driver import fuzz, kind_names, schedule
from fuzz.verdict import accepts, accepts_command
from fuzz.worker import Limits

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="memory is measured by Linux's /proc"
)

ROUNDS = 36
ONE_SIDED = ("results", "torchrun")  # damaged lines are moved aside and the rest accepted; of jobs there is one


@pytest.fixture(scope="module")
def noticed(tmp_path_factory):
    """The summary of one toy case for each kind of fault, and the folder of what was saved."""
    folder = tmp_path_factory.mktemp("noticed")
    limits = Limits(seconds=2.0, bytes=2 * 10**8)
    return fuzz(["fuzz.toy"], folder, rounds=len(toy.OUTCOMES), limits=limits), folder


def test_the_driver_tells_faults_from_results_and_refusals(noticed):
    summary, _ = noticed
    found = {toy.OUTCOMES[fault.seed]: fault.outcome.name for fault in summary.faults}
    assert found == {name: name for name in toy.OUTCOMES if name not in ("accepted", "refused")}
    assert summary.counts["fuzz.toy"]["accepted"] == 1
    assert summary.counts["fuzz.toy"]["refused"] == 1


def test_a_fault_is_saved_with_its_input_and_the_command_that_repeats_it(noticed):
    _, folder = noticed
    seed = toy.OUTCOMES.index("hang")
    saved = folder / f"toy-{seed}"
    assert (saved / "inputs" / "input.txt").read_text() == "hang"
    told = (saved / "fault.txt").read_text()
    assert told.startswith(f"make fuzz KINDS=toy SEED={seed} ROUNDS=1\nhang\nno answer within 2.0 s\n")
    assert "in sleep_for_long" in told  # where it hung
    assert not (folder / f"toy-{toy.OUTCOMES.index('accepted')}").exists()


def test_the_summary_counts_by_kind_and_names_each_fault(noticed):
    lines = str(noticed[0]).splitlines()
    assert lines[1].split()[:5] == ["toy", str(len(toy.OUTCOMES)), "1", "1", str(len(toy.OUTCOMES) - 2)]
    assert any("1 x toy, seed 2: traceback" in line and "KeyError" in line for line in lines)


def test_slow_kinds_take_part_in_some_rounds(monkeypatch):
    monkeypatch.setattr(toy, "EVERY", 3, raising=False)
    assert list(schedule(["fuzz.toy"], 10, 7)) == [("fuzz.toy", seed) for seed in (10, 13, 16)]


def test_a_refusal_must_be_raised_by_us_in_one_line_and_name_the_file(tmp_path):
    path = tmp_path / "model.angpn"
    assert not accepts(lambda: angpn.ANGPNClassifier.load(path), names=r"model\.angpn")
    with pytest.raises(Fault, match="must name other.angpn"):
        accepts(lambda: angpn.ANGPNClassifier.load(path), names="other.angpn")
    with pytest.raises(Fault, match="a library's own message"):
        accepts(lambda: _digest("\udcff", {}))  # Python's words about the encoding


def test_a_refused_command_must_name_its_file_and_leave_nothing(tmp_path):
    before = listing(tmp_path)
    assert not accepts_command("label", tmp_path / "none.csv", "--label-column", "y", names=r"none\.csv")
    check_unchanged(before, tmp_path)
    (tmp_path / ".half").touch()
    with pytest.raises(Fault, match=r"must leave the folder as it was, got \['.half'\]"):
        check_unchanged(before, tmp_path)


def test_predictions_must_be_labels_and_numbers(tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("id,label,confidence,second,source\n0,a,0.9,b,predicted\n")
    check_predictions(path, ("a", "b"))
    with pytest.raises(Fault, match="labels must be among"):
        check_predictions(path, ("a", "c"))
    path.write_text(path.read_text().replace("0.9", "nan"))
    with pytest.raises(Fault, match="a confidence must be a number"):
        check_predictions(path)


def test_the_command_names_its_kinds():
    command = [sys.executable, "-m", "fuzz.driver", "--rounds", "1", "--kinds", "nothing"]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--kinds knows arrays, caches, checkpoints," in done.stderr


@pytest.mark.slow
def test_a_short_run_of_all_kinds_finds_no_fault(tmp_path):
    summary = fuzz([f"fuzz.kinds.{name}" for name in kind_names()], tmp_path, rounds=ROUNDS)
    print(summary)
    assert not summary.faults, f"{summary}\n{summary.faults[0].outcome.details}"
    one_sided = {
        name
        for name in kind_names()
        if name not in ONE_SIDED and not {"accepted", "refused"} <= summary.counts[f"fuzz.kinds.{name}"].keys()
    }
    assert not one_sided, f"each kind must have accepted and refused cases, got only one of them:\n{summary}"
