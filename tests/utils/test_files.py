import os
import stat

import pytest

from angpn.utils.files import replacing


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
