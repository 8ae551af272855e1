"""Networks that a user has as a file: TorchScript, or weights in the safetensors format."""

import hashlib
import json
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

TORCHSCRIPT = (".pt", ".pth", ".ts", ".torchscript")
SUFFIXES = (*TORCHSCRIPT, ".safetensors")


def is_network_file(name: str) -> bool:
    """Whether a name is that of a file of a network, by its suffix."""
    return Path(name).suffix.lower() in SUFFIXES


def file_digest(path: str | Path) -> str:
    """Return the SHA-256 of a file.

    Raises:
        FileNotFoundError: If there is none.
    """
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise FileNotFoundError(f"--encoder must name a file of a network, got {path}, where there is none") from None


def read_torchscript(path: str | Path) -> nn.Module:
    """Load a network that ``torch.jit.save`` wrote. It may run any code, so a path must come from the user.

    Args:
        path: The file.

    Returns:
        The network.

    Raises:
        ValueError: If it is none.
        FileNotFoundError: If there is no such file.
    """
    file_digest(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # torch would rather have exported programs
            network: Any = torch.jit.load(str(path), map_location="cpu")
    except (RuntimeError, ValueError) as error:
        raise ValueError(
            f"{path} must be a TorchScript file, got one that torch cannot read "
            f"({' '.join(str(error).split())[:200]}); write it by torch.jit.trace(network, images).save(path)"
        ) from error
    return network


def read_state(path: str | Path) -> tuple[dict[str, Tensor], str | None]:
    """Read weights, and the name of the architecture in a ``config.json`` beside them, as timm writes it.

    Args:
        path: The file.

    Returns:
        The weights by name, and the architecture, None where no file names it.

    Raises:
        ValueError: If it holds no weights, or the other file no name.
        FileNotFoundError: If there is no such file.
    """
    file_digest(path)
    try:
        state = load_file(path)
    except SafetensorError as error:
        raise ValueError(
            f"{path} must be a safetensors file, got one that cannot be read ({error}); write it anew"
        ) from error
    beside = Path(path).with_name("config.json")
    if not beside.exists():
        return state, None
    try:
        architecture = json.loads(beside.read_text(encoding="utf-8"))["architecture"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{beside} must name an architecture of timm, got {error!r}; add it, or move the file"
        ) from error
    return state, str(architecture)
