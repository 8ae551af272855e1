"""The labels of some rows, from a file of their own."""

import csv
import os
from collections.abc import Sequence
from pathlib import Path

from angpn.labelling.rows import check_unique


def read_labels(path: str | os.PathLike[str], ids: Sequence[str]) -> list[str | None]:
    """The label of each id, None where it has none, from a CSV file with the header ``id,label``."""
    path = Path(path)
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
            lines = list(csv.DictReader(file))
    except OSError as error:
        raise ValueError(f"{path} must be a file of labels that can be read, got {error.strerror}") from None
    except csv.Error as error:
        raise ValueError(f"{path} must be a CSV file, got {error}; save it as that") from None
    if not lines:
        raise ValueError(f"{path} must hold a header id,label and a line for each label, got no line; label a few rows")
    if not {"id", "label"} <= lines[0].keys():
        head = ",".join(str(name) for name in lines[0])
        raise ValueError(f"{path} must begin with the header id,label, with a comma, got {head}; correct it")
    known = set(ids)
    written = [line["id"] or "" for line in lines]
    named = [name if name in known else name.strip() for name in written]
    check_unique(named, str(path))
    strange = [name for name in named if name not in known]
    if strange:
        others = f" and {len(strange) - 1} more" if len(strange) > 1 else ""
        raise ValueError(
            f"{path} must name ids of the input, such as {ids[0]!r}, got {strange[0]!r}{others} that it does not have; "
            "correct these ids"
        )
    labels = {name: (line["label"] or "").strip() or None for name, line in zip(named, lines, strict=True)}
    return [labels.get(name) for name in ids]
