"""Texts or images with columns of a table beside them: learnt and shown by both, and remembered by the folder."""

import json

import numpy as np
import polars
import pytest
from PIL import Image

from angpn.annotation.export import export_results
from angpn.annotation.project import load_project
from label_inputs import brightness, goods_table, read_predictions


@pytest.fixture
def goods(tmp_path):
    """A file of goods, which need their words and their columns to be told apart, and their classes."""
    frame, truth = goods_table(120)
    frame.write_csv(tmp_path / "goods.csv")
    return tmp_path / "goods.csv", truth.tolist()


def test_texts_with_columns_are_learnt_and_exported_by_both(annotate, goods):
    path, truth = goods
    beside = {"text": "body", "columns": ["price", "brand"], "encoder": "tfidf"}
    annotation = annotate(path, input_options=beside)
    shown = annotation.get("/api/rows/3")["content"]
    assert shown["kind"] == "text"
    assert [name for name, _ in shown["cells"]] == ["price", "brand"]
    annotation.learn()
    annotation.label(truth, 24)
    annotation.learn()
    guesses = [annotation.get(f"/api/rows/{row}")["guess"] for row in range(120)]
    right = [one["name"] == name for one, name in zip(guesses, truth, strict=True) if one is not None]
    assert len(right) > 60
    assert np.mean(right) > 0.9  # words alone cannot tell what is expensive
    folder = annotation.session.project.folder
    annotation.close()
    export_results(folder, "tfidf")  # which reads the columns again
    lines = read_predictions(folder / "predictions.csv")
    assert np.mean([line["label"] == truth[int(line["id"])] for line in lines]) > 0.9


def test_a_project_of_texts_goes_on_with_its_columns_alone(annotate, goods):
    path, _ = goods
    beside = {"text": "body", "columns": ["price"], "encoder": "tfidf"}
    first = annotate(path, input_options=beside)
    first.close()
    assert load_project(first.session.project.folder).options.columns == ["price"]
    annotate(path, input_options=beside).close()
    for other in (["brand"], []):
        with pytest.raises(ValueError, match="must be a project of these 120 rows, got one of 120 others"):
            annotate(path, input_options={**beside, "columns": other})


@pytest.fixture
def pictures(tmp_path):
    """Images, dark or light, with a weight that tells each of these in two; the table has a row for one to come."""
    generator = np.random.default_rng(0)
    folder, truth, weights = tmp_path / "pictures", [], []
    folder.mkdir()
    for row in range(60):
        light, heavy = row % 2, row // 2 % 2
        pixels = np.clip(generator.normal(200 if light else 50, 10, (16, 16, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{row:02d}.png")
        truth.append(f"{'light' if light else 'dark'} {'heavy' if heavy else 'thin'}")
        weights.append(round(generator.normal(10 if heavy else 1, 0.5), 3))
    names = [*(f"{row:02d}.png" for row in range(60)), "00a.png"]
    polars.DataFrame({"file": names, "weight": [*weights, 5.5]}).write_csv(tmp_path / "weights.csv")
    return folder, truth, weights


def test_images_that_come_and_go_keep_their_cells(annotate, pictures, tmp_path, monkeypatch):
    folder, truth, weights = pictures
    encoder = str(brightness(tmp_path))
    monkeypatch.chdir(tmp_path)
    beside = {"table": "weights.csv", "id_column": "file", "columns": ["weight"], "encoder": encoder}
    first = annotate(folder, input_options=beside)
    assert first.get("/api/rows/4")["content"]["cells"] == [["weight", str(weights[4])]]
    first.close()
    (folder / "01.png").unlink()
    Image.new("RGB", (16, 16), "gray").save(folder / "00a.png")
    again = annotate(folder, input_options=beside)
    assert again.get("/api/rows/1")["content"]["kind"] == "missing"
    assert again.get("/api/rows/1")["content"]["cells"] == [["weight", ""]]
    assert again.get("/api/rows/4")["content"]["cells"] == [["weight", str(weights[4])]]
    assert again.get("/api/rows/60")["content"]["cells"] == [["weight", "5.5"]]
    for row in range(2, 26):
        again.act("label", row=row, name=truth[row])
    again.learn()
    guesses = [again.get(f"/api/rows/{row}")["guess"] for row in range(26, 60)]
    right = [one["name"] == name for one, name in zip(guesses, truth[26:], strict=True) if one is not None]
    assert len(right) > 15
    assert np.mean(right) > 0.9

    known = json.loads((again.session.project.folder / "annotate" / "project.json").read_bytes())
    assert known["options"]["table"] == str(tmp_path / "weights.csv")
    monkeypatch.chdir(folder)  # a table is found from anywhere
    export_results(again.session.project.folder, encoder)
    lines = {line["id"]: line["label"] for line in read_predictions(again.session.project.folder / "predictions.csv")}
    assert len(lines) == 60  # without the one that was deleted
    assert np.mean([lines[f"{row:02d}.png"] == truth[row] for row in range(26, 60)]) > 0.9
