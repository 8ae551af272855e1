"""SIGKILL at any moment: whatever was acknowledged is there after the restart, and nothing twice."""

import http.client
import json
import os
import random
import signal
import threading
import time
import traceback
import urllib.request
import warnings

import pytest

from angpn.annotation.command import AnnotationOptions, AnnotationServer
from angpn.annotation.log import read_entries
from angpn.labelling.input_options import InputOptions


def serve_in_fork(path, output):
    """Serve in a forked process, without its learner, and return its number and the address."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = os.fork()
    if child:
        os.close(writing)
        with open(reading) as pipe:
            return child, pipe.readline().strip()
    try:
        options = InputOptions(input=path)
        server = AnnotationServer(options, options.read(), AnnotationOptions(output=output, user="anna"))
        server.session.start = lambda: None
        server.serve(lambda: os.write(writing, f"{server.address}\n".encode()))
    except BaseException:
        traceback.print_exc()
    os._exit(1)


def post(address, number):
    base, token = address.split("/?token=")
    action = {"type": "label", "row": number % 150, "name": f"class {number % 7}"}
    body = json.dumps({"client": "page", "id": f"id{number}", "action": action}).encode()
    request = urllib.request.Request(f"{base}/api/actions", body, {"X-Angpn-Token": token})
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert json.loads(answer.read())["seq"] > 0


def post_until_killed(address, numbers, acknowledged):
    """Post labels one after another until no answer comes: the last one is tried again after the restart."""
    while True:
        try:
            post(address, numbers[-1])
        except (OSError, http.client.HTTPException):
            return
        acknowledged.append(f"id{numbers[-1]}")
        numbers.append(numbers[-1] + 1)


@pytest.mark.parametrize("kills", [8, pytest.param(200, marks=pytest.mark.slow)])
def test_kills_lose_nothing_that_was_acknowledged_and_repeat_nothing(digits, annotate, tmp_path, kills):
    generator = random.Random(0)
    numbers, acknowledged = [0], []
    for _ in range(kills):
        child, address = serve_in_fork(digits[0], tmp_path / "out")
        assert address
        poster = threading.Thread(target=post_until_killed, args=(address, numbers, acknowledged))
        poster.start()
        time.sleep(generator.uniform(0.01, 0.15))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        poster.join()
    entries = read_entries(tmp_path / "out" / "annotate" / "log.jsonl")
    written = [entry.id for entry in entries]
    assert len(acknowledged) > kills
    assert set(acknowledged) <= set(written)
    assert len(written) == len(set(written))
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    last = {}  # label of each row
    for number in range(len(written)):
        last[number % 150] = f"class {number % 7}"
    again = annotate(digits[0])
    assert {row: again.get(f"/api/rows/{row}")["label"] for row in last} == last
    posted = again.act("label", id=acknowledged[0], row=0, name="class 0")  # as by a page that got no answer
    assert (posted["done"], posted["state"]["seq"]) == ("done before", len(entries))
    print(f"{kills} kills, {len(acknowledged)} labels acknowledged, {len(written)} in the log")
