"""The ``angpn`` command: reads options, calls the library and prints the result, without logic of its own."""

from typing import Annotated

import typer

import angpn
from angpn.cli.annotate import annotate
from angpn.cli.bench import bench
from angpn.cli.cluster import cluster
from angpn.cli.data import data_app
from angpn.cli.demo import demo
from angpn.cli.label import label, predict
from angpn.cli.reproduce import reproduce
from angpn.cli.shared import PrintableErrorsGroup, make_streams_lenient
from angpn.cli.suggest import suggest

app = typer.Typer(
    cls=PrintableErrorsGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Semi-supervised classification when there is no graph.",
)
for command in (demo, annotate, label, predict, suggest, cluster, bench, reproduce):
    app.command()(command)
app.add_typer(data_app, name="data")


def main() -> None:
    """Run the command."""
    make_streams_lenient()
    app()


def _version(show: bool) -> None:
    if show:
        typer.echo(f"angpn {angpn.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass
