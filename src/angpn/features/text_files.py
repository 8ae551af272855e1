"""Read texts from a file."""

import os
from pathlib import Path

from angpn.utils.text_encoding import decode_text


def read_texts(path: str | os.PathLike[str], encoding: str | None = "utf-8") -> list[str]:
    """Read one text from each line; an empty line is an empty text, so that line i is row i of the features.

    Args:
        path: The file.
        encoding: Its encoding; None finds by its bytes whether it is UTF-8, UTF-16 or Latin-1.

    Returns:
        The texts.

    Raises:
        ValueError: If the file has another encoding or no text.
        OSError: If it does not exist or cannot be read.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} must be a text file, got none there; check the name")
    try:
        content = path.read_bytes()
        text = decode_text(content).text if encoding is None else content.decode(encoding)
    except OSError as error:
        raise OSError(f"{path} must be a file that can be read, got {error.strerror}; check its rights") from error
    except LookupError as error:
        raise ValueError(
            f"encoding must be one that Python knows, got {encoding!r}; try 'utf-8' or 'latin-1'"
        ) from error
    except UnicodeDecodeError as error:
        before = content[: error.start].decode(encoding or "utf-8", errors="ignore")
        raise ValueError(
            f"{path} must be {encoding} text, got byte 0x{content[error.start]:02x} in line "
            f"{len(_lines(before + '.'))}; save the file as {encoding}, or name its encoding, such as 'latin-1'"
        ) from error
    texts = _lines(text.removeprefix("\ufeff"))  # byte order mark
    if not any(texts):
        raise ValueError(f"{path} must hold at least one line of text, got none; name another file")
    return texts


def _lines(text: str) -> list[str]:
    """Split at the line ends of all systems; str.splitlines would split at other characters too."""
    return text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")
