import base64
import json
import re
import time
from html.parser import HTMLParser

import numpy as np
import pytest

from angpn.inspection.accuracy_estimate import Estimate
from angpn.inspection.label_errors import Suspect
from angpn.inspection.report import Curve, write_label_report
from angpn.inspection.table_cells import Cells
from angpn.utils.palette import DARK_PALETTE, PALETTE
from label_pages import HOSTILE, synthetic_report


class Page(HTMLParser):
    """The tags of a page and the text of its elements."""

    def __init__(self, source):
        super().__init__()
        self.tags, self.texts, self.open = [], {}, None
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.open = dict(attributes).get("id") or tag
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, text):
        self.texts[self.open] = self.texts.get(self.open, "") + text


def written(report, tmp_path):
    path = write_label_report(report, tmp_path / "report.html")
    return path.read_text(encoding="utf-8")


def data_of(source):
    return json.loads(Page(source).texts["data"])


def unpack(array):
    dtype = {"Int32Array": "<i4", "Float32Array": "<f4"}[array["type"]]
    return np.frombuffer(base64.b64decode(array["base64"]), dtype=dtype)


def test_every_array_decodes_to_what_was_given(tmp_path):
    report = synthetic_report()
    data = data_of(written(report, tmp_path))
    for name in ("given", "predicted", "second", "influences"):
        np.testing.assert_array_equal(unpack(data[name]), np.ravel(getattr(report, name)), err_msg=name)
    for name in ("confidence", "positions", "weights"):
        np.testing.assert_allclose(unpack(data[name]), np.ravel(getattr(report, name)), rtol=1e-6, err_msg=name)
    np.testing.assert_array_equal(unpack(data["uncertain"]), report.uncertain)
    np.testing.assert_array_equal(unpack(data["estimate"]["confusion"]), np.ravel(report.estimate.confusion))
    np.testing.assert_allclose(unpack(data["curve"]["loss"]), report.curve.loss, rtol=1e-6)
    np.testing.assert_allclose(unpack(data["curve"]["accuracy"]), report.curve.held_out_accuracy, rtol=1e-6)
    assert data["estimate"]["rows"] == report.estimate.n_rows
    assert data["curve"]["best"] == report.curve.best
    assert data["ids"] == report.ids
    assert data["classes"] == report.classes
    assert data["suspects"] == [list(suspect) for suspect in report.suspects]
    assert data["facts"] == [list(fact) for fact in report.facts]


def test_parts_that_are_missing_are_null(tmp_path):
    report = synthetic_report()._replace(
        estimate=None, curve=None, texts=None, thumbnails=None, suspects=[], uncertain=[]
    )
    data = data_of(written(report, tmp_path))
    for name in ("estimate", "curve", "texts", "thumbnails"):
        assert data[name] is None
    assert data["suspects"] == []
    assert len(unpack(data["uncertain"])) == 0


def test_a_curve_may_be_arrays_and_have_no_validation(tmp_path):
    report = synthetic_report()._replace(curve=Curve(np.array([1.0, np.nan]), None, 1))
    curve = data_of(written(report, tmp_path))["curve"]
    np.testing.assert_array_equal(unpack(curve["loss"]), [1.0, np.nan])
    assert curve["accuracy"] is None
    report = synthetic_report()._replace(curve=Curve(np.ones(2), np.zeros(2), 1))
    np.testing.assert_array_equal(unpack(data_of(written(report, tmp_path))["curve"]["accuracy"]), [0, 0])


@pytest.mark.parametrize("width", [0, 1])
def test_few_influences(width, tmp_path):
    report = synthetic_report()
    report = report._replace(influences=report.influences[:, :width], weights=report.weights[:, :width])
    assert len(unpack(data_of(written(report, tmp_path))["influences"])) == width * len(report.ids)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_user_text_is_never_markup(hostile, tmp_path):
    report = synthetic_report()
    rest = [f"class {number}" for number in range(1, len(report.classes))]
    source = written(
        report._replace(
            title=hostile,
            ids=[hostile, *report.ids[1:]],
            classes=[hostile, *rest],
            texts=[hostile] * len(report.ids),
            facts=[(hostile, hostile)],
        ),
        tmp_path,
    )
    plain = Page(written(report, tmp_path))
    page = Page(source)
    assert page.tags == plain.tags
    data = json.loads(page.texts["data"])
    assert data["ids"][0] == data["classes"][0] == data["texts"][0] == data["facts"][0][0] == hostile
    assert page.texts["title"].strip() == hostile.strip()
    assert not re.search("[<>&\u2028\u2029]", page.texts["data"])


def test_a_file_name_that_is_not_valid_utf8_is_written(tmp_path):
    broken = b"caf\xe9.txt".decode("utf-8", "surrogateescape")
    report = synthetic_report()
    data = data_of(written(report._replace(title=broken, ids=[broken, *report.ids[1:]]), tmp_path))
    assert data["ids"][0] == broken


def test_the_page_may_load_nothing_and_is_self_contained(tmp_path):
    source = written(synthetic_report(), tmp_path)
    tags = Page(source).tags
    (policy,) = [a["content"] for tag, a in tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'")
    assert all(a.get("src") is None for _, a in tags)
    assert {a["href"] for _, a in tags if "href" in a} == {"data:,"}
    script = source[source.rindex("<script>") :]
    for unsafe in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch("):
        assert unsafe not in script


def test_no_placeholder_of_the_template_is_left(tmp_path):
    assert "{{" not in written(synthetic_report(), tmp_path)


def test_the_same_report_gives_the_same_file_and_replaces_the_old_one(tmp_path):
    first = written(synthetic_report(), tmp_path)
    assert written(synthetic_report(), tmp_path) == first
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_fifty_thousand_rows_are_quick_and_small(tmp_path):
    report = synthetic_report(n=50_000, c=20, t=10)._replace(texts=None, thumbnails=None)
    start = time.perf_counter()
    path = write_label_report(report, tmp_path / "report.html")
    assert time.perf_counter() - start < 5
    assert path.stat().st_size < 15e6


def contrast(first, second):
    """Return the contrast ratio of the Web Content Accessibility Guidelines."""

    def luminance(colour):
        channels = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
        linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    dark, light = sorted((luminance(first), luminance(second)))
    return (light + 0.05) / (dark + 0.05)


def test_hues_contrast_with_the_dark_background():
    assert len(DARK_PALETTE) == len(PALETTE)
    for hue in DARK_PALETTE:
        assert contrast(hue, "#1c1f24") >= 3, hue


WRONG = {
    "given": (lambda r: {"given": r.given[1:]}, r"given must have shape \(60,\), got \(59,\)"),
    "range": (lambda r: {"predicted": r.predicted + 9}, "predicted must lie from 0 to 3, got 9 to"),
    "positions": (lambda r: {"positions": r.positions[:, :1]}, r"positions must have shape \(60, 2\)"),
    "nan": (lambda r: {"positions": np.full_like(r.positions, np.nan)}, "positions must be finite"),
    "influences": (lambda r: {"influences": r.influences + 60}, "influences must lie from -1 to 59"),
    "weights": (lambda r: {"weights": r.weights[:, 1:]}, r"weights must have shape \(60, 4\), got \(60, 3\)"),
    "confusion": (lambda r: {"estimate": r.estimate._replace(confusion=np.eye(3))}, r"confusion must have shape"),
    "uncertain": (lambda r: {"uncertain": [60]}, "uncertain must lie from 0 to 59, got 60 to 60"),
    "unreliable": (lambda r: {"unreliable": [("", [-1])]}, "unreliable must lie from 0 to 59, got -1 to -1"),
    "suspects": (lambda r: {"suspects": [Suspect(0, 4, 0.5)]}, "suggestions of suspects must lie from 0 to 3"),
    "texts": (lambda r: {"texts": ["a"]}, "texts must have an entry for each of the 60 rows, got 1"),
    "cells": (lambda r: {"cells": Cells(["size"], [["1"]])}, "cells must have an entry for each of the 60 rows, got 1"),
    "cells of a row": (
        lambda r: {"cells": Cells(["size", "rent"], [["1"]] * 60)},
        "cells must have 2 values in each row, got 1 at row 0",
    ),
    "picture": (lambda r: {"thumbnails": ["https://x/y.png"] * 60}, "thumbnails must start with 'data:image/'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_named(case, tmp_path):
    change, message = WRONG[case]
    report = synthetic_report()
    with pytest.raises(ValueError, match=message):
        write_label_report(report._replace(**change(report)), tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


def test_an_estimate_that_is_no_number_is_refused(tmp_path):
    report = synthetic_report()
    broken = Estimate("held out", float("nan"), 0.0, 1.0, 3, report.estimate.confusion)
    with pytest.raises(ValueError, match="JSON"):
        write_label_report(report._replace(estimate=broken), tmp_path / "report.html")
