"""``angpn cluster``: find groups in an input without labels, for a person to name."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from angpn.cli.label import MAX_PIXELS, ColumnNames, EncoderName, MaxPixels, NoCache, TableFile
from angpn.cli.shared import INPUT_HELP, plain_errors, print_result, split_names

_SMALL_EIGENGAP = 0.1  # of data without clusters it is about that


def cluster(
    input: Annotated[str, typer.Argument(help=INPUT_HELP)],
    n_clusters: Annotated[
        int | None,
        typer.Option("--n-clusters", "-k", help="How many clusters; without it their number is found.", min=2),
    ] = None,
    text: Annotated[str | None, typer.Option(help="Column with texts to cluster by.")] = None,
    id_column: Annotated[str | None, typer.Option(help="Column with ids; without it the number of the row.")] = None,
    drop: Annotated[str, typer.Option(help="Columns to leave out, comma-separated.")] = "",
    columns: ColumnNames = "",
    table: TableFile = None,
    categorical: Annotated[str, typer.Option(help="Columns to encode as categories, comma-separated.")] = "",
    impute: Annotated[bool, typer.Option("--impute", help="Fill missing values by the median or a category.")] = False,
    encoder: EncoderName = "auto",
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out images that cannot be read.")] = False,
    max_pixels: MaxPixels = MAX_PIXELS,
    no_cache: NoCache = False,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.", min=0)] = 0,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for clusters, names and report.")] = Path(
        "angpn-clusters"
    ),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what was read from the input, and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Find clusters of rows without labels; name them, and angpn label --clusters labels the rows."""
    from angpn.labelling import (
        ClusteringOptions,
        check_clusters_folder,
        read_unlabelled,
        run_clustering,
        write_clusters,
    )
    from angpn.labelling.empty_rows import find_empty
    from angpn.labelling.reading_facts import reading_facts

    options = ClusteringOptions(
        input=input,
        n_clusters=n_clusters,
        text=text,
        id_column=id_column,
        drop=split_names(drop),
        columns=split_names(columns),
        table=table,
        categorical=split_names(categorical),
        impute=impute,
        encoder=encoder,
        skip_bad=skip_bad,
        max_pixels=max_pixels,
        cache=not no_cache,
        seed=seed,
    )
    with plain_errors(quiet=quiet):
        rows = read_unlabelled(options)
        about: dict[str, Any] = {"input": input, "kind": rows.kind, "rows": len(rows.ids)}
        if dry_run:
            fitted = empty = None
            if rows.kind in ("table", "array"):
                fitted = options.make_encoder(rows, with_labels=False)
                empty = find_empty(fitted, fitted.fit_transform(rows.content))
            reading = reading_facts(rows, fitted, empty)
            lines = [f"{input}: {len(rows.ids):,} rows of {rows.kind}", *reading.lines(with_columns=True)]
            print_result({**about, **reading.as_json(), "dry_run": True}, lines, as_json=as_json, quiet=quiet)
            return
        check_clusters_folder(output)
        result = run_clustering(options, rows, progress=not quiet and sys.stderr.isatty())
        files = write_clusters(result, output)
    ids = result.rows.ids
    about |= {
        "rows": len(ids),
        "skipped": result.skipped,
        "eigengap": result.model.eigengap_,
        "clusters": [
            {
                "cluster": number,
                "size": found.size,
                "name": found.name,
                "typical": [ids[row] for row in found.typical],
                "borderline": [ids[row] for row in found.borderline],
            }
            for number, found in enumerate(result.clusters)
        ],
        "seconds": round(result.seconds, 1),
        "files": {name: str(path) for name, path in files.items()},
    }
    named = {"--text": text, "--id-column": id_column, "--drop": drop, "--categorical": categorical}
    again = [part for option, value in named.items() if value for part in (option, value)]
    flags = [flag for flag, given in (("--impute", impute), ("--skip-bad", skip_bad)) if given]
    command = shlex.join(["angpn", "label", input, "--clusters", str(output), *again, *flags])
    reading = reading_facts(result.rows, result.encoder, find_empty(result.encoder, result.features))
    about |= reading.as_json()
    print_result(about, [*reading.lines(), *_result_summary(about, command)], as_json=as_json, quiet=quiet)


def _result_summary(about: dict[str, Any], next_command: str) -> list[str]:
    found, gap = about["clusters"], about["eigengap"]
    counted = f"{len(found)} clusters of {about['rows']:,} rows in {about['seconds']} s"
    meaning = "near 0 their number is a guess, near 1 it is clear"
    lines = [counted if gap is None else f"{counted}; eigengap {gap:.2f} ({meaning})"]
    if gap is not None and gap < _SMALL_EIGENGAP:
        lines.append("warning: with so small an eigengap the number of clusters is a guess; choose one by -k")
    width, digits = len(f"{found[0]['size']:,}"), len(str(len(found) - 1))
    lines += [f"  {one['cluster']:>{digits}}  {one['size']:>{width},} rows  {one['name']}" for one in found]
    lines += [f"skipped {name}: {reason}" for name, reason in about["skipped"].items()]
    lines += [f"{name}: {path}" for name, path in about["files"].items()]
    return [*lines, f"fill in the column label of names.csv, then run: {next_command}"]
