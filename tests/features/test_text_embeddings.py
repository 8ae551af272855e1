"""Sentence embeddings by name: the packaged one, a small model of sentence-transformers, a function of the user."""

import logging
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from angpn.features import text_embeddings
from angpn.features.text_embeddings import folder_digest, is_function, is_packaged_installed, load_text_embedding
from embedding_models import save_sentence_transformer


def cosine(first, second):
    return float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))


def test_the_packaged_embedding_knows_words_that_are_alike_and_needs_no_network(monkeypatch):
    pytest.importorskip("wordllama", reason="comes with angpn[text]")
    import requests

    monkeypatch.setattr(requests, "get", lambda *args, **options: pytest.fail("a download"))
    text_embeddings._packaged.cache_clear()
    embedding = load_text_embedding("wordllama")
    texts = ["the car was fast", "a quick automobile", "boiled potatoes with butter", ""]
    found = embedding.encode(texts)
    assert found.shape == (4, 256)
    assert found.dtype == np.float32
    assert cosine(found[0], found[1]) > cosine(found[0], found[2]) + 0.1
    assert not found[3].any()
    assert len(embedding.digest) == 64
    assert is_packaged_installed()


def test_the_packaged_embedding_is_the_mean_that_its_library_computes():
    library = pytest.importorskip("wordllama", reason="comes with angpn[text]")
    from pathlib import Path

    model = library.WordLlama.load(cache_dir=Path(library.__file__).parent, disable_download=True)
    texts = ["one word and one more word", "another text " * 50]
    found = load_text_embedding("wordllama").encode(texts)
    assert_allclose(found, model.embed(texts), rtol=1e-4, atol=1e-5)


def test_the_packaged_embedding_leaves_the_root_logger_as_it_was(monkeypatch):
    pytest.importorskip("wordllama", reason="comes with angpn[text]")
    root = logging.getLogger()
    before = list(root.handlers), root.level
    with text_embeddings._untouched_logging():
        logging.basicConfig(level=logging.INFO, force=True)
    assert (root.handlers, root.level) == before


def test_a_missing_package_is_named(monkeypatch):
    text_embeddings._packaged.cache_clear()
    for module, name, remedy in (
        ("wordllama", "wordllama", r'pip install "angpn\[text\]"'),
        ("sentence_transformers", "sentence-transformers:all-MiniLM-L6-v2", "pip install sentence-transformers"),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ImportError, match=f"this needs {module}, which is not installed; {remedy}"):
            load_text_embedding(name)


def test_a_package_without_its_weights(monkeypatch):
    library = pytest.importorskip("wordllama", reason="comes with angpn[text]")
    text_embeddings._packaged.cache_clear()

    def load(**options):
        raise FileNotFoundError("Weights file not found")

    monkeypatch.setattr(library.WordLlama, "load", load)
    with pytest.raises(ImportError, match="wordllama must have its weights inside, got Weights file not found; pip in"):
        load_text_embedding("wordllama")


def test_a_model_of_sentence_transformers_in_a_folder(tmp_path):
    words = ["red", "blue", "car"]
    vectors = save_sentence_transformer(tmp_path / "model", words)
    embedding = load_text_embedding(f"sentence-transformers:{tmp_path / 'model'}")
    found = np.asarray(embedding.encode(["red car", "blue"]))
    assert_allclose(found, [(vectors[0] + vectors[2]) / 2, vectors[1]], rtol=1e-5, atol=1e-6)
    assert embedding.digest == folder_digest(tmp_path / "model")
    assert embedding.digest in embedding.version


def test_a_model_of_sentence_transformers_that_cannot_be_loaded(tmp_path):
    pytest.importorskip("sentence_transformers", reason="only tests of its models need it")
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        ValueError, match=r"sentence-transformers:.*empty must be the folder of a model .* check the name"
    ):
        load_text_embedding(f"sentence-transformers:{tmp_path / 'empty'}")


def test_the_digest_of_a_folder_is_that_of_names_and_contents(tmp_path):
    (tmp_path / "a").write_text("1")
    first = folder_digest(tmp_path)
    (tmp_path / "a").write_text("2")
    second = folder_digest(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    assert len({first, second, folder_digest(tmp_path)}) == 3


def test_a_function_of_a_module_in_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "letters_of_mine.py").write_text("def count(texts):\n    return [[len(text), 1] for text in texts]\n")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    embedding = load_text_embedding("letters_of_mine:count")
    assert_array_equal(embedding.encode(["ab", "c"]), [[2, 1], [1, 1]])
    assert (embedding.digest, embedding.version) == (None, None)
    assert sys.path == before
    with pytest.raises(
        ValueError, match="--encoder letters_of_mine:other must name a function of letters_of_mine, got"
    ):
        load_text_embedding("letters_of_mine:other")


def test_a_module_that_is_not_there():
    with pytest.raises(
        ImportError, match="--encoder no_such_module:f must name a module in the current folder or an ins"
    ):
        load_text_embedding("no_such_module:f")


@pytest.mark.parametrize("name", ["bert", "sentence-transformers:", "a module:f", "timm:"])
def test_an_unknown_encoder(name):
    with pytest.raises(ValueError, match=r"an encoder of texts must be 'wordllama', .* got '.*'; choose one of these"):
        load_text_embedding(name)


def test_the_form_of_a_function():
    assert is_function("package.module:encode")
    assert not is_function("package.module")
    assert not is_function("C:/file.py:encode")
