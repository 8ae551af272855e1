"""Downloads from a local server: verified, or not stored."""

import hashlib
import multiprocessing
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from angpn.datasets import cache
from angpn.datasets.cache import Source, download

CONTENTS = bytes(range(256)) * 1200
DIGEST = "sha256:" + hashlib.sha256(CONTENTS).hexdigest()


@pytest.fixture
def server():
    """Serves CONTENTS; ``/cut`` is truncated, ``/flaky`` the first time, ``/gone`` does not exist."""
    requests = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            requests.append(self.path)
            if self.path == "/gone":
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENTS)))
            self.end_headers()
            short = self.path == "/cut" or (self.path == "/flaky" and requests.count("/flaky") == 1)
            self.wfile.write(CONTENTS[:1000] if short else CONTENTS)

        def log_message(self, *args):
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{running.server_port}", requests
    running.shutdown()
    running.server_close()


@pytest.fixture(autouse=True)
def short_delays(monkeypatch):
    monkeypatch.setattr(cache, "SECONDS_BETWEEN_ATTEMPTS", 0.01)


def source(url, digest=DIGEST):
    return Source(url, digest, "data.bin", "this test")


def test_a_download_is_stored_and_not_repeated(server, tmp_path):
    url, requests = server
    path = download(source(f"{url}/file"), tmp_path, progress=False)
    assert path.read_bytes() == CONTENTS
    assert download(source(f"{url}/file"), tmp_path, progress=False) == path
    assert requests == ["/file"]
    assert os.listdir(tmp_path) == ["data.bin"]


def test_md5_as_older_publishers_give_it(server, tmp_path):
    url, _ = server
    md5 = "md5:" + hashlib.md5(CONTENTS).hexdigest()
    assert download(source(f"{url}/file", md5), tmp_path, progress=False).read_bytes() == CONTENTS


def test_a_file_with_another_digest_is_not_stored(server, tmp_path):
    url, _ = server
    with pytest.raises(
        ValueError, match="must have the digest sha256:0+ .this test., got another: .* nothing was stored"
    ):
        download(source(f"{url}/file", "sha256:" + "0" * 64), tmp_path, progress=False)
    assert os.listdir(tmp_path) == []


def test_a_file_that_was_damaged_later_is_fetched_again(server, tmp_path):
    url, _ = server
    (tmp_path / "data.bin").write_bytes(b"half")
    assert download(source(f"{url}/file"), tmp_path, progress=False).read_bytes() == CONTENTS


def test_a_failed_connection_is_retried(server, tmp_path):
    url, requests = server
    assert download(source(f"{url}/flaky"), tmp_path, progress=False).read_bytes() == CONTENTS
    assert requests == ["/flaky", "/flaky"]


@pytest.mark.parametrize("path", ["cut", "gone"])
def test_a_connection_that_keeps_failing_stores_nothing(server, tmp_path, path):
    url, requests = server
    with pytest.raises(ConnectionError, match=f"/{path} must be reachable, got .* in 3 attempts .* put the file at"):
        download(source(f"{url}/{path}"), tmp_path, progress=False)
    assert len(requests) == 3
    assert os.listdir(tmp_path) == []


def test_a_full_disk_stores_nothing(server, tmp_path, monkeypatch):
    url, _ = server

    def full(self, *args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pooch.HTTPDownloader.__call__", full)
    with pytest.raises(OSError, match="data.bin must be writable, got .*No space left on device; free some space"):
        download(source(f"{url}/file"), tmp_path, progress=False)
    assert os.listdir(tmp_path) == []


def fetch(url, folder):
    download(source(url), folder, progress=False)


@pytest.mark.slow
def test_two_processes_at_once_end_with_one_whole_file(server, tmp_path):
    url, _ = server
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=fetch, args=(f"{url}/file", tmp_path)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(60)
        assert process.exitcode == 0
    assert (tmp_path / "data.bin").read_bytes() == CONTENTS
    assert os.listdir(tmp_path) == ["data.bin"]


def test_progress_is_shown_on_standard_error(server, tmp_path, capfd):
    url, _ = server
    download(source(f"{url}/file"), tmp_path / "quiet", progress=False)
    assert capfd.readouterr() == ("", "")
    download(source(f"{url}/file"), tmp_path)
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "data.bin" in shown.err
