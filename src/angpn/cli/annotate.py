"""``angpn annotate``: label rows in the browser while a model learns."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from angpn.cli.label import MAX_PIXELS, ColumnNames, EncoderName, MaxPixels, NoCache, TableFile
from angpn.cli.shared import echo, plain_errors, print_result, split_names


def annotate(
    input: Annotated[
        str | None, typer.Argument(help="A folder of images, .csv, .tsv, .parquet, .npy, .npz or .txt.")
    ] = None,
    labels: Annotated[
        list[Path] | None,
        typer.Option(help="Labels to begin with: .csv (id,label), .json (Label Studio), .jsonl (Prodigy), .parquet."),
    ] = None,
    text: Annotated[str | None, typer.Option(help="Column with texts.")] = None,
    images: Annotated[
        Path | None, typer.Option(help="Images to show for an array: a folder, or .npy of (n, height, width[, 3]).")
    ] = None,
    id_column: Annotated[str | None, typer.Option(help="Column with ids; without it the number of the row.")] = None,
    drop: Annotated[str, typer.Option(help="Columns to leave out, comma-separated.")] = "",
    columns: ColumnNames = "",
    table: TableFile = None,
    categorical: Annotated[str, typer.Option(help="Columns to encode as categories, comma-separated.")] = "",
    impute: Annotated[bool, typer.Option("--impute", help="Fill missing values by the median or a category.")] = False,
    encoder: EncoderName = "auto",
    target: Annotated[float | None, typer.Option(help="The accuracy you want, such as 0.95: it says when.")] = None,
    audit: Annotated[
        float, typer.Option(help="Share of rows drawn at random, their guess hidden, to measure accuracy on.")
    ] = 0.2,
    user: Annotated[str | None, typer.Option(help="Your name in the log; without it that of the login.")] = None,
    host: Annotated[
        str, typer.Option(help="Address to serve on; another than loopback lets other machines in.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to serve on; 0 picks a free one.", min=0, max=65535)] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address and open no browser.")] = False,
    export: Annotated[
        bool, typer.Option("--export", help="Write the results of a folder: angpn annotate --export OUT.")
    ] = False,
    max_pixels: MaxPixels = MAX_PIXELS,
    no_cache: NoCache = False,
    seed: Annotated[int, typer.Option(help="The same seed draws the same rows.", min=0)] = 0,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the log and the results.")] = Path(
        "angpn-annotation"
    ),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but the address and errors.")] = False,
) -> None:
    """Label rows in the browser while a model learns, and stop when it is good enough."""
    with plain_errors(quiet=quiet):
        from angpn.utils.optional import require

        require("starlette", 'pip install "angpn[annotate]"')
        require("uvicorn", 'pip install "angpn[annotate]"')
        from angpn.annotation.command import AnnotationOptions, AnnotationServer
        from angpn.annotation.export import export_results
        from angpn.labelling.input_options import InputOptions

        if export:
            folder = Path(input) if input is not None else output
            _print_results(export_results(folder, encoder), folder, quiet=quiet)
            return
        if input is None:
            raise ValueError("an input must be named, got none; pass a folder of images or a file, or --export OUT")
        if input == "-":
            raise ValueError("the input must be a file that can be read again after a restart, got -; save it")
        if table == Path("-"):
            raise ValueError("--table must be a file that can be read again after a restart, got -; save it")
        options = InputOptions(
            input=input,
            text=text,
            id_column=id_column,
            drop=split_names(drop),
            columns=split_names(columns),
            table=table,
            categorical=split_names(categorical),
            impute=impute,
            encoder=encoder,
            skip_bad=True,
            max_pixels=max_pixels,
            cache=not no_cache,
            seed=seed,
        )
        rows = options.read()
        options.check_id_column(rows)
        server = AnnotationServer(
            options,
            rows,
            AnnotationOptions(
                output=output,
                labels=labels or (),
                images=_read_images(images),
                user=user,
                target=target,
                audit=audit,
                host=host,
                port=port,
            ),
        )
        try:
            server.serve(lambda: _say_ready(server.address, output, open_browser=not no_browser, quiet=quiet))
            _print_results(server.write_results(), output, quiet=quiet)
        finally:
            server.close()


def _say_ready(address: str, folder: Path, *, open_browser: bool, quiet: bool) -> None:
    echo(address)
    if not quiet:
        echo(f"label on this page; Ctrl-C here ends it and writes the results to {folder}")
    sys.stdout.flush()
    if open_browser:
        import webbrowser

        webbrowser.open(address)


def _read_images(path: Path | None) -> Any:
    """Return what shows the rows of an array: a folder, or an array of images mapped from a file."""
    if path is None or path.suffix.lower() != ".npy":
        return path
    import numpy as np

    try:
        return np.load(path, mmap_mode="r")
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} must be an array of images, got {error}; save it by numpy.save") from None


def _print_results(results: Any, folder: Path, *, quiet: bool) -> None:
    lines = [f"wrote {', '.join(results.files)} to {folder}", *([] if results.missing is None else [results.missing])]
    print_result({}, lines, as_json=False, quiet=quiet)
