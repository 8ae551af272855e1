"""From the command to the page: what it wrote is opened and used."""

import json

import polars
from label_inputs import read_predictions
from typer.testing import CliRunner

from angpn.cli import app

HOSTILE = "<img src=x onerror=alert(1)>"


def test_the_report_of_a_real_run_is_drawn_and_answers_a_click(tickets, tmp_path, open_in_browser):
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
    row = next(place for place, line in enumerate(lines) if line["label"] == HOSTILE and line["source"] == "predicted")
    place = page.evaluate("(row) => angpnReport.screenPosition(row)", row)
    page.mouse.click(place["x"], place["y"])
    chosen = page.evaluate("angpnReport.selected()")
    assert chosen is not None
    page.evaluate("(row) => angpnReport.select(row)", row)  # a neighbour may lie on top of it
    panel = page.inner_text("#details")
    assert lines[row]["id"] in panel
    assert HOSTILE in panel  # as text: an alert or a broken picture would be seen as an error
    assert "Neighbours that carried its label" in panel
    assert frame["body"][row][:40] in panel
