"""Downloads that are cut, altered, stalled or answered by nonsense: the whole file, or none."""

import hashlib
import threading
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import numpy as np

from angpn.datasets import cache as downloads
from angpn.datasets.cache import Source, download
from fuzz.checks import Fault, check_unchanged
from fuzz.mutations import damaged, pick
from fuzz.verdict import accepts

CONTENT = bytes(range(256)) * 400
DIGEST = "sha256:" + hashlib.sha256(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Answers by the next of the answers, the last one for ever."""

    answers: ClassVar[list[dict]] = []

    def do_GET(self):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.send_response(answer.get("status", 200))
        for name, value in answer["headers"].items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer["body"])

    def log_message(self, *args):
        pass


@cache
def server():
    """Start the server of this process; return its address."""
    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{running.server_port}/data.bin"


def make(seed, folder):
    """Draw what the server will answer at each attempt, and what is in the folder before."""
    generator = np.random.default_rng(seed)
    answers = [_answer(generator) for _ in range(generator.integers(1, 5))]
    if generator.random() < 0.3:
        (folder / "data.bin").write_bytes(damaged(CONTENT, generator) if generator.random() < 0.5 else CONTENT)
    return answers, folder


def run(case):
    """Download; a file of the name is there only if it is the published one."""
    answers, folder = case
    path = folder / "data.bin"
    before = path.read_bytes() if path.exists() else None
    Handler.answers = answers
    downloads.SECONDS_BETWEEN_ATTEMPTS, downloads.TIMEOUT = 0.001, 2.0
    source = Source(server(), DIGEST, path.name, "this test")
    if accepts(lambda: download(source, folder, progress=False), names=path.name):
        if path.read_bytes() != CONTENT:
            raise Fault("result", "a download must be the published file, got another")
        check_unchanged({path.name}, folder)
        return True
    check_unchanged(set() if before is None else {path.name}, folder)
    if before is not None and path.read_bytes() != before:
        raise Fault("result", "a refused download must leave the file as it was")
    return False


def _answer(generator):
    body = CONTENT[: generator.integers(len(CONTENT))] if generator.random() < 0.5 else CONTENT
    body = damaged(body, generator) if generator.random() < 0.2 else body
    length = str(pick(generator, [len(CONTENT)] * 6 + [len(body), 0, 10**12, "x", -1]))
    headers = {"Content-Length": length}
    if generator.random() < 0.1:
        headers = pick(generator, [{}, {**headers, "Content-Encoding": "gzip"}, {"Transfer-Encoding": "chunked"}])
    status = pick(generator, [200] * 10 + [206, 301, 404, 500, 503])
    return {"status": status, "headers": headers, "body": body}
