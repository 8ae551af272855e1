"""``--encoder`` in the real commands: fit, predict, and what is said where something is missing or not the same."""

import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from angpn.cli import app
from angpn.labelling import encoder_choice, joint_encoder
from embedding_models import save_sentence_transformer, save_torchscript
from label_inputs import TOPICS, read_predictions

WORDS = sorted({word for words in TOPICS.values() for word in words.split()})


def run(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def label_tickets(tickets, out, *options):
    return run(
        "label", tickets[0], "--text", "body", "--label-column", "topic", "--id-column", "ticket", "-o", out, *options
    )


def predict_tickets(tickets, out, *options):
    return run("predict", out / "model", tickets[0], *options)


def accuracy(out, truth):
    lines = read_predictions(out / "predictions.csv")
    return np.mean([line["label"] == truth[line["id"]] for line in lines if line["source"] == "predicted"])


def one_line_error(done):
    assert done.exit_code == 1, done.output
    (line,) = done.stderr.strip().splitlines()
    return line


def test_without_the_packaged_embedding_the_default_is_tfidf(tickets, tmp_path, monkeypatch):
    monkeypatch.setattr(encoder_choice, "is_packaged_installed", lambda: False)
    for name, options in (("auto", ()), ("tfidf", ("--encoder", "tfidf"))):
        done = label_tickets(tickets, tmp_path / name, *options)
        assert done.exit_code == 0, done.output
        assert "features:" not in done.stdout
    auto, tfidf = ((tmp_path / name / "predictions.csv").read_text() for name in ("auto", "tfidf"))
    assert auto == tfidf


def test_with_the_packaged_embedding_labels_choose_and_the_model_predicts(tickets, tmp_path):
    pytest.importorskip("wordllama", reason="comes with angpn[text]")
    done = label_tickets(tickets, tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    (note,) = json.loads(done.stdout)["read"]
    assert note.startswith("features: ")
    assert "TF-IDF" in note
    assert accuracy(tmp_path / "out", tickets[1]) > 0.9
    done = predict_tickets(tickets, tmp_path / "out", "-q")
    assert done.exit_code == 0, done.output
    given = {line["id"]: line["label"] for line in read_predictions(tmp_path / "out" / "predictions.csv")}
    lines = [line.split(",")[:2] for line in done.stdout.splitlines()[1:]]
    assert np.mean([given[name] == label for name, label in lines]) > 0.95


def test_a_model_of_sentence_transformers_is_named_again_for_new_rows(tickets, tmp_path, monkeypatch):
    save_sentence_transformer(tmp_path / "model", WORDS)
    name = f"sentence-transformers:{tmp_path / 'model'}"
    done = label_tickets(tickets, tmp_path / "out", "--encoder", name)
    assert done.exit_code == 0, done.output
    assert accuracy(tmp_path / "out", tickets[1]) > 0.7
    error = one_line_error(predict_tickets(tickets, tmp_path / "out"))
    assert error.endswith(f"a file may not choose what code is loaded; if you trust it, pass --encoder {name}")
    done = predict_tickets(tickets, tmp_path / "out", "--encoder", name)
    assert done.exit_code == 0, done.output
    assert len(done.stdout.splitlines()) == 151
    error = one_line_error(predict_tickets(tickets, tmp_path / "out", "--encoder", "mine:encode"))
    assert (
        error
        == f"error: --encoder must be that of the model, {name}, got mine:encode; pass that one, or fit the model anew"
    )
    save_sentence_transformer(tmp_path / "model", WORDS, seed=1)
    error = one_line_error(predict_tickets(tickets, tmp_path / "out", "--encoder", name))
    assert "must be those that the model was fitted with, SHA-256" in error
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    error = one_line_error(predict_tickets(tickets, tmp_path / "out", "--encoder", name))
    assert error.endswith("which is not installed; pip install sentence-transformers")


def test_labels_choose_among_encoders_with_commas_between_them(tickets, tmp_path):
    save_sentence_transformer(tmp_path / "model", WORDS)
    name = f"tfidf,sentence-transformers:{tmp_path / 'model'}"
    done = label_tickets(tickets, tmp_path / "out", "--encoder", name, "--holdout", "0.3")
    assert done.exit_code == 0, done.output
    assert "read as: features: " in done.stdout
    done = predict_tickets(tickets, tmp_path / "out", "--encoder", name)
    assert done.exit_code == 0, done.output


FUNCTION = """
import numpy as np

WORDS = %r

def encode(texts):
    return np.array([[word in text for word in WORDS] for text in texts], dtype=float)

def fails(texts):
    return [[float("nan")] for text in texts]
"""


def test_a_function_of_the_user(tickets, tmp_path, monkeypatch):
    (tmp_path / "functions_of_tickets.py").write_text(FUNCTION % WORDS)
    monkeypatch.chdir(tmp_path)
    done = label_tickets(tickets, tmp_path / "out", "--encoder", "functions_of_tickets:encode")
    assert done.exit_code == 0, done.output
    assert accuracy(tmp_path / "out", tickets[1]) > 0.9
    assert "pass --encoder functions_of_tickets:encode" in one_line_error(predict_tickets(tickets, tmp_path / "out"))
    done = predict_tickets(tickets, tmp_path / "out", "--encoder", "functions_of_tickets:encode")
    assert done.exit_code == 0, done.output
    for name, message in (
        ("functions_of_tickets:fails", "what the encoder returned must be finite, got"),
        ("functions_of_tickets:absent", "must name a function of functions_of_tickets, got NoneType"),
        ("functions_of_nobody:encode", "must name a module in the current folder or an installed one"),
        (
            "bert",
            "an encoder of texts must be 'wordllama', 'sentence-transformers:NAME_OR_FOLDER' or 'module:function'",
        ),
        (",", "--encoder must name an encoder, got ','"),
    ):
        assert message in one_line_error(label_tickets(tickets, tmp_path / "other", "--encoder", name))
        assert not (tmp_path / "other").exists()


def test_held_out_labels_do_not_choose_features(tickets, tmp_path, monkeypatch):
    seen = []

    def choose(blocks, y, seed):
        seen.append(sum(label is not None for label in y))
        return (1.0,) * len(blocks)

    monkeypatch.setattr(joint_encoder, "choose_weights", choose)
    (tmp_path / "functions_of_holdout.py").write_text(FUNCTION % WORDS)
    monkeypatch.chdir(tmp_path)
    options = "--encoder", "tfidf,functions_of_holdout:encode", "--json"
    plain = json.loads(label_tickets(tickets, tmp_path / "plain", *options).stdout)
    held = json.loads(label_tickets(tickets, tmp_path / "held", *options, "--holdout", "0.3").stdout)
    assert seen == [plain["given"], held["given"] - held["estimate"]["rows"]]


def test_clusters_and_suggestions_by_an_encoder(tickets, tmp_path, monkeypatch):
    (tmp_path / "functions_of_groups.py").write_text(FUNCTION % WORDS)
    monkeypatch.chdir(tmp_path)
    table = tickets[0], "--text", "body", "--id-column", "ticket", "--drop", "topic"
    done = run(
        "cluster", *table, "-k", "3", "--encoder", "tfidf,functions_of_groups:encode", "-o", tmp_path / "clusters"
    )
    assert done.exit_code == 0, done.output
    words = (tmp_path / "clusters" / "names.csv").read_text()
    assert all(any(word in words for word in topic.split()) for topic in TOPICS.values())  # named by words of TF-IDF
    done = run("suggest", *table, "-n", "5", "--encoder", "functions_of_groups:encode", "-o", tmp_path / "next.csv")
    assert done.exit_code == 0, done.output
    assert len((tmp_path / "next.csv").read_text().splitlines()) == 6


def test_a_network_in_a_file_encodes_images(photos, tmp_path):
    folder, labels, _ = photos
    save_torchscript(tmp_path / "net.pt")
    out, options = tmp_path / "out", ("--encoder", tmp_path / "net.pt")
    done = run("label", folder, "--labels", labels, "-o", out, *options)
    assert done.exit_code == 0, done.output
    error = one_line_error(run("predict", out / "model", folder))
    assert f"pass --encoder {tmp_path / 'net.pt'}" in error
    done = run("predict", out / "model", folder, *options)
    assert done.exit_code == 0, done.output
    found = dict(line.split(",")[:2] for line in done.stdout.splitlines()[1:])
    lines = [line for line in read_predictions(out / "predictions.csv") if line["source"] == "predicted"]
    assert len(found) == 120
    assert all(found[line["id"]] == line["label"] for line in lines)  # a row of the fit has its result
    (tmp_path / "net.pt").rename(tmp_path / "moved.pt")
    assert run("predict", out / "model", folder, "--encoder", tmp_path / "moved.pt").exit_code == 0
    error = one_line_error(run("predict", out / "model", folder, *options))
    assert "--encoder must name a file of a network, got" in error
    save_torchscript(tmp_path / "net.pt", seed=1)
    error = one_line_error(run("predict", out / "model", folder, *options))
    assert "must be those that the model was fitted with, SHA-256" in error


def test_images_by_networks_that_are_not_there(photos, tmp_path, monkeypatch):
    folder, labels, _ = photos
    for module, name, message in (
        ("timm", "timm:resnet18", "this needs timm, which is not installed; pip install timm"),
        (
            "open_clip",
            "open_clip:ViT-B-32",
            "this needs open_clip, which is not installed; pip install open_clip_torch",
        ),
        ("torchvision.models", "torchvision:resnet18", "this needs torchvision, which is not installed"),
        (
            "none",
            "resnet",
            "model must be 'efficientnet-lite0', 'timm:NAME', 'torchvision:NAME', 'open_clip:NAME', a file",
        ),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        error = one_line_error(run("label", folder, "--labels", labels, "-o", tmp_path / "out", "--encoder", name))
        assert message in error


def test_an_encoder_is_for_texts_and_images(wine, tmp_path):
    done = run("label", wine[0], "--label-column", "cultivar", "-o", tmp_path / "out", "--encoder", "tfidf")
    assert one_line_error(done) == "error: --encoder is for texts and images, got table; leave it out"
