"""Texts or images together with columns of a table: the real commands, and what is said of what does not fit."""

import json

import numpy as np
import polars
import pytest
from typer.testing import CliRunner

from angpn.cli import app
from label_inputs import brightness, goods_table, partial_labels, read_predictions, write_labels


def run(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def one_line_error(done):
    assert done.exit_code == 1, done.output
    (line,) = done.stderr.strip().splitlines()
    return line


@pytest.fixture(scope="module")
def goods(tmp_path_factory):
    """A file of goods, which need their words and their columns to be told apart, and their classes by id."""
    path = tmp_path_factory.mktemp("goods") / "goods.csv"
    frame, truth = goods_table(200)
    frame = frame.with_columns(
        ref=polars.Series([f"G{row}" for row in range(200)]),
        noise=polars.Series(np.random.default_rng(1).normal(size=200)),
        kind=polars.Series([label or None for label in partial_labels(truth, 0.15)]),
    )
    frame.write_csv(path)
    return path, dict(zip(frame["ref"], truth.tolist(), strict=True))


def accuracy(out, truth):
    lines = read_predictions(out / "predictions.csv")
    return np.mean([line["label"] == truth[line["id"]] for line in lines if line["source"] == "predicted"])


def label_goods(goods, out, *options):
    common = "--text", "body", "--label-column", "kind", "--id-column", "ref", "--encoder", "tfidf"
    return run("label", goods[0], *common, "-o", out, *options)


def test_texts_with_columns_are_labelled_by_both(goods, tmp_path):
    assert label_goods(goods, tmp_path / "texts").exit_code == 0
    assert accuracy(tmp_path / "texts", goods[1]) < 0.7  # words alone cannot tell what is expensive
    done = label_goods(goods, tmp_path / "both", "--columns", "price,brand", "--json")
    assert done.exit_code == 0, done.output
    about = json.loads(done.stdout)
    assert about["numbers"] == ["price"]
    assert about["categories"] == ["brand"]
    assert about["read"] == ["features: TF-IDF and columns"]
    assert accuracy(tmp_path / "both", goods[1]) > 0.95
    done = run("predict", tmp_path / "both" / "model", goods[0], "-q")
    assert done.exit_code == 0, done.output
    found = [line.split(",")[:2] for line in done.stdout.splitlines()[1:]]
    assert np.mean([goods[1][name] == label for name, label in found]) > 0.95


def test_a_new_file_must_have_the_columns(goods, tmp_path):
    assert label_goods(goods, tmp_path / "out", "--columns", "price").exit_code == 0
    polars.read_csv(goods[0]).drop("price").write_csv(tmp_path / "new.csv")
    error = one_line_error(run("predict", tmp_path / "out" / "model", tmp_path / "new.csv"))
    assert "new.csv must have a column 'price' beside those of ids, labels and texts, got none there" in error


def test_columns_that_do_not_fit(goods, tmp_path):
    for options, message in (
        (
            ("--columns", "cost"),
            "goods.csv must have a column 'cost' beside those of ids, labels and texts, got none there",
        ),
        (("--columns", "kind"), "must have a column 'kind' beside those of ids, labels and texts"),
        (("--table", goods[0]), "--table is for columns of a folder of images, got"),
        (("--categorical", "brand"), "--categorical is for tables, got text; leave it out"),
    ):
        assert message in one_line_error(label_goods(goods, tmp_path / "out", *options))
    done = run("label", goods[0], "--label-column", "kind", "--columns", "price", "-o", tmp_path / "out")
    assert "--columns is for columns beside --text, got no --text; leave it out" in one_line_error(done)


def test_clusters_of_texts_with_columns(goods, tmp_path):
    options = "--text", "body", "--columns", "price", "--id-column", "ref", "--encoder", "tfidf", "-k", "4"
    done = run("cluster", goods[0], *options, "-o", tmp_path / "clusters")
    assert done.exit_code == 0, done.output
    clusters = read_predictions(tmp_path / "clusters" / "clusters.csv")
    groups = {}
    for line in clusters:
        groups.setdefault(line["cluster"], []).append(goods[1][line["id"]])
    assert np.mean([max(map(group.count, group)) / len(group) for group in groups.values()]) > 0.8


def suggested(*arguments):
    done = run("suggest", *arguments, "-o", "-")
    assert done.exit_code == 0, done.output
    return [line.split(",")[0] for line in done.stdout.splitlines()[1:]]


def test_rows_are_suggested_by_texts_and_columns(goods, tmp_path):
    path, truth = goods
    options = path, "--text", "body", "--id-column", "ref", "--encoder", "tfidf", "--columns", "price,brand"
    assert {truth[name] for name in suggested(*options, "-n", "8")} == set(truth.values())  # without any label
    done = run("suggest", *options, "--label-column", "kind", "-n", "3", "-o", tmp_path / "next.csv", "--json")
    assert done.exit_code == 0, done.output
    about = json.loads(done.stdout)
    assert (about["numbers"], about["categories"]) == (["price"], ["brand"])
    assert about["read"] == ["features: TF-IDF and columns"]
    assert all(row["suggestion"] == truth[row["id"]] for row in about["suggested"])
    error = one_line_error(run("suggest", *options[:-1], "cost", "-o", "-"))
    assert "goods.csv must have a column 'cost' beside those of ids, labels and texts, got none there" in error


def test_a_dry_run_says_how_columns_beside_texts_were_read(goods, tmp_path):
    dry = "--columns", "price,brand", "--dry-run"
    done = label_goods(goods, tmp_path / "out", *dry)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-2:] == ["numbers: price", "categories: brand"]
    frame = polars.read_csv(goods[0]).with_columns(price=polars.format("{} EUR", "price"))
    frame = frame.with_columns(price=polars.when(polars.col("ref") == "G5").then(None).otherwise("price"))
    frame.write_csv(tmp_path / "goods.csv")
    messy = tmp_path / "goods.csv", None
    error = one_line_error(label_goods(messy, tmp_path / "out", *dry))
    assert "'price' lacks 1 of 200 values, the first in row 5" in error
    facts = json.loads(label_goods(messy, tmp_path / "out", *dry, "--impute", "--json").stdout)
    assert facts["numbers"] == ["price"]
    assert facts["read"][-1].startswith("price: '")
    assert facts["imputed"][0]["column"] == "price"
    assert facts["empty"] is None  # texts were not looked at
    assert not (tmp_path / "out").exists()


@pytest.fixture
def pictures(tmp_path):
    """Grey images, dark or light, and a column that tells each of these in two."""
    from PIL import Image

    generator = np.random.default_rng(0)
    folder = tmp_path / "pictures"
    folder.mkdir()
    names, truth, weights = [], {}, []
    for row in range(80):
        name, light, heavy = f"{row:02d}.png", bool(generator.random() < 0.5), bool(generator.random() < 0.5)
        pixels = np.clip(generator.normal(200 if light else 50, 10, (16, 16, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / name)
        names.append(name)
        truth[name] = f"{'light' if light else 'dark'} {'heavy' if heavy else 'thin'}"
        weights.append(generator.normal(10 if heavy else 1, 0.5))
    table = tmp_path / "weights.csv"
    polars.DataFrame({"file": [*names, "other.png"], "weight": [*weights, 5.0], "spare": 1.0}).write_csv(table)
    labels = write_labels(
        tmp_path / "labels.csv", names, partial_labels(np.array([truth[name] for name in names]), 0.3)
    )
    return folder, table, labels, truth


def test_images_with_a_table_of_columns(pictures, tmp_path):
    folder, table, labels, truth = pictures
    encoder = "--encoder", brightness(tmp_path)
    beside = "--table", table, "--id-column", "file", "--columns", "weight"
    (folder / "07.png").write_bytes(b"no image")
    out = tmp_path / "out"
    done = run("label", folder, "--labels", labels, "-o", out, *encoder, *beside, "--skip-bad", "--json")
    assert done.exit_code == 0, done.output
    about = json.loads(done.stdout)
    assert about["numbers"] == ["weight"]
    assert about["rows"] == 79
    assert list(about["skipped"]) == ["07.png"]
    assert about["read"][0] == "1 rows of weights.csv without an image"
    assert accuracy(out, truth) > 0.9
    new = "--table", table, *encoder, "--skip-bad", "-q"
    done = run("predict", out / "model", folder, *new)
    assert done.exit_code == 0, done.output
    found = [line.split(",")[:2] for line in done.stdout.splitlines()[1:]]
    assert len(found) == 79
    assert np.mean([truth[name] == label for name, label in found]) > 0.9
    error = one_line_error(run("predict", out / "model", folder, *encoder))
    assert error == (
        "error: --table FILE must have the columns of the images, as the model was fitted on them, got none; pass it"
    )


def test_images_with_a_table_are_suggested_by_both(pictures, tmp_path):
    folder, table, labels, truth = pictures
    (folder / "07.png").write_bytes(b"no image")
    beside = "--table", table, "--id-column", "file", "--columns", "weight", "--encoder", brightness(tmp_path)
    first = suggested(folder, *beside, "--skip-bad", "-n", "8")
    assert {truth[name] for name in first} == set(truth.values())
    first = suggested(folder, *beside, "--skip-bad", "-n", "8", "--per-cluster")
    assert len({truth[name] for name in first}) > 1
    done = run("suggest", folder, *beside, "--skip-bad", "--labels", labels, "-o", tmp_path / "next.csv", "--json")
    assert done.exit_code == 0, done.output
    about = json.loads(done.stdout)
    assert list(about["skipped"]) == ["07.png"]
    assert about["rows"] == 79
    assert np.mean([row["suggestion"] == truth[row["id"]] for row in about["suggested"]]) > 0.8


def test_a_dry_run_says_how_the_table_of_images_was_read_and_reads_no_image(pictures, tmp_path):
    folder, table, labels, _ = pictures
    (folder / "07.png").write_bytes(b"no image")
    beside = "--table", table, "--id-column", "file", "--columns", "weight"
    done = run("label", folder, "--labels", labels, "-o", tmp_path / "out", *beside, "--dry-run")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-2:] == ["numbers: weight", "read as: 1 rows of weights.csv without an image"]


def test_tables_that_do_not_fit_images(pictures, tmp_path):
    folder, table, labels, _ = pictures
    frame = polars.read_csv(table)
    frame[:40].write_csv(tmp_path / "short.csv")
    polars.concat([frame, frame[:1]]).write_csv(tmp_path / "twice.csv")
    (tmp_path / "table.doc").write_text("")
    by_file = "--id-column", "file"
    for options, message in (
        (
            ("--table", table),
            "weights.csv must have a column 'id' with the ids of the images, got none; pass --id-column",
        ),
        (
            ("--table", tmp_path / "short.csv", *by_file),
            "must have a row for each image, got none for '40.png' and 39 more;",
        ),
        (("--table", tmp_path / "twice.csv", *by_file), "must name each image once, got '00.png' twice"),
        (("--table", tmp_path / "table.doc"), "--table must be a table named"),
        (("--table", table, *by_file, "--drop", "weight,spare"), "must have a column of features, got none beside"),
        (
            ("--table", table, *by_file, "--text", "weight"),
            "--text must name a column of the input, got a folder of images",
        ),
        (("--columns", "weight"), "--columns names a column of a table, got"),
    ):
        error = one_line_error(run("label", folder, "--labels", labels, "-o", tmp_path / "out", *options))
        assert message in error


def test_a_table_for_a_model_of_images_alone(pictures, tmp_path):
    folder, table, labels, _ = pictures
    encoder = "--encoder", brightness(tmp_path)
    assert run("label", folder, "--labels", labels, "-o", tmp_path / "out", *encoder).exit_code == 0
    error = one_line_error(run("predict", tmp_path / "out" / "model", folder, "--table", table, *encoder))
    assert error == "error: --table is for a model that was fitted with it, got one of images alone; leave it out"
