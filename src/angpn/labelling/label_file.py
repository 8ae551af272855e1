"""Labels of some rows, from a CSV file of their own."""

import csv
import os
from collections.abc import Sequence
from pathlib import Path

from angpn.labelling.input_rows import check_unique


def read_labels(path: str | os.PathLike[str], ids: Sequence[str]) -> list[str | None]:
    """Read a CSV file with the header ``id,label`` and return the label of each id, None where it has none.

    Args:
        path: The file.
        ids: The ids of the input, in the order of the result.

    Returns:
        The label of each id, or None.

    Raises:
        ValueError: If the file cannot be read, lacks the header, repeats an id or names one that is not in ``ids``.
    """
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
        header = ",".join(str(name) for name in lines[0])
        raise ValueError(f"{path} must begin with the header id,label, with a comma, got {header}; correct it")
    known = set(ids)
    written = [line["id"] or "" for line in lines]
    named = [name if name in known else name.strip() for name in written]
    check_unique(named, str(path))
    unknown = [name for name in named if name not in known]
    if unknown:
        others = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        raise ValueError(
            f"{path} must name ids of the input, such as {ids[0]!r}, got {unknown[0]!r}{others} that it does not have; "
            "correct these ids"
        )
    labels = {name: (line["label"] or "").strip() or None for name, line in zip(named, lines, strict=True)}
    return [labels.get(name) for name in ids]
