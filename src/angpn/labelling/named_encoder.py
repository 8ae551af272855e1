"""Encoders that a user names: which of them a saved model may load by itself, and which must be named again.

A model file may come from a stranger. It keeps the name of its encoder, but a name can stand for any code and any file,
so that only packaged encoders are loaded on its word; others are loaded when the user names them once more.
"""

from pathlib import PurePath
from typing import Annotated

from msgspec import Meta

AUTO = "auto"
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]  # SHA-256


def check_named_again(fitted: str, named: str, *, has_digest: bool) -> None:
    """Refuse to load an encoder that is not packaged unless the user names the same.

    Args:
        fitted: Name of the encoder that the model was fitted with.
        named: What the user passed as ``--encoder``.
        has_digest: Whether the digest of its weights is known: a file or folder may then have moved.

    Raises:
        ValueError: If the user named none, or another.
    """
    if named == AUTO:
        raise ValueError(
            f"a model that was fitted with --encoder {fitted} must be used with the same, got none, and a file may not "
            f"choose what code is loaded; if you trust it, pass --encoder {fitted}"
        )
    if named != fitted and not (has_digest and _library(named) == _library(fitted)):
        raise ValueError(
            f"--encoder must be that of the model, {fitted}, got {named}; pass that one, or fit the model anew"
        )


def check_digest(fitted: str | None, found: str | None, name: str) -> None:
    """Refuse weights that are not those of the fit.

    Args:
        fitted: SHA-256 of the weights that the model was fitted with, None where they had none.
        found: That of the weights which are there now.
        name: Name of the encoder.

    Raises:
        ValueError: If they differ.
    """
    if fitted is not None and fitted != found:
        raise ValueError(
            f"the weights of {name} must be those that the model was fitted with, SHA-256 {fitted[:12]}, got "
            f"{'none' if found is None else found[:12]}; restore them, or fit the model anew"
        )


def _library(name: str) -> str:
    """Return the name without what it says of the place: that of a library, or the suffix of a file."""
    library, colon, _ = name.partition(":")
    return library if colon else PurePath(name).suffix
