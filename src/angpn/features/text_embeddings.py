"""Sentence embeddings by name: a packaged one, any of sentence-transformers, or a function of the user."""

import hashlib
import importlib
import io
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from functools import cache
from importlib import metadata, util
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from angpn.utils.optional import require
from angpn.utils.typing import Array

PACKAGED = "wordllama"
SENTENCE_TRANSFORMERS = "sentence-transformers"
WITH_TEXT = 'pip install "angpn[text]"'
_KNOWN = f"'{PACKAGED}', '{SENTENCE_TRANSFORMERS}:NAME_OR_FOLDER' or 'module:function'"


class TextEmbedding(NamedTuple):
    """A pretrained encoder of texts.

    Attributes:
        encode: Function from a list of texts to a matrix with a row for each.
        digest: SHA-256 of the files of its weights, or None where it has none of its own.
        version: What embeddings depend on beside the text; None where they may change unnoticed.
    """

    encode: Callable[[list[str]], Any]
    digest: str | None
    version: str | None


def is_packaged_installed() -> bool:
    """Whether the packaged embedding can be loaded; nothing is imported for that."""
    return util.find_spec(PACKAGED) is not None


def load_text_embedding(name: str) -> TextEmbedding:
    """Load a sentence embedding.

    Args:
        name: ``wordllama``, which works offline; ``sentence-transformers:NAME_OR_FOLDER``; or ``module:function``, a
            function from a list of texts to a matrix, whose module may be in the current folder. The last runs code of
            that module, so a name must come from the user and never from a file.

    Returns:
        The embedding.

    Raises:
        ValueError: If there is no such encoder, or it cannot be loaded.
        ImportError: If a package or the module is missing; the message names it.
    """
    library, _, rest = name.partition(":")
    if name == PACKAGED:
        return _packaged()
    if library == SENTENCE_TRANSFORMERS and rest:
        return _sentence_transformer(rest)
    if is_function(name):
        return TextEmbedding(_function(name), None, None)
    raise ValueError(f"an encoder of texts must be {_KNOWN}, got {name!r}; choose one of these")


def is_function(name: str) -> bool:
    """Whether a name has the form ``module:function``."""
    module, _, function = name.partition(":")
    return function.isidentifier() and all(part.isidentifier() for part in module.split("."))


@cache
def _packaged() -> TextEmbedding:
    """Return the means of WordLlama's vectors of 256 numbers over the tokens of a text.

    Tokens are counted first, so that a long text takes no more memory than the vocabulary has vectors.
    """
    with _untouched_logging():  # this library configures the root logger when it is imported
        library = require(PACKAGED, WITH_TEXT)
    folder = Path(library.__file__).parent
    try:
        model = library.WordLlama.load(cache_dir=folder, disable_download=True)
    except FileNotFoundError as error:
        raise ImportError(f"{PACKAGED} must have its weights inside, got {error}; {WITH_TEXT} again") from error
    vectors = np.asarray(model.embedding, np.float32)

    def encode(texts: list[str]) -> Array:
        found = np.zeros((len(texts), vectors.shape[1]), np.float32)
        for row, text in enumerate(texts):
            tokens = model.tokenizer.encode(text, add_special_tokens=False).ids
            kinds, counts = np.unique(tokens, return_counts=True)
            if len(kinds):
                found[row] = (counts / len(tokens)).astype(np.float32) @ vectors[kinds.astype(np.int64)]
        return found

    digest = hashlib.sha256(np.ascontiguousarray(vectors).data).hexdigest()
    return TextEmbedding(encode, digest, f"{digest} {metadata.version('tokenizers')}")


def _sentence_transformer(name: str) -> TextEmbedding:
    library = require("sentence_transformers", "pip install sentence-transformers")
    folder = Path(name)
    digest = folder_digest(folder) if folder.is_dir() else None
    try:
        with redirect_stderr(io.StringIO()):  # where it would draw a bar while it reads the weights
            model = library.SentenceTransformer(name, device="cpu", trust_remote_code=False)
    except Exception as error:  # of the library, of what it downloads with, or of the files
        raise ValueError(
            f"{SENTENCE_TRANSFORMERS}:{name} must be the folder of a model or the name of one that can be downloaded, "
            f"got {type(error).__name__} ({_one_line(error)}); check the name, or pass the folder of a downloaded model"
        ) from error

    def encode(texts: list[str]) -> Any:
        return model.encode(texts, batch_size=16, show_progress_bar=False, convert_to_numpy=True)

    versions = [metadata.version(package) for package in ("sentence-transformers", "transformers", "torch")]
    return TextEmbedding(encode, digest, digest and f"{digest} {versions}")


def _function(name: str) -> Callable[[list[str]], Any]:
    module_name, _, function_name = name.partition(":")
    try:
        with _current_folder_first():
            module = importlib.import_module(module_name)
    except ImportError as error:
        raise ImportError(
            f"--encoder {name} must name a module in the current folder or an installed one, got {error}; check the "
            "name, or change to its folder"
        ) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise ValueError(
            f"--encoder {name} must name a function of {module_name}, got {type(function).__name__}; define "
            f"{function_name}(texts), which returns a row for each text"
        )
    return function


def folder_digest(folder: Path) -> str:
    """Return a digest of the names and contents of all files below a folder."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


@contextmanager
def _current_folder_first() -> Iterator[None]:
    """Let modules of the current folder be imported, as ``python -m`` does and an installed command does not."""
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


@contextmanager
def _untouched_logging() -> Iterator[None]:
    """Restore the handlers and the level of the root logger."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
