"""Put the tables and figures of ``results/report.md`` below the text of ``docs/results.md``: ``make results-doc``."""

from pathlib import Path

DOCS = Path(__file__).parent
MARK = "<!-- What follows is results/report.md, by `make results-doc`. -->\n"


def with_results(text: str, report: str) -> str:
    """The page with the report in place of the last one."""
    written, _, _ = text.partition(MARK)
    body = report.split("\n", 1)[1].replace("](figures/", "](../results/figures/")
    return written + MARK + body


if __name__ == "__main__":
    page = DOCS / "results.md"
    report = DOCS.parent / "results" / "report.md"
    page.write_text(with_results(page.read_text(), report.read_text()))
