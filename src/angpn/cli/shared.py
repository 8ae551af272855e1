"""Helpers of several commands: safe printing, one-line errors, comma-separated lists, output as text or JSON."""

import io
import json
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from angpn.utils.printing import printable

INPUT_HELP = "A folder of images, .csv, .tsv, .jsonl, .xlsx, .parquet, .arrow, .npy, .npz or .txt; - reads CSV."


def echo(line: str, *, err: bool = False) -> None:
    """Print a line; control characters and bytes that are not UTF-8, as in file names, show as escapes."""
    typer.echo(printable(line), err=err)


def print_data(text: str) -> None:
    """Print lines of data as they are, in UTF-8; only on a terminal do control characters show as escapes."""
    if sys.stdout.isatty():
        for line in text.removesuffix("\n").split("\n"):
            echo(line)
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", errors="surrogateescape"))
        sys.stdout.buffer.flush()


def make_streams_lenient() -> None:
    """Let standard output and error show as escapes what their encoding lacks, instead of failing after the work."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class PrintableErrorsGroup(TyperGroup):
    """Commands whose messages about wrong arguments show control characters in these as escapes."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options before the command."""
        with _printable_messages():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Parse the options of the command, and run it."""
        with _printable_messages():
            return super().invoke(ctx)


@contextmanager
def _printable_messages() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if isinstance(message := getattr(error, "message", None), str):  # of typer's errors
            error.message = printable(message)  # type: ignore[attr-defined]
        raise


@contextmanager
def plain_errors(*, quiet: bool = False, stopped: str = "stopped; nothing was written") -> Iterator[None]:
    """Print expected errors and warnings as one line each, and exit with a code."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if quiet else "default")
            warnings.showwarning = lambda message, *_: echo(f"warning: {_one_line(message)}", err=True)
            yield
    except BrokenPipeError:  # the reader of standard output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(141) from None
    except (ValueError, OSError, ImportError, MemoryError, RuntimeError) as error:
        echo(f"error: {_one_line(error) or type(error).__name__}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        echo(stopped, err=True)
        raise typer.Exit(130) from None


def _one_line(message: object) -> str:
    return " ".join(str(message).split())


def split_names(value: str) -> list[str]:
    """Split a comma-separated list."""
    return [name.strip() for name in value.split(",") if name.strip()]


def select_names(option: str, value: str, known: Sequence[str]) -> list[str]:
    """Split a comma-separated list of known names; "all" selects every one."""
    if value == "all":
        return list(known)
    selected = split_names(value)
    for name in selected:
        if name not in known:
            raise typer.BadParameter(f"{option} knows {', '.join(known)}; got {name!r}")
    if not selected:
        raise typer.BadParameter(f"{option} names nothing; it knows {', '.join(known)}")
    return selected


def print_result(facts: dict[str, Any], lines: Sequence[str], *, as_json: bool, quiet: bool) -> None:
    """Print the facts as JSON, or the lines, or nothing."""
    if as_json:
        typer.echo(json.dumps(facts))  # in ASCII; a byte that is not UTF-8 is a lone surrogate, as in Python's str
    elif not quiet:
        for line in lines:
            echo(line)
