import os
import shutil
import time

import pytest

from angpn.utils import temporary_folders
from angpn.utils.temporary_folders import find_leftovers, remove_dead_folders, temporary_folder
from kills import run_and_kill

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows has no locks of folders, so leftovers stay there")


def kill_owner(parent, name="a"):
    def own():
        with temporary_folder(parent, name) as folder:
            (folder / "half").touch()
            os.kill(os.getpid(), 9)

    assert run_and_kill(own)


def test_a_folder_is_removed_when_its_block_ends(tmp_path):
    with temporary_folder(tmp_path, "a") as folder:
        (folder / "file").touch()
    assert os.listdir(tmp_path) == []


def test_the_folder_of_a_living_process_is_no_leftover(tmp_path):
    with temporary_folder(tmp_path, "a") as folder:
        remove_dead_folders(tmp_path, "a")
        assert list(find_leftovers(tmp_path, "a")) == []
        assert folder.exists()


def test_the_folder_of_a_killed_process_is_removed(tmp_path):
    kill_owner(tmp_path)
    ((folder, is_dead),) = find_leftovers(tmp_path, "a")
    assert is_dead
    assert os.listdir(folder) == ["half"]
    remove_dead_folders(tmp_path, "b")
    assert folder.exists()
    remove_dead_folders(tmp_path, "a")
    assert os.listdir(tmp_path) == []


def test_a_leftover_has_one_finder_at_a_time(tmp_path):
    kill_owner(tmp_path)
    for _ in find_leftovers(tmp_path, "a"):
        assert list(find_leftovers(tmp_path, "a")) == []
    assert len(list(find_leftovers(tmp_path, "a"))) == 1


def test_without_locks_nothing_is_removed(tmp_path, monkeypatch):
    def no_locks(handle, operation):
        raise OSError("No locks available")

    kill_owner(tmp_path)
    monkeypatch.setattr(temporary_folders.fcntl, "flock", no_locks)
    ((folder, is_dead),) = find_leftovers(tmp_path, "a")
    assert not is_dead
    with temporary_folder(tmp_path, "a") as second:
        remove_dead_folders(tmp_path, "a")
        assert second.exists()
    assert os.listdir(tmp_path) == [folder.name]


def test_a_folder_of_another_host_is_removed_after_a_day(tmp_path, monkeypatch):
    kill_owner(tmp_path)
    monkeypatch.setattr(temporary_folders, "_HOST", "zzzz")
    ((folder, is_dead),) = find_leftovers(tmp_path, "a")
    assert not is_dead  # its lock may be known to its host alone
    os.utime(folder, (time.time() - 90_000,) * 2)
    remove_dead_folders(tmp_path, "a")
    assert not folder.exists()


def test_a_folder_taken_for_dead_before_it_was_locked_is_replaced_by_another(tmp_path, monkeypatch):
    lock, stolen = temporary_folders._lock, []

    def slow_lock(folder):
        if not stolen:  # another process is faster
            stolen.append(folder)
            remove_dead_folders_of_another_process(folder)
        return lock(folder)

    def remove_dead_folders_of_another_process(folder):
        assert lock(folder) is not None
        shutil.rmtree(folder)

    monkeypatch.setattr(temporary_folders, "_lock", slow_lock)
    with temporary_folder(tmp_path, "a") as folder:
        assert folder.exists()
        assert folder != stolen[0]
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_read_or_is_not_there_has_no_leftovers(tmp_path):
    assert list(find_leftovers(tmp_path / "none", "a")) == []
