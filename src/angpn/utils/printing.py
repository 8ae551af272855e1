"""Text that is safe to print."""

import re

# Control characters (among them escape, which commands a terminal), marks that reverse or break lines, and lone
# surrogates, which Python holds for bytes of a file name that are not UTF-8.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""Return a line of text with characters that a terminal would obey or could not show as visible escapes.

    >>> print(printable("caf\udce9\x1b[2J\n.png"))
    caf\xe9\x1b[2J\n.png
    """
    return _UNSAFE.sub(lambda found: _escape(found[0]), text)


def _escape(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # a byte that could not be decoded
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()
