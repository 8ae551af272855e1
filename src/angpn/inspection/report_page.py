"""Pages with a map of rows: a template, the parts that pages share, and data, in one file that needs no network."""

import base64
import json
import os
import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from angpn.inspection.page_parts import inline_script, inline_style
from angpn.utils.files import replacing
from angpn.utils.palette import DARK_PALETTE, PALETTE

_PARTS = {"STYLE": "report.css", "MAP": "map.html", "SCRIPT": "map.js"}


def make_page(template: str, title: str, data: Mapping[str, Any]) -> str:
    """Return a page with a map.

    Args:
        template: The page with its placeholders.
        title: Heading of the page.
        data: What its script reads: plain values, and arrays by :func:`packed_array`.

    Returns:
        HTML that needs no other file.
    """
    parts = {name: read_template("angpn.inspection", part) for name, part in _PARTS.items()}
    parts["STYLE"] = inline_style() + parts["STYLE"]
    parts["SCRIPT"] = inline_script() + parts["SCRIPT"]
    palette = {"light": PALETTE, "dark": DARK_PALETTE}
    page = _fill(template, parts | {"TITLE": escape(title), "DATA": _json({**data, "palette": palette})})
    # A file name that is not valid UTF-8 holds lone surrogates, which a page can only show as unknown characters.
    return page.encode("utf-8", errors="xmlcharrefreplace").decode("utf-8")


def write_page(page: str, path: str | os.PathLike[str]) -> Path:
    """Write a page; it opens in any browser, also offline.

    Args:
        page: The page.
        path: The file to write; an existing one is replaced as a whole.

    Returns:
        The path of the file.
    """
    with replacing(path) as temporary:
        temporary.write_bytes(page.encode("utf-8"))
    return Path(path)


def read_template(room: str, name: str) -> str:
    """Return the template of a page among the files of a room."""
    return files(room).joinpath(name).read_text(encoding="utf-8")


def packed_array(values: Any, dtype: str) -> dict[str, str]:
    """Encode numbers for a JavaScript typed array, which is little-endian on all current machines."""
    kind = {"<i4": "Int32Array", "<f4": "Float32Array"}[dtype]
    return {"type": kind, "base64": base64.b64encode(np.ascontiguousarray(values, dtype=dtype).tobytes()).decode()}


def _json(value: Any) -> str:
    """Return JSON that is safe inside a script element: ASCII only, with <, > and & escaped."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _fill(template: str, parts: Mapping[str, str]) -> str:
    """Replace the placeholders in one pass, so that a part that looks like a placeholder is left as it is."""
    return re.sub(r"\{\{([A-Z]+)\}\}", lambda match: parts[match[1]], template)
