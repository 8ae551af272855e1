"""Encoders of texts by name: rows, the cache, and what a saved one must be told again."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from angpn.features.text_embeddings import TextEmbedding
from angpn.labelling import embedding_encoder
from angpn.labelling.embedding_encoder import EmbeddingEncoder
from angpn.labelling.encoder_choice import name_again
from angpn.labelling.named_encoder import check_digest, check_named_again
from embedding_models import save_sentence_transformer

WORDS = ["red", "blue", "car"]


def reloaded(encoder):
    return type(encoder).from_state(*encoder.to_state())


@pytest.fixture
def model(tmp_path):
    vectors = save_sentence_transformer(tmp_path / "model", WORDS)
    return f"sentence-transformers:{tmp_path / 'model'}", vectors


def test_a_saved_encoder_gives_the_same_when_it_is_named_again(model, tmp_path):
    name, vectors = model
    encoder = EmbeddingEncoder(name)
    found = encoder.fit_transform(["red", " ?!", "blue car"])
    assert_allclose(found, [vectors[0], np.zeros(8), (vectors[1] + vectors[2]) / 2], rtol=1e-5, atol=1e-6)
    assert encoder.n_features == 8
    again = reloaded(encoder)
    with pytest.raises(ValueError, match=f"must be used with the same, got none, .* pass --encoder {name}"):
        again.transform(["red"])
    name_again(again, name)
    assert_array_equal(again.transform(["red", "", "blue car"]), found)
    (tmp_path / "model").rename(tmp_path / "moved")
    moved = reloaded(encoder)
    name_again(moved, f"tfidf,sentence-transformers:{tmp_path / 'moved'}")
    assert_array_equal(moved.transform(["red"]), found[:1])


def test_other_weights_than_those_of_the_fit_are_refused(model, tmp_path):
    name, _ = model
    encoder = EmbeddingEncoder(name)
    encoder.fit_transform(["red"])
    save_sentence_transformer(tmp_path / "model", WORDS, seed=1)
    changed = reloaded(encoder)
    name_again(changed, name)
    with pytest.raises(
        ValueError, match=r"the weights of sentence-transformers:.* must be those .* SHA-256 \w{12}, got \w{12};"
    ):
        changed.transform(["red"])


def test_nothing_is_loaded_before_the_user_names_it(monkeypatch):
    monkeypatch.setattr(
        embedding_encoder,
        "load_text_embedding",
        lambda name: TextEmbedding(lambda texts: np.ones((len(texts), 2)), None, None),
    )
    encoder = EmbeddingEncoder("mine:encode")
    encoder.fit_transform(["a"])
    again = reloaded(encoder)
    monkeypatch.setattr(embedding_encoder, "load_text_embedding", lambda name: pytest.fail("code was loaded"))
    with pytest.raises(ValueError, match="pass --encoder mine:encode"):
        again.transform(["a"])
    name_again(again, "mine:other")
    with pytest.raises(
        ValueError, match="--encoder must be that of the model, mine:encode, got mine:other; pass that one"
    ):
        again.transform(["a"])


def test_an_encoder_that_returns_another_length_than_in_the_fit(monkeypatch):
    width = [2]
    monkeypatch.setattr(
        embedding_encoder,
        "load_text_embedding",
        lambda name: TextEmbedding(lambda texts: np.ones((len(texts), width[0])), None, None),
    )
    encoder = EmbeddingEncoder("mine:encode")
    encoder.fit_transform(["a"])
    width[0] = 3
    with pytest.raises(
        ValueError, match="--encoder mine:encode must return 2 numbers a text as in the fit, got 3; use the"
    ):
        encoder.transform(["a"])


def test_slow_embeddings_are_computed_once(monkeypatch):
    computed = []

    def encode(texts):
        computed.extend(texts)
        return np.array([[len(text), 1] for text in texts])

    monkeypatch.setattr(embedding_encoder, "load_text_embedding", lambda name: TextEmbedding(encode, None, "version 1"))
    texts = ["a", "bb", "a"]
    expected = [[1, 1], [2, 1], [1, 1]]
    assert_array_equal(EmbeddingEncoder("slow", cache=True).fit_transform(texts), expected)
    assert computed == ["a", "bb"]
    assert_array_equal(EmbeddingEncoder("slow", cache=True).fit_transform([*texts, "c"]), [*expected, [1, 1]])
    assert computed == ["a", "bb", "c"]
    EmbeddingEncoder("slow").fit_transform(texts)
    assert computed == ["a", "bb", "c", "a", "bb"]
    monkeypatch.setattr(embedding_encoder, "load_text_embedding", lambda name: TextEmbedding(encode, None, None))
    EmbeddingEncoder("mine:encode", cache=True).fit_transform(["a"])  # a function may have changed
    assert computed[-1] == "a"
    assert len(computed) == 6


def test_texts_without_a_word_and_encoders_that_are_not_fitted():
    with pytest.raises(ValueError, match="the 2 texts must have a word, got none; pass other texts"):
        EmbeddingEncoder("wordllama").fit_transform(["", " "])
    with pytest.raises(ValueError, match="an encoder must be fitted to be saved, got one that is not"):
        EmbeddingEncoder("wordllama").to_state()


def test_what_must_be_named_again():
    check_named_again("net.pt", "elsewhere/net.pt", has_digest=True)
    with pytest.raises(ValueError, match="--encoder must be that of the model, net.pt, got timm:net"):
        check_named_again("net.pt", "timm:net", has_digest=True)
    check_digest(None, "a" * 64, "net.pt")
    with pytest.raises(ValueError, match="SHA-256 aaaaaaaaaaaa, got none; restore them, or fit the model anew"):
        check_digest("a" * 64, None, "net.pt")
