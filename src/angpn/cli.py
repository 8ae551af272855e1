"""The ``angpn`` command. No logic here: it reads options, calls the library and shows what came back."""

import json
import os
import sys
import tomllib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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


@contextmanager
def _plain_errors(*, quiet: bool = False) -> Iterator[None]:
    """What a user can mend, in one line; warnings as well."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if quiet else "default")
            warnings.showwarning = lambda message, *_: typer.echo(f"warning: {message}", err=True)
            yield
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(141) from None
    except (ValueError, OSError, ImportError, MemoryError, RuntimeError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        typer.echo(f"error: {reason}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        typer.echo("stopped; nothing was written", err=True)
        raise typer.Exit(130) from None


def _read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Take the options of a TOML file as defaults."""
    if path is None:
        return None
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise typer.BadParameter(f"{path} must be a TOML file that can be read, got: {error}") from None
    known = {option: parameter.name for parameter in context.command.params for option in parameter.opts}
    defaults = {}
    for name, value in found.items():
        option = f"--{name.replace('_', '-')}"
        if option not in known or option == "--config":
            raise typer.BadParameter(f"{path} must name options of this command, got {name!r}")
        defaults[known[option]] = ",".join(map(str, value)) if isinstance(value, list) else value
    context.default_map = {**(context.default_map or {}), **defaults}
    return path


def _names(value: str) -> list[str]:
    return [name.strip() for name in value.split(",") if name.strip()]


def _tell(facts: dict[str, Any], text: str, *, as_json: bool, quiet: bool) -> None:
    if as_json:
        typer.echo(json.dumps(facts))
    elif not quiet:
        typer.echo(text)


def _understood(about: dict[str, Any]) -> str:
    lines = [f"{about['input']}: {about['rows']:,} rows of {about['kind']}, {about['given']:,} of them labelled"]
    lines += [f"  {name}: {count}" for name, count in about["classes"].items()]
    lines += [f"{kind}: {', '.join(about[kind])}" for kind in ("numbers", "categories") if about.get(kind)]
    return "\n".join(lines)


def _labelled(about: dict[str, Any]) -> str:
    lines = [f"{about['predicted']:,} rows labelled from {about['given']:,} labels in {about['seconds']} s"]
    estimate = about["estimate"]
    if estimate is None:
        lines.append("accuracy: not known, too few labels to hide any; label more rows")
    else:
        lines.append(
            f"accuracy: {estimate['accuracy']:.1%} ({estimate['low']:.1%} to {estimate['high']:.1%}), "
            f"{'measured' if estimate['kind'] == 'held out' else 'an estimate'} on {estimate['rows']} "
            f"{'hidden labels' if estimate['kind'] == 'held out' else 'labels that were held out in turn'}"
        )
    if about["suspects"]:
        lines.append(f"{about['suspects']} of the given labels look wrong: see the report")
    lines += [f"skipped {name}: {reason}" for name, reason in about["skipped"].items()]
    lines += [f"{name}: {path}" for name, path in about["files"].items()]
    return "\n".join(lines)


def _estimate_facts(estimate: Any) -> dict[str, Any]:
    return {
        "kind": estimate.kind,
        "accuracy": estimate.accuracy,
        "low": estimate.low,
        "high": estimate.high,
        "rows": estimate.n_rows,
    }


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for what angpn label writes.")] = Path(
        "angpn-demo"
    ),
    seed: Annotated[int, typer.Option(help="Which rows are labelled, and where training starts.", min=0)] = 0,
) -> None:
    """Label 1,797 handwritten digits from a tenth of their labels: offline, in under a minute."""
    from angpn.demo import accuracies, digits_task
    from angpn.labelling import check_folder, run, write_output

    with _plain_errors():
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


@app.command()
def label(
    input: Annotated[
        str, typer.Argument(help="A folder of images, .csv, .tsv, .parquet, .npy, .npz or .txt; - reads CSV.")
    ],
    labels: Annotated[Path | None, typer.Option(help="CSV file with the header id,label.")] = None,
    label_column: Annotated[str | None, typer.Option(help="Column with the labels, empty where unlabelled.")] = None,
    text: Annotated[str | None, typer.Option(help="Column with texts to label by.")] = None,
    id_column: Annotated[str | None, typer.Option(help="Column with ids; without it the number of the row.")] = None,
    drop: Annotated[str, typer.Option(help="Columns to leave out, with commas.")] = "",
    categorical: Annotated[str, typer.Option(help="Columns to take as categories, with commas.")] = "",
    impute: Annotated[bool, typer.Option("--impute", help="Fill missing values: the median, or a category.")] = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out images that cannot be read.")] = False,
    holdout: Annotated[float, typer.Option(help="Share of the labels to hide, to measure accuracy on them.")] = 0.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.", min=0)] = 0,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for predictions, model and report.")] = Path(
        "angpn-out"
    ),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what was understood of the input, and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
    config: Annotated[
        Path | None,
        typer.Option(callback=_read_config, is_eager=True, help="TOML file with these options; those given here win."),
    ] = None,
) -> None:
    """Label the rest: you labelled a few rows of a folder, table or array."""
    from angpn.labelling import Settings, check_folder, encoder_of, run, understand, write_output
    from angpn.labelling.table_encoder import TableEncoder
    from angpn.sharding import is_first, join

    if join() and not is_first():
        quiet, as_json = True, False  # under torchrun one process speaks and writes for all
    settings = Settings(
        input=input,
        labels=labels,
        label_column=label_column,
        text=text,
        id_column=id_column,
        drop=_names(drop),
        categorical=_names(categorical),
        impute=impute,
        skip_bad=skip_bad,
        holdout=holdout,
        seed=seed,
    )
    with _plain_errors(quiet=quiet):
        task = understand(settings)
        about = {
            "input": str(input),
            "kind": task.rows.kind,
            "rows": len(task.y),
            "given": int(task.given.sum()),
            "classes": task.counts(),
        }
        if dry_run:
            if task.rows.kind in ("table", "array"):
                encoder = encoder_of(task)
                encoder.fit(task.rows.content)
                about |= encoder.describe() if isinstance(encoder, TableEncoder) else {}
            _tell({**about, "dry_run": True}, _understood(about), as_json=as_json, quiet=quiet)
            return
        check_folder(output)
        outcome = run(task, progress=not quiet and sys.stderr.isatty())
        if not is_first():
            return
        files = write_output(outcome, output)
    estimate = outcome.estimate
    about |= {
        "rows": len(outcome.labels),
        "skipped": outcome.bad,
        "predicted": int((~outcome.task.given).sum()),
        "estimate": None if estimate is None else _estimate_facts(estimate),
        "suspects": len(outcome.suspects),
        "seconds": round(outcome.seconds, 1),
        "files": {name: str(path) for name, path in files.items()},
    }
    _tell(about, _labelled(about), as_json=as_json, quiet=quiet)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="The folder model that angpn label wrote.")],
    input: Annotated[str, typer.Argument(help="New rows of the same kind; - reads CSV.")],
    output: Annotated[str, typer.Option("--output", "-o", help="CSV file to write; - prints it.")] = "-",
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out images that cannot be read.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Label new rows with a saved model."""
    from angpn.files import replacing
    from angpn.labelling import predict_file
    from angpn.labelling.output import write_lines

    with _plain_errors(quiet=quiet):
        lines, bad = predict_file(model, input, skip_bad=skip_bad, progress=not quiet and sys.stderr.isatty())
        if output == "-":
            sys.stdout.write(lines)
            sys.stdout.flush()
        else:
            with replacing(output) as temporary:
                write_lines(lines, temporary)
    for name, reason in bad.items() if not quiet else ():
        typer.echo(f"skipped {name}: {reason}", err=True)
    if output != "-" and not quiet:
        typer.echo(f"{lines.count(chr(10)) - 1} rows: {output}", err=True)


@app.command()
def bench(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    sizes: Annotated[
        str | None,
        typer.Option(
            help="Numbers of rows to measure at, with commas: by default 1000,5000,20000,70000, "
            "for --scale 10000,30000,100000,300000,1000000.",
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
) -> None:
    """Time an epoch beside torch_geometric's networks and Algorithm 1 in dense torch: about ten minutes."""
    import importlib.util

    if scale:
        _bench_scale(_row_counts(sizes or "10000,30000,100000,300000,1000000", least=2), as_json)
        return
    if importlib.util.find_spec("torch_geometric") is None:
        raise typer.BadParameter("the peers need torch_geometric; install angpn[baselines]")
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
        console.print(f"time grows as n^{found['growth_exponent']:.2f} from 5,000 rows on")
    console.print(
        f"{found['limit_fraction']:.0%} of the speed at which a large matrix product does the same arithmetic"
    )


@app.command()
def reproduce(
    suite: Annotated[
        str,
        typer.Option(
            help="Studies to run, with commas: grid, depth, neighbors, alpha, beta, steps, graphfree, few, tuned."
        ),
    ] = "all",
    table: Annotated[int | None, typer.Option(help="Only the grid, and of it the paper's Table 1 or 2.")] = None,
    datasets: Annotated[str, typer.Option(help="Data sets, with commas.")] = "all",
    rates: Annotated[
        str, typer.Option(help="Per cent of each class that is labelled (10, 20, 30), or labels where a study counts.")
    ] = "all",
    methods: Annotated[str, typer.Option(help="Methods of angpn.baselines, with commas.")] = "all",
    seeds: Annotated[int | None, typer.Option(help="Number of random splits; the grid has 5.", min=1, max=10)] = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="A few small runs on bundled data: does it all work?")] = False,
    workers: Annotated[int | None, typer.Option(help="Processes; by default one for each core.", min=1)] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder of results and report; by default results.")
    ] = None,
) -> None:
    """Run the paper's experiments and write the report. Stopped and started again, it goes on where it was."""
    from angpn.baselines import METHODS
    from angpn.datasets import SETS
    from angpn.experiments import SMOKE, STUDIES, ResultsFile, execute
    from angpn.experiments.results import of_runs
    from angpn.experiments.runner import results_path
    from angpn.experiments.studies import TABLE_1, TABLE_2

    output = output or Path("results-smoke" if smoke else "results")
    tables = {None: None, 1: TABLE_1, 2: TABLE_2}
    if table not in tables:
        raise typer.BadParameter(f"--table must be 1 or 2, got {table}")
    wanted_methods = set(_chosen("--methods", methods, list(METHODS)))
    if tables[table] is not None:
        wanted_methods &= set(tables[table] or ())
        suite = "grid"
    studies = [SMOKE] if smoke else [STUDIES[name] for name in _chosen("--suite", suite, list(STUDIES))]
    known = [run for study in (studies if smoke else STUDIES.values()) for run in study.runs()]
    wanted_sets = _chosen("--datasets", datasets, list(dict.fromkeys(run.dataset for run in known)))
    wanted_rates = [int(n) for n in _chosen("--rates", rates, [str(n) for n in sorted({run.rate for run in known})])]
    runs = {
        study.name: study.runs(datasets=wanted_sets, rates=wanted_rates, n_splits=seeds, methods=wanted_methods)
        for study in studies
    }
    if not any(runs.values()):
        raise typer.BadParameter("no run is in all of these: the studies, data sets, rates and methods asked for")
    errors = Console(stderr=True)
    try:
        # Here and not in each worker: a download is made once, and its error is plain.
        for name in dict.fromkeys(run.dataset for found in runs.values() for run in found):
            SETS[name].load()
        for study in studies:
            with _StudyBar(study.name, errors) as bar:
                execute(
                    runs[study.name],
                    results_path(output, study.name),
                    workers=workers,
                    cache_folder=output / "embeddings",
                    others=[results_path(output, name) for name in STUDIES],
                    on_progress=bar.update,
                )
        everything = {"grid": SMOKE} if smoke else STUDIES
        records = {
            name: of_runs(ResultsFile(results_path(output, name)).read(), study.runs())
            for name, study in everything.items()
        }
        from angpn.report.experiments import write_report

        with errors.status("drawing"):
            report = write_report(records, output)
    except KeyboardInterrupt:
        errors.print("stopped; the same command goes on from here")
        raise typer.Exit(130) from None
    except (OSError, ValueError, ImportError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    failures = [(name, record) for name, found in records.items() for record in found if record["error"] is not None]
    for name, record in failures[:10]:
        reason = record["error"].strip().splitlines()[-1]
        typer.echo(
            f"failed: {name} {record['dataset']} {record['rate']} % {record['split']} {record['method']}: {reason}",
            err=True,
        )
    typer.echo(f"report: {report}")
    if failures:
        typer.echo(f"{len(failures)} runs failed; the same command tries them again", err=True)
        raise typer.Exit(1)


def _chosen(option: str, value: str, known: Sequence[str]) -> list[str]:
    """The names in a list with commas."""
    if value == "all":
        return list(known)
    names = [name.strip() for name in value.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"{option} knows {', '.join(known)}; got {name!r}")
    if not names:
        raise typer.BadParameter(f"{option} names nothing; it knows {', '.join(known)}")
    return names


class _StudyBar:
    """How far a study is, what came last, and how long it will take."""

    def __init__(self, name: str, console: Console) -> None:
        columns = TextColumn("{task.description:>9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        self._progress = Progress(*columns, TextColumn("{task.fields[status]}"), console=console)
        self._task = self._progress.add_task(name, total=None, status="")

    def __enter__(self) -> "_StudyBar":
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def update(self, progress: Any, record: dict[str, Any] | None) -> None:
        left = progress.seconds_left
        status = "" if left is None or progress.done == progress.total else f"about {_duration(left)} left"
        if progress.failed:
            status += f"  {progress.failed} failed"
        if record is not None and record["error"] is None:
            about = f"{record['dataset']} {record['rate']} % {record['method']}"
            status += f"  {about}: {record['test_accuracy']:.1f} %"
        self._progress.update(self._task, completed=progress.done, total=progress.total, status=status)


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


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


def _row_counts(sizes: str, least: int = 1) -> list[int]:
    try:
        numbers = sorted({int(size) for size in sizes.split(",")})
    except ValueError:
        raise typer.BadParameter(f"--sizes must be whole numbers with commas, got {sizes!r}") from None
    if numbers[0] < 100:
        raise typer.BadParameter(f"--sizes must be at least 100, got {numbers[0]}")
    if len(numbers) < least:
        raise typer.BadParameter(f"--sizes must be at least {least} numbers, to see how time grows, got {sizes!r}")
    return numbers


def _bench_scale(sizes: list[int], as_json: bool) -> None:
    from angpn.bench.scale import measure

    with Console(stderr=True).status("measuring") as status:
        found = measure(sizes, status.update)
    if as_json:
        typer.echo(json.dumps(found))
        return
    table = Table(title=f"{found['rows']:,} rows of 64 features, 1 % labelled, default settings")
    for column in ("", "measured"):
        table.add_column(column, justify="right" if column else "left")
    peak = "unknown" if found["peak_gb"] is None else f"{found['peak_gb']:.1f} GB"
    for what, value in (
        ("whole fit", f"{found['fit_seconds']:.0f} s"),
        ("of it neighbours", f"{found['neighbour_seconds']:.0f} s"),
        ("recall of neighbours", f"{found['recall']:.1%}"),
        ("accuracy on hidden labels", f"{found['accuracy']:.1%}"),
        ("peak memory", peak),
        ("an epoch of a network grows as", f"n^{found['growth_exponent']:.2f}"),
        *((f"  on {int(n):,} rows", f"{value:.3f} s") for n, value in found["epoch_seconds"].items()),
    ):
        table.add_row(what, value)
    Console().print(table)


def _bench_methods(rows: int, as_json: bool) -> None:
    from angpn.baselines import METHODS
    from angpn.bench.fits import measure_methods

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
