"""The log: what was acknowledged is there, and only that."""

import pytest

from angpn.annotation import log as module
from angpn.annotation.actions import AddClass, Label, Undo
from angpn.annotation.log import ActionLog, read_entries


@pytest.fixture
def path(tmp_path):
    log = ActionLog(tmp_path / "log.jsonl")
    for row in range(3):
        log.append(Label(row, "cat"), user="anna", client="page", id=f"id{row}")
    log.append(Undo(), user="anna", audit=False)
    log.close()
    return log.path


def test_entries_come_back_as_they_were_written(path):
    log = ActionLog(path)
    assert [entry.seq for entry in log.entries] == [1, 2, 3, 4]
    assert log.entries[1].action == Label(1, "cat")
    assert log.entries[1].id == "id1"
    assert log.append(AddClass("dog"), user="ben").seq == 5
    assert read_entries(path) == log.entries
    log.close()


@pytest.mark.parametrize("cut", range(1, 40, 6))
def test_a_torn_last_line_is_cut_off_and_the_next_entry_takes_its_place(path, cut):
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    assert len(read_entries(path)) == 3
    log = ActionLog(path)
    assert [entry.seq for entry in log.entries] == [1, 2, 3]
    log.append(AddClass("dog"), user="anna")
    log.close()
    assert [type(entry.action) for entry in read_entries(path)] == [Label, Label, Label, AddClass]


def test_a_damaged_line_in_the_middle_is_an_error_that_changes_nothing(path):
    lines = path.read_bytes().splitlines(keepends=True)
    damaged = b"".join([lines[0], b'{"seq": 2, "ti\n', *lines[2:], b'{"torn'])
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match=r"log\.jsonl must hold one action a line, got line 2 that cannot be read"):
        ActionLog(path)
    assert path.read_bytes() == damaged


def test_lines_out_of_order_are_an_error(path):
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[1], lines[0]]))
    with pytest.raises(ValueError, match="must number its lines in order, got 1 after 2 in line 2"):
        ActionLog(path)


def test_on_a_full_disk_the_log_stays_as_it_was(path, monkeypatch):
    log = ActionLog(path)
    before = path.read_bytes()

    def half(handle, data):
        monkeypatch.setattr(module, "_write", full)
        return write(handle, data[:10])

    def full(handle, data):
        raise OSError(28, "No space left on device")

    write = module._write
    monkeypatch.setattr(module, "_write", half)
    with pytest.raises(OSError, match="log.jsonl must be written before an action counts, got No space left on device"):
        log.append(AddClass("dog"), user="anna")
    assert path.read_bytes() == before
    monkeypatch.setattr(module, "_write", write)
    assert log.append(AddClass("dog"), user="anna").seq == 5
    log.close()
