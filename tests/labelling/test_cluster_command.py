"""The real command on small data without labels, and the way from named clusters to labels."""

import csv
import json
import os

import numpy as np
import polars
import pytest
from typer.testing import CliRunner

from angpn.cli import app
from label_inputs import TOPICS, read_predictions, write_labels


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def fill_in(folder, labels):
    """Write labels into names.csv, by cluster."""
    lines = read(folder / "names.csv")
    with (folder / "names.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, lines[0].keys())
        writer.writeheader()
        writer.writerows({**line, "label": labels.get(line["cluster"], "")} for line in lines)


TICKETS = ("--text", "body", "--id-column", "ticket")


@pytest.fixture(scope="module")
def clustered(tickets, tmp_path_factory):
    """The tickets, their topics, and a folder with their clusters."""
    path, topics = tickets
    folder = tmp_path_factory.mktemp("clustered") / "out"
    done = run("cluster", path, *TICKETS, "-o", folder)
    assert done.exit_code == 0, done.stderr
    return path, topics, folder, done.stdout


@pytest.fixture
def named(clustered, tmp_path):
    """A copy of these clusters, with the topic of each filled in."""
    path, topics, folder, _ = clustered
    (tmp_path / "clusters").mkdir()
    for name in ("clusters.csv", "names.csv"):
        (tmp_path / "clusters" / name).write_bytes((folder / name).read_bytes())
    fill_in(tmp_path / "clusters", topic_of_clusters(folder, topics))
    return path, topics, tmp_path / "clusters"


def topic_of_clusters(folder, topics):
    return {line["cluster"]: topics[line["id"]] for line in read(folder / "clusters.csv")}


def test_texts_fall_into_their_topics_and_are_named_by_their_words(clustered):
    path, topics, folder, shown = clustered
    assert sorted(os.listdir(folder)) == ["clusters", "clusters.csv", "names.csv", "report.html"]
    lines = read(folder / "clusters.csv")
    assert list(lines[0]) == ["id", "cluster", "name", "typicality", "margin"]
    assert [line["id"] for line in lines] == list(topics)
    by_cluster = topic_of_clusters(folder, topics)
    assert np.mean([topics[line["id"]] == by_cluster[line["cluster"]] for line in lines]) > 0.98
    names = read(folder / "names.csv")
    assert list(names[0]) == ["cluster", "label", "size", "name", "examples"]
    assert [line["cluster"] for line in names] == ["0", "1", "2"]
    assert {line["label"] for line in names} == {""}
    assert sum(int(line["size"]) for line in names) == 150
    bodies = dict(polars.read_csv(path).select("ticket", "body").iter_rows())
    for line in names:
        words = line["name"].split(", ")
        assert len(words) == 3
        assert set(words) <= set(TOPICS[by_cluster[line["cluster"]]].split())
        members = [row for row in lines if row["cluster"] == line["cluster"]]
        most_typical = max(members, key=lambda row: float(row["typicality"]))
        assert line["examples"].startswith(bodies[most_typical["id"]][:60])
        assert f"rows  {line['name']}" in shown
    assert "3 clusters of 150 rows in" in shown
    assert "(near 0 their number is a guess, near 1 it is clear)" in shown
    assert f"angpn label {path} --clusters {folder} --text body --id-column ticket" in shown


def test_a_table_is_named_by_columns_and_the_same_twice(wine, tmp_path):
    path, _ = wine
    for out in ("one", "two"):
        done = run("cluster", path, "--drop", "cultivar", "-k", 3, "-o", tmp_path / out, "--json")
        assert done.exit_code == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["kind"], facts["rows"], facts["eigengap"]) == ("table", 178, None)
    assert [found["cluster"] for found in facts["clusters"]] == [0, 1, 2]
    assert any("proline high" in found["name"] for found in facts["clusters"])
    for found in facts["clusters"]:
        assert len(found["typical"]) == 10
        assert len(found["borderline"]) == 5
        assert not set(found["typical"]) & set(found["borderline"])
    same = [[(tmp_path / out / name).read_bytes() for name in ("clusters.csv", "names.csv")] for out in ("one", "two")]
    assert same[0] == same[1]
    assert facts["files"]["report.html"] == str(tmp_path / "two" / "report.html")


def test_an_array_is_named_by_its_typical_rows_and_quiet_prints_nothing(embeddings, tmp_path):
    path, *_ = embeddings
    done = run("cluster", path, "-k", 5, "-o", tmp_path / "out", "--quiet")
    assert (done.exit_code, done.stdout) == (0, "")
    lines = read(tmp_path / "out" / "clusters.csv")
    for line in read(tmp_path / "out" / "names.csv"):
        members = [row for row in lines if row["cluster"] == line["cluster"]]
        assert len(members) == int(line["size"])
        assert line["name"] == f"like {max(members, key=lambda row: float(row['typicality']))['id']}"
        assert line["examples"].split(" | ")[0] == line["name"].removeprefix("like ")


@pytest.mark.slow
def test_images_are_shown_in_the_report_and_bad_ones_left_out(photos, tmp_path):
    folder, _, truth = photos
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    for name in truth:
        (mixed / name).write_bytes((folder / name).read_bytes())
    (mixed / "bad.png").write_text("no image")
    done = run("cluster", mixed, "-o", tmp_path / "out")
    assert done.exit_code == 1
    assert "bad.png must be an image that can be decoded" in done.stderr
    done = run("cluster", mixed, "--skip-bad", "-o", tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    assert "skipped bad.png: " in done.stdout
    assert "--skip-bad" in done.stdout.splitlines()[-1]
    lines = read(tmp_path / "out" / "clusters.csv")
    assert [line["id"] for line in lines] == sorted(truth)
    assert (tmp_path / "out" / "report.html").read_text().count("data:image/jpeg") == 120


def test_a_dry_run_prints_what_was_read_and_writes_nothing(wine, tmp_path):
    path, _ = wine
    done = run("cluster", path, "--drop", "cultivar", "--dry-run", "-o", tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    assert "178 rows of table" in done.stdout
    assert "categories: colour" in done.stdout
    assert json.loads(run("cluster", path, "--drop", "cultivar", "--dry-run", "--json").stdout)["dry_run"]
    assert not (tmp_path / "out").exists()


def test_a_number_that_is_a_guess_is_called_so(tmp_path):
    np.save(tmp_path / "noise.npy", np.random.default_rng(0).normal(size=(500, 10)))
    done = run("cluster", tmp_path / "noise.npy", "-o", tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    assert "the number of clusters is a guess; choose one by -k" in done.stdout


def test_a_second_run_replaces_clusters_but_not_names_that_were_filled_in(wine, tmp_path):
    path, _ = wine
    command = ("cluster", path, "--drop", "cultivar", "-o", tmp_path / "out", "-q", "-k")
    for k in (2, 3):
        assert run(*command, k).exit_code == 0
        assert len(read(tmp_path / "out" / "names.csv")) == k
    fill_in(tmp_path / "out", {"1": "mine"})
    before = (tmp_path / "out" / "names.csv").read_bytes()
    done = run(*command, 2)
    assert done.exit_code == 1
    assert "names.csv must have no labels to be replaced, got 'mine' filled in; name another folder" in done.stderr
    assert (tmp_path / "out" / "names.csv").read_bytes() == before
    (tmp_path / "out" / "names.csv").unlink()
    (tmp_path / "out" / "names.csv").write_text("who\nAnna\n")
    assert "names.csv must be one of angpn or not there, got another file" in run(*command, 2).stderr
    assert (tmp_path / "out" / "names.csv").read_text() == "who\nAnna\n"


def test_no_cell_of_the_names_is_run_as_a_formula(tmp_path):
    generator = np.random.default_rng(0)
    kind = np.repeat(["a", "b"], 30)
    columns = {"key": [f"=cmd{row}" for row in range(60)], "=x": generator.normal(size=60) + 9 * (kind == "a")}
    polars.DataFrame(columns | {"y": generator.normal(size=60)}).write_csv(tmp_path / "t.csv")
    assert run("cluster", tmp_path / "t.csv", "--id-column", "key", "-k", 2, "-o", tmp_path / "out").exit_code == 0
    names = read(tmp_path / "out" / "names.csv")
    assert {line["name"] for line in names} == {"'=x high", "'=x low"}
    assert all(line["examples"].startswith("'=cmd") for line in names)
    assert read(tmp_path / "out" / "clusters.csv")[0]["id"] == "=cmd0"  # as it came: --clusters looks it up


# Errors are one line, and nothing is written


def error_of(tmp_path, *arguments):
    before = sorted(os.listdir(tmp_path))
    done = run(*arguments, "-o", tmp_path / "out")
    assert done.exit_code == 1
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1
    assert sorted(os.listdir(tmp_path)) == before
    return done.stderr


def table(tmp_path, **columns):
    polars.DataFrame(columns).write_csv(tmp_path / "t.csv")
    return tmp_path / "t.csv"


def test_inputs_that_have_no_clusters(tmp_path):
    x = [float(number**2) for number in range(6)]
    path = table(tmp_path, x=x, y=x[::-1])
    assert "-k must be at most the number of rows, 6, got 7; ask for fewer" in error_of(
        tmp_path, "cluster", path, "-k", 7
    )
    assert run("cluster", path, "-k", "1").exit_code == 2
    path = table(tmp_path, x=[1.0])
    assert "at least 3 rows are needed to find clusters, got 1; pass more" in error_of(tmp_path, "cluster", path)
    path = table(tmp_path, x=[5.0] * 30, y=["a"] * 30)
    assert "rows must differ to be clustered, got 30 that are all alike" in run("cluster", path).stderr
    (tmp_path / "t.txt").write_text("the same words\n" * 9)
    assert "must have a word that distinguishes them" in error_of(tmp_path, "cluster", tmp_path / "t.txt")
    np.save(tmp_path / "eye.npy", np.eye(3))
    assert "must fall into two clusters or more, got one" in error_of(tmp_path, "cluster", tmp_path / "eye.npy")


def test_columns_that_are_missing_or_hold_ids(tmp_path):
    path = table(tmp_path, id=[1, 2, 3, 4], x=[1.0, 2.0, None, 4.0], y=[1.0, 2.0, 3.0, 5.0])
    assert "must have a column 'body', got 'id', 'x', 'y'" in error_of(tmp_path, "cluster", path, "--text", "body")
    assert "must have a column 'key', got 'id', 'x', 'y'" in error_of(tmp_path, "cluster", path, "--id-column", "key")
    assert "pass --id-column id, or --drop id" in error_of(tmp_path, "cluster", path)
    assert "'x' lacks 1 of 4 values, the first in row 2 (--impute fills them" in error_of(
        tmp_path, "cluster", path, "--drop", "id"
    )
    assert "none there; check the name" in error_of(tmp_path, "cluster", tmp_path / "none.csv")


def test_fewer_clusters_than_asked_for_are_a_warning(tmp_path):
    path = table(tmp_path, x=[0.0, 0.0, 0.1, 9.0, 9.0, 9.1], y=[0.0, 0.1, 0.0, 9.0, 9.1, 9.0])
    done = run("cluster", path, "-k", 6, "-o", tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    assert "-k asks for 6 clusters, got 2" in done.stderr


# From named clusters to labels


def test_named_clusters_label_all_rows(named, tmp_path):
    path, topics, folder = named
    done = run("label", path, *TICKETS, "--clusters", folder, "-o", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["classes"] == {"billing": 8, "network": 10, "parcel": 10}  # at most a fifth, and at most ten
    assert facts["at_random"] == 0
    assert facts["estimate"]["sample"] == "not random"
    lines = read_predictions(tmp_path / "out" / "predictions.csv")
    assert np.mean([line["label"] == topics[line["id"]] for line in lines]) > 0.95
    typicality = {line["id"]: float(line["typicality"]) for line in read(folder / "clusters.csv")}
    for topic in ("billing", "network", "parcel"):
        of_topic = [line for line in lines if line["label"] == topic]
        given = [typicality[line["id"]] for line in of_topic if line["source"] == "given"]
        assert sorted(given) == sorted(typicality[line["id"]] for line in of_topic)[-len(given) :]


def test_a_label_of_ones_own_wins_and_two_clusters_may_share_one(named, tmp_path):
    path, _, folder = named
    clusters = read(folder / "clusters.csv")
    best = max((line for line in clusters if line["cluster"] == "0"), key=lambda line: float(line["typicality"]))["id"]
    fill_in(folder, {"0": "message", "1": "message"})
    labels = write_labels(tmp_path / "l.csv", [best, clusters[0]["id"]], ["mine", "mine"])
    options = (*TICKETS, "--clusters", folder, "--dry-run", "--json")
    facts = json.loads(run("label", path, *options, "--labels", labels).stdout)
    assert facts["classes"] == {"message": 19, "mine": 2}
    assert facts["at_random"] == 0
    labels.write_text(f"id,label,source\n{clusters[0]['id']},mine,random\n")
    assert json.loads(run("label", path, *options, "--labels", labels).stdout)["at_random"] == 1
    facts = json.loads(run("label", path, *options, "--label-column", "topic").stdout)
    assert facts["classes"].keys() == {"message", "billing", "network", "parcel"}


def test_names_that_cannot_be_used(named, tmp_path):
    path, _, folder = named

    def error(**content):
        for name, text in content.items():
            (folder / f"{name}.csv").write_text(text)
        return error_of(tmp_path, "label", path, *TICKETS, "--clusters", folder)

    good = (folder / "clusters.csv").read_text()
    assert "names.csv must name clusters of clusters.csv, from 0 to 2, got '7'" in error(names="cluster,label\n7,a\n")
    assert "must name each row once, got '1' twice" in error(names="cluster,label\n1,a\n1,b\n")
    assert "must have a label for some clusters, got none; fill in" in error(names="cluster,label\n0,\n1, \n2,\n")
    assert "at least two classes, got only 'a'" in error(names="cluster,label\n0,a\n1,a\n")
    assert "at least two classes, got only 'a'" in error(names="cluster;label\n0;a\n")  # as a spreadsheet saves it
    assert "must begin with the header cluster,label, got group,label" in error(names="group,label\n0,a\n")
    assert "header cluster,label and a line for each label, got no line" in error(names="")
    names = "cluster,label\n0,a\n1,b\n"
    message = (
        "clusters.csv must name ids of the input, such as 'T0000', got 'x' that it does not have; pass the input and"
    )
    assert message in error(names=names, clusters=f"{good}x,0,name,0.1,0.1\n")
    assert "must have numbers in its column typicality, got 'high'" in error(
        clusters="id,cluster,name,typicality,margin\nT0000,0,name,high,0.1\n"
    )
    assert "got no line; run angpn cluster again" in error(clusters="")
    (folder / "clusters.csv").unlink()
    assert "clusters.csv must be a file of clusters that can be read, got No such file" in error()
    done = run("label", path, *TICKETS, "--clusters", tmp_path / "none", "-o", tmp_path / "out")
    assert "must be a file of clusters that can be read" in done.stderr
