"""Helpers of several commands: one-line errors, comma-separated lists, output as text or JSON."""

import json
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer


@contextmanager
def plain_errors(*, quiet: bool = False) -> Iterator[None]:
    """Print expected errors and warnings as one line each, and exit with a code."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if quiet else "default")
            warnings.showwarning = lambda message, *_: typer.echo(f"warning: {message}", err=True)
            yield
    except BrokenPipeError:  # the reader of standard output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(141) from None
    except (ValueError, OSError, ImportError, MemoryError, RuntimeError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        typer.echo(f"error: {reason}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        typer.echo("stopped; nothing was written", err=True)
        raise typer.Exit(130) from None


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


def print_result(facts: dict[str, Any], text: str, *, as_json: bool, quiet: bool) -> None:
    """Print the facts as JSON, or the text, or nothing."""
    if as_json:
        typer.echo(json.dumps(facts))
    elif not quiet:
        typer.echo(text)
