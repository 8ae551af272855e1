"""The page in a headless browser."""

import base64
import io
import itertools
import time

import numpy as np
import pytest
from PIL import Image

from angpn.inspection.ensemble_choice import Choice, ConfidenceBin
from angpn.inspection.label_errors import Suspect
from angpn.inspection.report import Curve, write_label_report
from angpn.inspection.table_cells import Cells
from label_pages import HOSTILE, synthetic_report


@pytest.fixture
def show(open_in_browser, tmp_path):
    """Opens a report, see ``open_in_browser``."""
    numbers = itertools.count()

    def open_report(report, **options):
        return open_in_browser(write_label_report(report, tmp_path / f"report-{next(numbers)}.html"), **options)

    return open_report


def pixels(page):
    """Return the pixels of the map, (height, width, 4), after the next frame."""
    picture = page.evaluate(
        """() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(
          () => done(document.getElementById("map").toDataURL("image/png")))))"""
    )
    with Image.open(io.BytesIO(base64.b64decode(picture.partition(",")[2]))) as image:
        return np.asarray(image.convert("RGBA"))


def at(page, row):
    position = page.evaluate("(row) => angpnReport.screenPosition(row)", row)
    return position["x"], position["y"]


def selected(page):
    return page.evaluate("angpnReport.selected()")


def most_isolated(report):
    """Return the row that is farthest from all others: a click on it hits no other."""
    apart = np.linalg.norm(report.positions[:, None] - report.positions[None], axis=-1)
    np.fill_diagonal(apart, np.inf)
    return int(apart.min(axis=1).argmax())


def test_the_headline_shows_counts_and_estimated_accuracy(show):
    text = show(synthetic_report()).inner_text("#headline")
    for part in (
        "60",
        "6",
        "54",
        "90.0",
        "95 % interval 80.0\u00a0% to 95.0\u00a0%",
        "held out of training. It may be off either way if they were not drawn at random",
    ):
        assert part in text


def test_the_headline_warns_where_accuracy_is_that_of_the_largest_class(show):
    report = synthetic_report()
    text = show(report).inner_text("#headline")
    assert "largest class would be right for 31.8\u00a0%. Mean recall of the classes: 92.9\u00a0%." in text
    assert "no better than" not in text
    assert "Never predicted" not in text
    confusion = np.zeros((4, 4), dtype=int)
    confusion[:, 0] = [30, 3, 2, 0]
    poor = report.estimate._replace(accuracy=30 / 35, confusion=confusion)
    text = show(report._replace(estimate=poor, predicted=np.zeros_like(report.predicted))).inner_text("#headline")
    assert "This is no better than always answering the largest class" in text
    assert "Never predicted: class 1, class 2, class 3." in text
    text = show(report._replace(estimate=None, predicted=np.zeros_like(report.predicted))).inner_text("#headline")
    assert "Never predicted: class 1, class 2, class 3." in text


def test_the_headline_distinguishes_the_kinds_of_estimate(show):
    report = synthetic_report()
    page = show(report._replace(estimate=report.estimate._replace(kind="cross-validation")))
    assert "by cross-validation. The same labels selected hyper-parameters" in page.inner_text("#headline")
    assert "--holdout 0.2" in page.inner_text("#headline")
    page = show(report._replace(estimate=report.estimate._replace(kind="validation")))
    assert "held out of training. The same labels decided when to stop" in page.inner_text("#headline")
    assert "On the given labels that were held out of training" in page.inner_text("#confusion")
    page = show(report._replace(estimate=None))
    assert "unknown" in page.inner_text("#headline")
    assert "--holdout 0.2" in page.inner_text("#headline")
    assert "--holdout 0.2" in page.inner_text("#confusion")


def test_the_headline_says_how_the_labels_were_chosen(show):
    report = synthetic_report()
    estimate = report.estimate
    found = show(report).inner_text("#headline")
    assert (
        "may be off either way if they were not drawn at random: name their source in a column (--source-col" in found
    )
    found = show(report._replace(estimate=estimate._replace(sample="random", n_left_out=70))).inner_text("#headline")
    assert (
        "22 given labels drawn at random that were held out of training: an unbiased estimate. 70 others were" in found
    )
    assert "off either way" not in found
    found = show(report._replace(estimate=estimate._replace(sample="not random"))).inner_text("#headline")
    assert "None was drawn at random, so it may be off either way: label a few that are, and name their source" in found


def test_labels_that_mean_little_are_listed_where_there_are_any(show):
    report = synthetic_report()
    assert not show(report).is_visible("#unreliable")
    page = show(report._replace(unreliable=[("2 rows are <b>empty</b>", [7, 8]), ("1 row is in conflict", [9])]))
    text = page.inner_text("#unreliable")
    assert "2 rows are <b>empty</b>." in text
    assert "None of these is suggested for labelling." in text
    entries = page.locator("#unreliable button")
    assert [entries.nth(place).get_attribute("data-row") for place in range(entries.count())] == ["7", "8", "9"]
    entries.nth(1).click()
    assert selected(page) == 8


def test_the_map_is_drawn_where_the_rows_are(show):
    page = show(synthetic_report())
    picture = pixels(page)
    assert len(np.unique(picture.reshape(-1, 4), axis=0)) > 4
    left, top = page.evaluate("(({left, top}) => [left, top])(document.getElementById('map').getBoundingClientRect())")
    ground = picture[2, picture.shape[1] // 2]
    for row in range(0, 60, 7):
        x, y = at(page, row)
        assert (picture[round(y - top), round(x - left)] != ground).any(), row


def test_the_map_has_the_pixels_of_the_screen(show):
    assert pixels(show(synthetic_report(), device_scale_factor=2)).shape[1] == pytest.approx(
        2 * show(synthetic_report()).evaluate("document.getElementById('map').clientWidth"), abs=2
    )


def test_a_click_selects_a_row_and_shows_its_influences(show):
    report = synthetic_report()
    page = show(report)
    row = most_isolated(report)
    page.mouse.click(*at(page, row))
    assert selected(page) == row
    text = page.inner_text("#details")
    assert report.ids[row] in text
    assert report.texts[row] in text
    entries = page.locator("#influences button")
    assert entries.count() == 4
    for rank in range(4):
        influence, weight = report.influences[row, rank], report.weights[row, rank]
        assert report.ids[influence] in entries.nth(rank).inner_text()
        assert f"{weight:.2f}"[:3] in entries.nth(rank).inner_text()
    entries.first.click()
    assert selected(page) == report.influences[row, 0]


def test_a_click_beside_all_rows_and_escape_clear_the_selection(show):
    page = show(synthetic_report())
    box = page.locator("#map").bounding_box()
    page.evaluate("angpnReport.select(3)")
    page.mouse.click(box["x"] + 4, box["y"] + 4)
    assert selected(page) == -1
    page.evaluate("angpnReport.select(3)")
    page.focus("#map")
    page.keyboard.press("Escape")
    assert selected(page) == -1


def test_a_row_with_one_influence_or_none(show):
    report = synthetic_report()
    page = show(report)
    page.evaluate("angpnReport.select(0)")
    assert page.locator("#influences button").count() == 1
    page = show(report._replace(influences=report.influences[:, :0], weights=report.weights[:, :0]))
    page.evaluate("angpnReport.select(0)")
    assert "No other row influenced this prediction" in page.inner_text("#details")


def test_a_pointer_over_a_row_shows_what_it_is(show):
    report = synthetic_report()
    page = show(report)
    row = most_isolated(report)
    page.mouse.move(*at(page, row))
    tip = page.locator("#tip")
    tip.wait_for(state="visible")
    for part in (report.ids[row], report.texts[row], report.classes[report.predicted[row]]):
        assert part in tip.inner_text()
    page.mouse.move(2, 2)
    tip.wait_for(state="hidden")


def test_search_finds_ids_and_texts(show):
    page = show(synthetic_report())
    for wanted, row in (("row-37", 37), ("ROW-41", 41), ("text of row 52", 52)):
        page.fill("#query", wanted)
        page.press("#query", "Enter")
        assert selected(page) == row
    page.fill("#query", "row-5")
    found = []
    for _ in range(3):
        page.press("#query", "Enter")
        found.append(selected(page))
    assert found == [5, 50, 51]
    page.fill("#query", "nowhere")
    page.press("#query", "Enter")
    assert "No row found" in page.inner_text("#live")
    assert selected(page) == 51


def test_keys_step_from_row_to_row_select_and_zoom(show):
    page = show(synthetic_report())
    page.focus("#map")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    first = selected(page)
    assert first >= 0
    assert "selected" in page.inner_text("#live")
    for key, axis, sign in (("ArrowRight", 0, 1), ("ArrowLeft", 0, -1), ("ArrowDown", 1, 1), ("ArrowUp", 1, -1)):
        start = at(page, selected(page))
        page.keyboard.press(key)
        page.keyboard.press("Enter")
        assert sign * (at(page, selected(page))[axis] - start[axis]) >= 0
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    assert selected(page) != first
    before = np.subtract(at(page, 0), at(page, 59))
    page.keyboard.press("+")
    after = np.subtract(at(page, 0), at(page, 59))
    np.testing.assert_allclose(after, 1.4 * before, rtol=1e-3)
    x, y = at(page, 0)
    page.keyboard.press("Shift+ArrowLeft")
    np.testing.assert_allclose(at(page, 0), (x + 60, y), atol=1e-3)
    page.keyboard.press("0")
    np.testing.assert_allclose(np.subtract(at(page, 0), at(page, 59)), before, rtol=1e-3)


def test_the_wheel_zooms_about_the_pointer_and_dragging_pans(show):
    report = synthetic_report()
    page = show(report)
    row = most_isolated(report)
    x, y = at(page, row)
    far = max(range(60), key=lambda other: abs(at(page, other)[0] - x))
    before = at(page, far)[0]
    page.mouse.move(x, y)
    page.mouse.wheel(0, -200)
    page.wait_for_function(
        "([row, x]) => Math.abs(angpnReport.screenPosition(row).x - x) > 1", arg=[far, before], timeout=5000
    )
    np.testing.assert_allclose(at(page, row), (x, y), atol=0.5)
    assert abs(at(page, far)[0] - x) > 1.2 * abs(before - x)
    page.mouse.down()
    page.mouse.move(x + 15, y + 10)
    page.mouse.move(x + 30, y + 20)
    page.mouse.up()
    assert selected(page) == -1  # a drag is no click
    np.testing.assert_allclose(at(page, row), (x + 30, y + 20), atol=20)
    assert at(page, row) != (x, y)


def test_two_fingers_zoom_and_a_tap_selects(show):
    report = synthetic_report()
    page = show(report, width=400, has_touch=True)
    box = page.locator("#map").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    wide = np.linalg.norm(np.subtract(at(page, 0), at(page, 59)))
    session = page.context.new_cdp_session(page)

    def touch(kind, *apart):
        points = [{"x": x + side * half, "y": y, "id": side + 1} for half in apart for side in (-1, 1)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", 30)
    for half in (40, 50, 60):
        touch("touchMove", half)
    touch("touchEnd")
    assert np.linalg.norm(np.subtract(at(page, 0), at(page, 59))) == pytest.approx(2 * wide, rel=0.1)
    assert selected(page) == -1
    page.click("#zoom-reset")
    page.touchscreen.tap(*at(page, most_isolated(report)))
    assert selected(page) == most_isolated(report)


def test_colours_follow_the_choice_and_classes_can_be_hidden(show):
    page = show(synthetic_report())
    pictures = [pixels(page)]
    for choice in ("confidence", "given", "label"):
        page.check(f"input[value={choice}]", force=True)
        pictures.append(pixels(page))
    assert (pictures[0] != pictures[1]).any()
    assert (pictures[1] != pictures[2]).any()
    np.testing.assert_array_equal(pictures[0], pictures[3])
    chip = page.locator("#legend button").first
    chip.click()
    assert chip.get_attribute("aria-pressed") == "false"
    assert (pixels(page) != pictures[0]).any()
    page.mouse.click(*at(page, 1))
    assert selected(page) == -1  # hidden rows cannot be hit
    page.evaluate("angpnReport.select(1)")
    assert chip.get_attribute("aria-pressed") == "true"
    page.click("#show-none")
    assert len(np.unique(pixels(page)[:60].reshape(-1, 4), axis=0)) == 1
    page.click("#show-all")
    assert "false" not in page.evaluate("[...document.querySelectorAll('.chip')].map((chip) => chip.ariaPressed)")


def test_lists_lead_to_rows_and_can_be_stepped_through(show):
    report = synthetic_report()
    page = show(report)
    entries = page.locator("#next .listed button")
    assert entries.count() == 10
    page.click("#next .more")
    assert entries.count() == len(report.uncertain)
    entries.nth(1).click()
    assert selected(page) == report.uncertain[1]
    page.click(".steps .on")
    assert selected(page) == report.uncertain[2]
    page.click(".steps .back")
    page.click(".steps .back")
    assert selected(page) == report.uncertain[0]
    suspect = page.locator("#suspects .listed button")
    assert "class 2" in suspect.inner_text()
    assert "75" in suspect.inner_text()
    suspect.click()
    assert selected(page) == 20
    assert "may be an error" in page.inner_text("#details")


def test_parts_without_content_say_so(show):
    page = show(synthetic_report()._replace(estimate=None, curve=None, suspects=[], uncertain=[], texts=None, facts=[]))
    assert "None" in page.inner_text("#suspects")
    assert "No unlabelled row is left" in page.inner_text("#next")
    assert not page.locator("#curve").is_visible()
    assert not page.locator("#choice").is_visible()
    nothing = Curve([float("nan")], None, 1)
    assert "No learning curve" in show(synthetic_report()._replace(curve=nothing)).inner_text("#curve")


def test_tables_and_curves(show):
    report = synthetic_report()
    page = show(report)
    cells = page.locator("#confusion td:not(.recall)").all_inner_texts()
    shown = np.array([0 if cell == "·" else int(cell) for cell in cells]).reshape(4, 4)
    np.testing.assert_array_equal(shown, report.estimate.confusion)
    assert page.locator("#confusion td.recall").all_inner_texts()[:2] == ["71\u00a0%", "100\u00a0%"]
    counts = page.locator("#classes tbody tr").first.inner_text()
    assert "class 0" in counts
    assert page.locator("#curve svg").count() == 2
    assert "rows" in page.inner_text("#facts")
    odd = Curve([float("nan"), float("inf"), 0.5], [0.7] * 3, 2)
    assert show(report._replace(curve=odd)).locator("#curve path").count() == 2


def test_a_network_shows_its_epochs(show):
    report = synthetic_report()
    section = show(report).locator("#curve")
    for text in ("4 epochs; the weights are those of epoch 3", "Loss by epoch", "Accuracy on held-out labels by epoch"):
        assert text in section.inner_text()
    assert section.locator("svg").first.get_attribute("aria-label") == "Loss by epoch over 4 epochs, best at epoch 3"


CHOICE = Choice(
    "columns standardised",
    [("extremely randomised trees", 0.7), ("label spreading on the graph", 0.3)],
    46,
    3,
    2,
    [ConfidenceBin(0.0, 0.5, 6, 0.4, 0.5), ConfidenceBin(0.9, 0.97, 40, 0.95, 0.975)],
)


def test_an_ensemble_shows_what_was_selected_and_no_epochs(show):
    report = synthetic_report()._replace(curve=None, choice=CHOICE)
    page = show(report)
    text = page.inner_text("#choice")
    assert "46 given labels, held out in turn, selected this" in text
    assert "columns standardised; trained on the given labels and, in 1 round of self-training," in text
    assert "(1 further round did not help)" in text
    assert "extremely randomised trees" in text
    assert "70\u00a0%" in text
    rows = page.locator("#choice .reliability tbody tr").all_inner_texts()
    assert [row.split("\t")[:2] for row in rows] == [["below 50\u00a0%", "6"], ["90\u00a0% to 97\u00a0%", "40"]]
    assert not page.locator("#curve").is_visible()
    for word in ("epoch", "Loss", "alidation label"):
        assert word not in page.inner_text("body")


def test_a_choice_that_no_label_made_says_so(show):
    fixed = CHOICE._replace(n_labels=0, n_rounds=1, best=1, reliability=[])
    text = show(synthetic_report()._replace(curve=None, choice=fixed)).inner_text("#choice")
    assert "too few to select by, so this is the choice that is fixed for few labels" in text
    assert "trained on the given labels alone." in text
    assert "nothing is known of how far its confidence can be trusted" in text


def test_cells_of_a_table_stand_beside_those_of_influential_rows(show):
    report = synthetic_report()
    first, second = report.influences[3][:2]
    values = [[f"{row},5", "gas" if row in (3, first) else ""] for row in range(len(report.ids))]
    page = show(report._replace(texts=None, cells=Cells(["size", "heating"], values, n_left_out=2)))
    page.evaluate("angpnReport.select(3)")
    heads = page.locator(".cells thead").inner_text()
    assert "this row" in heads
    assert report.ids[first] in heads
    lines = [line.replace("\n", "").split("\t") for line in page.locator(".cells tbody tr").all_inner_texts()]
    assert [line[:4] for line in lines] == [
        ["size", "3,5", f"{first},5", f"{second},5"],
        ["heating", "gas", "gas", "\u2013"],
    ]
    assert page.locator(".cells .same").all_inner_texts() == ["gas"]
    assert "2 further columns not shown" in page.inner_text("#details")
    page.locator(".cells .head").first.click()
    assert selected(page) == first
    assert page.locator("#next li .hint").first.inner_text().startswith("size ")


def test_one_account_is_given_where_model_and_influential_rows_disagree(show):
    report = synthetic_report()
    row = 3
    rows = report.influences[row]
    rows = rows[rows >= 0]

    def told(predicted, around, given=-1, suspects=()):
        labels, known = report.predicted.copy(), report.given.copy()
        labels[rows], known[rows] = around, -1
        labels[row], known[row] = predicted, given
        page = show(report._replace(predicted=labels, given=known, suspects=list(suspects)))
        page.evaluate(f"angpnReport.select({row})")
        return page.locator(".note").all_inner_texts()

    assert told(0, 0) == []
    (differ,) = told(0, 1)
    assert "100\u00a0% of their weight) are class 1, the model says class 0" in differ
    (given,) = told(0, 0, given=1)
    assert "given as class 1, and that counts" in given
    assert "still says class 0" in given
    (so_do,) = told(1, 2, 1, [Suspect(row, 2, 0.75)])
    assert "may be an error: a model that did not have it says class 2, with 75\u00a0%. So do the rows" in so_do
    (between,) = told(1, 1, 1, [Suspect(row, 2, 0.75)])
    assert "agree with the given label: the row lies between the two classes" in between
    (third,) = told(1, 3, 1, [Suspect(row, 2, 0.75)])
    assert "are class 3: look at it." in third


def test_the_most_confused_classes_are_listed_and_the_matrix_of_ten_fits_a_phone(show):
    report = synthetic_report(c=10, n=200)
    page = show(report._replace(classes=[str(number) for number in range(10)]), width=390)
    assert page.locator(".confusions li").all_inner_texts() == ["0\ntaken for\n9\n2 of 7"]
    box = page.locator(".confusion").evaluate("(table) => [table.scrollWidth, table.parentElement.clientWidth]")
    assert box[0] <= box[1]
    perfect = report.estimate._replace(confusion=5 * np.eye(10, dtype=int))
    assert "No class was taken for another" in show(report._replace(estimate=perfect)).inner_text("#confusion")


@pytest.mark.parametrize("hostile", HOSTILE)
def test_user_text_is_shown_as_text(show, hostile):
    report = synthetic_report()
    page = show(
        report._replace(
            title=hostile,
            ids=[f"{hostile}{row}" for row in range(60)],
            classes=[f"{hostile}{number}" for number in range(4)],
            texts=[hostile] * 60,
            facts=[(hostile, hostile)],
        )
    )
    page.evaluate("angpnReport.select(20)")
    page.mouse.move(*at(page, 20))
    page.locator("#tip").wait_for(state="visible")
    for part in ("h1", "#legend", "#details", "#tip", "#next", "#suspects", "#classes", "#confusion", "#facts"):
        assert hostile.strip() in page.text_content(part), part
    assert page.locator("main img").count() == 0
    assert page.locator("script").count() == 2


def test_thumbnails_are_shown(show):
    dot = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
    page = show(synthetic_report()._replace(thumbnails=[None, *[dot] * 59], texts=None))
    page.evaluate("angpnReport.select(1)")
    assert page.locator("#details .who img").evaluate("(image) => image.decode().then(() => image.naturalWidth)") == 1
    page.evaluate("angpnReport.select(0)")
    assert page.locator("#details .who img").count() == 0


def brightness(page, selector, style):
    colour = page.evaluate("([s, p]) => getComputedStyle(document.querySelector(s))[p]", [selector, style])
    return np.mean([float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]])


def test_dark_and_light_follow_the_system(show):
    page = show(synthetic_report(), color_scheme="dark")
    assert brightness(page, "body", "backgroundColor") < 40
    assert brightness(page, "body", "color") > 200
    assert pixels(page)[2, 2, :3].mean() < 60
    page.emulate_media(color_scheme="light")
    page.wait_for_function("getComputedStyle(document.body).backgroundColor === 'rgb(255, 255, 255)'")
    assert pixels(page)[2, 2, :3].mean() > 200


@pytest.mark.parametrize("width", [400, 800, 1400])
def test_nothing_is_wider_than_the_window(show, width):
    report = synthetic_report(c=50, n=300)
    page = show(report._replace(classes=[f"{name} with a rather long name" for name in report.classes]), width=width)
    page.evaluate("angpnReport.select(7)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_every_class_has_its_own_mark(show):
    page = show(synthetic_report(c=50, n=300))
    marks = page.evaluate(
        """[...document.querySelectorAll("#legend path")].map((path) => path.getAttribute("d") + path.style.fill)"""
    )
    assert len(set(marks)) == 50


@pytest.mark.parametrize("n", [1, 2])
def test_a_map_of_one_or_two_rows(show, n):
    report = synthetic_report(n=60)
    few = report._replace(
        ids=report.ids[:n],
        influences=np.full((n, 1), -1),
        weights=np.zeros((n, 1)),
        positions=np.zeros((n, 2)),
        texts=None,
        uncertain=[0],
        suspects=[],
        **{name: getattr(report, name)[:n] for name in ("given", "predicted", "confidence", "second")},
    )
    page = show(few)
    page.mouse.click(*at(page, 0))
    assert selected(page) >= 0


def test_fifty_thousand_rows_open_and_answer_in_seconds(show):
    report = synthetic_report(n=50_000, c=50, t=10)._replace(texts=None)
    start = time.perf_counter()
    page = show(report)
    opened = time.perf_counter() - start
    start = time.perf_counter()
    page.mouse.click(*at(page, 49_999))
    assert selected(page) >= 0
    page.fill("#query", "row-31415")
    page.press("#query", "Enter")
    assert selected(page) == 31_415
    page.focus("#map")
    for key in ("ArrowRight", "+", "+", "Shift+ArrowUp"):
        page.keyboard.press(key)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(done))")
    assert opened < 20
    assert time.perf_counter() - start < 5
