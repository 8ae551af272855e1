"""The real command in a process of its own, and a client of it."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request

SECONDS = 120.0


class Served:
    """``angpn annotate`` that runs."""

    def __init__(self, *arguments):
        command = [sys.executable, "-m", "angpn", "annotate", *map(str, arguments), "--no-browser"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
        )
        watch = threading.Timer(SECONDS, self.process.kill)
        watch.start()
        self.address = self.process.stdout.readline().strip()
        watch.cancel()
        found = re.fullmatch(r"(http://127\.0\.0\.1:[0-9]+)/\?token=([A-Za-z0-9_-]{20,})", self.address)
        if found is None:
            raise AssertionError(f"no address came, but {self.address!r}: {self.process.communicate()[1]}")
        self.base, self.token = found.groups()

    def request(self, path, body=None):
        """Return the JSON of an answer; OSError where none came."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"X-Angpn-Token": self.token})
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return json.loads(answer.read())

    def label(self, row, name, id):
        action = {"type": "label", "row": row, "name": name}
        return self.request("/api/actions", {"client": "page", "id": id, "action": action})

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def end(self, number=signal.SIGINT):
        """Send a signal, and return exit code, standard output and standard error."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, out, err
