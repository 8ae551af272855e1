"""The folder is treated with small files in the place of a result's; see test_output.py for real results."""

import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from angpn.labelling import output_folder
from angpn.labelling.output_folder import CLUSTERED, check_output_folder, recover_output, replacing_output
from kills import run_and_kill

NAMES = ["model", "predictions.csv", "report.html"]
FILES = ["classifier.angpn", "encoder.angpn", "predictions.csv", "report.html"]
SEEN = ["predictions.csv", "report.html", "model/classifier.angpn", "model/encoder.angpn"]


def write(folder, content):
    with replacing_output(folder) as new:
        new.mkdir()
        for name in FILES:
            (new / name).write_text(f"{content} {name}")


def write_as_0_1_0(folder, content):
    (folder / "model").mkdir(parents=True)
    for path in SEEN:
        (folder / path).write_text(f"{content} {path.removeprefix('model/')}")


def seen(folder):
    """What a reader of the three outputs sees: the content that all have, or what each has."""
    found = [(folder / path).read_text() if (folder / path).exists() else None for path in SEEN]
    contents = {None if text is None else text.split()[0] for text in found}
    return contents.pop() if len(contents) == 1 else found


def no_exchange(first, second):
    return False


@pytest.fixture
def fast(monkeypatch):
    """A killed process loses nothing that the system has, synchronised with the disk or not."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


BEFORE = {"nothing": None, "a result": write, "a result of 0.1.0": write_as_0_1_0}


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("can_exchange", [True, False], ids=["exchange", "no exchange"])
def test_killed_at_any_file_operation_it_leaves_the_old_result_or_the_new(
    tmp_path, monkeypatch, fast, before, can_exchange
):
    if not can_exchange:
        monkeypatch.setattr(output_folder, "exchange", no_exchange)
    states, at, was_killed = [], 0, True
    while was_killed:
        out = tmp_path / str(at)
        out.mkdir()
        (out / "mine.txt").write_text("mine")
        if BEFORE[before] is not None:
            BEFORE[before](out, "old")
        was_killed = run_and_kill(lambda out=out: write(out, "new"), at=at)
        if not can_exchange:
            recover_output(out)
        states.append(seen(out))
        write(out, "next")
        assert seen(out) == "next"
        assert sorted(os.listdir(out)) == ["mine.txt", *NAMES]
        assert sorted(os.listdir(out / "model")) == FILES
        at += 1
    assert at > 15
    old = None if before == "nothing" else "old"
    switch = states.index("new")
    assert states == [old] * switch + ["new"] * (at - switch)
    assert switch < at - 1  # something is left to do after the new result is in place


def test_a_reader_sees_a_result_at_any_time(tmp_path, fast, monkeypatch):
    write_as_0_1_0(tmp_path, "old")
    states = []
    for module, name in ((os, "rename"), (os, "replace"), (os, "symlink"), (output_folder, "exchange")):
        function = getattr(module, name)

        def watched(*arguments, function=function, **options):
            states.append(seen(tmp_path))
            result = function(*arguments, **options)
            states.append(seen(tmp_path))
            return result

        monkeypatch.setattr(module, name, watched)
    write(tmp_path, "new")
    assert states[0] == "old"
    assert states[-1] == "new"
    assert set(states) == {"old", "new"}


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()], ids=["error", "interrupt"])
@pytest.mark.parametrize("before", BEFORE)
def test_a_failure_leaves_what_was_there(tmp_path, before, error):
    out = tmp_path / "out"
    if BEFORE[before] is not None:
        BEFORE[before](out, "old")

    def fail():
        with replacing_output(out) as new:
            new.mkdir()
            (new / "predictions.csv").write_text("half")
            raise error

    with pytest.raises(type(error)):
        fail()
    if before == "nothing":
        assert not out.exists()
    else:
        assert seen(out) == "old"
        assert sorted(os.listdir(out)) == NAMES


@pytest.mark.parametrize("step", ["rename", "replace", "symlink"])
@pytest.mark.parametrize("before", BEFORE)
def test_a_failure_of_any_step_leaves_the_old_result(tmp_path, monkeypatch, fast, before, step):
    """Without an exchange, which has the most steps."""
    monkeypatch.setattr(output_folder, "exchange", no_exchange)
    function, outcomes = getattr(os, step), []
    for failing in range(10):
        out = tmp_path / str(failing)
        if BEFORE[before] is not None:
            BEFORE[before](out, "old")
        calls = []

        def fail(*arguments, calls=calls, failing=failing, **options):
            calls.append(arguments)
            if len(calls) == failing + 1:
                raise OSError("disk full")
            return function(*arguments, **options)

        monkeypatch.setattr(os, step, fail)
        try:
            write(out, "new")
            outcomes.append("new")
        except OSError:
            outcomes.append("old")
        monkeypatch.setattr(os, step, function)
        if outcomes[-1] == "old" and before == "nothing":
            assert not out.exists()
        else:
            assert seen(out) == outcomes[-1]
            assert sorted(os.listdir(out)) == NAMES
    assert outcomes[-1] == "new"


def test_a_file_without_a_model_is_kept_until_the_new_result_is_there(tmp_path, fast):
    at, was_killed, states = 0, True, []
    while was_killed:
        out = tmp_path / str(at)
        out.mkdir()
        (out / "predictions.csv").write_text("of last week")
        was_killed = run_and_kill(lambda out=out: write(out, "new"), at=at)
        states.append((out / "predictions.csv").read_text())
        write(out, "next")
        assert seen(out) == "next"
        at += 1
    assert set(states) == {"of last week", "new predictions.csv"}


def test_without_links_there_are_files(tmp_path, monkeypatch):
    def refuse(*arguments, **options):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "symlink", refuse)
    for content in ("old", "new"):
        write(tmp_path, content)
        assert seen(tmp_path) == content
        assert sorted(os.listdir(tmp_path)) == NAMES
        assert not (tmp_path / "report.html").is_symlink()
    monkeypatch.undo()
    write(tmp_path, "next")
    assert seen(tmp_path) == "next"
    assert (tmp_path / "report.html").is_symlink()


def test_a_full_disk_is_not_taken_for_a_file_system_without_links(tmp_path, monkeypatch):
    def refuse(*arguments, **options):
        raise OSError(28, "No space left on device")

    write(tmp_path, "old")
    monkeypatch.setattr(os, "symlink", refuse)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path, "new")
    assert seen(tmp_path) == "old"


def test_the_folder_may_be_relative_a_link_or_here(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    for folder in ("link", "real/../link", "."):
        write(output_folder.Path(folder), "x")
        assert seen(output_folder.Path(folder)) == "x"
    assert sorted(os.listdir(tmp_path)) == sorted(["link", "real", *NAMES])
    assert sorted(os.listdir(tmp_path / "real")) == NAMES
    shutil.move(tmp_path / "real", tmp_path / "moved")  # links are relative
    assert seen(tmp_path / "moved") == "x"


def test_the_parent_need_not_be_writable(tmp_path):
    (tmp_path / "parent" / "out").mkdir(parents=True)
    (tmp_path / "parent").chmod(0o555)
    try:
        write(tmp_path / "parent" / "out", "x")
    finally:
        (tmp_path / "parent").chmod(0o755)
    assert seen(tmp_path / "parent" / "out") == "x"


def test_a_living_run_is_left_alone(tmp_path):
    with replacing_output(tmp_path) as first:
        first.mkdir()
        for name in FILES:
            (first / name).write_text(f"first {name}")
        write(tmp_path, "second")
        assert seen(tmp_path) == "second"
    assert seen(tmp_path) == "first"
    assert sorted(os.listdir(tmp_path)) == NAMES


def test_runs_at_once_replace_each_other(tmp_path, fast):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: write(tmp_path, f"run{number}"), range(60)))
    assert seen(tmp_path) in {f"run{number}" for number in range(60)}
    assert sorted(os.listdir(tmp_path)) == NAMES


# What may be in the folder


def make(path, kind):
    path.parent.mkdir(exist_ok=True)
    match kind:
        case "folder":
            path.mkdir()
        case "link":
            path.symlink_to("/etc/hostname")
        case "pipe":
            os.mkfifo(path)
        case "file":
            path.write_text("mine")


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("predictions.csv", "folder", "predictions.csv must be a file or not there, got a folder"),
        ("report.html", "link", "report.html must be a file or not there, got a link to /etc/hostname"),
        ("report.html", "pipe", "report.html must be a file or not there, got something else"),
        ("model", "file", "model must be a model of angpn or not there, got something else"),
        ("model", "link", "model must be a model of angpn or not there, got something else"),
        ("model/weights.bin", "file", "model must be a model of angpn or not there, got something else"),
        ("model/report.html", "folder", "model must be a model of angpn or not there, got something else"),
        ("model/report.html", "link", "model must be a model of angpn or not there, got something else"),
    ],
)
def test_other_things_under_the_names_of_outputs_are_refused_and_kept(tmp_path, name, kind, message):
    make(tmp_path / name, kind)
    before = (tmp_path / name).lstat()
    with pytest.raises(OSError, match=message):
        check_output_folder(tmp_path)
    with pytest.raises(OSError, match=message):
        write(tmp_path, "new")
    assert (tmp_path / name).lstat() == before


def test_a_model_that_may_not_be_replaced_is_refused(tmp_path, monkeypatch):
    write(tmp_path, "old")
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path / "model")  # a superuser may write anywhere
    with pytest.raises(PermissionError, match="model must be a folder that can be replaced, got one that is read-only"):
        check_output_folder(tmp_path)


@pytest.mark.parametrize("write_before", [write, write_as_0_1_0])
def test_results_are_accepted_whole_or_in_part(tmp_path, write_before):
    for missing in ("predictions.csv", "model/encoder.angpn", "model"):
        out = tmp_path / missing.replace("/", "-")
        write_before(out, "old")
        (shutil.rmtree if missing == "model" else os.unlink)(out / missing)
        check_output_folder(out)
        write(out, "new")
        assert seen(out) == "new"


def write_clusters(folder, content):
    with replacing_output(folder, CLUSTERED) as new:
        new.mkdir()
        for name in CLUSTERED.links:
            (new / name).write_text(content)


def test_clusters_are_replaced_in_the_same_way(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    for content in ("old", "new"):
        write_clusters(tmp_path, content)
        assert {(tmp_path / name).read_text() for name in CLUSTERED.links} == {content}
        assert sorted(os.listdir(tmp_path)) == ["clusters", "clusters.csv", "mine.txt", "names.csv", "report.html"]
        assert sorted(os.listdir(tmp_path / "clusters")) == ["clusters.csv", "names.csv", "report.html"]
    (tmp_path / "clusters" / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="clusters must be clusters of angpn or not there, got something else"):
        check_output_folder(tmp_path, CLUSTERED)


def test_a_folder_holds_labels_or_clusters(tmp_path):
    write_clusters(tmp_path / "clusters", "old")
    with pytest.raises(FileExistsError, match="got a link to clusters/report.html; name another with --output"):
        check_output_folder(tmp_path / "clusters")
    write(tmp_path / "labels", "old")
    with pytest.raises(FileExistsError, match="got a link to model/report.html; name another with --output"):
        check_output_folder(tmp_path / "labels", CLUSTERED)


def test_temporary_folders_of_0_1_0_are_removed_when_they_are_old(tmp_path):
    ours, recent, foreign, named = (
        tmp_path / f".angpn.{name}" for name in ("abcd_123", "efgh5678", "ijkl9012", "notes")
    )
    for path in (ours, recent, foreign, named):
        (path / "old" / "model").mkdir(parents=True)
    (foreign / "thesis.tex").touch()
    for path in (ours, foreign, named):
        os.utime(path, (time.time() - 7200,) * 2)
    write(tmp_path, "new")
    assert sorted(os.listdir(tmp_path)) == sorted([recent.name, foreign.name, named.name, *NAMES])
