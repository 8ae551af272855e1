"""Parts that all pages share: style, colours of classes, elements, marks and the map."""

import re
from importlib.resources import files

from angpn.utils.palette import DARK_PALETTE, PALETTE

# A module comes after those that it imports from.
_MODULES = ("elements.js", "marks.js", "point_map.js")
_STYLE = "base.css"


def shared_files() -> dict[str, str]:
    """Return the shared files of a page that a server sends one by one.

    Returns:
        The text of each file by its name: style sheets, and JavaScript modules that import each other by these names.
    """
    return {name: _read(name) for name in (_STYLE, *_MODULES)} | {"palette.css": _palette_style()}


def inline_style() -> str:
    """Return the shared style sheet, for a page that is one file."""
    return _read(_STYLE)


def inline_script() -> str:
    """Return the shared modules as one script, for a page that is one file and may load no module."""
    return "\n".join(re.sub(r"^(import .*;\n|export )", "", _read(name), flags=re.MULTILINE) for name in _MODULES)


def _palette_style() -> str:
    light, dark = (
        " ".join(f"--hue-{number}: {hue};" for number, hue in enumerate(palette)) for palette in (PALETTE, DARK_PALETTE)
    )
    return f":root {{ {light} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"


def _read(name: str) -> str:
    return files("angpn.inspection").joinpath("page", name).read_text(encoding="utf-8")
