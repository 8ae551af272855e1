"""The routes, through the real application: what the page reads and writes."""

import asyncio
import base64
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest


def decoded(text, dtype):
    return np.frombuffer(base64.b64decode(text), dtype)


def test_the_state_of_nothing_labelled(annotation):
    state = annotation.get("/api/state")
    assert state["seq"] == 0
    assert (state["kind"], state["title"], state["n_rows"], state["user"]) == ("array", "digits.npy", 150, "anna")
    assert state["counts"] == {"labelled": 0, "other": 0, "skipped": 0, "audit": 0, "left": 150}
    assert state["classes"] == []
    assert state["model"]["version"] == 0
    assert state["estimate"] is None
    assert state["undo"] is state["redo"] is None


def test_a_label_is_in_the_log_and_the_state_and_can_be_undone(annotation):
    answer = annotation.act("label", row=12, name="cat")
    assert (answer["seq"], answer["row"], answer["undo"]) == (1, 12, "label of row 12")
    assert answer["state"]["classes"] == [{"id": 0, "name": "cat", "key": "1", "count": 1}]
    assert answer["state"]["counts"]["labelled"] == 1
    row = annotation.get("/api/rows/12")
    assert (row["row"], row["id"], row["label"]) == (12, "12", "cat")
    answer = annotation.act("undo")
    assert (answer["row"], answer["done"], answer["state"]["redo"]) == (
        12,
        "undone: label of row 12",
        "label of row 12",
    )
    assert answer["state"]["classes"] == []
    assert annotation.act("redo")["state"]["counts"]["labelled"] == 1
    assert [entry.seq for entry in annotation.session.project.log.entries] == [1, 2, 3]


def test_the_same_id_again_is_answered_and_not_logged_twice(annotation):
    first = annotation.act("label", row=1, name="cat", id="once")
    annotation.act("label", row=2, name="cat")
    again = annotation.act("label", row=1, name="cat", id="once")
    assert again["seq"] == first["seq"] == 1
    assert again["done"] == "done before"
    assert annotation.session.state.seq == 2


def test_every_action_of_the_contract(annotation):
    annotation.act("label_many", rows=[1, 2, 3], name="cat", **{"from": "map"})
    annotation.act("other", row=4)
    annotation.act("skip", row=5)
    annotation.act("add_class", name="bird")
    annotation.act("rename_class", name="bird", to="birds")
    annotation.act("label", row=6, name="birds")
    annotation.act("merge_class", name="birds", into="cat")
    annotation.act("confirm", row=6)
    annotation.act("clear", row=1)
    annotation.act("label", row=2, name="dog", user="ben")
    assert annotation.get("/api/state")["disagreements"] == 1
    (disputed,) = annotation.get("/api/disagreements")["rows"]
    assert disputed["votes"] == {"anna": "cat", "ben": "dog"}
    assert disputed["disputed"]
    assert disputed["label"] is None
    state = annotation.act("settle", row=2, name="dog")["state"]
    assert state["disagreements"] == 0
    assert state["counts"] == {"labelled": 3, "other": 1, "skipped": 1, "audit": 0, "left": 145}
    assert {one["name"]: one["count"] for one in state["classes"]} == {"cat": 2, "dog": 1}


def test_a_row_that_one_of_two_puts_into_no_class_can_be_settled_either_way(annotation):
    annotation.act("label", row=2, name="cat", user="anna")
    annotation.act("other", row=2, user="ben")
    (disputed,) = annotation.get("/api/disagreements")["rows"]
    assert disputed["votes"] == {"anna": "cat", "ben": None}
    answer = annotation.act("settle", row=2, name=None)
    assert (answer["state"]["counts"]["other"], answer["state"]["disagreements"]) == (1, 0)
    assert annotation.get("/api/rows/2")["other"]
    assert annotation.act("settle", row=2, name="cat")["state"]["counts"]["labelled"] == 1


def test_what_can_be_undone_is_told_by_the_id_of_the_row(annotate, tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("name,size\nfirst,1\nsecond,2\nthird,3\nfourth,4\n")
    annotation = annotate(table, input_options={"id_column": "name"})
    assert annotation.act("label", row=1, name="cat")["undo"] == "label of row second"
    assert annotation.act("other", row=2)["undo"] == "none of these for row third"
    assert annotation.act("skip", row=3)["undo"] == "skip of row fourth"
    assert annotation.act("undo")["done"] == "undone: skip of row fourth"


def test_a_server_for_other_machines_has_pages_ask_who_labels(annotate, digits):
    assert annotate(digits[0], host="0.0.0.0").get("/api/state")["shared"]


def test_the_page_knows_when_there_is_a_map(annotation, digits):
    assert not annotation.get("/api/state")["model"]["mapped"]
    annotation.learn()
    assert annotation.get("/api/state")["model"]["mapped"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "label", "row": 150, "name": "cat"}, "a row must lie between 0 and 149, got 150"),
        (
            {"kind": "label", "row": "3", "name": "cat"},
            "the body must be an action as JSON, got another: Expected `int`",
        ),
        ({"kind": "import", "digest": ""}, "the body must be an action as JSON, got another: Invalid value 'import'"),
        ({"kind": "label", "row": 3, "name": "cat", "more": 1}, "contains unknown field"),
        ({"kind": "undo"}, "there must be something to undo"),
        ({"kind": "label", "row": 3, "name": "cat", "user": "(imported)"}, "the user must be a person"),
        ({"kind": "label", "row": 3, "name": "cat", "user": "\x1b"}, "the user must have printable characters only"),
        ({"kind": "label", "row": 3, "name": "cat", "client": ""}, "the client must have 1 to 200 characters, got 0"),
    ],
)
def test_what_cannot_be_done_is_answered_and_not_logged(annotation, fields, message):
    answer = annotation.post(**fields)
    assert answer.status_code == 400
    assert message in answer.json()["error"]
    assert annotation.session.state.seq == 0


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/api/rows/150", 400, "a row must lie between 0 and 149, got 150"),
        ("/api/rows/-1", 400, "row must be a whole number >= 0, got '-1'"),
        ("/api/rows/x", 400, "row must be a whole number >= 0, got 'x'"),
        ("/api/image/150", 400, "a row must lie between 0 and 149, got 150"),
        ("/api/next", 400, "the client must have 1 to 200 characters, got 0"),
        ("/api/grid?order=worst", 400, "the order must be sure or doubtful, got 'worst'"),
        ("/api/map", 503, "map and clusters must be computed first, got none yet"),
        ("/api/clusters", 503, "map and clusters must be computed first, got none yet"),
        ("/api/grid?cluster=0", 503, "map and clusters must be computed first, got none yet"),
        ("/api/nothing", 404, "the address must be one of the page, got another"),
        ("/static/server.py", 404, "'server.py' must be a file of the page, got none"),
    ],
)
def test_what_cannot_be_read_says_why(annotation, path, status, message):
    answer = annotation.client.get(path)
    assert answer.status_code == status
    assert message in answer.json()["error"]


def test_a_full_disk_is_an_error_that_keeps_what_was_there(annotation, monkeypatch):
    annotation.act("label", row=1, name="cat")

    def full(*arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("angpn.annotation.log._write", full)
        answer = annotation.post("label", row=2, name="cat", id="later")
    assert answer.status_code == 500
    assert "got No space left on device; make room on the disk, then do it again: all before it is kept" in answer.text
    assert annotation.get("/api/state")["counts"]["labelled"] == 1
    assert annotation.act("label", row=2, name="cat", id="later")["seq"] == 2


def test_guesses_neighbours_grid_map_and_clusters_come_with_a_model(annotation, digits):
    truth = digits[2]
    annotation.learn()
    clusters = annotation.get("/api/clusters")["clusters"]
    assert sum(one["size"] for one in clusters) == 150
    grid = annotation.get("/api/grid", cluster=0, count=5)
    assert len(grid["rows"]) == 5
    annotation.label(truth, 25)
    annotation.learn()
    state = annotation.get("/api/state")
    assert state["model"]["version"] == 1
    assert state["model"]["labels"] == 25
    assert not state["model"]["fitting"]
    hidden = annotation.session.hidden()
    guesses = [annotation.get(f"/api/rows/{row}") for row in range(150)]
    shown = [one for one in guesses if one["guess"] is not None]
    assert {one["row"] for one in guesses if one["guess"] is None} == hidden
    assert np.mean([one["guess"]["name"] == truth[one["row"]] for one in shown]) > 0.9
    one = next(one for one in shown if one["label"] is None)
    assert 1 <= len(one["neighbors"]) <= 5
    assert all(near["label"] == truth[near["row"]] for near in one["neighbors"])
    rows = annotation.get("/api/grid", **{"class": "digit 1"}, count=200)["rows"]
    assert all(row["guess"]["name"] == "digit 1" and row["label"] is None for row in rows)
    sure = [row["guess"]["confidence"] for row in rows]
    assert sure == sorted(sure, reverse=True)
    assert not {row["row"] for row in rows} & hidden
    found = annotation.get("/api/map")
    x, code, kind = decoded(found["x"], "<f4"), decoded(found["code"], "u1"), decoded(found["state"], "u1")
    assert x.min() >= 0
    assert x.max() <= 1
    assert kind.sum() == 25
    assert all(code[row] == 255 for row in hidden)
    assert np.mean([code[row] != 255 and found["names"][code[row]] == truth[row] for row in range(150)]) > 0.8


def test_audits_hide_the_guess_before_and_count_after(annotation, digits):
    annotation.learn()
    annotation.label(digits[2], 20)
    annotation.learn()
    rows = annotation.get("/api/next", client="page", count=20)["rows"]
    audits = [row for row in rows if row["audit"]]
    assert len(audits) == 4
    for row in audits:
        assert row["guess"] is None
        assert row["neighbors"] == []
        assert row["reason"] == "audit: the guess is hidden"
    assert annotation.get("/api/search", q=audits[0]["id"])["rows"][0]["guess"] is None
    before = annotation.get("/api/state")["counts"]["audit"]
    annotation.act("label", row=audits[0]["row"], name="digit 0")
    assert annotation.get("/api/state")["counts"]["audit"] == before + 1
    after = annotation.get(f"/api/rows/{audits[0]['row']}")
    assert after["audit"]
    assert after["guess"] is not None


def test_the_estimate_comes_from_audits_and_stays_in_the_log(annotate, digits):
    annotation = annotate(digits[0], target=0.8)
    annotation.learn()
    annotation.label(digits[2], 60)
    annotation.learn()
    estimate = annotation.get("/api/state")["estimate"]
    assert estimate["n"] <= 8
    assert estimate["low"] <= estimate["accuracy"] <= estimate["high"]
    assert set(estimate["recalls"]) <= {"digit 0", "digit 1", "digit 2"}
    assert estimate["curve"][-1]["labels"] == 60
    assert not estimate["reached"]
    annotation.close()
    again = annotate(digits[0])
    assert len(again.session.state.curve) == len(estimate["curve"])


def test_two_pages_get_different_rows(annotation):
    first = {row["row"] for row in annotation.get("/api/next", client="one", count=20)["rows"]}
    second = {row["row"] for row in annotation.get("/api/next", client="two", count=20)["rows"]}
    assert len(first) == len(second) == 20
    assert not first & second
    assert {row["row"] for row in annotation.get("/api/next", client="one", count=20)["rows"]} == first


def test_search_finds_ids_and_several_rows_can_be_read_at_once(annotation):
    assert [row["id"] for row in annotation.get("/api/search", q="149")["rows"]] == ["149"]
    found = annotation.get("/api/search", q="1")
    assert found["total"] > 60
    assert len(found["rows"]) == 60
    assert annotation.get("/api/search", q=" ") == {"total": 0, "rows": []}
    assert [row["row"] for row in annotation.get("/api/rows", rows="3,9")["rows"]] == [3, 9]


def test_a_wrong_label_is_a_suspect_until_it_is_confirmed_or_changed(annotation, digits):
    truth = digits[2]
    wrong = 7
    for row in range(0, 150, 2):
        annotation.act("label", row=row, name=truth[row])
    for row in (wrong, 9):
        annotation.act("label", row=row, name="digit 1" if truth[row] != "digit 1" else "digit 2")
    annotation.learn()
    suspects = [row["row"] for row in annotation.get("/api/suspects")["rows"]]
    assert {wrong, 9} <= set(suspects)
    annotation.act("confirm", row=wrong)
    annotation.act("label", row=9, name=truth[9])
    after = [row["row"] for row in annotation.get("/api/suspects")["rows"]]
    assert not {wrong, 9} & set(after)
    assert annotation.get("/api/state")["suspects"] == len(after)


def test_a_class_renamed_or_merged_after_the_fit_shows_in_guesses(annotation, digits):
    annotation.learn()
    annotation.label(digits[2], 20)
    annotation.learn()
    annotation.act("rename_class", name="digit 0", to="zero")
    annotation.act("merge_class", name="digit 1", into="digit 2")
    guesses = {annotation.get(f"/api/rows/{row}")["guess"]["name"] for row in range(150)
               if row not in annotation.session.hidden()}  # fmt: skip
    assert guesses == {"zero", "digit 2"}
    assert annotation.get("/api/map")["names"] == [one["name"] for one in annotation.get("/api/state")["classes"]]


def test_a_guess_of_a_class_whose_creation_was_undone_is_none(annotation, digits):
    annotation.learn()
    annotation.label(digits[2], 20)
    annotation.act("label_many", rows=[row for row in range(150) if digits[2][row] == "digit 1"], name="new")
    annotation.learn()
    annotation.act("undo")
    names = {one["name"] for one in annotation.get("/api/state")["classes"]}
    guesses = [annotation.get(f"/api/rows/{row}")["guess"] for row in range(150)]
    assert {one["name"] for one in guesses if one} <= names
    annotation.get("/api/map")


def test_an_image_of_an_array_row_is_sent_small_or_large(annotation):
    answer = annotation.client.get("/api/image/3", params={"size": 160})
    assert answer.headers["content-type"] == "image/png"
    assert answer.content.startswith(b"\x89PNG")
    content = annotation.get("/api/rows/3")["content"]
    assert (content["kind"], content["image"], len(content["values"])) == ("array", "/api/image/3", 64)


def test_the_page_and_its_parts_are_sent(annotation):
    page = annotation.client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    style = annotation.client.get("/static/base.css")
    assert style.headers["content-type"] == "text/css; charset=utf-8"
    assert style.headers["cache-control"] == "no-cache"


def test_results_are_written_on_request(annotation, digits):
    annotation.learn()
    assert annotation.server.write_results().files == ["labels.csv", "labels.json", "labels.jsonl", "labels.parquet"]
    annotation.label(digits[2], 15)
    answer = annotation.client.post("/api/export", json={}).json()
    assert answer["folder"] == "out"
    files = answer["files"]
    assert {"labels.csv", "predictions.csv", "model", "report.html"} <= set(files)
    folder = annotation.session.project.folder
    assert all((folder / name).exists() for name in files)


def test_a_refit_can_be_asked_for(annotation):
    assert annotation.client.post("/api/refit", json={}).json() == {}
    assert annotation.session._is_wanted


async def _events_of(routes, count):
    found = []
    async for event in routes.events():
        found.append(event)
        if len(found) == count:
            return found
    return found


def test_events_tell_of_changes_and_end_with_the_server(annotation):
    def events():
        with ThreadPoolExecutor(1) as pool:  # a thread of its own: the browser's tests leave a loop in this one
            return pool.submit(asyncio.run, _events_of(annotation.server._routes, 1)).result()

    assert events() == [b'data: {"seq": 0, "model": 0}\n\n']
    annotation.act("label", row=1, name="cat")
    assert events() == [b'data: {"seq": 1, "model": 0}\n\n']
    annotation.server.stop()
    assert events() == []
