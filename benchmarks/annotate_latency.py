"""How long a label takes to be acknowledged by ``angpn annotate`` while the model is fitted all the time.

    python benchmarks/annotate_latency.py [--rows 5000] [--columns 1280] [--labels 1000]

Rows are Gaussian blobs of ten classes. The real command is started; labels are posted one after another, each on the
disk before its answer, and a refit is asked for whenever none is running. Printed as a line of JSON: median and 99th
percentile in milliseconds, the longest, how many labels were posted while a model was being fitted, and how many
models were.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np

CLASSES = 10


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--columns", type=int, default=1280)
    parser.add_argument("--labels", type=int, default=1000)
    given = parser.parse_args()
    generator = np.random.default_rng(0)
    truth = generator.integers(CLASSES, size=given.rows)
    centers = generator.normal(size=(CLASSES, given.columns))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        np.save(path, (centers[truth] + 4 * generator.normal(size=(given.rows, given.columns))).astype(np.float32))
        command = [sys.executable, "-m", "angpn", "annotate", str(path), "-o", f"{folder}/out", "--no-browser"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            base, token = process.stdout.readline().strip().split("/?token=")
            try:
                print(json.dumps(_measure(base, token, truth, given.labels)))
            finally:
                process.kill()


def _measure(base: str, token: str, truth: np.ndarray, count: int) -> dict[str, Any]:
    def ask(path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(base + path, data, {"X-Angpn-Token": token})
        with urllib.request.urlopen(request) as answer:
            return json.loads(answer.read())

    while not ask("/api/state")["model"]["ready"]:
        time.sleep(0.5)
    seconds, during = [], []
    for number in range(count):
        action = {"type": "label", "row": number, "name": f"class {truth[number]}"}
        start = time.perf_counter()
        state = ask("/api/actions", {"client": "page", "id": str(number), "action": action})["state"]
        seconds.append(time.perf_counter() - start)
        during.append(state["model"]["fitting"])
        if not state["model"]["fitting"] and number >= 2 * CLASSES:
            ask("/api/refit", {})
        time.sleep(0.05)
    version = ask("/api/state")["model"]["version"]
    busy = 1000 * np.array(seconds)[np.array(during)]
    return {
        "labels": count,
        "while_fitting": len(busy),
        "models": version,
        "median_ms": round(float(np.median(busy)), 1),
        "p99_ms": round(float(np.quantile(busy, 0.99)), 1),
        "max_ms": round(float(busy.max()), 1),
    }


if __name__ == "__main__":
    main()
