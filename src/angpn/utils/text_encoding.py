"""The encoding of text files, found by their bytes."""

import codecs
from typing import NamedTuple

_BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_LOOKED_AT = 4096  # bytes, to see whether every other one is 0
_NAMES = {
    "utf-8": "UTF-8",
    "utf-16-le": "UTF-16",
    "utf-16-be": "UTF-16",
    "cp1252": "Windows-1252",
    "latin-1": "Latin-1",
}


class DecodedText(NamedTuple):
    """A text, and the name of the encoding that it was in."""

    text: str
    encoding: str


def decode_text(content: bytes) -> DecodedText:
    """Decode text in UTF-8, in UTF-16, or else in Windows-1252, which is Latin-1 with a few characters more.

    UTF-16 is known by its byte order mark, or by zeros in most other bytes. Any bytes are text in Latin-1, so nothing
    is refused.

    Args:
        content: The bytes of a file.

    Returns:
        The text without a byte order mark, and its encoding.
    """
    mark = next((mark for mark in _BYTE_ORDER_MARKS if content.startswith(mark)), b"")
    first = _BYTE_ORDER_MARKS[mark] if mark else _without_mark(content)
    for encoding in (first, "cp1252"):
        try:
            return DecodedText(content[len(mark) :].decode(encoding), _NAMES[encoding])
        except UnicodeDecodeError:
            continue
    return DecodedText(content.decode("latin-1"), _NAMES["latin-1"])


def _without_mark(content: bytes) -> str:
    """Return "utf-16-le" or "utf-16-be" where most odd or even bytes are 0, as in Latin letters, and else "utf-8"."""
    head = content[:_LOOKED_AT]
    pairs = len(head) // 2
    zeros = head[0::2].count(0), head[1::2].count(0)
    if pairs and max(zeros) > 0.5 * pairs and min(zeros) < 0.1 * pairs:
        return "utf-16-le" if zeros[1] > zeros[0] else "utf-16-be"
    return "utf-8"
