"""``angpn bench``: time an epoch beside other networks, fits beside other methods, or a fit of a million rows."""

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table


def bench(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    sizes: Annotated[
        str | None,
        typer.Option(
            help="Numbers of rows, comma-separated: by default 1000,5000,20000,70000, "
            "for --scale 10000,30000,100000,300000,1000000; for --fits shapes, by default "
            "150x4, 1797x64, 5000x256, 5000x1280, 50000x256.",
            show_default=False,
        ),
    ] = None,
    methods: Annotated[
        bool, typer.Option("--methods", help="Time a whole fit of every method of angpn.baselines instead.")
    ] = False,
    rows: Annotated[int, typer.Option(help="Number of rows for --methods.", min=100)] = 5000,
    scale: Annotated[
        bool, typer.Option("--scale", help="Fit a million rows, and time epochs up to there, instead.")
    ] = False,
    fits: Annotated[
        bool,
        typer.Option("--fits", help="Time a fit, a warm refit, predict and the import beside scikit-learn's, instead."),
    ] = False,
    threads: Annotated[int, typer.Option(help="Number of threads for --fits.", min=1)] = 1,
    turns: Annotated[
        int | None,
        typer.Option(
            help="How often --fits runs each method: by default 3 times, at 50000x256 once.", min=1, show_default=False
        ),
    ] = None,
) -> None:
    """Time an epoch beside torch_geometric's networks and Algorithm 1 in dense torch: about ten minutes."""
    import importlib.util

    if methods + scale + fits > 1:
        raise typer.BadParameter("--methods, --scale and --fits are separate measurements; name one of them")
    if fits:
        _bench_fits(sizes, turns, threads, as_json)
        return
    if scale:
        _bench_scale(_row_counts(sizes or "10000,30000,100000,300000,1000000", least=2), as_json)
        return
    if importlib.util.find_spec("torch_geometric") is None:
        raise typer.BadParameter("the other networks need torch_geometric; install angpn[baselines]")
    if methods:
        _bench_methods(rows, as_json)
        return
    numbers = _row_counts(sizes or "1000,5000,20000,70000")
    from angpn.bench.epochs import PEERS, gemm_rate, measure, summary

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
        console.print(f"duration grows as n^{found['growth_exponent']:.2f} from 5,000 rows on")
    console.print(f"{found['limit_fraction']:.0%} of the speed of a large matrix product with as many operations")


def _row_counts(sizes: str, least: int = 1) -> list[int]:
    try:
        numbers = sorted({int(size) for size in sizes.split(",")})
    except ValueError:
        raise typer.BadParameter(f"--sizes must be whole numbers separated by commas, got {sizes!r}") from None
    if numbers[0] < 100:
        raise typer.BadParameter(f"--sizes must be at least 100, got {numbers[0]}")
    if len(numbers) < least:
        raise typer.BadParameter(
            f"--sizes must be at least {least} numbers, to measure how duration grows, got {sizes!r}"
        )
    return numbers


def _bench_fits(sizes: str | None, turns: int | None, threads: int, as_json: bool) -> None:
    from angpn.bench.fits import SHAPES, measure
    from angpn.bench.startup import measure_startup

    shapes = list(SHAPES) if sizes is None else [shape.strip() for shape in sizes.split(",")]
    for shape in shapes:
        if shape not in SHAPES:
            raise typer.BadParameter(f"--sizes of --fits must be among {', '.join(SHAPES)}, got {shape!r}")
    errors, found = Console(stderr=True), {}
    with errors.status("measuring") as status:
        startup = measure_startup(turns or 5)
        for shape in shapes:
            found[shape] = measure(
                shape,
                turns=turns,
                threads=threads,
                on_step=lambda what, shape=shape: status.update(f"{shape}: {what}"),  # type: ignore[misc]
            )
            figures = ", ".join(f"{name} {_duration(value)}" for name, value in found[shape].items())
            errors.print(f"{shape}: {figures}", soft_wrap=True)
    if as_json:
        typer.echo(json.dumps({"fits": found, **startup}))
    else:
        _show_fits(found, startup, threads)


def _show_fits(found: dict[str, dict[str, float]], startup: dict[str, float], threads: int) -> None:
    labels = {"ours": "fit", "warm": "warm\nrefit", "predict10": "predict\n10 rows"}
    labels |= {"label_spreading": "Label\nSpreading", "self_training": "self-\ntraining", "logistic_cv": "Logistic\nCV"}
    table = Table(title=f"A fit beside scikit-learn's, {threads} thread{'s' * (threads > 1)}")
    table.add_column("shape")
    for label in labels.values():
        table.add_column(label, justify="right")
    for shape, seconds in found.items():
        table.add_row(shape, *(_duration(seconds[name]) for name in labels))
    console = Console()
    console.print(table)
    console.print(
        f"from angpn import ANGPNClassifier: {_duration(startup['import_seconds'])} "
        f"(import torch, sklearn: {_duration(startup['import_torch_sklearn_seconds'])})\n"
        f"import angpn: {_duration(startup['import_angpn_seconds'])} "
        f"(import numpy: {_duration(startup['import_numpy_seconds'])})\n"
        f"angpn --version: {_duration(startup['version_seconds'])}",
        highlight=False,
    )


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 10 else f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def _bench_scale(sizes: list[int], as_json: bool) -> None:
    from angpn.bench.scale import measure

    with Console(stderr=True).status("measuring") as status:
        found = measure(sizes, status.update)
    if as_json:
        typer.echo(json.dumps(found))
        return
    table = Table(title=f"{found['rows']:,} rows of 64 features, 1 % labelled, default parameters")
    for column in ("", "measured"):
        table.add_column(column, justify="right" if column else "left")
    peak = "unknown" if found["peak_gb"] is None else f"{found['peak_gb']:.1f} GB"
    for what, value in (
        ("whole fit", f"{found['fit_seconds']:.0f} s"),
        ("of it neighbours", f"{found['neighbour_seconds']:.0f} s"),
        ("recall of neighbours", f"{found['recall']:.1%}"),
        ("accuracy on unlabelled rows", f"{found['accuracy']:.1%}"),
        ("peak memory", peak),
        ("an epoch of a network grows as", f"n^{found['growth_exponent']:.2f}"),
        *((f"  on {int(n):,} rows", f"{value:.3f} s") for n, value in found["epoch_seconds"].items()),
    ):
        table.add_row(what, value)
    Console().print(table)


def _bench_methods(rows: int, as_json: bool) -> None:
    from angpn.baselines import METHODS
    from angpn.bench.methods import measure_methods

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
