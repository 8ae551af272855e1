"""Draw ``docs/images/architecture.svg``, the rooms of ``src/angpn`` as the import contract orders them.

The layers come from ``pyproject.toml``, the line on each room from here: ``python docs/draw_architecture.py``.
"""

import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "images" / "architecture.svg"

HOLDS = {
    "cli": "the angpn command: one file a command, no logic of its own",
    "annotation": "angpn annotate: log, state, queue, learner, server, page",
    "labelling": "rows, encoders, jobs, files",
    "experiments": "splits, runner, tables, figures",
    "bench": "measurements of angpn bench",
    "baselines": "the methods that are compared with, behind one interface",
    "datasets": "loaders of the paper's data sets and of bundled ones",
    "features": "images, texts and tables to arrays",
    "estimators": "classifiers, clusterer: fit, predict, explain, suggest, save",
    "inspection": "what is shown of a fitted classifier: figures, report, suspected label errors, estimated accuracy",
    "model_selection": "folds of labelled rows",
    "network": "layer, model, training, new rows",
    "ensemble": "base learners, self-training",
    "anfp": "simplex, graph, propagation, Algorithm 1: Eqs. (1) to (13), dense, sparse and compiled",
    "neighbors": "the candidates of each row: exact, approximate, in local order, in shards with halos",
    "kernels": "compiled loops over rows, and their threads",
    "utils": "checks, labels, files, memory, progress",
}
# Name, fill and line of a group of layers, and the room that it begins with.
GROUPS = {
    "cli": ("applications", "#e3edf9", "#2f66a8"),
    "baselines": ("data, comparison", "#def2ef", "#1f7a6d"),
    "estimators": ("estimators", "#fdf0d5", "#a8700f"),
    "network": ("models", "#ece6f8", "#6a4ba8"),
    "anfp": ("method", "#e4f3de", "#3f7d24"),
    "kernels": ("foundations", "#ececef", "#5c6270"),
}
WIDTH, LEFT, TOP, RIGHT, BOX, STEP, GAP = 1000, 196, 24, 976, 54, 68, 18
SANS = "font-family=\"'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', Arial, sans-serif\""
MONO = "font-family=\"ui-monospace, Menlo, 'DejaVu Sans Mono', monospace\""


def layers() -> list[list[str]]:
    """Return the rooms of each layer of the import contract, the top layer first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = (contract for contract in contracts if contract["type"] == "layers")
    return [layer.split(" | ") for layer in contract["layers"]]


def draw() -> str:
    """Return the picture as SVG."""
    rows, parts = layers(), []
    height = TOP + STEP * len(rows) + 42
    starts = [number for number, (first, *_) in enumerate(rows) if first in GROUPS]
    for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True):
        name, fill, line = GROUPS[rows[start][0]]
        top, bottom = TOP + STEP * start, TOP + STEP * stop - (STEP - BOX)
        parts.append(
            f'<path d="M178 {top} h-6 v{bottom - top} h6" fill="none" stroke="{line}" stroke-width="2"/>'
            f'<text x="162" y="{(top + bottom) / 2 + 5}" text-anchor="end" font-size="14" fill="{line}" {SANS}>'
            f"{name}</text>"
        )
        for number in range(start, stop):
            parts.extend(_layer(rows[number], TOP + STEP * number, fill, line))
    end = TOP + STEP * len(rows) - (STEP - BOX)
    parts.append(
        f'<line x1="30" y1="{TOP}" x2="30" y2="{end - 12}" stroke="#33373f" stroke-width="2"/>'
        f'<path d="M23 {end - 14} h14 l-7 14 z" fill="#33373f"/>'
        f'<text transform="translate(20 {(TOP + end) / 2}) rotate(-90)" text-anchor="middle" font-size="13" '
        f'fill="#33373f" {SANS}>may import</text>'
        f'<text x="{LEFT}" y="{height - 18}" font-size="13" fill="#33373f" {SANS}>'
        "A room imports only from lower layers. Rooms side by side do not import each other.</text>"
    )
    about = "Rooms of angpn by layer, from the top: " + "; ".join(", ".join(row) for row in rows)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
            f'height="{height}" role="img">',
            f"<title>{about}</title>",
            f'<rect width="{WIDTH}" height="{height}" rx="10" fill="#ffffff"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _layer(rooms: list[str], y: float, fill: str, line: str) -> list[str]:
    width = (RIGHT - LEFT - GAP * (len(rooms) - 1)) / len(rooms)
    parts = []
    for number, room in enumerate(rooms):
        x = LEFT + number * (width + GAP)
        if number:
            parts.append(
                f'<line x1="{x - GAP / 2:.1f}" y1="{y}" x2="{x - GAP / 2:.1f}" y2="{y + BOX}" stroke="{line}" '
                'stroke-width="1.5" stroke-dasharray="3 4"/>'
            )
        parts.append(
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BOX}" rx="6" fill="{fill}" stroke="{line}"/>'
            f'<text x="{x + 14:.1f}" y="{y + 22}" font-size="15" font-weight="700" fill="#1c1f24" {MONO}>{room}</text>'
            f'<text x="{x + 14:.1f}" y="{y + 42}" font-size="12.5" fill="#33373f" {SANS}>{escape(HOLDS[room])}</text>'
        )
    return parts


if __name__ == "__main__":
    PICTURE.write_text(draw())
