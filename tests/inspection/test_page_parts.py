"""Parts that the report and pages from a server share."""

import re

from angpn.inspection.page_parts import inline_script, shared_files
from angpn.utils.palette import DARK_PALETTE, PALETTE


def test_a_module_imports_only_from_shared_modules_before_it():
    seen = set()
    for name, text in shared_files().items():
        assert set(re.findall(r'from "\./(.*?)"', text)) <= seen
        seen.add(name)


def test_the_modules_as_one_script_neither_import_nor_export():
    script = inline_script()
    assert not re.search(r"^(import|export)\b", script, flags=re.MULTILINE)
    assert "class PointMap" in script
    assert "const HUES = 10;" in script


def test_the_style_sheet_of_the_palette_has_every_hue_light_and_dark():
    light, dark = shared_files()["palette.css"].split("@media")
    assert len(PALETTE) == len(DARK_PALETTE) == 10  # as the pages count them
    for number in range(10):
        assert f"--hue-{number}: {PALETTE[number]};" in light
        assert f"--hue-{number}: {DARK_PALETTE[number]};" in dark
