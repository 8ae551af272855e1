"""The page of angpn annotate alone, in a headless browser: a server of the tests answers from memory."""

import pytest

from annotate_pages import saved, serious_faults, until, watch
from fake_annotation import AUDIT, FakeProject, FakeServer
from label_pages import HOSTILE

CLASSES = ["cat", "dog", "horse"]
ESTIMATE = {
    "accuracy": 0.93, "low": 0.85, "high": 0.97, "n": 42, "base_rate": 0.34, "recalls": {"cat": 0.9, "dog": None},
    "curve": [{"labels": n, "accuracy": 0.9, "low": 0.8, "high": 0.95} for n in (20, 40, 60)],
    "labels_to_go": 40, "reached": False, "left_to_doubt": "dog was met only 4 times.",
}  # fmt: skip


CONFLICT = "Failed to load resource: the server responded with a status of 409"


def texts(count=90):
    return [{"kind": "text", "text": f"text {number}"} for number in range(count)]


@pytest.fixture
def show(browser):
    """Opens the page of a project; afterwards no error and no request to elsewhere may have been seen."""
    servers, contexts, errors, requests = [], [], [], []

    def open_page(project, width=1200, height=900, **settings):
        server = FakeServer(project)
        servers.append(server)
        context = browser.new_context(viewport={"width": width, "height": height}, **settings)
        contexts.append(context)
        page = context.new_page()
        page.fake = server
        page.set_default_timeout(10_000)
        watch(page, errors, requests)
        page.goto(server.address)
        page.wait_for_selector("#stage > :not(.soft)")
        return page

    yield open_page
    for context in contexts:
        context.close()
    for server in servers:
        server.stop()
    gone = (
        "Failed to load resource: net::",
        "Failed to load resource: the server responded with a status of 5",
        CONFLICT,
    )
    assert [error for error in errors if not error.startswith(gone)] == []
    own = ("data:", *(f"http://127.0.0.1:{server.port}/" for server in servers))
    assert [url for url in requests if not url.startswith(own)] == []


def on_screen(page):
    return page.evaluate("angpnAnnotate.row().row")


def settled(page):
    """Wait until every action was answered."""
    saved(page)
    return page.fake.project


def test_a_key_labels_the_row_and_shows_the_next_enter_accepts_the_guess(show):
    page = show(FakeProject(texts(), CLASSES))
    page.keyboard.press("2")
    assert page.inner_text("#stage") == "text 1"
    page.keyboard.press("Enter")
    assert page.inner_text("#stage") == "text 2"
    assert settled(page).labels == {0: "dog", 1: "dog"}  # the guess of row 1 is dog
    assert "row 1: dog" in page.inner_text("#toasts")


def test_an_audit_row_hides_its_guess_and_says_why(show):
    page = show(FakeProject(texts(), CLASSES))
    for _ in range(AUDIT - 1):
        page.keyboard.press("Enter")
    assert on_screen(page) == AUDIT - 1
    assert "The guess is hidden" in page.inner_text("#guess")
    page.keyboard.press("Enter")  # nothing to accept
    assert on_screen(page) == AUDIT - 1
    assert settled(page).labels.keys() == {0, 1}


def test_undo_goes_back_to_the_row_and_skip_other_and_arrows_move_on(show):
    page = show(FakeProject(texts(), CLASSES))
    page.keyboard.press("x")
    page.keyboard.press("s")
    page.keyboard.press("1")
    assert settled(page).labels == {0: "other", 1: "skip", 2: "cat"}
    page.keyboard.press("u")
    until(page, "angpnAnnotate.row().row === 2")
    assert page.evaluate("angpnAnnotate.row().label") is None
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert on_screen(page) == 0
    assert "none of these" in page.inner_text("#guess")
    page.keyboard.press("ArrowRight")
    assert on_screen(page) == 1


def test_a_new_class_labels_the_row_on_screen(show):
    page = show(FakeProject(texts(), []))
    page.fill("#first-class", "bird")
    page.press("#first-class", "Enter")
    until(page, "angpnAnnotate.row().row === 1")
    page.keyboard.press("n")
    page.keyboard.type("fish")
    page.keyboard.press("Enter")
    project = settled(page)
    assert project.classes == ["bird", "fish"]
    assert project.labels == {0: "bird", 1: "fish"}
    until(page, "document.querySelectorAll('.class').length === 2")
    page.keyboard.press("c")
    page.keyboard.type("bi")
    page.keyboard.press("Enter")
    assert settled(page).labels[2] == "bird"


def test_nothing_is_lost_while_the_server_is_gone(show):
    page = show(FakeProject(texts(), CLASSES))
    until(page, "angpnAnnotate.rowsAhead() > 5")
    page.fake.stop()
    for _ in range(4):
        page.keyboard.press("3")
    page.wait_for_selector("#banner:has-text('4 actions waiting to be sent; none is lost')")
    assert on_screen(page) == 4
    page.fake.start()
    page.wait_for_selector("#banner", state="hidden")
    project = settled(page)
    assert project.labels == dict.fromkeys(range(4), "horse")
    assert [action["row"] for action in project.actions] == [0, 1, 2, 3]  # in order, each once
    assert on_screen(page) == 4


def test_actions_that_a_closed_page_did_not_send_are_sent_by_the_next_one(show):
    page = show(FakeProject(texts(), CLASSES))
    page.fake.project.broken = "the disk is full: free some space"
    page.keyboard.press("1")
    page.wait_for_selector("text=the disk is full: free some space 1 action waiting")
    page.reload()
    page.fake.project.broken = None
    until(page, "document.getElementById('labelled')?.textContent === '1'")
    assert settled(page).labels == {0: "cat"}


def test_a_refused_action_is_said_and_the_row_is_as_before(show):
    page = show(FakeProject(texts(), CLASSES))
    page.route("**/api/actions", lambda route: route.fulfill(status=409, json={"error": "no such class"}))
    page.keyboard.press("1")
    page.wait_for_selector(".toast.bad:has-text('no such class')")
    page.unroute("**/api/actions")
    page.keyboard.press("ArrowLeft")
    until(page, "angpnAnnotate.row().label === null")


def test_the_grid_accepts_what_was_not_taken_out(show):
    page = show(FakeProject(texts(30), CLASSES))
    page.keyboard.press("g")
    page.wait_for_selector(".cell")
    shown = page.evaluate("[...document.querySelectorAll('.cell .name.line')].map((cell) => cell.textContent)")
    page.keyboard.press("ArrowRight")  # to the first cell
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    assert page.get_attribute(".cell:nth-child(2)", "aria-pressed") == "false"
    page.keyboard.press("Enter")
    until(page, "!document.querySelector('.cell')")
    (action,) = settled(page).actions
    assert action["from"] == "grid"
    assert action["name"] == "cat"
    assert [f"row {row}" for row in action["rows"]] == [shown[0], *shown[2:]]


def test_rows_of_an_undone_grid_are_to_be_labelled_again(show):
    page = show(FakeProject(texts(6), ["cat"]))
    page.keyboard.press("g")
    page.wait_for_selector(".cell")
    page.keyboard.press("Enter")
    until(page, "!document.querySelector('.cell')")
    settled(page)
    page.keyboard.press("u")
    until(page, "angpnAnnotate.state().counts.labelled === 0")
    page.keyboard.press("l")
    for labelled in range(1, 7):
        until(page, "angpnAnnotate.row() && angpnAnnotate.row().label === null")
        page.keyboard.press("1")
        assert len(settled(page).labels) == labelled


@pytest.mark.slow
def test_a_lasso_labels_what_is_inside_and_a_rectangle_of_the_keyboard_too(show):
    page = show(FakeProject(texts(), CLASSES))
    page.keyboard.press("m")
    until(page, "angpnAnnotate.map()?.painted")
    cats = [row for row in range(90) if row % 3 == 0]
    places = [page.evaluate("(row) => angpnAnnotate.screenPosition(row)", row) for row in cats]
    left, right = min(p["x"] for p in places) - 8, max(p["x"] for p in places) + 8
    top, bottom = min(p["y"] for p in places) - 8, max(p["y"] for p in places) + 8
    page.mouse.move(left, top)
    page.mouse.down()
    for x, y in ((right, top), (right, bottom), (left, bottom)):
        page.mouse.move(x, y, steps=4)
    page.mouse.up()
    page.wait_for_selector("text=30 rows selected")
    page.wait_for_selector(".sampled")
    page.keyboard.press("1")
    until(page, "document.getElementById('labelled').textContent === '30'")
    (action,) = settled(page).actions
    assert sorted(action["rows"]) == cats
    page.keyboard.press("ArrowRight")
    for _ in range(40):
        page.keyboard.press("ArrowUp")
        page.keyboard.press("ArrowLeft")
    for _ in range(60):
        page.keyboard.press("Shift+ArrowRight")
        page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=90 rows selected; 30 of them have a label and keep it")


def test_the_review_keeps_or_changes_a_label(show):
    project = FakeProject(texts(), CLASSES, suspects=2)
    project.labels = {0: "horse", 1: "horse"}
    page = show(project)
    page.keyboard.press("r")
    page.wait_for_selector("text=The model says")
    page.keyboard.press("Enter")
    page.keyboard.press("2")
    types = [(action["type"], action["row"]) for action in settled(page).actions]
    assert types == [("confirm", 0), ("label", 1)]


def test_the_panel_says_what_was_measured_and_what_is_left_to_doubt(show):
    page = show(FakeProject(texts(), CLASSES, estimate=ESTIMATE, target=0.95))
    said = page.inner_text("#progress").replace("\u00a0", " ")
    for part in ("93 %", "85 % to 97 %", "42 audit rows", "34 %", "about 40 more labels", "dog was met only 4 times."):
        assert part in said, part
    assert page.locator("#progress svg.chart").count() == 1
    page = show(FakeProject(texts(), CLASSES, estimate={**ESTIMATE, "reached": True}, target=0.9))
    assert "Target reached" in page.inner_text("#reached")


def test_the_name_of_the_first_class_is_typed_at_once(show):
    page = show(FakeProject(texts(), []))
    page.keyboard.type("seven")  # of which s would skip the row
    page.keyboard.press("Enter")
    assert settled(page).labels == {0: "seven"}
    assert "Of another class? Press n first" in page.inner_text("main")
    page.keyboard.press("1")
    assert settled(page).labels == {0: "seven", 1: "seven"}


def test_escape_leaves_the_name_of_the_first_class_for_the_keys(show):
    page = show(FakeProject(texts(), []))
    page.keyboard.press("Escape")
    page.keyboard.press("s")
    assert settled(page).labels == {0: "skip"}


def test_keys_are_commands_after_a_click_on_a_tab(show):
    project = FakeProject(texts(), CLASSES, disagreements=2, suspects=1)
    project.labels, project.votes = {0: "horse"}, {0: {"anna": "cat", "ben": None}, 1: {"anna": "dog", "ben": "cat"}}
    page = show(project)
    page.keyboard.press("r")
    page.click("label:has-text('Disagreements')")
    page.wait_for_selector(".vote:has-text('none of these')")
    page.keyboard.press("x")
    page.keyboard.press("2")
    assert settled(page).actions == [
        {"type": "settle", "row": 0, "name": None},
        {"type": "settle", "row": 1, "name": "dog"},
    ]


def test_a_suspected_label_may_be_none_of_these(show):
    project = FakeProject(texts(), CLASSES, suspects=1)
    project.labels = {0: "horse"}
    page = show(project)
    page.keyboard.press("r")
    page.wait_for_selector("text=The model says")
    page.click(".review-view button:has-text('None of these')")
    assert settled(page).actions == [{"type": "other", "row": 0}]


def test_a_grid_accepted_twice_in_a_hurry_is_accepted_once(show):
    page = show(FakeProject(texts(30), CLASSES))
    page.keyboard.press("g")
    page.wait_for_selector(".cell")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    until(page, "!document.querySelector('.cell')")
    assert len(settled(page).actions) == 1


def test_numbers_that_are_missing_and_small_pictures(show):
    rows = [{"kind": "array", "values": [1.5, None, 2.0], "image": None}]
    rows += [{"kind": "array", "values": [1.5], "image": f"/api/image/{number}"} for number in range(1, 20)]
    page = show(FakeProject(rows, CLASSES))
    assert page.inner_text(".figures").split() == ["1.5", "missing", "2"]
    page.keyboard.press("1")
    page.wait_for_selector("#stage .picture.pixels")  # 8 x 8, shown as squares


@pytest.mark.parametrize("width", [360, 1200])
def test_cells_beside_texts_and_pictures_are_shown_where_a_row_is_large(show, width):
    beside = {"cells": [["price", "12.50"], ["brand", "Acme"]]}
    picture = {"kind": "image", "url": "/api/image/1", "width": 8, "height": 8}
    page = show(FakeProject([{"kind": "text", "text": "Steel blade", **beside}, {**picture, **beside}] * 10, CLASSES),
        width=width)  # fmt: skip
    assert page.inner_text("#stage .text") == "Steel blade"
    assert page.inner_text("#stage .cells").split() == ["price", "12.50", "brand", "Acme"]
    page.keyboard.press("1")
    page.wait_for_selector("#stage .picture.pixels")
    inside = "(one) => one.closest('.stage').getBoundingClientRect().bottom - one.getBoundingClientRect().bottom"
    assert page.eval_on_selector("#stage .cells", inside) > 0  # no need to scroll
    assert page.eval_on_selector("#stage .picture", "(one) => one.getBoundingClientRect().height") > 80
    assert page.locator("#stage .cells").count() == 1
    page.keyboard.press("g")
    page.wait_for_selector(".cell")
    assert page.locator(".cell .cells").count() == 0


def test_groups_and_map_appear_when_they_are_there(show):
    project = FakeProject(texts(), CLASSES)
    model = project.state()["model"]
    project.overrides["model"] = {**model, "version": 0, "mapped": False}
    page = show(project)
    page.keyboard.press("1")
    settled(page)
    page.keyboard.press("m")
    page.wait_for_selector("text=The map is being computed")
    page.keyboard.press("g")
    page.wait_for_selector("text=Groups appear as soon as")
    project.overrides["model"] = {**model, "version": 0}
    page.keyboard.press("u")  # its answer has the new state
    page.wait_for_selector("option:has-text('group 1')", state="attached")
    page.wait_for_selector(".cell")
    page.keyboard.press("m")
    until(page, "angpnAnnotate.map()?.painted")


def test_every_view_shows_a_way_back(show):
    page = show(FakeProject(texts(), CLASSES), width=360, height=740)
    assert page.is_disabled("#undo")
    for key in "lgmr":
        page.keyboard.press("l")
        page.keyboard.press("1")
        settled(page)
        page.keyboard.press(key)
        page.click("#undo")
        until(page, "angpnAnnotate.state().counts.labelled === 0")


def test_who_labels_is_asked_where_others_may_label_too(show):
    page = show(FakeProject(texts(), CLASSES, shared=True))
    page.wait_for_selector("dialog:has-text('Who labels here?')")
    page.keyboard.type("ben")
    page.keyboard.press("Enter")
    until(page, "document.getElementById('user').textContent.includes('ben')")
    page.reload()
    page.wait_for_selector("#stage > :not(.soft)")
    page.wait_for_timeout(300)
    assert page.locator("dialog").count() == 0


def test_rows_ahead_are_asked_for_anew_when_the_learner_has_chosen_some(show):
    project = FakeProject(texts(), CLASSES)
    model = project.state()["model"]
    project.overrides["model"] = {**model, "version": 0, "ready": False}
    page = show(project)
    until(page, "angpnAnnotate.rowsAhead() > 5")
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "/api/next" in request.url else None)
    page.keyboard.press("1")
    settled(page)
    assert asked == []
    project.overrides["model"] = {**model, "version": 0}
    page.keyboard.press("1")
    settled(page)
    page.wait_for_timeout(200)
    assert len(asked) == 1
    assert on_screen(page) == 2


@pytest.mark.parametrize("hostile", HOSTILE)
def test_user_text_is_shown_as_text(show, hostile):
    contents = [{"kind": "text", "text": hostile}, {"kind": "cells", "cells": [[hostile, hostile]]}] * 20
    project = FakeProject(contents, [hostile, "b"], ids=[hostile] * 40, title=hostile, user=hostile)
    project.overrides["estimate"] = {**ESTIMATE, "recalls": {hostile: 0.5}, "left_to_doubt": hostile}
    page = show(project)
    assert page.text_content("#stage .text") == hostile
    assert page.text_content("#title") == hostile
    assert page.text_content(".class .name") == hostile
    page.keyboard.press("1")
    assert hostile in page.text_content("#toasts")
    for key in ("g", "m", "r", "l", "Shift+C", "Escape", "c", "Escape", "/"):
        page.keyboard.press(key)
        page.wait_for_timeout(60)
    page.keyboard.type(hostile[:3])
    page.wait_for_selector(".result")
    assert hostile in page.text_content(".result .who")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_never_scrolls_sideways(show, scheme):
    wide = [{"kind": "text", "text": "w" * 400}, {"kind": "cells", "cells": [["c" * 80, "v" * 300]] * 5}] * 20
    page = show(FakeProject(wide, ["x" * 60, *CLASSES], ids=["i" * 90] * 40, estimate=ESTIMATE, target=0.9, suspects=2),
        width=360, height=740, has_touch=True, color_scheme=scheme)  # fmt: skip
    for key in "lgmr":
        page.keyboard.press(key)
        page.wait_for_timeout(150)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, key


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(show, scheme):
    page = show(FakeProject(texts(), CLASSES, estimate=ESTIMATE, target=0.95, suspects=2), color_scheme=scheme)
    found = []
    for key in ("l", "1", "g", "m", "r", "?", "Escape", "n", "Escape", "c", "Escape", "Shift+C"):
        page.keyboard.press(key)
        if key == "Escape":
            continue
        page.wait_for_timeout(250)
        found += serious_faults(page)
    assert found == []


@pytest.mark.slow
def test_fifty_thousand_rows_are_on_the_map_and_inside_a_lasso_around_all(show):
    page = show(FakeProject(texts(50_000), [f"class {number}" for number in range(20)]))
    page.keyboard.press("m")
    until(page, "angpnAnnotate.map()?.painted")
    box = page.locator("#map").bounding_box()
    page.mouse.move(box["x"] + 3, box["y"] + 3)
    page.mouse.down()
    for x, y in ((1, 0), (1, 1), (0, 1)):
        page.mouse.move(box["x"] + 3 + x * (box["width"] - 6), box["y"] + 3 + y * (box["height"] - 6), steps=3)
    page.mouse.up()
    page.wait_for_selector("text=50,000 rows selected")
