"""``angpn demo``: the main job on bundled data."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from angpn.cli.shared import plain_errors


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for what angpn label writes.")] = Path(
        "angpn-demo"
    ),
    seed: Annotated[int, typer.Option(help="Which rows are labelled, and where training starts.", min=0)] = 0,
) -> None:
    """Label 1,797 handwritten digits from a tenth of their labels: offline, in under a minute."""
    from angpn.labelling import check_folder, run, write_output
    from angpn.labelling.demo import accuracies, digits_task

    with plain_errors():
        check_folder(output)
        task, truth = digits_task(seed=seed)
        outcome = run(task, progress=sys.stderr.isatty())
        files = write_output(outcome, output)
    table = Table(title=f"Digits: {int(task.given.sum())} labels given, {int((~task.given).sum())} hidden")
    table.add_column("method")
    table.add_column("accuracy on the hidden", justify="right")
    for name, accuracy in accuracies(outcome, truth).items():
        table.add_row(name, f"{accuracy:.1%}")
    console = Console()
    console.print(table)
    for name, path in files.items():
        console.print(f"{name}: {path}", soft_wrap=True)
