"""Tables as Markdown and as HTML."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple


class Text(NamedTuple):
    """The text of a cell."""

    text: str
    bold: bool = False


class Table(NamedTuple):
    """A caption, column headers, and rows of cells; all columns but the first hold numbers."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Text]]

    def to_markdown(self) -> str:
        """Return the table as Markdown, below its caption."""
        lines = [
            "| " + " | ".join(self.head) + " |",
            "| " + " | ".join(["---", *["---:"] * (len(self.head) - 1)]) + " |",
        ]
        for row in self.rows:
            lines.append("| " + " | ".join(_markdown(cell) for cell in row) + " |")
        return f"**{self.caption}**\n\n" + "\n".join(lines) + "\n"

    def to_html(self) -> str:
        """Return the table as an HTML element."""
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in self.head)
        body = []
        for row in self.rows:
            first, *others = row
            cells = f'<th scope="row">{_html(first)}</th>' + "".join(f"<td>{_html(cell)}</td>" for cell in others)
            body.append(f"<tr>{cells}</tr>")
        caption = f"<caption>{escape(self.caption)}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _markdown(cell: Text) -> str:
    text = cell.text.replace("|", "\\|")
    return f"**{text}**" if cell.bold else text


def _html(cell: Text) -> str:
    text = escape(cell.text)
    return f"<b>{text}</b>" if cell.bold else text
