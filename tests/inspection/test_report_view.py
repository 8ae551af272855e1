import copy
import html
import re

import numpy as np
import pytest


@pytest.mark.parametrize("name", ["ensemble", "network"])
def test_the_report_of_a_model_is_the_page_of_the_command(name, request, open_in_browser, tmp_path):
    model = request.getfixturevalue(name)
    report = model.report(tmp_path / "iris.html", title="Irises", ids=[f"iris {row}" for row in range(150)])
    assert report.path == tmp_path / "iris.html"
    assert report.path.read_text(encoding="utf-8") == report.html
    page = open_in_browser(report.path)
    assert page.inner_text("h1") == "Irises"
    headline = page.inner_text("#headline")
    assert "150" in headline
    assert f"{100 * model.estimate_accuracy().accuracy:.1f}" in headline
    assert "labelled_at_random" in headline
    assert "--" not in headline
    assert page.is_visible("#curve") == (name == "network")
    assert page.is_visible("#choice") == (name == "ensemble")
    facts = page.inner_text("#facts")
    assert type(model).__name__ in facts
    assert "labels given" in facts.lower()


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(ensemble, open_in_browser, tmp_path, browser):
    report = ensemble.report(None, images=np.random.default_rng(0).random((150, 8, 8)))
    assert report.path is None
    assert repr(report) == "Report(path=None)"
    shown = report._repr_html_()
    (content,) = re.findall(r'srcdoc="([^"]*)"', shown)
    assert html.unescape(content) == report.html
    page = browser.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.set_content(f"<p>a cell</p>{shown}")
    frame = page.frame_locator("iframe")
    frame.locator("#headline .large").first.wait_for()
    assert frame.locator("#next img").count() > 0
    page.close()
    assert errors == []


def test_a_model_without_held_out_labels_says_how_to_measure_accuracy(single_labels, open_in_browser, tmp_path):
    page = open_in_browser(single_labels.report(tmp_path / "report.html", texts=["a text"] * 150).path)
    assert "leave a fifth of the labels out of y" in page.inner_text("#headline")
    assert "leave a fifth of the labels out of y" in page.inner_text("#confusion")
    assert "a text" in page.inner_text("#next")


def test_a_model_of_an_older_version_has_a_report(ensemble):
    older = copy.copy(ensemble)
    older.validation_distributions_ = None
    assert len(older.report(None).html) > 10_000


def test_labels_drawn_at_random_are_told(ensemble, iris):
    given = np.array([label is not None for label in iris[1]])
    assert '"sample":"random"' in ensemble.report(None, labelled_at_random=given).html
    assert '"sample":"unknown"' in ensemble.report(None).html


@pytest.mark.parametrize("name", ["ids", "texts", "images"])
def test_there_must_be_one_for_each_row(ensemble, name, tmp_path):
    with pytest.raises(ValueError, match=f"{name} must have one row for each row of X, expected 150, got 7"):
        ensemble.report(tmp_path / "report.html", **{name: np.zeros((7, 8, 8)) if name == "images" else ["a"] * 7})
    assert list(tmp_path.iterdir()) == []


def test_by_default_it_is_written_to_the_folder_of_the_notebook(ensemble, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report = ensemble.report()
    assert str(report.path) == "angpn-report.html"
    assert (tmp_path / "angpn-report.html").exists()
    assert repr(report) == "Report(path='angpn-report.html')"
