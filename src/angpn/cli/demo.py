"""``angpn demo``: the labelling job on bundled data, images and a table."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from angpn.cli.shared import echo, plain_errors


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for predictions, model and report.")] = Path(
        "angpn-demo"
    ),
    seed: Annotated[int, typer.Option(help="Seed of the labelled rows and of the fit.", min=0)] = 0,
) -> None:
    """Label 1,797 handwritten digits and a messy table of wines from a few labels: offline, in under a minute."""
    from angpn.labelling import check_output_folder, recover_output, run_task, write_output
    from angpn.labelling.demo import compare_accuracies, digits_task, wines_task
    from angpn.labelling.reading_facts import reading_facts

    wines = output.with_name(f"{output.name}-table")

    with plain_errors():
        for folder in (output, wines / "out"):
            recover_output(folder)
            check_output_folder(folder)
        task, truth = digits_task(seed=seed)
        result = run_task(task, progress=sys.stderr.isatty())
        files = write_output(result, output)
    table = Table(title=f"Digits: {int(task.given.sum())} labels given, {int((~task.given).sum())} rows unlabelled")
    table.add_column("method")
    table.add_column("accuracy on unlabelled rows", justify="right")
    for name, accuracy in compare_accuracies(result, truth).items():
        table.add_row(name, f"{accuracy:.1%}")
    Console().print(table)
    for name, path in files.items():
        echo(f"{name}: {path}")
    with plain_errors():
        task, truth = wines_task(wines / "wines.csv", seed=seed)
        result = run_task(task)
        files = write_output(result, wines / "out")
    right = (result.labels == truth)[~task.given].mean()
    n_given, given = int(task.given.sum()), "--label-column cultivar --id-column Nummer --impute"
    for line in (
        "",
        f"A table as a spreadsheet wrote it: {wines / 'wines.csv'}, {n_given} of {len(truth)} wines labelled",
        f"$ angpn label {wines / 'wines.csv'} {given} -o {wines / 'out'}",
        *reading_facts(task.rows, result.encoder).lines(),
        f"accuracy on unlabelled rows: {right:.1%}",
        *(f"{name}: {path}" for name, path in files.items()),
    ):
        echo(line)
