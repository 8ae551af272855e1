"""What commands share: plain errors, lists with commas, and output as text or JSON."""

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


def names(value: str) -> list[str]:
    """Those of a list with commas."""
    return [name.strip() for name in value.split(",") if name.strip()]


def chosen(option: str, value: str, known: Sequence[str]) -> list[str]:
    """Those of a list with commas, which must be known; "all" names every one."""
    if value == "all":
        return list(known)
    found = names(value)
    for name in found:
        if name not in known:
            raise typer.BadParameter(f"{option} knows {', '.join(known)}; got {name!r}")
    if not found:
        raise typer.BadParameter(f"{option} names nothing; it knows {', '.join(known)}")
    return found


def tell(facts: dict[str, Any], text: str, *, as_json: bool, quiet: bool) -> None:
    """The one or the other, or nothing."""
    if as_json:
        typer.echo(json.dumps(facts))
    elif not quiet:
        typer.echo(text)
