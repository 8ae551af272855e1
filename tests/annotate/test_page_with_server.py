"""The page in a headless browser with the real server: digits as image files, labelled by keyboard from nothing."""

import csv
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

pytestmark = pytest.mark.slow

N_ROWS, N_CLASSES = 240, 5


@pytest.fixture
def digits(tmp_path):
    """A folder of images whose names end in the digit."""
    found = load_digits(n_class=N_CLASSES)
    folder = tmp_path / "digits"
    folder.mkdir()
    for number, (image, label) in enumerate(zip(found.images[:N_ROWS], found.target, strict=False)):
        Image.fromarray(np.uint8(255 - image * 255 / 16)).save(folder / f"{number:03d}-{label}.png")
    return folder


@pytest.fixture
def serve(digits, tmp_path):
    """Starts `angpn annotate`; all are ended in the end."""
    started = []

    def start(port=0):
        command = [sys.executable, "-m", "angpn", "annotate", str(digits), "-o", str(tmp_path / "out"), "--no-browser"]
        options = ["--port", str(port), "--target", "0.5", "--audit", "0.4", "--user", "anna"]
        process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True, env={**os.environ})
        started.append(process)
        address = next(line for line in process.stdout if line.startswith("http")).strip()
        return process, address

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def show(browser):
    """Opens an address; afterwards no error and no request to elsewhere may have been seen."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    errors, requests = [], []

    def open_page(address):
        page = context.new_page()
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address)
        page.wait_for_selector("#stage > *")
        return page

    yield open_page
    context.close()
    gone = ("Failed to load resource: net::", "Failed to load resource: the server responded with a status of 503")
    assert [error for error in errors if not error.startswith(gone)] == []
    assert [url for url in requests if not url.startswith(("http://127.0.0.1:", "data:"))] == []


def until(page, condition, seconds=60):
    """Wait until a JavaScript expression is true; the page's policy forbids playwright's own way to wait for one."""
    for _ in range(seconds * 20):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never true: {condition}")


def saved(page):
    until(page, "Object.keys(localStorage).every((key) => !key.startsWith('angpn-unsent'))")


def label_next(page):
    """Label the row on screen as a person would, and return it."""
    until(page, "angpnAnnotate.row() && angpnAnnotate.row().label === null")
    row = page.evaluate("angpnAnnotate.row()")
    truth = f"digit {re.search(r'-([0-9])', row['id'])[1]}"
    keys = {one["name"]: one["key"] for one in page.evaluate("angpnAnnotate.state().classes")}
    if not keys:
        page.fill("#first-class", truth)
        page.press("#first-class", "Enter")
        until(page, "angpnAnnotate.state().classes.length > 0")
    elif truth not in keys:
        page.keyboard.press("n")
        page.keyboard.type(truth)
        page.keyboard.press("Enter")
        until(page, f"angpnAnnotate.state().classes.some((one) => one.name === '{truth}')")
    elif row["guess"] and row["guess"]["name"] == truth:
        page.keyboard.press("Enter")
    else:
        page.keyboard.press(keys[truth])
    until(page, f"angpnAnnotate.row() && angpnAnnotate.row().row !== {row['row']}")
    return row


def test_from_nothing_to_the_target_through_undo_grid_lasso_a_kill_and_export(serve, show, tmp_path):
    process, address = serve()
    page = show(address)
    until(page, "angpnAnnotate.state().model.ready")
    page.reload()
    page.wait_for_selector("#stage > *")
    rows = [label_next(page) for _ in range(60)]
    saved(page)
    until(page, "angpnAnnotate.state().counts.labelled === 60")
    assert len({row["row"] for row in rows}) == 60
    audits = [row for row in rows if row["audit"]]
    assert audits
    assert all(row["guess"] is None for row in audits)
    assert len(page.evaluate("angpnAnnotate.state().classes")) == N_CLASSES

    page.keyboard.press("u")
    until(page, "angpnAnnotate.state().counts.labelled === 59")
    until(page, f"angpnAnnotate.row().row === {rows[-1]['row']}")
    label_next(page)
    saved(page)

    # Killed and started again: the same state and the same screen, what was pressed meanwhile is there.
    on_screen = page.evaluate("angpnAnnotate.row().row")
    port = int(re.search(r":(\d+)/", address)[1])
    process.send_signal(signal.SIGKILL)
    process.wait()
    page.keyboard.press("s")
    page.wait_for_selector("#banner:not([hidden])")
    page.keyboard.press("ArrowLeft")
    process, again = serve(port)
    assert again == address
    page.wait_for_selector("#banner", state="hidden")
    saved(page)
    until(page, "angpnAnnotate.state().counts.skipped === 1")
    assert page.evaluate("angpnAnnotate.state().counts.labelled") == 60
    assert page.evaluate("angpnAnnotate.row().row") == on_screen

    until(page, "angpnAnnotate.state().model.version > 0 && angpnAnnotate.state().estimate")
    page.keyboard.press("g")
    page.wait_for_selector(".cell")
    page.wait_for_selector(".grid-foot .strong:not([hidden])")
    page.keyboard.press("Enter")
    until(page, "angpnAnnotate.state().counts.labelled > 61")

    page.keyboard.press("m")
    until(page, "angpnAnnotate.map()?.painted")
    box = page.locator("#map").bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    for x, y in ((0.9, 0.01), (0.9, 0.98), (0.01, 0.98)):
        page.mouse.move(box["x"] + box["width"] * x, box["y"] + box["height"] * y, steps=4)
    page.mouse.up()
    page.wait_for_selector("text=rows selected")
    before = page.evaluate("angpnAnnotate.state().counts.labelled")
    page.keyboard.press("1")
    until(page, f"angpnAnnotate.state().counts.labelled > {before}")
    page.click(".toast >> text=Undo")
    until(page, f"angpnAnnotate.state().counts.labelled === {before}")

    page.keyboard.press("l")
    for _ in range(90):
        if page.evaluate("angpnAnnotate.state().estimate?.reached"):
            break
        label_next(page)
    until(page, "angpnAnnotate.state().estimate?.reached")
    page.wait_for_selector("#reached")
    page.keyboard.press("Shift+E")
    page.wait_for_selector(".toast >> text=Written to", timeout=120_000)
    with open(tmp_path / "out" / "labels.csv", newline="", encoding="utf-8") as file:
        written = {line["id"]: line["label"] for line in csv.DictReader(file)}
    assert written[rows[0]["id"]] == f"digit {rows[0]['id'][4]}"
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=120) == 0
