"""``angpn label`` and ``angpn predict`` on a hostile input."""

from pathlib import Path
from typing import NamedTuple

from numpy.random import Generator

from fuzz import good_files
from fuzz.checks import check_predictions, check_unchanged, listing
from fuzz.mutations import pick
from fuzz.verdict import accepts_command


class Command(NamedTuple):
    """A command whose output goes to a folder of its own, and what a refusal must name."""

    folder: Path
    arguments: tuple[str, ...]
    names: str = ""


def make_command(
    path: Path, kind: good_files.RowKind, options: tuple[str, ...], generator: Generator, *, names: str = ""
) -> Command:
    """Return a command that reads the input: most only read, some label, some predict by a model of good rows."""
    folder = path.parent
    mode = pick(generator, ["dry", "dry", "dry", "label", "network", "predict", "predict"])
    if mode == "predict":
        arguments = ("predict", str(good_files.labelling_model(kind)), str(path), "-o", str(folder / "new.csv"))
        return Command(folder, arguments, names)
    more = {"dry": ("--dry-run",), "label": (), "network": ("--model", "network")}[mode]
    return Command(folder, ("label", str(path), *options, *more, "-o", str(folder / "out")), names)


def run_command(command: Command) -> bool:
    """Run it; check what it wrote, or that it wrote nothing."""
    before = listing(command.folder)
    if not accepts_command(*command.arguments, names=command.names):
        check_unchanged(before, command.folder)
        return False
    for path in (command.folder / "new.csv", command.folder / "out" / "predictions.csv"):
        if path.exists():
            check_predictions(path, good_files.CLASSES if path.name == "new.csv" else None)
    return True
