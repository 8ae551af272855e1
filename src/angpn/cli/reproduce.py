"""``angpn reproduce``: run the paper's experiments and write the report."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from angpn.cli.shared import echo, plain_errors, select_names


def reproduce(
    suite: Annotated[
        str,
        typer.Option(
            help="Studies to run, comma-separated: grid, depth, neighbors, alpha, beta, steps, graphfree, few, tuned, "
            "which are all; and clustering, of rows without labels, which needs tables in the folder of the data sets."
        ),
    ] = "all",
    table: Annotated[int | None, typer.Option(help="Only the grid, and of it the paper's Table 1 or 2.")] = None,
    datasets: Annotated[str, typer.Option(help="Data sets, comma-separated.")] = "all",
    rates: Annotated[
        str,
        typer.Option(
            help="Per cent of each class to label (10, 20, 30), or numbers of labels where a study has those."
        ),
    ] = "all",
    methods: Annotated[str, typer.Option(help="Methods of the studies, comma-separated.")] = "all",
    seeds: Annotated[
        int | None, typer.Option(help="Number of random splits, or of seeds of a clustering; 5 here.", min=1, max=10)
    ] = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="A few small runs on bundled data, as a check.")] = False,
    workers: Annotated[int | None, typer.Option(help="Processes; by default one for each core.", min=1)] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder of results and report; by default results.")
    ] = None,
) -> None:
    """Run the paper's experiments and write the report; an interrupted run resumes where it was."""
    from angpn.baselines import METHODS
    from angpn.experiments import CLUSTERING_SMOKE, SMOKE, STUDIES, SUITES, ResultsFile, execute
    from angpn.experiments.clustering import CLUSTERERS, load
    from angpn.experiments.results import latest_records
    from angpn.experiments.runner import results_path
    from angpn.experiments.studies import TABLE_1, TABLE_2

    output = output or Path("results-smoke" if smoke else "results")
    tables = {None: None, 1: TABLE_1, 2: TABLE_2}
    if table not in tables:
        raise typer.BadParameter(f"--table must be 1 or 2, got {table}")
    suite = "grid" if tables[table] is not None else suite
    names = list(STUDIES) if suite == "all" else select_names("--suite", suite, list(SUITES))
    unlabelled = names == ["clustering"]
    wanted_methods = set(select_names("--methods", methods, [*METHODS, *CLUSTERERS]))
    if tables[table] is not None:
        wanted_methods &= set(tables[table] or ())
    studies = [CLUSTERING_SMOKE if unlabelled else SMOKE] if smoke else [SUITES[name] for name in names]
    known = [run for study in (studies if smoke or "clustering" in names else STUDIES.values()) for run in study.runs()]
    wanted_sets = select_names("--datasets", datasets, list(dict.fromkeys(run.dataset for run in known)))
    wanted_rates = [
        int(n) for n in select_names("--rates", rates, [str(n) for n in sorted({run.rate for run in known})])
    ]
    runs = {
        study.name: study.runs(datasets=wanted_sets, rates=wanted_rates, n_splits=seeds, methods=wanted_methods)
        for study in studies
    }
    if not any(runs.values()):
        raise typer.BadParameter("no run is in all of these: the studies, data sets, rates and methods asked for")
    errors = Console(stderr=True)
    with plain_errors(stopped="stopped; the same command resumes here"):
        # Here and not in each worker: a download happens once, and its error is printed.
        for name in dict.fromkeys(run.dataset for found in runs.values() for run in found):
            load(name)
        for study in studies:
            with _StudyBar(study.name, errors) as bar:
                execute(
                    runs[study.name],
                    results_path(output, study.name),
                    workers=workers,
                    cache_folder=output / "embeddings",
                    others=[results_path(output, name) for name in SUITES],
                    on_progress=bar.update,
                )
        everything = {study.name: study for study in studies} if smoke else SUITES
        records = {
            name: latest_records(ResultsFile(results_path(output, name)).read(), study.runs())
            for name, study in everything.items()
        }
        from angpn.experiments.report import write_report

        with errors.status("writing the report"):
            report = write_report(records, output)
    failures = [(name, record) for name, found in records.items() for record in found if record["error"] is not None]
    for name, record in failures[:10]:
        reason = record["error"].strip().splitlines()[-1]
        echo(
            f"failed: {name} {_condition(record)} {record['split']} {record['method']}: {reason}",
            err=True,
        )
    echo(f"report: {report}")
    if failures:
        echo(f"{len(failures)} runs failed; the same command repeats them", err=True)
        raise typer.Exit(1)


class _StudyBar:
    """Progress bar of a study with the last result and the remaining time."""

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
            accuracy = record["accuracy"] if "accuracy" in record else record["test_accuracy"]
            status += f"  {_condition(record)} {record['method']}: {accuracy:.1f} %"
        self._progress.update(self._task, completed=progress.done, total=progress.total, status=status)


def _condition(record: dict[str, Any]) -> str:
    """Return the name of the data set, and the rate where there are labels."""
    return record["dataset"] + (f" {record['rate']} %" if record["rate"] else "")


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
