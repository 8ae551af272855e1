"""The real command on small data: images on disk, a CSV of texts, a table, an array."""

import json
import os
import re
import resource
import subprocess
import sys

import numpy as np
import polars
import pytest
from typer.testing import CliRunner

import angpn
from angpn import ANGPNClassifier
from angpn.cli import app
from angpn.cli.label import MAX_PIXELS
from angpn.features import image_file
from label_inputs import read_predictions, write_labels


def run_angpn(*arguments, **options):
    command = [sys.executable, "-m", "angpn", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)


def accuracy(lines, truth, source="predicted"):
    return np.mean([line["label"] == truth[line["id"]] for line in lines if line["source"] == source])


@pytest.mark.slow
def test_a_folder_of_images_from_pixels_to_report_and_new_images(photos, tmp_path):
    folder, labels, truth = photos
    done = run_angpn("label", folder, "--labels", labels, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "96 rows labelled from 24 labels" in done.stdout
    assert "estimated by cross-validation on 24 labels" in done.stdout
    assert re.search(r"in \d+\.\d s, \d rounds? of self-training$", done.stdout, re.MULTILINE)
    lines = read_predictions(tmp_path / "out" / "predictions.csv")
    assert list(lines[0]) == ["id", "label", "confidence", "second", "source"]
    assert [line["id"] for line in lines] == sorted(truth)
    assert accuracy(lines, truth) > 0.9
    assert accuracy(lines, truth, "given") == 1
    assert all(0 <= float(line["confidence"]) <= 1 and line["second"] != line["label"] for line in lines)
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("data:image/jpeg") == 120
    assert sorted(os.listdir(tmp_path)) == ["out"]

    done = run_angpn("predict", tmp_path / "out" / "model", folder, "-o", tmp_path / "new.csv")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    again = read_predictions(tmp_path / "new.csv")
    assert [line["label"] for line in again if line["id"] == "001.png"] == [lines[1]["label"]]
    assert accuracy(again, truth) > 0.9


@pytest.mark.slow
def test_a_large_report_keeps_a_limited_number_of_thumbnails(photos, tmp_path, monkeypatch):
    from angpn.inspection import thumbnails

    folder, labels, _ = photos
    monkeypatch.setattr(thumbnails, "_MAX_THUMBNAILS", 50)
    done = CliRunner().invoke(app, ["label", str(folder), "--labels", str(labels), "-o", str(tmp_path / "out"), "-q"])
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "out" / "report.html").read_text().count("data:image/jpeg") == 50


@pytest.mark.slow
def test_texts_of_a_csv_with_ids_and_held_out_labels(tickets, tmp_path):
    path, truth = tickets
    options = ["--text", "body", "--label-column", "topic", "--id-column", "ticket"]
    done = run_angpn("label", path, *options, "--holdout", 0.3, "--json", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["kind"] == "text"
    assert facts["given"] + facts["predicted"] == facts["rows"] == 150
    assert facts["estimate"]["kind"] == "held out"
    assert facts["rounds"] >= 1
    assert "epochs" not in facts
    assert facts["estimate"]["low"] <= facts["estimate"]["accuracy"] <= facts["estimate"]["high"]
    lines = read_predictions(tmp_path / "out" / "predictions.csv")
    assert accuracy(lines, truth) > 0.9
    # In a pipe: rows in, rows out, nothing else on standard output.
    piped = run_angpn("predict", tmp_path / "out" / "model", "-", input=path.read_text())
    assert piped.returncode == 0, piped.stderr
    assert piped.stdout.splitlines()[0] == "id,label,confidence,second,source"
    assert len(piped.stdout.splitlines()) == 151


@pytest.mark.slow
def test_an_array_gives_the_same_twice_and_what_the_estimator_gives(embeddings, tmp_path):
    path, labels, truth = embeddings
    for out in ("one", "two"):
        done = CliRunner().invoke(
            app, ["label", str(path), "--labels", str(labels), "-o", str(tmp_path / out), "--quiet"]
        )
        assert (done.exit_code, done.stdout) == (0, "")
    first, second = (tmp_path / out / "predictions.csv" for out in ("one", "two"))
    assert first.read_bytes() == second.read_bytes()
    lines = read_predictions(tmp_path / "one" / "predictions.csv")
    given = {line["id"]: line["label"] for line in lines if line["source"] == "given"}
    y = np.array([given.get(str(row)) for row in range(len(truth))], dtype=object)
    model = ANGPNClassifier(random_state=0).fit(np.load(path), y)
    assert [line["label"] for line in lines if line["source"] == "predicted"] == list(
        model.transduction_[[row for row in range(len(truth)) if y[row] is None]]
    )
    assert accuracy(lines, {str(row): label for row, label in enumerate(truth)}) > 0.9
    loaded = ANGPNClassifier.load(tmp_path / "one" / "model" / "classifier.angpn")
    for folder in (tmp_path / "one", tmp_path / "one" / "model"):
        with pytest.raises(
            IsADirectoryError, match=r"an angpn model file, got a folder; pass .*/model/classifier\.angpn$"
        ):
            ANGPNClassifier.load(folder)
    assert list(loaded.classes_) == list("01234")


def test_a_table_with_a_category_and_options_from_a_file(wine, tmp_path):
    path, truth = wine
    config = tmp_path / "label.toml"
    config.write_text(f'label-column = "cultivar"\ndrop = ["ash", "hue"]\noutput = "{tmp_path / "out"}"\nseed = 3\n')
    done = CliRunner().invoke(app, ["label", str(path), "--config", str(config), "--json"])
    assert done.exit_code == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["kind"] == "table"
    lines = read_predictions(tmp_path / "out" / "predictions.csv")
    assert accuracy(lines, {str(row): label for row, label in enumerate(truth)}) > 0.85
    model = ANGPNClassifier.load(tmp_path / "out" / "model" / "classifier.angpn")
    assert model.n_features_in_ == 11 + 2
    # The command line overrides the file.
    done = CliRunner().invoke(app, ["label", str(path), "--config", str(config), "--dry-run", "--drop", ""])
    assert done.exit_code == 0
    config.write_text("json = true\ndry_run = true\nlabel_column = 'cultivar'\n")
    facts = json.loads(CliRunner().invoke(app, ["label", str(path), "--config", str(config)]).stdout)
    assert facts["categories"] == ["colour"]
    assert "hue" in facts["numbers"]
    config.write_text("drop = " + "[" * 5000 + "]" * 5000)
    done = CliRunner().invoke(app, ["label", str(path), "--config", str(config)], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert "must be a TOML file that can be read, got: maximum recursion depth exceeded" in done.stderr
    config.write_text("colour = 3\n")
    wide = {"COLUMNS": "1000"}  # or the message would be wrapped, depending on the length of the path
    done = CliRunner().invoke(app, ["label", str(path), "--config", str(config)], env=wide)
    assert done.exit_code == 2
    assert "must name options of this command, got 'colour'" in done.stderr


def test_a_dry_run_prints_what_was_read_and_writes_nothing(tickets, tmp_path):
    path, _ = tickets
    options = ["--text", "body", "--label-column", "topic", "-o", str(tmp_path / "out"), "--dry-run"]
    done = CliRunner().invoke(app, ["label", str(path), *options])
    assert done.exit_code == 0
    assert "150 rows of text, 18 of them labelled" in done.stdout
    assert "  billing: 5" in done.stdout
    assert not (tmp_path / "out").exists()
    facts = json.loads(CliRunner().invoke(app, ["label", str(path), *options, "--json"]).stdout)
    assert facts["classes"] == {"billing": 5, "network": 6, "parcel": 7}


def test_a_second_run_replaces_the_first(wine, tmp_path):
    path, _ = wine
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("kept")
    for seed in ("0", "1"):
        command = ["label", str(path), "--label-column", "cultivar", "-o", str(tmp_path / "out"), "--seed", seed]
        assert CliRunner().invoke(app, command).exit_code == 0
    found = sorted(os.listdir(tmp_path / "out"))
    assert found == ["mine.txt", "model", "next.csv", "predictions.csv", "report.html"]
    assert os.listdir(tmp_path) == ["out"]


# Errors are one line, and nothing is written


def error_of(tmp_path, *arguments, code=1):
    before = sorted(os.listdir(tmp_path))
    done = CliRunner().invoke(app, ["label", *map(str, arguments), "-o", str(tmp_path / "out")])
    assert done.exit_code == code
    assert "Traceback" not in done.stderr
    assert sorted(os.listdir(tmp_path)) == before
    if code == 1:
        assert done.stderr.startswith("error: ")
        assert len(done.stderr.splitlines()) == 1
    return done.stderr


def table(tmp_path, **columns):
    polars.DataFrame(columns).write_csv(tmp_path / "t.csv")
    return tmp_path / "t.csv"


def test_missing_files(tmp_path, embeddings):
    path, labels, _ = embeddings
    assert "none there; check the name" in error_of(tmp_path, tmp_path / "none.npy", "--labels", labels)
    assert "No such file" in error_of(tmp_path, path, "--labels", tmp_path / "none.csv")
    assert "--labels FILE or --label-column NAME, got none" in error_of(tmp_path, path)
    both = error_of(tmp_path, path, "--labels", labels, "--label-column", "y")
    assert "got both; pass one of them, and write the labels of the file into the column 'y' to use all" in both
    done = CliRunner().invoke(app, ["predict", str(tmp_path / "none"), str(path)])
    assert done.exit_code == 1
    assert "must be the folder of a model that angpn label wrote" in done.stderr


def test_ids_that_do_not_match_or_occur_twice(tmp_path, embeddings):
    path, *_ = embeddings
    labels = write_labels(tmp_path / "l.csv", ["0", "5000"], ["a", "b"])
    assert "such as '0', got '5000' that it does not have" in error_of(tmp_path, path, "--labels", labels)
    write_labels(labels, ["0", "0"], ["a", "b"])
    assert "must name each row once, got '0' twice" in error_of(tmp_path, path, "--labels", labels)


def test_tables_that_cannot_be_used(tmp_path):
    (tmp_path / "t.csv").write_text("")
    assert "got an empty file" in error_of(tmp_path, tmp_path / "t.csv", "--label-column", "y")
    mixed = table(tmp_path, x=["1", "2", "3", "many"], y=["a", "b", None, None])
    assert "'x' holds numbers and text, such as 'many' (correct it" in error_of(tmp_path, mixed, "--label-column", "y")
    holes = table(tmp_path, x=[1.0, None, 3.0, 4.0], z=[1, 2, 3, 4], y=["a", "b", None, None])
    assert "'x' lacks 1 of 4 values, the first in row 1 (--impute fills them, --drop x" in error_of(
        tmp_path, holes, "--label-column", "y"
    )


def test_labels_that_cannot_be_trained_on(tmp_path):
    x = [float(number) for number in range(6)]
    one = table(tmp_path, x=x, y=["a", "a", None, None, None, None])
    assert "at least two classes, got only 'a'" in error_of(tmp_path, one, "--label-column", "y")
    whole = table(tmp_path, x=x, y=list("ababab"))
    assert "got a label for all 6; there is nothing to label" in error_of(tmp_path, whole, "--label-column", "y")
    none = table(tmp_path, x=x, y=["", None, None, None, None, None])
    error = error_of(tmp_path, none, "--label-column", "y")
    assert "rows must be labelled, got none; label at least one row of each class: fill in the column 'y'" in error
    unfilled = tmp_path / "next.csv"
    unfilled.write_text("id,label,suggestion,reason\n0,,a,stands for about 3 rows\n")
    assert "fill in the column label of the file of --labels" in error_of(tmp_path, none, "--labels", unfilled)
    few = table(tmp_path, x=x, y=["a", "b", None, None, None, None])
    error = error_of(tmp_path, few, "--label-column", "y", "--holdout", "0.5")
    assert "two labels of each class to train on" in error
    assert "--holdout must lie between 0 and 1" in error_of(tmp_path, few, "--label-column", "y", "--holdout", "2")


def test_max_pixels_bounds_the_images(tmp_path):
    images = pytest.importorskip("PIL.Image", reason="reading images needs pip install angpn[images]")
    assert MAX_PIXELS == image_file.MAX_PIXELS
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(12):
        images.new("RGB", (10, 10), (20 * number, 255 * (number % 2), 0)).save(folder / f"{number}.png")
    labels = write_labels(tmp_path / "l.csv", ["0.png", "1.png"], ["a", "b"])
    message = "must have at most 99 pixels, got 10 x 10; shrink it, or raise max_pixels, or pass --skip-bad"
    assert message in error_of(tmp_path, folder, "--labels", labels, "--max-pixels", "99")


@pytest.mark.slow
def test_an_unreadable_image_among_many(photos, tmp_path):
    folder, labels, truth = photos
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    for name in truth:
        (mixed / name).write_bytes((folder / name).read_bytes())
    (mixed / "bad.png").write_text("no image")
    assert "bad.png must be an image that can be decoded" in error_of(tmp_path, mixed, "--labels", labels)
    done = CliRunner().invoke(
        app, ["label", str(mixed), "--labels", str(labels), "--skip-bad", "-o", str(tmp_path / "out")]
    )
    assert done.exit_code == 0, done.stderr
    assert "skipped bad.png: " in done.stdout
    lines = read_predictions(tmp_path / "out" / "predictions.csv")
    assert [line["id"] for line in lines] == sorted(truth)
    done = CliRunner().invoke(app, ["predict", str(tmp_path / "out" / "model"), str(folder), "--max-pixels", "9"])
    assert done.exit_code == 1
    assert "must have at most 9 pixels, got more than twice as many" in done.stderr


def test_labels_that_mark_missing_and_ids_that_may_be_shifted(tmp_path):
    x = [float(number) for number in range(6)]
    minus = table(tmp_path, x=x, y=["1", "2", "-1", "-1", None, None])
    assert "got '-1', which often means none; leave the cell empty" in error_of(tmp_path, minus, "--label-column", "y")
    with_ids = table(tmp_path, id=[1, 2, 3, 4, 5, 6], x=x)
    labels = write_labels(tmp_path / "l.csv", ["1", "2"], ["a", "b"])
    assert "pass --id-column id, or --drop id" in error_of(tmp_path, with_ids, "--labels", labels)
    assert (
        "--output must be a folder, got -"
        in CliRunner()
        .invoke(app, ["label", str(with_ids), "--labels", str(labels), "--id-column", "id", "-o", "-"])
        .stderr
    )


def test_other_files_under_the_names_of_outputs_are_kept(wine, tmp_path):
    path, _ = wine
    (tmp_path / "out" / "model").mkdir(parents=True)
    (tmp_path / "out" / "model" / "weights.bin").write_text("precious")
    error = error_of(tmp_path, path, "--label-column", "cultivar")
    assert "must be a model of angpn or not there, got something else" in error
    assert (tmp_path / "out" / "model" / "weights.bin").read_text() == "precious"
    (tmp_path / "out" / "model" / "weights.bin").unlink()
    (tmp_path / "out" / "report.html").mkdir()
    assert "must be a file or not there, got a folder" in error_of(tmp_path, path, "--label-column", "cultivar")


def test_identical_rows_are_labelled_without_a_crash(tmp_path):
    same = table(tmp_path, x=[5.0] * 30, y=["a", "b", *[None] * 28])
    done = run_angpn("label", same, "--label-column", "y", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert len(read_predictions(tmp_path / "out" / "predictions.csv")) == 30


def test_an_interrupt_writes_nothing(wine, tmp_path, monkeypatch):
    path, _ = wine
    from angpn.ensemble.self_training import SelfTraining

    def interrupt(self):  # after the first round, which alone could be kept
        raise KeyboardInterrupt

    monkeypatch.setattr(SelfTraining, "reselect", interrupt)
    done = CliRunner().invoke(app, ["label", str(path), "--label-column", "cultivar", "-o", str(tmp_path / "out")])
    assert done.exit_code == 130
    assert "stopped; nothing was written" in done.stderr
    assert not (tmp_path / "out").exists()


def test_categories_are_read_alike_in_fit_and_predict(tmp_path):
    generator = np.random.default_rng(0)
    zips = generator.choice(["007", "100"], 60)
    kind = np.where(zips == "007", "agent", "other")
    columns = {"zip": zips, "x": generator.normal(size=60), "kind": [k if n < 20 else None for n, k in enumerate(kind)]}
    path = table(tmp_path, **columns)
    command = ["label", str(path), "--label-column", "kind", "--categorical", "zip", "-o", str(tmp_path / "out"), "-q"]
    assert CliRunner().invoke(app, command).exit_code == 0
    new = table(tmp_path, zip=["007", "100", "A1"], x=[0.0, 0.0, 0.0])
    done = CliRunner().invoke(app, ["predict", str(tmp_path / "out" / "model"), str(new)])
    assert [line.split(",")[1] for line in done.stdout.splitlines()[1:3]] == ["agent", "other"]
    assert "column 'zip' has 1 categories that the fit did not have" in done.stderr


def test_a_column_of_vectors_is_predicted_with_or_without_the_label_column(tmp_path):
    generator = np.random.default_rng(0)
    vectors = np.concatenate([generator.normal(size=(30, 4)) + 5, generator.normal(size=(30, 4)) - 5])
    labels = [("a" if row < 30 else "b") if row % 3 == 0 else None for row in range(60)]
    frame = polars.DataFrame({"vector": vectors.tolist(), "y": labels})
    frame.write_parquet(tmp_path / "v.parquet")
    command = ["label", str(tmp_path / "v.parquet"), "--label-column", "y", "-o", str(tmp_path / "out"), "-q"]
    assert CliRunner().invoke(app, command).exit_code == 0
    frame.drop("y").write_parquet(tmp_path / "w.parquet")
    shown = [
        CliRunner().invoke(app, ["predict", str(tmp_path / "out" / "model"), str(tmp_path / name)]).stdout
        for name in ("v.parquet", "w.parquet")
    ]
    assert shown[0] == shown[1]
    assert [line.split(",")[1] for line in shown[0].splitlines()[1:]] == ["a"] * 30 + ["b"] * 30


@pytest.mark.slow
def test_a_closed_pipe_ends_the_command_without_an_error(wine, tmp_path):
    path, _ = wine
    command = ["label", str(path), "--label-column", "cultivar", "-o", str(tmp_path / "out"), "-q"]
    assert CliRunner().invoke(app, command).exit_code == 0
    run = f"{sys.executable} -m angpn predict {tmp_path / 'out' / 'model'} {path} | head -c 1"
    done = subprocess.run(run, shell=True, capture_output=True, text=True, timeout=100)
    assert (done.stdout, done.stderr) == ("i", "")


def test_an_output_that_is_a_file(wine, tmp_path):
    path, _ = wine
    (tmp_path / "out").write_text("mine")
    assert "got a file; name another with --output" in error_of(tmp_path, path, "--label-column", "cultivar")
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.parametrize("limit", [100, 30_000], ids=["at the first file", "at a later one"])
@pytest.mark.slow
def test_a_full_disk_leaves_the_old_files(wine, tmp_path, limit):
    path, _ = wine
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "predictions.csv").write_text("of last week")
    done = run_angpn(
        *("label", path, "--label-column", "cultivar", "-o", tmp_path / "out", "--quiet"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert (tmp_path / "out" / "predictions.csv").read_text() == "of last week"
    assert os.listdir(tmp_path) == ["out"]
    assert os.listdir(tmp_path / "out") == ["predictions.csv"]


def test_a_model_refuses_rows_of_another_kind(wine, embeddings, tmp_path):
    path, _ = wine
    array, *_ = embeddings
    command = ["label", str(path), "--label-column", "cultivar", "-o", str(tmp_path / "out"), "-q"]
    assert CliRunner().invoke(app, command).exit_code == 0
    done = CliRunner().invoke(app, ["predict", str(tmp_path / "out" / "model"), str(array)])
    assert done.exit_code == 1
    assert "must hold table as the model was fitted on, got array" in done.stderr
    done = CliRunner().invoke(app, ["predict", str(tmp_path / "out"), str(path)])
    assert f"got the one around it; pass {tmp_path / 'out' / 'model'}" in done.stderr


# Choice of the classifier


def test_options_are_passed_to_the_classifier(monkeypatch):
    from angpn.labelling import LabellingOptions, job

    monkeypatch.setattr(job, "ANGPNClassifier", dict)
    parameters = job.make_classifier(LabellingOptions(input="x", seed=3))
    assert (parameters["random_state"], parameters["verbose"], parameters.get("distributed")) == (3, False, None)
    parameters = job.make_classifier(LabellingOptions(input="x", distributed=False), progress=True)
    assert parameters == {"random_state": 0, "verbose": True, "distributed": False, "scaling": "auto"}


def test_a_network_is_trained_in_epochs_and_its_model_predicts(wine, tmp_path):
    path, truth = wine
    command = ["label", str(path), "--label-column", "cultivar", "--model", "network", "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["epochs"] > 1
    assert "rounds" not in facts
    assert facts["estimate"]["kind"] == "validation"
    lines = read_predictions(tmp_path / "out" / "predictions.csv")
    assert accuracy(lines, {str(row): label for row, label in enumerate(truth)}) > 0.85
    page = (tmp_path / "out" / "report.html").read_text()
    assert '["model","ANGPNNetworkClassifier"]' in page
    assert f'["epochs","{facts["epochs"]}"]' in page
    assert '"choice":null' in page  # a learning curve instead
    assert '"curve":{' in page
    model = ANGPNClassifier.load(tmp_path / "out" / "model" / "classifier.angpn")
    assert isinstance(model, angpn.ANGPNNetworkClassifier)
    done = CliRunner().invoke(app, ["predict", str(tmp_path / "out" / "model"), str(path)])
    assert done.exit_code == 0, done.stderr
    assert len(done.stdout.splitlines()) == 1 + len(truth)


def test_an_unknown_model_is_an_error(wine, tmp_path):
    path, _ = wine
    stderr = error_of(tmp_path, path, "--label-column", "cultivar", "--model", "forest", code=2)
    assert "--model" in stderr
