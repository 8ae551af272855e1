"""The page with the real server for everybody: hostile names and texts, a phone, and what axe-core finds."""

import csv
import time
import urllib.error

import pytest

from annotate_pages import saved, serious_faults, until, watch
from annotate_served import Served
from label_pages import HOSTILE

pytestmark = pytest.mark.slow

N_ROWS = 84
WORDS = ("invoice payment refund card", "parcel courier delivery box")
CLASSES = [name for name in HOSTILE if name.isprintable()]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Texts, ids, classes and a user whose names are hostile, some of them labelled, with a model and a map."""
    folder = tmp_path_factory.mktemp("hostile")
    path = folder / f"{HOSTILE[0]}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["key", "body"])
        for row in range(N_ROWS):
            writer.writerow([f"{row} {HOSTILE[row % len(HOSTILE)]}", f"{WORDS[row % 2]} {HOSTILE[row % len(HOSTILE)]}"])
    user = ("--user", CLASSES[0])
    found = Served(path, "--text", "body", "--id-column", "key", "-o", folder / "out", "--target", 0.9, *user)
    for row in range(30):
        found.label(row, CLASSES[(row + (row == 7)) % 2], f"id{row}")
    for number, name in enumerate(CLASSES[2:]):
        action = {"type": "add_class", "name": name}
        found.request("/api/actions", {"client": "page", "id": f"class{number}", "action": action})
    end = time.monotonic() + 120
    while not ((model := found.request("/api/state")["model"])["version"] and model["mapped"]):
        assert time.monotonic() < end, model
        time.sleep(0.2)
    yield found
    found.kill()


@pytest.fixture
def show(browser, served):
    """Opens the page; afterwards no error, no dialog and no request to elsewhere may have been seen."""
    contexts, errors, requests = [], [], []

    def open_page(width=1200, height=900, **settings):
        context = browser.new_context(viewport={"width": width, "height": height}, **settings)
        contexts.append(context)
        page = context.new_page()
        watch(page, errors, requests)
        page.goto(served.address)
        page.wait_for_selector("#stage > :not(.soft)")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []
    assert [url for url in requests if not url.startswith((served.base, "data:"))] == []


def test_hostile_names_and_texts_are_shown_as_text(show, served):
    page = show()
    assert page.text_content("#title") == f"{HOSTILE[0]}.csv"
    assert CLASSES[0] in page.text_content("#user")
    shown = page.evaluate("[...document.querySelectorAll('.class .name')].map((one) => one.textContent)")
    assert sorted(shown) == sorted(CLASSES)
    for row in range(30, 30 + len(HOSTILE)):  # one text of each kind
        page.keyboard.press("/")
        page.keyboard.type(f"{row} ")
        page.wait_for_selector(".result")
        page.keyboard.press("Enter")
        until(page, f"angpnAnnotate.row()?.row === {row}")
        assert page.text_content("#stage .text") == f"{WORDS[row % 2]} {HOSTILE[row % len(HOSTILE)]}"
        assert page.text_content(".row-head h2") == f"{row} {HOSTILE[row % len(HOSTILE)]}"
    page.keyboard.press("1")
    saved(page)
    assert HOSTILE[36 % len(HOSTILE)] in page.text_content("#toasts")
    page.keyboard.press("u")
    until(page, "angpnAnnotate.state().counts.labelled === 30")
    page.keyboard.press("g")
    page.wait_for_selector(".cell")
    page.keyboard.press("m")
    until(page, "angpnAnnotate.map()?.painted")
    place = page.evaluate("angpnAnnotate.screenPosition(36)")
    page.mouse.move(place["x"], place["y"])
    page.wait_for_selector("#tip:not([hidden])")
    for key in ("r", "Shift+C", "Escape", "l", "c", "Escape"):
        page.keyboard.press(key)
        page.wait_for_timeout(100)


@pytest.mark.parametrize("name", [name for name in HOSTILE if not name.isprintable()])
def test_a_class_of_several_lines_is_refused(served, name):
    with pytest.raises(urllib.error.HTTPError) as refused:
        served.label(0, name, "several lines")
    assert b"the name of a class must have printable characters only" in refused.value.read()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_labels_by_touch_and_never_scrolls_sideways(show, scheme):
    page = show(width=360, height=740, has_touch=True, is_mobile=True, color_scheme=scheme)
    until(page, "angpnAnnotate.row()?.label === null")
    page.tap(".class >> nth=1")
    until(page, "angpnAnnotate.state().counts.labelled === 31")
    saved(page)
    page.tap("#undo")
    until(page, "angpnAnnotate.state().counts.labelled === 30")
    for view in ("Label", "Grid", "Map", "Review"):
        page.tap(f"#views button:has-text('{view}')")
        page.wait_for_timeout(400)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, view


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 360)])
def test_axe_finds_no_serious_fault(show, scheme, width):
    page = show(width=width, color_scheme=scheme)
    found = []
    for key in ("l", "g", "m", "r", "?", "Escape", "n", "Escape", "c", "Escape", "/", "Escape", "Shift+C"):
        page.keyboard.press(key)
        if key == "Escape":
            continue
        page.wait_for_timeout(400)
        found += serious_faults(page)
    assert found == []
