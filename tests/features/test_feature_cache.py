"""The file of cached features: what it gives back, its bound, damage, and processes that share it."""

import hashlib
import os
import sqlite3
import subprocess
import sys

import pooch
import pytest

from angpn.features import feature_cache
from angpn.features.feature_cache import FILE, FeatureCache, cache_file


@pytest.fixture(autouse=True)
def file(tmp_path, monkeypatch):
    """The path of a cache that is not there yet."""
    monkeypatch.setenv("ANGPN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / FILE


def digest(name):
    return hashlib.sha256(str(name).encode()).digest()


def value(name, length=3000):
    """Bytes that only this name has."""
    return (digest(name) * length)[:length]


def put(*names, namespace="x"):
    with FeatureCache(namespace) as cache:
        cache.put({digest(name): value(name) for name in names})


def get(*names, namespace="x"):
    """Return the names whose bytes are found, all of them as they were put."""
    with FeatureCache(namespace) as cache:
        found = {name: cache.get(digest(name)) for name in names}
    assert all(content in (None, value(name)) for name, content in found.items())
    return [name for name in names if found[name] is not None]


def test_bytes_come_back_by_digest_and_namespace(file):
    assert get("a") == []
    put("a", "b")
    assert get("a", "b", "c") == ["a", "b"]
    assert get("a", namespace="y") == []
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_variable_names_the_folder(file, monkeypatch):
    assert cache_file() == file
    monkeypatch.setenv("ANGPN_CACHE", "")
    assert cache_file() == pooch.os_cache("angpn") / FILE


def test_the_least_recently_used_leave_first_and_the_bound_holds(file, monkeypatch):
    monkeypatch.setattr(feature_cache, "MAX_BYTES", 220_000)
    monkeypatch.setattr(feature_cache, "_EVICTED_AT_ONCE", 5)
    first, second, third = ([f"{run} {number}" for number in range(20)] for run in range(3))
    for name in first + second:
        put(name)
    assert get(*first, *second) == first + second
    assert get(*first) == first  # the second are now the least recently used
    for name in third:
        put(name)
        assert file.stat().st_size <= 220_000
    assert get(*first, *third) == first + third
    assert get(*second[:5]) == []


def test_what_would_never_fit_is_not_kept(file, monkeypatch):
    monkeypatch.setattr(feature_cache, "MAX_BYTES", 100_000)
    put("a")
    with FeatureCache("x") as cache:
        cache.put({digest("b"): bytes(200_000)})
    assert get("a", "b") == ["a"]
    assert file.stat().st_size <= 100_000


def overwrite(content, start):
    return content[:start] + b"\xa5" * 200 + content[start + 200 :]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"no database" * 100,
        lambda content: content[: len(content) // 2],
        lambda content: content[:50],
        lambda content: overwrite(content, 20),
        lambda content: content[:18] + b"\x03\x03" + content[20:],  # the versions to write and to read it
        *(lambda content, page=page: overwrite(content, 4096 * page) for page in range(5)),
        lambda content: content.replace(b"checksum", b"chucksum"),
        lambda content: content.replace(b"CREATE TABLE items", b"CREATE TAB\xff\xfe items"),
        lambda content: content.replace(value("5")[:50], bytes(50)),
    ],
)
def test_a_damaged_file_is_ignored_and_written_anew(file, damage):
    names = [str(number) for number in range(20)]
    put(*names)
    damaged = damage(file.read_bytes())
    assert damaged != file.read_bytes()
    file.write_bytes(damaged)
    assert get(*names) != names
    put(*names)
    assert get(*names) == names


def test_a_header_that_forbids_writing_is_damage(file):
    put("a")
    content = file.read_bytes()
    file.write_bytes(content[:18] + b"\x03" + content[19:])  # of a later version, which this one may only read
    put("b")
    assert get("b") == ["b"]


def test_another_file_in_its_place_is_replaced(file):
    file.parent.mkdir()
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE items (key BLOB PRIMARY KEY, other INTEGER NOT NULL)")
    connection.close()
    put("a")
    assert get("a") == ["a"]


def test_a_value_of_another_key_is_not_taken(file):
    put("a", "b")
    with sqlite3.connect(file) as connection:  # as a damaged index may do
        (one, _), (other, _) = connection.execute("SELECT key, value FROM items").fetchall()
        connection.execute("UPDATE items SET key = x'00' WHERE key = ?", [one])
        connection.execute("UPDATE items SET key = ? WHERE key = ?", [one, other])
    connection.close()
    assert get("a", "b") == []


def test_a_folder_that_cannot_be_used_is_one_warning(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ANGPN_CACHE", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="features are not cached: name another folder by ANGPN_CACHE") as caught:
        put("a")
    assert len(caught) == 1
    with pytest.warns(UserWarning, match="features are not cached") as caught:
        assert get("a", "b") == []
    assert len(caught) == 1


def test_a_locked_file_is_one_warning_and_stays(file, monkeypatch):
    put("a")
    monkeypatch.setattr(feature_cache, "_SECONDS_TO_WAIT", 0.01)
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    with pytest.warns(UserWarning, match="got database is locked; features are not cached"):
        put("b")
    connection.close()
    assert get("a", "b") == ["a"]


@pytest.mark.skipif(os.name != "posix", reason="the size of files is limited by setrlimit")
def test_a_full_disk_is_one_warning(file):
    put(*range(20))
    code = f"""
import resource, warnings
from angpn.features.feature_cache import FeatureCache
resource.setrlimit(resource.RLIMIT_FSIZE, ({file.stat().st_size}, resource.RLIM_INFINITY))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with FeatureCache("x") as cache:
        for number in range(100):
            cache.put({{number.to_bytes(32): bytes(5000)}})
print(*(warning.message for warning in caught), sep="\\n")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 1
    assert "features are not cached" in done.stdout
    assert get(*range(20)) == list(range(20))


WRITER = """
import hashlib, itertools
from angpn.features.feature_cache import FeatureCache
def digest(name):
    return hashlib.sha256(name.encode()).digest()
with FeatureCache("x") as cache:
    for number in itertools.count():
        names = [f"theirs {number}", f"both {number}"]
        cache.put({digest(name): (digest(name) * 3000)[:3000] for name in names})
        print(number, flush=True)
"""


def test_two_processes_write_at_once_and_one_is_killed(file):
    other = subprocess.Popen([sys.executable, "-W", "error", "-c", WRITER], stdout=subprocess.PIPE)
    for number in range(50):
        assert other.stdout.readline()  # it goes on meanwhile
        put(f"ours {number}", f"both {number}")
    other.kill()
    other.communicate()
    names = [f"{name} {number}" for name in ("ours", "theirs", "both") for number in range(50)]
    assert get(*names) == names
    connection = sqlite3.connect(file)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
