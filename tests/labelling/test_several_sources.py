"""Texts or images together with columns of a table: the real commands, and what is said of what does not fit."""

import json

import numpy as np
import polars
import pytest
from typer.testing import CliRunner

from angpn.cli import app
from label_inputs import partial_labels, read_predictions, write_labels

WORDS = {"fruit": "apple pear plum ripe sweet juice", "tool": "hammer saw drill steel blade handle"}


def run(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def one_line_error(done):
    assert done.exit_code == 1, done.output
    (line,) = done.stderr.strip().splitlines()
    return line


@pytest.fixture(scope="module")
def goods(tmp_path_factory):
    """Four classes: words tell fruit from tools, and the price cheap ones from dear ones."""
    path = tmp_path_factory.mktemp("goods") / "goods.csv"
    generator = np.random.default_rng(0)
    n = 200
    kind, dear = generator.choice(list(WORDS), n), generator.random(n) < 0.5
    bodies = [" ".join(generator.choice(WORDS[one].split(), 5)) for one in kind]
    price = np.where(dear, 90, 10) + generator.normal(size=n)
    truth = np.array([f"{one} {'dear' if much else 'cheap'}" for one, much in zip(kind, dear, strict=True)])
    frame = polars.DataFrame(
        {
            "ref": [f"G{row}" for row in range(n)],
            "body": bodies,
            "price": price.round(2),
            "brand": np.where(dear, "gold", "plain"),
            "noise": generator.normal(size=n),
            "kind": [label or None for label in partial_labels(truth, 0.15)],
        }
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
    assert accuracy(tmp_path / "texts", goods[1]) < 0.7  # words alone cannot tell what is dear
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


def brightness(folder):
    """Write a network whose features are the colours of an image, as TorchScript."""
    import warnings

    import torch
    from torch import nn

    path = folder / "colours.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(nn.AvgPool2d(8)).save(str(path))
    return path


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
