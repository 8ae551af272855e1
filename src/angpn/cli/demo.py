"""``angpn demo``: the labelling job on bundled data."""

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
    """Label 1,797 handwritten digits from a tenth of their labels: offline, in under a minute."""
    from angpn.labelling import check_output_folder, recover_output, run_task, write_output
    from angpn.labelling.demo import compare_accuracies, digits_task

    with plain_errors():
        recover_output(output)
        check_output_folder(output)
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
