"""Does ``angpn annotate`` stay quick with many rows: its start, the first row on screen, frames of the map, memory.

    python benchmarks/annotate_many_rows.py [--rows 50000] [--kind array|texts|images]

The real command is started on rows of ten classes, and its page opened in Chromium. Printed as a line of JSON: seconds
from the command to its address and from there to the first row on screen, with the seconds of the processor that the
server took for the address (the others depend on what else the machine does), its memory then and after 200 labels.
Then frames a second while the map is dragged, in the median and in the slowest tenth: for this the server is given
places drawn at random, as the layout of 50,000 rows takes minutes and does not matter here.
"""

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright

CLASSES, WORDS = 10, 300
DRAGS = 120  # steps of the pointer
FRAMES = """() => { window.frames_ = [];
  const note = (now) => { frames_.push(now); requestAnimationFrame(note); }; requestAnimationFrame(note); }"""


def make_rows(folder: Path, kind: str, count: int) -> list[str]:
    """Write rows of a kind, and return the arguments that name them."""
    generator = np.random.default_rng(0)
    truth = generator.integers(CLASSES, size=count)
    if kind == "array":
        centers = generator.normal(size=(CLASSES, 256))
        np.save(folder / "rows.npy", (centers[truth] + 2 * generator.normal(size=(count, 256))).astype(np.float32))
        return [str(folder / "rows.npy")]
    if kind == "texts":
        with (folder / "rows.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["body"])
            for label in truth:
                words = [*generator.integers(WORDS * label, WORDS * (label + 1), size=25)]
                words += [*generator.integers(WORDS * CLASSES, size=15)]
                writer.writerow([" ".join(f"word{number}" for number in words)])
        return [str(folder / "rows.csv"), "--text", "body"]
    from PIL import Image

    (folder / "images").mkdir()
    for number, label in enumerate(truth):
        pixels = np.uint8(generator.integers(0, 30, size=(8, 8, 3)) + 22 * label)
        Image.fromarray(pixels).save(folder / "images" / f"{number}.png")
    return [str(folder / "images")]


def processor_seconds(pid: int) -> float:
    """Return what a process has taken of the processor."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def megabytes(pid: int) -> int:
    """Return the memory of a process."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) // 1024


def first_row(page: Page, address: str) -> float:
    """Open the page, and return after how many seconds a row is shown."""
    start = time.perf_counter()
    page.goto(address)
    page.wait_for_selector("#stage > *")
    return time.perf_counter() - start


def frames_while_dragging(page: Page) -> np.ndarray:
    """Drag the map to and fro, and return the frames a second from one frame to the next."""
    page.keyboard.press("m")
    page.wait_for_selector("#map")
    while not page.evaluate("Boolean(angpnAnnotate.map()?.painted)"):
        time.sleep(0.1)
    box = page.locator("#map").bounding_box()
    assert box is not None
    for _ in range(3):
        page.click("[aria-label='Zoom in']")
    page.check("input[name=map-tool][value=move]")
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.evaluate(FRAMES)
    for step in range(DRAGS):
        page.mouse.move(x + 80 * np.sin(step / 10), y + 60 * np.cos(step / 13))
    page.mouse.up()
    return 1000 / np.maximum(np.diff(page.evaluate("window.frames_")), 1e-3)


def serve_with_map(arguments: list[str], output: str) -> None:
    """Serve rows whose map is drawn at random, without a learner."""
    from angpn.annotation.command import AnnotationOptions, AnnotationServer
    from angpn.annotation.messages import Mapped
    from angpn.labelling.input_options import InputOptions

    options = InputOptions(input=arguments[0], text="body" if "--text" in arguments else None)
    server = AnnotationServer(options, options.read(), AnnotationOptions(output=Path(output)))
    count = len(server.session.contents)
    generator = np.random.default_rng(0)
    places = generator.normal(size=(CLASSES, 2))[generator.integers(CLASSES, size=count)]
    places += 0.3 * generator.normal(size=(count, 2))
    places = (places - places.min(axis=0)) / np.ptp(places, axis=0)
    server.session._on_message(Mapped(places.astype(np.float32), []))
    server.session.start = lambda: None  # type: ignore[method-assign]
    server.serve(lambda: print(server.address, flush=True))


def label_rows(base: str, token: str, count: int) -> None:
    """Label the next rows one by one, as a page does."""

    def ask(path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(base + path, data, {"X-Angpn-Token": token})) as answer:
            return json.loads(answer.read())

    for number in range(count):
        (row,) = ask("/api/next?client=bench&count=1")["rows"]
        action = {"type": "label", "row": row["row"], "name": f"class {number % CLASSES}"}
        ask("/api/actions", {"client": "bench", "id": f"bench{number}", "action": action})


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--kind", choices=["array", "texts", "images"], default="array")
    parser.add_argument("--serve", nargs="+", help=argparse.SUPPRESS)
    given, others = parser.parse_known_args()
    if given.serve:
        serve_with_map([*given.serve[1:], *others], given.serve[0])
        return
    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        folder = Path(name)
        arguments = make_rows(folder, given.kind, given.rows)
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.set_default_timeout(120_000)
        command = [sys.executable, "-m", "angpn", "annotate", *arguments, "-o", f"{name}/out", "--no-browser"]
        start = time.perf_counter()
        found: dict[str, Any] = {"kind": given.kind, "rows": given.rows}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            found["address_s"] = round(time.perf_counter() - start, 2)
            found["processor_s"] = round(processor_seconds(process.pid), 2)
            found["first_row_s"] = round(first_row(page, address), 2)
            found["memory_mb"] = megabytes(process.pid)
            label_rows(*address.split("/?token="), 200)
            found["memory_after_200_labels_mb"] = megabytes(process.pid)
            process.kill()
        command = [sys.executable, __file__, "--serve", f"{name}/map", *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            first_row(page, process.stdout.readline().strip())
            frames = frames_while_dragging(page)
            process.kill()
        browser.close()
    found["frames_a_second"] = round(float(np.median(frames)), 1)
    found["slowest_tenth"] = round(float(np.quantile(frames, 0.1)), 1)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
