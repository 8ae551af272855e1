"""Features of texts: TF-IDF against scikit-learn's own, other encoders, saved states, files."""

import json
import os
import zipfile
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer

from angpn.features import TextFeatures, read_texts, text_features
from angpn.features.text import TextState, _split_words

TEXTS = [
    "The cat sat on the mat",
    "The dog sat on the log",
    "A cat and a dog and a cat",
    "Stocks fell as rates rose",
    "Rates rose and stocks fell again",
    "!!! 7 ?",
]


# TF-IDF


def test_english_rows_are_those_of_scikit_learn():
    options = {"min_df": 2, "max_df": 0.5, "sublinear_tf": True, "max_features": 50_000, "dtype": np.float32}
    expected = TfidfVectorizer(**options).fit_transform(TEXTS)
    rows = text_features(TEXTS)
    assert isinstance(rows, scipy.sparse.csr_array)
    assert rows.dtype == np.float32
    assert_allclose(rows.toarray(), expected.toarray(), rtol=1e-6)


def test_real_messages_are_those_of_scikit_learn():
    if "ANGPN_DATA" not in os.environ:
        pytest.skip("ANGPN_DATA does not name a folder with the paper's data sets")
    with zipfile.ZipFile(Path(os.environ["ANGPN_DATA"]) / "20news_raw.zip") as file:
        names = [name for name in file.namelist() if not name.endswith("/")][::20]
        messages = [file.read(name).decode("latin-1").encode("ascii", "ignore").decode() for name in names]
    assert len(messages) > 100
    expected = TfidfVectorizer(min_df=2, max_df=0.5, sublinear_tf=True, dtype=np.float32).fit_transform(messages)
    rows = text_features(messages)
    assert rows.shape == expected.shape
    assert_allclose(rows.data, expected.data, rtol=1e-5)
    assert_array_equal(rows.indices, expected.indices)


def test_rows_have_unit_length_and_a_text_without_words_an_empty_row():
    lengths = np.sqrt(text_features(TEXTS).power(2).sum(axis=1))
    assert_allclose(lengths, [1, 1, 1, 1, 1, 0], rtol=1e-6)


def test_fit_transform_equals_fit_and_transform_also_on_a_pandas_column():
    at_once = text_features(TEXTS).toarray()
    assert_array_equal(TextFeatures().fit(TEXTS).transform(TEXTS).toarray(), at_once)
    assert_array_equal(text_features(pd.Series(TEXTS)).toarray(), at_once)


def test_a_new_text_is_encoded_over_the_fitted_vocabulary():
    features = TextFeatures().fit(TEXTS)
    rows = features.transform(["a DOG, unheard of", "nothing known"]).toarray()
    assert rows.shape == (2, len(features.vocabulary_))
    assert_array_equal(rows[0], np.array(features.vocabulary_) == "dog")
    assert_array_equal(rows[1], 0)


def test_a_very_small_corpus_keeps_words_of_one_text():
    features = TextFeatures().fit(["red roses", "blue skies", "old cars"])
    assert features.min_df_ == 1
    assert features.vocabulary_ == ["blue", "cars", "old", "red", "roses", "skies"]
    assert TextFeatures().fit(TEXTS).min_df_ == 2
    assert text_features(["red roses", "blue skies"]).shape == (2, 4)  # where max_df allows fewer texts than min_df


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Größe, naïve CAFÉ", ["café", "größe", "naïve"]),
        ("cafe\u0301", ["café"]),  # an e and an accent of its own
        ("हिन्दी में", ["में", "हिन्दी"]),  # vowel signs are parts of words
        ("我爱 日本", ["我", "日", "本", "爱"]),  # no spaces between words
        ("Привет мир", ["мир", "привет"]),
    ],
)
def test_words_of_other_languages_stay_whole(text, words):
    assert TextFeatures(max_df=1.0).fit([text]).vocabulary_ == words


# State


def test_words_in_ascii_are_those_of_all_scripts():
    for seed in range(20):
        text = bytes(np.random.default_rng(seed).integers(128, size=500, dtype=np.uint8)).decode().lower()
        assert _split_words(text) == _split_words(f"{text} é") != []


def test_a_state_goes_through_json_and_encodes_alike():
    features = TextFeatures(min_df=np.int64(1), max_df=0.9, sublinear_tf=False, max_features=8).fit(TEXTS)
    state, arrays = features.to_state()
    assert all(isinstance(array, np.ndarray) for array in arrays.values())
    loaded = TextFeatures.from_state(msgspec.json.decode(msgspec.json.encode(state), type=TextState), arrays)
    new = [*TEXTS, "the cat of the cat of stocks"]
    assert_array_equal(loaded.transform(new).toarray(), features.transform(new).toarray())
    assert loaded.vocabulary_ == features.vocabulary_
    assert loaded.to_state()[0] == state
    assert (loaded.min_df_, loaded.max_df, loaded.sublinear_tf, loaded.max_features) == (1, 0.9, False, 8)


def test_invalid_states_are_errors():
    state, arrays = TextFeatures().fit(TEXTS).to_state()
    with pytest.raises(ValueError, match="the array 'idf' is missing"):
        TextFeatures.from_state(state, {})
    with pytest.raises(ValueError, match=r"'idf' is float\d+ of shape \(3,\) and not .* of shape \(\d+\)"):
        TextFeatures.from_state(state, {"idf": arrays["idf"][:3]})
    with pytest.raises(ValueError, match=r"'idf' has values from nan to nan, not all in \[0, 100\]"):
        TextFeatures.from_state(state, {"idf": np.where(np.arange(len(arrays["idf"])) == 1, np.nan, arrays["idf"])})
    twice = msgspec.structs.replace(state, vocabulary=[*state.vocabulary[:-1], state.vocabulary[0]])
    with pytest.raises(ValueError, match="a word of the vocabulary occurs twice"):
        TextFeatures.from_state(twice, arrays)
    encoded = msgspec.json.encode(state)
    for change in ({"min_df": 0}, {"max_df": 1.5}, {"max_features": "many"}, {"vocabulary": []}, {"more": 1}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(json.dumps(json.loads(encoded) | change), type=TextState)
    with pytest.raises(NotFittedError, match="no words yet; call fit first"):
        TextFeatures().to_state()
    with pytest.raises(NotFittedError, match="call fit first"):
        TextFeatures().transform(TEXTS)
    with pytest.raises(ValueError, match="only TF-IDF can be saved, got an encoder"):
        TextFeatures(encoder=len).to_state()


# Other encoders


def lengths(texts):
    return [[len(text), text.count(" ")] for text in texts]


@pytest.mark.parametrize(
    "convert", [list, np.array, lambda rows: torch.tensor(rows, dtype=torch.float64, requires_grad=True)]
)
def test_an_encoder_may_return_lists_arrays_or_tensors(convert):
    rows = text_features(TEXTS, encoder=lambda texts: convert(lengths(texts)))
    assert rows.dtype == np.float32
    assert_array_equal(rows, lengths(TEXTS))
    features = TextFeatures(encoder=lengths)
    assert_array_equal(features.fit(TEXTS).transform(["two words"]), [[9, 1]])


def test_an_encoder_may_return_sparse_rows():
    rows = text_features(TEXTS, encoder=lambda texts: scipy.sparse.coo_array(np.array(lengths(texts))))
    assert isinstance(rows, scipy.sparse.csr_array)
    assert_array_equal(rows.toarray(), lengths(TEXTS))


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (
            lambda texts: np.ones((2, 3)),
            "what the encoder returned must have one row for each row of texts, expected 6",
        ),
        (lambda texts: np.ones(6), r"what the encoder returned must have 2 dimensions, got shape \(6,\)"),
        (lambda texts: np.full((6, 2), np.nan), "what the encoder returned must be finite"),
        (lambda texts: scipy.sparse.csr_array(np.full((6, 2), np.inf)), "what the encoder returned must be finite"),
        (lambda texts: texts, "what the encoder returned must be a dense array of numbers"),
    ],
)
def test_encoders_that_return_something_else(encoder, message):
    with pytest.raises(ValueError, match=message):
        text_features(TEXTS, encoder=encoder)


# Errors


def test_inputs_that_are_no_texts():
    with pytest.raises(ValueError, match="texts must hold at least one text, got an empty list"):
        text_features([])
    with pytest.raises(TypeError, match="texts must be a list of strings, got a single one; pass"):
        text_features("The cat sat")
    with pytest.raises(TypeError, match=r"texts must be strings, got float \(nan\) as texts\[1\]; drop it"):
        text_features(["one", float("nan")])


def test_texts_without_a_distinguishing_word():
    with pytest.raises(ValueError, match="got none: none has a word of two or more letters"):
        text_features(["!", "? a", ""])
    with pytest.raises(ValueError, match=r"the 3 texts .* each is in more texts than max_df=0\.5 allows; raise max_df"):
        text_features(["the same"] * 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_df": 0}, "min_df must be a number of texts, an int >= 1, or a share .* got 0"),
        ({"max_df": 1.5}, "max_df must be .* got 1.5"),
        ({"max_df": "half"}, "max_df must be .* got 'half'"),
        ({"max_features": 0}, "max_features must be a whole number >= 1 or None, got 0"),
    ],
)
def test_options_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        text_features(TEXTS, **options)


# Files


def test_each_line_of_a_file_is_a_text(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_bytes("\ufeffone\r\ntwo\u2028still two\n\nfour é\n".encode())
    assert read_texts(path) == ["one", "two\u2028still two", "", "four é"]
    path.write_bytes("é\nè".encode("latin-1"))
    assert read_texts(str(path), encoding="latin-1") == ["é", "è"]
    path.write_text("one\ntwo\n", encoding="utf-16")
    assert read_texts(path, encoding="utf-16") == ["one", "two"]


def test_files_that_hold_no_texts(tmp_path, monkeypatch):
    path = tmp_path / "texts.txt"
    with pytest.raises(FileNotFoundError, match="texts.txt must be a text file, got none there"):
        read_texts(path)
    path.write_bytes(b"fine\nalso fine\ncaf\xe9\n")
    with pytest.raises(
        ValueError, match="texts.txt must be utf-8 text, got byte 0xe9 in line 3; save the file as utf-8"
    ):
        read_texts(path)
    path.write_bytes(b"\xff\n")
    with pytest.raises(ValueError, match="byte 0xff in line 1"):
        read_texts(path)
    with pytest.raises(ValueError, match="encoding must be one that Python knows, got 'utf-9'"):
        read_texts(path, encoding="utf-9")
    path.write_bytes(b"\n\n")
    with pytest.raises(ValueError, match="texts.txt must hold at least one line of text, got none"):
        read_texts(path)

    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(OSError, match="texts.txt must be a file that can be read, got Permission denied"):
        read_texts(path)
