"""Feature vectors of texts: TF-IDF, or any encoder."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Self

import numpy as np
import scipy.sparse
import torch
from msgspec import Meta
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer

from angpn.utils.array_checks import check_arrays, floats
from angpn.utils.checks import as_float_tensor, as_sparse_rows, check_finite, check_same_rows
from angpn.utils.inputs import plain
from angpn.utils.schema import Saved, Share
from angpn.utils.typing import Array

Encoder = Callable[[list[str]], Any]

_PARAMETERS = "min_df", "max_df", "sublinear_tf", "max_features"
_Count = Annotated[int, Meta(ge=1)]
_ASCII_WORD = re.compile(r"[a-z0-9_]{2,}")  # what the pattern of all scripts finds in ASCII, in a quarter of the time
_MAX_IDF = 100.0  # an idf is 1 + ln((1 + texts) / (1 + those with the word)), so below 50 for any number of texts


class TextState(Saved, frozen=True):
    """What a file keeps of :class:`TextFeatures` beside the inverse document frequencies."""

    min_df: _Count | Share
    max_df: _Count | Share
    sublinear_tf: bool | int
    max_features: _Count | None
    min_df_: _Count | Share
    vocabulary: Annotated[list[str], Meta(min_length=1)]


def text_features(
    texts: Iterable[str],
    *,
    encoder: Encoder | None = None,
    min_df: int | float = 2,
    max_df: int | float = 0.5,
    sublinear_tf: bool = True,
    max_features: int | None = 50_000,
) -> Any:  # (n, d) float32, a CSR array for TF-IDF
    """Compute a row of features for each text; see :class:`TextFeatures` for details and for new texts.

    Args:
        texts: The texts.
        encoder: Function from a list of texts to a matrix, in place of TF-IDF.
        min_df: Drop words in fewer texts than this number (an int) or share (a float).
        max_df: Drop words in more texts than this number (an int) or share (a float).
        sublinear_tf: Count a word that occurs t times as 1 + ln t.
        max_features: Keep at most this many words, the most frequent.

    Returns:
        One row for each text.

    Raises:
        ValueError: If no word remains, an option is out of range, or the encoder returns no finite rows.
        TypeError: If a text is no string.
    """
    features = TextFeatures(
        encoder=encoder, min_df=min_df, max_df=max_df, sublinear_tf=sublinear_tf, max_features=max_features
    )
    return features.fit_transform(texts)


class TextFeatures:
    """TF-IDF features, fitted on some texts and applied to others; or an encoder with the same interface.

    Words of two or more letters, in lower case; no list of stop words and no stemming, so that languages are treated
    alike: ``max_df`` drops words that most texts share. Rows are L2-normalised; a text without a known word has an
    empty row.

    Args:
        encoder: Function from a list of texts to a matrix, such as ``SentenceTransformer(...).encode``, in place of
            TF-IDF and all parameters below.
        min_df: Drop words in fewer texts than this number (an int) or share (a float). Where no word would remain, as
            in a very small corpus, 1 is used.
        max_df: Drop words in more texts than this number (an int) or share (a float).
        sublinear_tf: Count a word that occurs t times as 1 + ln t.
        max_features: Keep at most this many words, the most frequent.

    Attributes:
        min_df_: The ``min_df`` that was used.

    >>> features = TextFeatures().fit(["red roses", "red tulips", "old cars", "new cars"])
    >>> features.vocabulary_
    ['cars', 'red']
    >>> features.transform(["a red rose"]).toarray()
    array([[0., 1.]], dtype=float32)
    """

    min_df_: int | float
    _vectorizer: Any = None

    def __init__(
        self,
        *,
        encoder: Encoder | None = None,
        min_df: int | float = 2,
        max_df: int | float = 0.5,
        sublinear_tf: bool = True,
        max_features: int | None = 50_000,
    ) -> None:
        self.encoder = encoder
        self.min_df = min_df
        self.max_df = max_df
        self.sublinear_tf = sublinear_tf
        self.max_features = max_features

    def fit(self, texts: Iterable[str]) -> Self:
        """Fit the vocabulary and the inverse document frequencies; an encoder is not fitted.

        Args:
            texts: The texts.

        Returns:
            The fitted features.

        Raises:
            ValueError: If no word remains or a parameter is out of range.
            TypeError: If a text is no string.
        """
        texts = _checked_texts(texts)
        if self.encoder is None:
            self._fit_tfidf(texts)
        return self

    def transform(self, texts: Iterable[str]) -> Any:  # (n, d) float32, a CSR array for TF-IDF
        """Compute the features of texts, new ones or those of the fit.

        Args:
            texts: The texts.

        Returns:
            One row for each text.

        Raises:
            NotFittedError: If TF-IDF has not been fitted.
        """
        texts = _checked_texts(texts)
        if self.encoder is not None:
            return _checked_rows(self.encoder(texts), len(texts))
        return scipy.sparse.csr_array(self._fitted().transform(texts))

    def fit_transform(self, texts: Iterable[str]) -> Any:  # (n, d) float32, a CSR array for TF-IDF
        """Fit on texts and compute their features.

        Args:
            texts: The texts.

        Returns:
            One row for each text.
        """
        if self.encoder is not None:
            return self.transform(texts)
        return scipy.sparse.csr_array(self._fit_tfidf(_checked_texts(texts)))

    @property
    def vocabulary_(self) -> list[str]:
        """The word of each column of the features."""
        return self._fitted().get_feature_names_out().tolist()

    def to_state(self) -> tuple[TextState, dict[str, Array]]:
        """Return the fitted state, from which :meth:`from_state` restores it.

        Returns:
            Plain values, and arrays.

        Raises:
            ValueError: If there is an encoder, which cannot be saved.
        """
        if self.encoder is not None:
            raise ValueError("only TF-IDF can be saved, got an encoder; save the encoder by its own means")
        idf, words = self._fitted().idf_, self.vocabulary_
        parameters = {name: plain(getattr(self, name)) for name in (*_PARAMETERS, "min_df_")}
        return TextState(**parameters, vocabulary=words), {"idf": idf}

    @classmethod
    def from_state(cls, state: TextState, arrays: Mapping[str, Array]) -> Self:
        """Restore fitted features.

        Args:
            state: The plain values that :meth:`to_state` returned.
            arrays: The arrays that it returned.

        Returns:
            The fitted features.

        Raises:
            ValueError: If the frequencies are not those of the words, or a word occurs twice.
        """
        words = state.vocabulary
        check_arrays(arrays, {"idf": floats(len(words), low=0, high=_MAX_IDF)})
        if len(set(words)) < len(words):
            raise ValueError("a word of the vocabulary occurs twice")
        features = cls(**{name: getattr(state, name) for name in _PARAMETERS})
        features.min_df_ = state.min_df_
        features._vectorizer = features._unfitted(features.min_df_, words)
        features._vectorizer.idf_ = arrays["idf"]
        return features

    def _fit_tfidf(self, texts: list[str]) -> Any:
        _check_frequency(self.min_df, "min_df")
        _check_frequency(self.max_df, "max_df")
        if self.max_features is not None and not _is_count(self.max_features):
            raise ValueError(f"max_features must be a whole number >= 1 or None, got {self.max_features!r}; choose one")
        for min_df in (self.min_df, 1):
            vectorizer = self._unfitted(min_df)
            try:
                rows = vectorizer.fit_transform(texts)
            except ValueError:  # the parameters are sound, so no word remains
                continue
            self._vectorizer, self.min_df_ = vectorizer, min_df
            return rows
        words = self._unfitted(1).build_analyzer()
        if any(words(text) for text in texts):
            reason = f"each is in more texts than max_df={self.max_df} allows; raise max_df or pass more texts"
        else:
            reason = "none has a word of two or more letters; pass other texts, or an encoder"
        raise ValueError(f"the {len(texts)} texts must have a word that distinguishes them, got none: {reason}")

    def _unfitted(self, min_df: int | float, vocabulary: list[str] | None = None) -> Any:
        return TfidfVectorizer(
            preprocessor=_normal_form,
            tokenizer=_split_words,
            token_pattern=None,
            min_df=min_df,
            max_df=self.max_df,
            max_features=self.max_features,
            sublinear_tf=self.sublinear_tf,
            vocabulary=vocabulary,
            dtype=np.float32,
        )

    def _fitted(self) -> Any:
        if self._vectorizer is None:
            raise NotFittedError("these text features have no words yet; call fit first")
        return self._vectorizer


def _normal_form(text: str) -> str:
    """Return the text in lower case and in Unicode normal form NFKC."""
    return unicodedata.normalize("NFKC", text).lower()


def _split_words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return (_ASCII_WORD if text.isascii() else _word_pattern()).findall(text)


@cache
def _word_pattern() -> re.Pattern[str]:
    """Return the pattern of a word: two or more letters, or one character of Chinese and Japanese.

    Python's regular expressions do not count vowel signs as letters, which would split Hindi words; they are added.
    """
    signs = "".join(chr(code) for code in range(0x10000) if unicodedata.category(chr(code)) in ("Mn", "Mc"))
    characters = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
    return re.compile(rf"[{characters}]|(?:(?![{characters}])[\w{signs}]){{2,}}")


def _checked_texts(texts: Iterable[Any]) -> list[str]:
    if isinstance(texts, str | bytes):
        raise TypeError(
            "texts must be a list of strings, got a single one; pass [text], or read_texts(path) for a file"
        )
    texts = list(texts)
    if not texts:
        raise ValueError("texts must hold at least one text, got an empty list; pass more")
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(
                f"texts must be strings, got {type(text).__name__} ({text!r:.40}) as texts[{row}]; drop it, or use ''"
            )
    return texts


def _checked_rows(encoded: Any, n_texts: int) -> Any:  # (n, d) float32
    """Return the output of an encoder, after a check that it has a finite row for each text."""
    rows = as_sparse_rows(encoded, torch.float32)
    if rows is not None:
        check_finite(torch.from_numpy(rows.sum(axis=1)[:, None]), "what the encoder returned")
    else:
        dense = as_float_tensor(encoded, "what the encoder returned").detach().float().cpu()
        check_finite(dense, "what the encoder returned")
        rows = dense.numpy()
    check_same_rows(rows.shape[0], n_texts, "what the encoder returned", "texts")
    return rows


def _check_frequency(value: Any, name: str) -> None:
    share = isinstance(value, float | np.floating) and 0 <= value <= 1
    if not share and not _is_count(value):
        raise ValueError(
            f"{name} must be a number of texts, an int >= 1, or a share of them, a float from 0 to 1, got {value!r}; "
            "choose one"
        )


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 1)
