"""The page in a headless browser with the real server: digits as image files, labelled by keyboard from nothing."""

import csv
import re
import signal

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from annotate_pages import saved, until, watch
from annotate_served import Served

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
        options = ("--port", port, "--target", 0.5, "--audit", 0.4, "--user", "anna")
        started.append(Served(digits, "-o", tmp_path / "out", *options))
        return started[-1]

    yield start
    for served in started:
        served.kill()


@pytest.fixture
def show(browser):
    """Opens an address; afterwards no error and no request to elsewhere may have been seen."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    errors, requests = [], []

    def open_page(address):
        page = context.new_page()
        watch(page, errors, requests)
        page.goto(address)
        page.wait_for_selector("#stage img")
        return page

    yield open_page
    context.close()
    gone = "Failed to load resource: net::"  # while the server is killed
    assert [error for error in errors if not error.startswith(gone)] == []
    assert [url for url in requests if not url.startswith(("http://127.0.0.1:", "data:"))] == []


def label_next(page):
    """Label the row on screen as a person would, by keyboard alone, and return it."""
    until(page, "angpnAnnotate.row() && angpnAnnotate.row().label === null")
    row = page.evaluate("angpnAnnotate.row()")
    truth = f"digit {re.search(r'-([0-9])', row['id'])[1]}"
    keys = {one["name"]: one["key"] for one in page.evaluate("angpnAnnotate.state().classes")}
    if truth not in keys:
        if keys:
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


def told(page):
    """Return what the state says of labels, classes and accuracy."""
    state = page.evaluate("angpnAnnotate.state()")
    return {key: state[key] for key in ("classes", "counts", "undo", "redo", "user", "target", "project")}


def on_screen(page):
    """Return the row on screen, what is shown of it and the classes that it may get."""
    picture = page.get_attribute("#stage img", "src")
    classes = page.eval_on_selector_all(".class", "all => all.map((one) => one.querySelector('.name').textContent)")
    return page.evaluate("angpnAnnotate.row().row"), page.inner_text(".row-head h2"), picture, classes


def kill_and_start_again(page, served, serve):
    """Kill the server while a page is open, press a key meanwhile, and start the same command again."""
    before, screen = told(page), on_screen(page)
    served.process.send_signal(signal.SIGKILL)
    served.process.wait()
    page.keyboard.press("s")
    page.wait_for_selector("#banner:not([hidden])")
    page.keyboard.press("ArrowLeft")
    again = serve(int(re.search(r":(\d+)/", served.address)[1]))
    assert again.address == served.address
    page.wait_for_selector("#banner", state="hidden")
    saved(page)
    until(page, "angpnAnnotate.state().counts.skipped === 1")  # what was pressed meanwhile has arrived
    page.keyboard.press("u")
    until(page, "angpnAnnotate.state().counts.skipped === 0")
    until(page, f"angpnAnnotate.row()?.row === {screen[0]}")
    assert {**told(page), "redo": before["redo"]} == before
    assert on_screen(page) == screen
    page.reload()
    page.wait_for_selector("#stage img")
    assert on_screen(page) == screen
    return again


def test_from_nothing_to_the_target_through_undo_grid_lasso_a_kill_and_export(serve, show, tmp_path):
    served = serve()
    page = show(served.address)
    rows = [label_next(page) for _ in range(30)]
    saved(page)
    served = kill_and_start_again(page, served, serve)
    rows += [label_next(page) for _ in range(30)]
    saved(page)
    until(page, "angpnAnnotate.state().counts.labelled === 60")
    assert len({row["row"] for row in rows}) == 60
    audits = [row for row in rows if row["audit"]]
    assert audits
    assert all(row["guess"] is None for row in audits)
    assert len(page.evaluate("angpnAnnotate.state().classes")) == N_CLASSES

    page.keyboard.press("u")
    until(page, "angpnAnnotate.state().counts.labelled === 59")
    until(page, f"angpnAnnotate.row()?.row === {rows[-1]['row']}")
    label_next(page)
    saved(page)

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
    assert {row["id"]: written[row["id"]] for row in rows} == {row["id"]: f"digit {row['id'][4]}" for row in rows}
    assert served.end(signal.SIGTERM)[0] == 0


def test_two_browsers_get_other_rows_and_settle_what_they_disagree_on(serve, browser, show):
    served = serve()
    served.label(0, "digit 0", "id0")
    anna = show(served.address)
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    ben = context.new_page()
    ben.goto(served.address)
    ben.wait_for_selector("#stage img")
    assert ben.evaluate("angpnAnnotate.row().row") != anna.evaluate("angpnAnnotate.row().row")
    ben.click("#user")
    ben.keyboard.type("ben")
    ben.keyboard.press("Enter")
    until(ben, "document.getElementById('user').textContent.includes('ben')")
    ben.keyboard.press("/")
    ben.keyboard.type("000-")
    ben.wait_for_selector(".result")
    ben.keyboard.press("Enter")
    until(ben, "angpnAnnotate.row()?.row === 0")
    ben.keyboard.press("x")
    until(anna, "angpnAnnotate.state().disagreements === 1")
    anna.bring_to_front()
    anna.keyboard.press("r")
    anna.wait_for_selector(".vote:has-text('none of these')")
    anna.keyboard.press("1")
    until(anna, "angpnAnnotate.state().disagreements === 0 && angpnAnnotate.state().counts.labelled === 1")
    context.close()


def test_classes_are_renamed_and_merged_and_both_can_be_undone(serve, show):
    served = serve()
    for row, name in enumerate(("zero", "one", "on")):
        served.label(row, name, f"id{row}")
    page = show(served.address)
    names = "angpnAnnotate.state().classes.map((one) => one.name + one.count).join()"
    page.keyboard.press("Shift+C")
    page.fill("[aria-label='Name of the class zero']", "nought")
    page.keyboard.press("Enter")
    until(page, f"{names} === 'nought1,one1,on1'")
    page.select_option("[aria-label='Merge on into']", label="one")
    until(page, f"{names} === 'nought1,one2'")
    page.keyboard.press("Escape")
    page.keyboard.press("u")
    until(page, f"{names} === 'nought1,one1,on1'")
    page.keyboard.press("u")
    until(page, f"{names} === 'zero1,one1,on1'")
    page.keyboard.press("Shift+U")
    until(page, f"{names} === 'nought1,one1,on1'")


def test_a_row_that_is_deleted_meanwhile_is_said_and_skipped(serve, show, digits):
    served = serve()
    page = show(served.address)
    row, shown = page.evaluate("[angpnAnnotate.row().row, angpnAnnotate.row().id]")
    served.label((row + 1) % N_ROWS, "digit 0", "id0")
    (digits / shown).unlink()
    page.reload()
    page.wait_for_selector(f"#stage:has-text('{shown} must be an image that can be read, got No such file')")
    page.keyboard.press("s")
    until(page, "angpnAnnotate.state().counts.skipped === 1")
    code, out, err = served.end()
    assert (code, err) == (0, "")
    assert re.search(r"^wrote labels\.csv, .* to .+$", out, re.MULTILINE)
    assert "predictions need labels of two classes and rows without one, got 1 class" in out
