"""``angpn data``: list the data sets, or download one."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from angpn.cli.shared import echo

data_app = typer.Typer(invoke_without_command=True, help="List the data sets, or download one.")


@data_app.callback()
def data(
    context: typer.Context,
    data_home: Annotated[Path | None, typer.Option(help="Folder of the data sets.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """List the data sets: shape, size, source, licence and location."""
    context.obj = data_home
    if context.invoked_subcommand is not None:
        return
    from angpn.datasets import SETS, data_folder

    folder = data_folder(data_home)
    sets: dict[str, dict[str, Any]] = {}
    for name, info in SETS.items():
        files = [folder / file for file in info.files if (folder / file).exists()]
        where = "with scikit-learn" if not info.files else (str(files[0]) if files else "not fetched")
        sets[name] = {
            "shape": list(info.shape),
            "classes": info.n_classes,
            "megabytes": round(files[0].stat().st_size / 2**20, 1) if files else None,
            "source": info.source,
            "licence": info.licence,
            "where": where,
        }
    if as_json:
        typer.echo(json.dumps({"folder": str(folder), "sets": sets}))
        return
    echo(f"Data sets in {folder}")
    echo("")
    for name, about in sets.items():
        rows, columns = about["shape"]
        size = "" if about["megabytes"] is None else f", {about['megabytes']} MB"
        echo(f"{name:14} {rows:5} x {columns:<5} {about['classes']:2} classes   {Path(about['where']).name}{size}")
        echo(f"{'':14} {about['source']}; licence: {about['licence']}")


@data_app.command()
def fetch(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="svhn, cifar10, 20news or coraml.")],
) -> None:
    """Download a data set from its official source, unless it is present, and check that it can be read."""
    from angpn.datasets import SETS, data_folder

    if name not in SETS:
        raise typer.BadParameter(f"{name!r} is none of {', '.join(SETS)}")
    try:
        bunch = SETS[name].load(data_home=context.obj)
    except (OSError, ValueError, ImportError) as error:
        echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    rows, columns = bunch.data.shape
    echo(f"{name}: {rows} x {columns}, {len(bunch.target_names)} classes, in {data_folder(context.obj)}")
