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


@pytest.mark.parametrize("moment", ["before it is opened", "before it is locked", "while it is locked by the other"])
def test_a_folder_that_another_process_took_for_dead_is_replaced_by_a_new_one(tmp_path, monkeypatch, moment):
    function = "open" if moment == "before it is opened" else "flock"
    module = os if function == "open" else temporary_folders.fcntl
    original, stolen, handles = getattr(module, function), [], []

    def steal_first(*arguments, **options):
        if not stolen:
            stolen.extend(tmp_path.iterdir())
            handles.append(os.open(stolen[0], os.O_RDONLY))
            temporary_folders.fcntl.flock(handles[0], temporary_folders.fcntl.LOCK_EX)
            if moment != "while it is locked by the other":
                shutil.rmtree(stolen[0])
                os.close(handles.pop())
        return original(*arguments, **options)

    monkeypatch.setattr(module, function, steal_first)
    with temporary_folder(tmp_path, "a") as folder:
        assert folder.exists()
        assert folder != stolen[0]
        assert list(find_leftovers(tmp_path, "a")) == []  # the new one is locked
    for handle in handles:
        os.close(handle)
    remove_dead_folders(tmp_path, "a")
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_read_or_is_not_there_has_no_leftovers(tmp_path):
    assert list(find_leftovers(tmp_path / "none", "a")) == []
