"""Encoder of texts by a pretrained sentence embedding that the user names."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse

from angpn.features import TextFeatures
from angpn.features.feature_cache import FeatureCache
from angpn.features.text_embeddings import PACKAGED, TextEmbedding, load_text_embedding
from angpn.labelling.named_encoder import AUTO, Digest, check_digest, check_named_again
from angpn.utils.array_checks import check_arrays
from angpn.utils.progress import count_bar
from angpn.utils.schema import Saved, Size
from angpn.utils.typing import Array

_BATCH = 64  # texts; each batch is kept in the cache when it is done


class EmbeddingState(Saved, frozen=True):
    """What a file keeps of an :class:`EmbeddingEncoder`: not the embedding, but which one it was."""

    encoder: str
    digest: Digest | None
    n_features: Size


class EmbeddingEncoder:
    """Sentence embeddings of texts; a text without a letter or digit has an empty row, as it has by TF-IDF.

    Args:
        name: The embedding, see :func:`~angpn.features.text_embeddings.load_text_embedding`.
        cache: Take what was computed before for the same text, and keep what is computed, where embedding is slow.
        progress: Show a progress bar.

    Attributes:
        named: What the user passed as ``--encoder`` with a saved model, see :mod:`angpn.labelling.named_encoder`.
    """

    def __init__(self, name: str, *, cache: bool = False, progress: bool = False) -> None:
        self.name, self.cache, self.progress = name, cache, progress
        self.named = AUTO
        self._fitted: EmbeddingState | None = None
        self._embedding: TextEmbedding | None = None

    def fit_transform(self, content: Sequence[str], y: Any = None) -> Any:
        """Return the embeddings; they are pretrained, so nothing is fitted."""
        found = self.transform(content)
        self._fitted = EmbeddingState(self.name, self._load().digest, found.shape[1])
        return found

    def transform(self, content: Sequence[str]) -> Any:  # (n, d)
        """Return the embeddings of texts."""
        embedding = self._load()
        texts = list(content)
        places = [place for place, text in enumerate(texts) if any(map(str.isalnum, text))]
        if not places:
            raise ValueError(f"the {len(texts)} texts must have a word, got none; pass other texts")
        vectors = self._encode(embedding, [texts[place] for place in places])
        if self._fitted is not None and vectors.shape[1] != self._fitted.n_features:
            raise ValueError(
                f"--encoder {self.name} must return {self._fitted.n_features} numbers a text as in the fit, got "
                f"{vectors.shape[1]}; use the encoder of the fit, or fit the model anew"
            )
        found = np.zeros((len(texts), vectors.shape[1]), np.float32)
        found[places] = vectors
        return found

    def _load(self) -> TextEmbedding:
        if self._embedding is None:
            fitted = self._fitted
            if fitted is not None and fitted.encoder != PACKAGED:
                check_named_again(fitted.encoder, self.named, has_digest=fitted.digest is not None)
                self.name = self.named
            embedding = load_text_embedding(self.name)
            check_digest(None if fitted is None else fitted.digest, embedding.digest, self.name)
            self._embedding = embedding
        return self._embedding

    def _encode(self, embedding: TextEmbedding, texts: list[str]) -> Array:
        features = TextFeatures(encoder=embedding.encode)
        if embedding.version is None or self.name == PACKAGED:  # not known to stay the same, or fast
            return _dense(features.transform(texts))
        vectors: dict[bytes, bytes] = {}
        digests = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
        with FeatureCache(f"texts {embedding.version}") as kept:
            if self.cache:
                vectors = {digest: found for digest in set(digests) if (found := kept.get(digest)) is not None}
            new = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in vectors}
            with count_bar("texts", len(new), enabled=self.progress) as advance:
                for start in range(0, len(new), _BATCH):
                    batch = dict(list(new.items())[start : start + _BATCH])
                    rows = _dense(features.transform(list(batch.values()))).astype("<f4")
                    encoded = {digest: row.tobytes() for digest, row in zip(batch, rows, strict=True)}
                    if self.cache:
                        kept.put(encoded)
                    vectors |= encoded
                    advance(len(batch))
        return np.array([np.frombuffer(vectors[digest], "<f4") for digest in digests], dtype=np.float32)

    @property
    def n_features(self) -> int | None:
        """The length of an embedding."""
        return None if self._fitted is None else self._fitted.n_features

    def to_state(self) -> tuple[EmbeddingState, dict[str, Array]]:
        """Return plain values, and arrays."""
        if self._fitted is None:
            raise ValueError("an encoder must be fitted to be saved, got one that is not; call fit_transform first")
        return self._fitted, {}

    @classmethod
    def from_state(cls, state: EmbeddingState, arrays: Mapping[str, Array]) -> Self:
        """Restore a fitted encoder; the embedding itself is loaded when it is needed."""
        check_arrays(arrays, {})
        encoder = cls(state.encoder)
        encoder._fitted = state
        return encoder


def _dense(rows: Any) -> Array:
    return rows.toarray() if scipy.sparse.issparse(rows) else rows
