"""The ``angpn`` command. No logic here: it reads options, calls the library and shows what came back."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import angpn

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Semi-supervised classification when there is no graph.",
)


def main() -> None:
    """Entry point of the command."""
    app()


def _version(show: bool) -> None:
    if show:
        typer.echo(f"angpn {angpn.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the picture.")] = Path("angpn-demo"),
    seed: Annotated[int, typer.Option(help="Which rows are labelled, and where training starts.", min=0)] = 0,
) -> None:
    """Label 1,797 handwritten digits from a tenth of their labels: offline, in under a minute."""
    from angpn.demo import MAX_EPOCHS, run_demo
    from angpn.report.figures import fit_figure, planar_map, save_figure

    if output.exists() and not output.is_dir():
        raise typer.BadParameter(f"{output} exists and is not a folder; name another with --output")
    console = Console()
    columns = TextColumn("{task.description:>6}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, TextColumn("{task.fields[status]}"), console=console) as progress:
        bars = {name: progress.add_task(name, total=MAX_EPOCHS, status="", start=False) for name in ("NGPN", "ANGPN")}

        def advance(name: str, epoch: angpn.Epoch) -> None:
            progress.start_task(bars[name])
            status = f"loss {epoch.loss:.3f}  held-out accuracy {epoch.validation_accuracy:.3f}"
            progress.update(bars[name], completed=epoch.number, status=status)

        result = run_demo(random_state=seed, on_epoch=advance)
        for name, epochs in result.curves.items():
            progress.update(bars[name], total=epochs[-1].number)  # early stopping is the end, not a bar cut short

    table = Table(title=f"Digits: {int(result.given.sum())} labels given, {int((~result.given).sum())} hidden")
    table.add_column("method")
    table.add_column("accuracy on the hidden", justify="right")
    for name, accuracy in result.accuracy.items():
        table.add_row(name, f"{accuracy:.1%}")
    console.print(table)
    with console.status("drawing the map"):
        figure = fit_figure(
            result.curves,
            planar_map(result.embedding, seed),
            result.predicted,
            result.truth,
            result.given,
            [str(digit) for digit in range(10)],
            "ANGPN",
        )
        picture = output / "demo.png"
        save_figure(figure, picture)
    console.print(f"picture: {picture}", soft_wrap=True)


@app.command()
def bench(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    sizes: Annotated[str, typer.Option(help="Numbers of rows to measure at, with commas.")] = "1000,5000,20000,70000",
    methods: Annotated[
        bool, typer.Option("--methods", help="Time a whole fit of every method of angpn.baselines instead.")
    ] = False,
    rows: Annotated[int, typer.Option(help="Number of rows for --methods.", min=100)] = 5000,
) -> None:
    """Time an epoch beside torch_geometric's networks and Algorithm 1 in dense torch: about ten minutes."""
    import importlib.util

    if importlib.util.find_spec("torch_geometric") is None:
        raise typer.BadParameter("the peers need torch_geometric; install angpn[baselines]")
    if methods:
        _bench_methods(rows, as_json)
        return
    try:
        numbers = sorted({int(size) for size in sizes.split(",")})
    except ValueError:
        raise typer.BadParameter(f"--sizes must be whole numbers with commas, got {sizes!r}") from None
    if numbers[0] < 100:
        raise typer.BadParameter(f"--sizes must be at least 100, got {numbers[0]}")
    from angpn.bench import PEERS, gemm_rate, measure, summary

    errors = Console(stderr=True)
    measurements = []
    with errors.status("measuring") as status:
        rate = gemm_rate()
        for n in numbers:
            measurements.append(measure(n, lambda name, n=n: status.update(f"{n} rows: {name}")))  # type: ignore[misc]
    found = summary(measurements, rate)
    if as_json:
        typer.echo(json.dumps(found))
        return
    table = Table(title="An epoch: milliseconds (times ours), peak MB")
    table.add_column("rows", justify="right")
    for label in ("ours", *PEERS.values()):
        table.add_column(label, justify="right")
    for at in measurements:
        cells = []
        for name in ("ours", *PEERS):
            if name in at.seconds:
                ratio = "" if name == "ours" else f" ({at.seconds[name] / at.seconds['ours']:.1f}x)"
                cells.append(f"{1000 * at.seconds[name]:.1f}{ratio}, {at.peak_bytes[name] / 2**20:.0f}")
            else:
                cells.append("")
        table.add_row(f"{at.n:,}", *cells)
    console = Console()
    console.print(table)
    if found["growth_exponent"] is not None:
        console.print(f"time grows as n^{found['growth_exponent']:.2f} from 5,000 rows on")
    console.print(
        f"{found['limit_fraction']:.0%} of the speed at which a large matrix product does the same arithmetic"
    )


data_app = typer.Typer(invoke_without_command=True, help="The data sets: list them, or fetch one.")
app.add_typer(data_app, name="data")


@data_app.callback()
def data(
    context: typer.Context,
    data_home: Annotated[Path | None, typer.Option(help="Folder of the data sets.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """List the data sets: shape, size, source, licence, and where they are."""
    context.obj = data_home
    if context.invoked_subcommand is not None:
        return
    from angpn.datasets import SETS, data_folder

    folder = data_folder(data_home)
    found: dict[str, dict[str, Any]] = {}
    for name, info in SETS.items():
        there = [folder / file for file in info.files if (folder / file).exists()]
        where = "with scikit-learn" if not info.files else (str(there[0]) if there else "not fetched")
        found[name] = {
            "shape": list(info.shape),
            "classes": info.n_classes,
            "megabytes": round(there[0].stat().st_size / 2**20, 1) if there else None,
            "source": info.source,
            "licence": info.licence,
            "where": where,
        }
    if as_json:
        typer.echo(json.dumps({"folder": str(folder), "sets": found}))
        return
    typer.echo(f"Data sets in {folder}\n")
    for name, about in found.items():
        rows, columns = about["shape"]
        size = "" if about["megabytes"] is None else f", {about['megabytes']} MB"
        typer.echo(
            f"{name:14} {rows:5} x {columns:<5} {about['classes']:2} classes   {Path(about['where']).name}{size}"
        )
        typer.echo(f"{'':14} {about['source']}; licence: {about['licence']}")


@data_app.command()
def fetch(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="svhn, cifar10, 20news or coraml.")],
) -> None:
    """Download a set from its official source, unless it is there already, and check that it can be read."""
    from angpn.datasets import SETS, data_folder

    if name not in SETS:
        raise typer.BadParameter(f"{name!r} is none of {', '.join(SETS)}")
    try:
        found = SETS[name].load(data_home=context.obj)
    except (OSError, ValueError, ImportError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    rows, columns = found.data.shape
    typer.echo(f"{name}: {rows} x {columns}, {len(found.target_names)} classes, in {data_folder(context.obj)}")


def _bench_methods(rows: int, as_json: bool) -> None:
    from angpn.baselines import METHODS
    from angpn.bench import measure_methods

    errors, found = Console(stderr=True), {}
    with errors.status("measuring") as status:
        for name, figures in measure_methods(rows, list(METHODS), lambda name: status.update(f"{rows} rows: {name}")):
            found[name] = figures
            errors.print(f"{name}: {figures['seconds']:.1f} s, {figures['accuracy']:.1%}")
    if as_json:
        typer.echo(json.dumps({"rows": rows, "methods": found}))
        return
    table = Table(title=f"A fit on {rows:,} rows of 256 features, 10 % labelled, 5 % validation")
    for column in ("method", "seconds", "accuracy"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for name, figures in sorted(found.items(), key=lambda item: item[1]["seconds"]):
        table.add_row(name, f"{figures['seconds']:.1f}", f"{figures['accuracy']:.1%}")
    Console().print(table)
