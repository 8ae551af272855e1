"""``angpn label`` and ``angpn predict``: label the unlabelled rows of an input, and new rows."""

import sys
import tomllib
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from angpn.cli.shared import INPUT_HELP, echo, plain_errors, print_data, print_result, split_names

MaxPixels = Annotated[int, typer.Option(help="An image with more pixels is one that cannot be read.", min=1)]
NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Neither take features of images from the cache nor keep them there.")
]
ColumnNames = Annotated[str, typer.Option(help="Columns to label by beside --text or of --table, comma-separated.")]
TableFile = Annotated[Path | None, typer.Option(help="Table with columns of the images of a folder, by their id.")]
EncoderName = Annotated[
    str,
    typer.Option(
        "--encoder",
        help="Texts: tfidf, wordllama, sentence-transformers:NAME_OR_FOLDER, module:function, or several of them with "
        "commas, for labels to choose. Images: efficientnet-lite0, timm:NAME, torchvision:NAME, open_clip:NAME, a "
        ".pt or .safetensors file.",
    ),
]
_RECALLS_SHOWN = 5
# What is said of an estimate by labels that are no random sample, or perhaps none.
_SAMPLES = {
    "unknown": [
        "if these labels were not drawn at random, it may be off either way; if some were, write random for them into "
        "a column source of the file of --labels, or into the column that --source-column names"
    ],
    "not random": [
        "none of these labels was drawn at random, so it may be off either way; draw a few rows at random, label them, "
        "and name their source random"
    ],
}
MAX_PIXELS = 100_000_000  # that of angpn.features, which is not imported before it is used


class Model(StrEnum):
    """Values of ``--model``."""

    auto = "auto"
    network = "network"


def _read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Use the options of a TOML file as defaults."""
    if path is None:
        return None
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # no file, no UTF-8, no TOML, nested too deeply
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


def label(
    input: Annotated[str, typer.Argument(help=INPUT_HELP)],
    labels: Annotated[
        list[Path] | None,
        typer.Option(help="CSV file with the header id,label or id,label,source; may be given several times."),
    ] = None,
    label_column: Annotated[str | None, typer.Option(help="Column with the labels, empty where unlabelled.")] = None,
    clusters: Annotated[
        Path | None, typer.Option(help="Folder of angpn cluster, with labels filled into its names.csv.")
    ] = None,
    source_column: Annotated[
        str | None,
        typer.Option(help="Column that says how labelled rows were chosen: random, or another word such as suggested."),
    ] = None,
    text: Annotated[str | None, typer.Option(help="Column with texts to label by.")] = None,
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
    model: Annotated[
        Model, typer.Option(help="auto: an ensemble that selects its hyper-parameters; network: the paper's network.")
    ] = Model.auto,
    holdout: Annotated[
        float,
        typer.Option(
            help="Share of the labels (drawn at random, if their source is named) to hold out, to measure accuracy."
        ),
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.", min=0)] = 0,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for predictions, model and report.")] = Path(
        "angpn-out"
    ),
    distributed: Annotated[
        bool | None,
        typer.Option(help="Under torchrun: distribute the rows among the processes, or let each do all for itself."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what was read from the input, and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            callback=_read_config, is_eager=True, help="TOML file with these options; the command line overrides it."
        ),
    ] = None,
) -> None:
    """Label the unlabelled rows of a folder, table or array from the few that are labelled."""
    from angpn.labelling import (
        LabellingOptions,
        check_output_folder,
        make_encoder,
        read_task,
        recover_output,
        run_task,
        write_output,
    )
    from angpn.labelling.empty_rows import find_empty
    from angpn.labelling.joint_encoder import table_of
    from angpn.labelling.reading_facts import reading_facts
    from angpn.neighbors.distributed import is_main_process, join_process_group

    with plain_errors(quiet=quiet):
        silent = join_process_group(distributed) and not is_main_process()
    if silent:
        quiet, as_json = True, False  # the main process prints and writes for all
    options = LabellingOptions(
        input=input,
        labels=labels or None,
        label_column=label_column,
        clusters=clusters,
        source_column=source_column,
        text=text,
        id_column=id_column,
        drop=split_names(drop),
        columns=split_names(columns),
        table=table,
        categorical=split_names(categorical),
        impute=impute,
        encoder=encoder,
        skip_bad=skip_bad,
        excel_safe=excel_safe,
        max_pixels=max_pixels,
        cache=not no_cache,
        holdout=holdout,
        seed=seed,
        model=model.value,
        distributed=distributed,
    )
    with plain_errors(quiet=quiet):
        task = read_task(options)
        about = {
            "input": str(input),
            "kind": task.rows.kind,
            "rows": len(task.y),
            "given": int(task.given.sum()),
            "at_random": None if task.labelled_at_random is None else int(task.labelled_at_random.sum()),
            "classes": task.counts(),
        }
        if dry_run:
            fitted = empty = None
            if task.rows.kind in ("table", "array"):
                fitted = make_encoder(task)
                empty = find_empty(fitted, fitted.fit_transform(task.rows.content, task.y))
            elif task.rows.columns is not None and (of_columns := table_of(make_encoder(task))) is not None:
                of_columns.fit_transform(task.rows.columns, task.y)  # not texts and images, which take long
                fitted = of_columns
            reading = reading_facts(task.rows, fitted, empty)
            lines = [*_task_summary(about), *reading.lines(with_columns=True)]
            print_result({**about, **reading.as_json(), "dry_run": True}, lines, as_json=as_json, quiet=quiet)
            return
        if not silent:
            recover_output(output)
        check_output_folder(output)
        result = run_task(task, progress=not quiet and sys.stderr.isatty())
        if silent:
            return
        files = write_output(result, output)
    estimate = result.estimate
    about |= {
        "rows": len(result.labels),
        "skipped": result.skipped,
        "predicted": int((~result.task.given).sum()),
        "estimate": None
        if estimate is None
        else _estimate_facts(estimate, [str(name) for name in result.model.classes_]),
        "never_predicted": result.never_predicted,
        "unreliable": {reason: len(rows) for reason, rows in result.unreliable.items()},
        "suspects": len(result.labelled.suspects),
        f"{result.unit}s": result.model.n_iter_,
        "seconds": round(result.seconds, 1),
        "files": {name: str(path) for name, path in files.items()},
    }
    reading = reading_facts(result.task.rows, result.encoder, result.empty)
    about |= reading.as_json()
    print_result(about, [*reading.lines(), *_result_summary(about)], as_json=as_json, quiet=quiet)


def _task_summary(about: dict[str, Any]) -> list[str]:
    lines = [f"{about['input']}: {about['rows']:,} rows of {about['kind']}, {about['given']:,} of them labelled"]
    lines += [] if about["at_random"] is None else [f"labels drawn at random: {about['at_random']:,}"]
    lines += [f"  {name}: {count}" for name, count in about["classes"].items()]
    return lines


def _result_summary(about: dict[str, Any]) -> list[str]:
    from angpn.inspection.unreliable_rows import describe_unreliable

    # The first round has no pseudo-labels, so it is none of self-training: the report counts likewise.
    n_trained, unit = (about["epochs"], "epoch") if "epochs" in about else (about["rounds"] - 1, "round")
    trained = f"{n_trained} {unit}{'' if n_trained == 1 else 's'}{' of self-training' if unit == 'round' else ''}"
    lines = [f"{about['predicted']:,} rows labelled from {about['given']:,} labels in {about['seconds']} s, {trained}"]
    estimate = about["estimate"]
    if estimate is None:
        lines.append("accuracy: unknown, too few labels to hold any out; label more rows")
    else:
        measured = {
            "held out": "measured on {} held-out labels",
            "cross-validation": "estimated by cross-validation on {} labels",
            "validation": "estimated on {} labels that decided when to stop training",
        }[estimate["kind"]].format(estimate["rows"])
        measured += " drawn at random" if estimate["sample"] == "random" else ""
        measured += f", {estimate['left_out']} others left out" if estimate["left_out"] else ""
        lines.append(
            f"accuracy: {estimate['accuracy']:.1%} ({estimate['low']:.1%} to {estimate['high']:.1%}), {measured}; "
            f"always answering the largest class: {estimate['base_rate']:.1%}"
        )
        lines += _SAMPLES.get(estimate["sample"], [])
        recalls = sorted((recall, name) for name, recall in estimate["recall"].items() if recall is not None)
        worst = ", ".join(f"{name} {recall:.0%}" for recall, name in recalls[:_RECALLS_SHOWN])
        lines.append(f"balanced accuracy: {estimate['balanced_accuracy']:.1%}; lowest recall: {worst}")
        if estimate["accuracy"] <= estimate["base_rate"]:
            lines.append("warning: this is no better than always answering the largest class; label more of the others")
    if about["never_predicted"]:
        lines.append(
            f"warning: never predicted: {', '.join(about['never_predicted'])}; label more rows of these classes"
        )
    unreliable = list(describe_unreliable(about["unreliable"]).values())
    lines += [*unreliable, "none of these is suggested for labelling: see the report"] if unreliable else []
    if about["suspects"]:
        lines.append(f"given labels that may be wrong: {about['suspects']}, see Suspected label errors in the report")
    lines += [f"skipped {name}: {reason}" for name, reason in about["skipped"].items()]
    lines += [f"{name}: {path}" for name, path in about["files"].items()]
    return lines


def _estimate_facts(estimate: Any, classes: list[str]) -> dict[str, Any]:
    return {
        "kind": estimate.kind,
        "accuracy": estimate.accuracy,
        "low": estimate.low,
        "high": estimate.high,
        "rows": estimate.n_rows,
        "sample": estimate.sample,
        "left_out": estimate.n_left_out,
        "base_rate": estimate.base_rate,
        "balanced_accuracy": estimate.balanced_accuracy,
        "recall": dict(zip(classes, estimate.recalls, strict=True)),
    }


def predict(
    model: Annotated[Path, typer.Argument(help="The folder model that angpn label wrote.")],
    input: Annotated[str, typer.Argument(help="New rows of the same kind; - reads CSV.")],
    table: TableFile = None,
    output: Annotated[str, typer.Option("--output", "-o", help="CSV file to write; - prints it.")] = "-",
    encoder: EncoderName = "auto",
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out images that cannot be read.")] = False,
    excel_safe: Annotated[
        bool, typer.Option("--excel-safe", help="Put ' before ids and labels that a spreadsheet would run as formulas.")
    ] = False,
    max_pixels: MaxPixels = MAX_PIXELS,
    no_cache: NoCache = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Label new rows with a saved model."""
    from angpn.labelling import predict_file
    from angpn.labelling.predictions import encode_csv
    from angpn.utils.files import replacing

    with plain_errors(quiet=quiet):
        found = predict_file(
            model,
            input,
            table=table,
            encoder=encoder,
            skip_bad=skip_bad,
            excel_safe=excel_safe,
            max_pixels=max_pixels,
            cache=not no_cache,
            progress=not quiet and sys.stderr.isatty(),
        )
        if output == "-":
            print_data(found.csv)
        else:
            with replacing(output) as temporary:
                temporary.write_bytes(encode_csv(found.csv))
    for line in found.reading.lines() if not quiet else ():
        echo(line, err=True)
    for name, reason in found.skipped.items() if not quiet else ():
        echo(f"skipped {name}: {reason}", err=True)
    if output != "-" and not quiet:
        echo(f"{found.n_rows} rows: {output}", err=True)
