"""The folder of a project: one writer, the same rows, and images that come and go."""

import errno
import json

import numpy as np
import pytest
from PIL import Image

from angpn.annotation.export import export_apart, export_results
from angpn.annotation.project import load_project


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for place in range(6):
        Image.new("RGB", (32, 32), (40 * place, 0, 0)).save(folder / f"{place}.png")
    return folder


def test_a_restart_goes_on_exactly_there(annotate, digits):
    first = annotate(digits[0], target=0.9)
    first.learn()
    first.label(digits[2], 12)
    first.learn()
    first.act("undo")
    first.act("add_class", name="none yet")
    before, rows = first.get("/api/state"), first.get("/api/next", client="page", count=1)["rows"]
    first.close()
    again = annotate(digits[0], target=0.9)
    after = again.get("/api/state")
    for key in ("classes", "counts", "undo", "project"):
        assert after[key] == before[key]
    assert again.get("/api/next", client="page", count=1)["rows"][0]["row"] == rows[0]["row"]
    assert again.session.state.snapshot() == first.session.state.snapshot()
    assert again.token == first.token  # an open page goes on


def test_a_damaged_queue_is_computed_again(annotate, digits, tmp_path):
    annotate(digits[0]).close()
    (tmp_path / "out" / "annotate" / "queue.json").write_text("[[1")
    assert len(annotate(digits[0]).get("/api/next", client="page", count=5)["rows"]) == 5


def test_a_second_server_says_where_the_first_is(annotate, digits):
    first = annotate(digits[0])
    with pytest.raises(BlockingIOError, match="must be open once, got a server that has it open at http") as caught:
        annotate(digits[0])
    assert first.server.address in str(caught.value)
    first.close()
    annotate(digits[0])


def test_a_folder_of_other_rows_is_refused_and_left_alone(annotate, digits, tmp_path):
    annotate(digits[0]).close()
    before = {
        path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file() and path.name != "lock"
    }
    np.save(tmp_path / "other.npy", np.random.default_rng(0).random((150, 64)))
    with pytest.raises(
        ValueError, match=r"out must be a project of these 150 rows, got one of 150 others, of .*digits"
    ):
        annotate(tmp_path / "other.npy")
    (tmp_path / "texts.txt").write_text("one\ntwo\nthree\n")
    with pytest.raises(ValueError, match="out must be a project of text, got one of array; name another folder"):
        annotate(tmp_path / "texts.txt")
    assert {
        path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file() and path.name != "lock"
    } == before


def test_images_that_were_deleted_keep_their_number_and_new_ones_come_last(annotate, photos):
    first = annotate(photos)
    first.act("label", row=4, name="cat")
    first.close()
    (photos / "1.png").unlink()
    Image.new("RGB", (32, 32), "green").save(photos / "0a.png")
    again = annotate(photos)
    assert again.session.contents.rows.ids == ["0.png", "1.png", "2.png", "3.png", "4.png", "5.png", "0a.png"]
    assert again.get("/api/rows/4")["label"] == "cat"
    assert again.get("/api/rows/1")["content"]["kind"] == "missing"
    answer = again.client.get("/api/image/1")
    assert answer.status_code == 404
    assert "1.png must be a file that can be read, got No such file" in answer.json()["error"]
    saved = load_project(again.session.project.folder)
    assert saved.rows.ids == again.session.contents.rows.ids


def test_a_folder_with_other_images_is_refused(annotate, photos, tmp_path):
    annotate(photos).close()
    for path in photos.glob("[0-3].png"):
        path.unlink()
    with pytest.raises(ValueError, match="must be a project of these images, got one of .*photos, of whose 6 images 2"):
        annotate(photos)


def test_names_that_are_no_text_stay_what_they_are(annotate, tmp_path):
    import os

    folder = tmp_path / "photos"
    folder.mkdir()
    for name in (b"a\xff.png", "ü \u202e<b>.png".encode()):
        with open(os.path.join(os.fsencode(folder), name), "wb") as file:
            Image.new("RGB", (8, 8)).save(file, "PNG")
    annotate(folder).close()
    again = annotate(folder)
    assert again.get("/api/rows/0")["id"] == "a\ufffd.png"
    assert len(again.session.contents) == 2


def test_a_damaged_project_file_is_an_error(annotate, digits, tmp_path):
    annotate(digits[0]).close()
    (tmp_path / "out" / "annotate" / "project.json").write_text("{")
    with pytest.raises(ValueError, match=r"project.json must say what the project is, got"):
        annotate(digits[0])


def test_an_export_needs_a_project_and_its_input(annotate, digits, tmp_path):
    with pytest.raises(
        FileNotFoundError, match="must be an output folder of angpn annotate, got one without a project"
    ):
        export_results(tmp_path)
    moved = tmp_path / "moved.npy"
    moved.write_bytes(digits[0].read_bytes())
    annotate(moved).close()
    moved.unlink()
    with pytest.raises(FileNotFoundError, match=r"must have its input where it was, got none at .*moved.npy"):
        export_results(tmp_path / "out")


def test_the_output_must_be_a_folder_that_is_free(annotate, digits, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="must be a folder for the output, got a file"):
        annotate(digits[0], output=tmp_path / "file")


@pytest.mark.parametrize(("target", "message"), [(1.0, "--target must lie between 0 and 1, got 1.0"), (0, "got 0")])
def test_a_target_that_is_none_is_refused(annotate, digits, target, message):
    with pytest.raises(ValueError, match=message):
        annotate(digits[0], target=target)


def test_results_leave_rows_of_no_class_out(annotate, digits):
    annotation = annotate(digits[0])
    truth = digits[2]
    for row in range(30):
        annotation.act("label", row=row, name=truth[row])
    annotation.act("other", row=40)
    annotation.act("skip", row=41)
    results = annotation.server.write_results()
    assert results.missing is None
    folder = annotation.session.project.folder
    lines = polars_rows(folder / "predictions.csv")
    assert len(lines) == 149
    assert "40" not in {line["id"] for line in lines}
    assert {line["source"] for line in lines if int(line["id"]) < 30} == {"given"}
    right = [line["label"] == truth[int(line["id"])] for line in lines]
    assert np.mean(right) > 0.9
    assert {"id": "40", "label": None, "source": "other"} in polars_rows(folder / "labels.csv")
    exported = export_results(folder)  # while the server has it open
    assert exported.files == [*results.files[:-1], "next.csv"]


def test_results_that_the_disk_cannot_take_say_where_the_labels_are(annotate, digits, monkeypatch):
    annotation = annotate(digits[0])
    annotation.act("label", row=0, name="cat")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("angpn.annotation.results.write_labels", full)
    message = "must take the results, got No space left on device; make room, then run angpn annotate --export"
    with pytest.raises(OSError, match=message):
        annotation.server.write_results()


def test_what_another_process_could_not_write_is_raised_here(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="must be an output folder of angpn annotate"):
        export_apart(tmp_path)
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(RuntimeError, match="the process that writes the results must end well, got code 1; free some"):
        export_apart(tmp_path)


def polars_rows(path):
    import polars

    return polars.read_csv(path, infer_schema=False).to_dicts()


def test_an_encoder_is_never_taken_from_the_folder(annotate, photos):
    """It may name any code, and a folder may come from a stranger."""
    server = annotate(photos)
    folder = server.session.project.folder
    server.close()
    path = folder / "annotate" / "project.json"
    known = json.loads(path.read_bytes())
    known["options"]["encoder"] = "antigravity:fly"
    path.write_text(json.dumps(known))
    assert load_project(folder).options.encoder == "auto"
    assert load_project(folder, "timm:net").options.encoder == "timm:net"
