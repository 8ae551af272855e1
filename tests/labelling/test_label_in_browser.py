"""From the command to the page: the report is opened in a browser and used."""

import json

import numpy as np
import polars
from typer.testing import CliRunner

from angpn.cli import app
from label_inputs import read_predictions

HOSTILE = "<img src=x onerror=alert(1)>"


def test_the_report_of_a_real_run_is_drawn_and_reacts_to_a_click(tickets, tmp_path, open_in_browser):
    path, _ = tickets
    frame = polars.read_csv(path).with_columns(polars.col("topic").replace("parcel", HOSTILE))
    frame.write_csv(tmp_path / "tickets.csv")
    options = ["--text", "body", "--label-column", "topic", "--id-column", "ticket", "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(app, ["label", str(tmp_path / "tickets.csv"), *options, "--json"])
    assert done.exit_code == 0, done.stderr
    assert HOSTILE in json.loads(done.stdout)["classes"]
    assert HOSTILE not in (tmp_path / "out" / "report.html").read_text()

    page = open_in_browser(tmp_path / "out" / "report.html")
    drawn = page.evaluate(
        """() => new Promise((done) => requestAnimationFrame(() => {
          const map = document.getElementById("map");
          const pixels = map.getContext("2d").getImageData(0, 0, map.width, map.height).data;
          done(new Set(new Uint32Array(pixels.buffer)).size);
        }))"""
    )
    assert drawn > 20  # colours
    lines = read_predictions(tmp_path / "out" / "predictions.csv")
    own = [row for row, line in enumerate(lines) if line["label"] == HOSTILE]
    page.evaluate("document.getElementById('map').scrollIntoView()")  # all of it, or a click may be below the window
    positions = page.evaluate("(n) => [...Array(n).keys()].map((row) => angpnReport.screenPosition(row))", len(lines))
    points = np.array([[position["x"], position["y"]] for position in positions])
    apart = np.linalg.norm(points[own, None] - points[None], axis=-1)
    apart[range(len(own)), own] = np.inf
    row = own[int(apart.min(axis=1).argmax())]  # the most isolated one: a click hits no other
    page.mouse.click(*points[row])
    assert page.evaluate("angpnReport.selected()") == row
    panel = page.inner_text("#details")
    assert lines[row]["id"] in panel
    assert HOSTILE in panel  # as text: an alert or a broken image would be recorded as an error
    assert "Most influential rows" in panel
    assert "Weights are shares of the final probability" in page.inner_text("#choice")
    assert not page.is_visible("#curve")  # which is for networks
    assert "rounds" in page.inner_text("#facts")
    assert "epoch" not in page.inner_text("body")
    assert frame["body"][row][:40] in panel
