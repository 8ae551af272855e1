"""``angpn suggest``: the rows to label next."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from angpn.cli.label import MAX_PIXELS, ColumnNames, EncoderName, MaxPixels, NoCache, TableFile
from angpn.cli.shared import INPUT_HELP, plain_errors, print_data, print_result, split_names


class Strategy(StrEnum):
    """Values of ``--strategy``."""

    herding = "herding"
    typiclust = "typiclust"
    probcover = "probcover"
    margin = "margin"
    random = "random"


def suggest(
    input: Annotated[str, typer.Argument(help=INPUT_HELP)],
    n: Annotated[int, typer.Option("-n", help="How many rows.", min=1)] = 20,
    labels: Annotated[
        list[Path] | None, typer.Option(help="CSV file with the header id,label; may be given several times.")
    ] = None,
    label_column: Annotated[str | None, typer.Option(help="Column with the labels, empty where unlabelled.")] = None,
    strategy: Annotated[
        Strategy,
        typer.Option(
            help="herding: typical rows while labels are few, then uncertain ones; random: to measure accuracy on."
        ),
    ] = Strategy.herding,
    per_cluster: Annotated[
        bool, typer.Option("--per-cluster", help="Typical rows of each cluster, to name classes first.")
    ] = False,
    text: Annotated[str | None, typer.Option(help="Column with texts.")] = None,
    id_column: Annotated[str | None, typer.Option(help="Column with ids; without it the number of the row.")] = None,
    drop: Annotated[str, typer.Option(help="Columns to leave out, comma-separated.")] = "",
    columns: ColumnNames = "",
    table: TableFile = None,
    categorical: Annotated[str, typer.Option(help="Columns to encode as categories, comma-separated.")] = "",
    impute: Annotated[bool, typer.Option("--impute", help="Fill missing values by the median or a category.")] = False,
    encoder: EncoderName = "auto",
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out images that cannot be read.")] = False,
    excel_safe: Annotated[
        bool, typer.Option("--excel-safe", help="Put ' before ids and labels that a spreadsheet would run as formulas.")
    ] = False,
    max_pixels: MaxPixels = MAX_PIXELS,
    no_cache: NoCache = False,
    seed: Annotated[int, typer.Option(help="The same seed gives the same rows.", min=0)] = 0,
    output: Annotated[str, typer.Option("--output", "-o", help="CSV file to write; - prints it.")] = "next.csv",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Choose the rows to label next, from no labels on, and write them to a file to fill in."""
    from angpn.labelling.suggest_job import SuggestOptions, suggest_rows, suggestions_csv, write_suggestions

    options = SuggestOptions(
        input=input,
        labels=labels or (),
        label_column=label_column,
        n=n,
        strategy=strategy.value,
        per_cluster=per_cluster,
        text=text,
        id_column=id_column,
        drop=split_names(drop),
        columns=split_names(columns),
        table=table,
        categorical=split_names(categorical),
        impute=impute,
        encoder=encoder,
        skip_bad=skip_bad,
        max_pixels=max_pixels,
        cache=not no_cache,
        seed=seed,
    )
    with plain_errors(quiet=quiet):
        found = suggest_rows(options, progress=not quiet and sys.stderr.isatty())
        if output == "-":
            print_data(suggestions_csv(found.rows, excel_safe=excel_safe))
            return
        write_suggestions(found.rows, output, excel_safe=excel_safe)
    facts = {
        "input": str(input),
        "rows": found.n_rows,
        "labelled": found.n_labelled,
        "classes": found.classes,
        "suggested": [row._asdict() for row in found.rows],
        "skipped": found.skipped,
        **found.reading.as_json(),
        "file": output,
    }
    lines = [
        f"{input}: {found.n_rows:,} rows, {found.n_labelled:,} of them labelled",
        *found.reading.lines(),
        *(f"  {row.id}: {row.reason}" for row in found.rows[:5]),
        *([f"  and {len(found.rows) - 5} more"] if len(found.rows) > 5 else []),
        *(f"skipped {name}: {reason}" for name, reason in found.skipped.items()),
        f"{output}: {_next_step(input, label_column)}",
    ]
    print_result(facts, lines, as_json=as_json, quiet=quiet)


def _next_step(input: str, label_column: str | None) -> str:
    """Say where labels of the suggested rows go: a file of labels cannot be joined with a column of the table."""
    if label_column is not None:
        return f"label these rows in the column {label_column!r} of {input}, then run angpn label or suggest again"
    return "fill in the column label, then pass it to angpn label --labels or to angpn suggest --labels"
