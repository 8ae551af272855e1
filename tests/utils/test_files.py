import ctypes
import errno
import os
import stat
from types import SimpleNamespace

import pytest

from angpn.utils.files import exchange, replacing
from kills import run_and_kill


def kill_writer(path):
    def write():
        with replacing(path) as temporary:
            temporary.write_text("half")
            os.kill(os.getpid(), 9)

    run_and_kill(write)


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "folder" / "a.txt"
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert [file.name for file in path.parent.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_an_interrupted_write_leaves_the_old_file(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write():
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(type(error)):
        write()
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.skipif(os.name != "posix", reason="permissions as POSIX has them")
def test_others_may_read_what_the_umask_lets_them(tmp_path):
    path = tmp_path / "a.txt"
    before = os.umask(0o022)
    try:
        with replacing(path) as temporary:
            temporary.write_text("x")
            temporary.chmod(0o600)  # as safetensors does
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_writer_may_make_files_of_its_own_and_replace_its_own(tmp_path):
    path = tmp_path / "a.txt"
    with replacing(path) as temporary:
        temporary.with_name(".tmpX").write_text("new")
        temporary.with_name(".tmpX").replace(temporary)
        temporary.with_name(".forgotten").write_text("half")
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_name_as_long_as_file_systems_allow(tmp_path):
    path = tmp_path / ("n" * 251 + ".txt")
    with replacing(path) as temporary:
        temporary.write_text("x")
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.skipif(os.name != "posix", reason="Windows has no locks of folders, so leftovers stay there")
def test_what_killed_writers_of_this_file_left_is_removed_and_nothing_else(tmp_path):
    kill_writer(tmp_path / "a.txt")
    kill_writer(tmp_path / "b.txt")
    others = [
        ".angpn-mine.a.txt",
        ".angpn-0123456789ab.a.txt.bak",
        ".angpn-0123456789AB.a.txt",
        "x.angpn-0123456789ab.a.txt",
    ]
    for name in others:
        (tmp_path / name).mkdir()
    (tmp_path / ".angpn-0123456789ab.a.txt").write_text("a file, not a folder")
    with replacing(tmp_path / "living.txt"), replacing(tmp_path / "a.txt") as temporary:
        temporary.write_text("new")
        assert len(os.listdir(tmp_path)) == len(others) + 4
    kept = {*others, ".angpn-0123456789ab.a.txt", "a.txt", "living.txt"}
    (left,) = set(os.listdir(tmp_path)) - kept
    assert left.endswith(".b.txt")


@pytest.mark.skipif(os.name != "posix", reason="Windows cannot exchange two folders in one step")
def test_two_folders_are_exchanged(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    assert exchange(tmp_path / "one", tmp_path / "two")
    assert (tmp_path / "one" / "file").read_text() == "two"
    assert (tmp_path / "two" / "file").read_text() == "one"
    with pytest.raises(FileNotFoundError):
        exchange(tmp_path / "one", tmp_path / "none")


@pytest.mark.parametrize("library", ["no such function", "refused by the file system"])
def test_where_an_exchange_is_impossible_nothing_is_changed(tmp_path, monkeypatch, library):
    def renameat2(*arguments):
        ctypes.set_errno(errno.EINVAL)
        return -1

    functions = {} if library == "no such function" else {"renameat2": renameat2}
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace(**functions))
    (tmp_path / "one").mkdir()
    (tmp_path / "two").touch()
    assert not exchange(tmp_path / "one", tmp_path / "two")
    assert (tmp_path / "one").is_dir()
