"""Labels from files of other tools: CSV, Label Studio's JSON, JSON lines, and Parquet."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import polars

from angpn.annotation.actions import ActionError, Import, check_class
from angpn.annotation.label_export import SOURCE_OTHER
from angpn.labelling.input_rows import Rows, check_unique
from angpn.labelling.label_file import check_known, read_csv_lines

_IDS = ("id", "row_id", "image", "file", "filename", "path")  # where a task may name its row
_CORRECT = "correct it"


class Given(NamedTuple):
    """What a file says of a row: label None and not skipped is a row of no class."""

    id: str
    label: str | None
    source: str = ""
    skipped: bool = False


def read_import(path: Path, rows: Rows) -> Import:
    """Read the labels of a file, whose format follows from its suffix.

    Args:
        path: A .csv file with the header ``id,label`` or ``id,label,source``, a .json file of Label Studio's choices,
            a .jsonl file as Prodigy writes it, or a .parquet file with the columns of the CSV.
        rows: The rows of the input.

    Returns:
        The labels, as the log keeps them.

    Raises:
        ValueError: If the file cannot be read, or names rows that the input does not have.
    """
    readers = {".csv": _read_csv, ".json": _read_label_studio, ".jsonl": _read_lines, ".parquet": _read_parquet}
    if path.suffix.lower() not in readers:
        raise ValueError(f"{path} must be a file named {', '.join(readers)}, got another suffix; rename it")
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ValueError(f"{path} must be a file of labels that can be read, got {error.strerror}") from None
    given = readers[path.suffix.lower()](path, rows)
    names = [one.id for one in given]
    check_known(names, rows.ids, path, "correct these ids")
    check_unique(names, str(path))
    numbers = {name: row for row, name in enumerate(rows.ids)}
    try:
        labels = [(numbers[one.id], check_class(one.label), one.source) for one in given if one.label is not None]
    except ActionError as error:
        raise ValueError(f"{path}: {error}") from None
    return Import(
        digest,
        labels,
        [numbers[one.id] for one in given if one.label is None and not one.skipped],
        [numbers[one.id] for one in given if one.skipped],
    )


def _read_csv(path: Path, rows: Rows) -> list[Given]:
    lines = read_csv_lines(path, "labels", ("id", "label"), "label a few rows")
    return _from_lines(lines, rows)


def _read_parquet(path: Path, rows: Rows) -> list[Given]:
    try:
        frame = polars.read_parquet(path)
    except (polars.exceptions.PolarsError, OSError) as error:
        raise ValueError(f"{path} must be a parquet file, got {str(error).splitlines()[0]}; {_CORRECT}") from None
    if not {"id", "label"} <= set(frame.columns):
        raise ValueError(f"{path} must have columns id and label, got {', '.join(frame.columns)}; {_CORRECT}")
    wanted = [name for name in ("id", "label", "source") if name in frame.columns]
    return _from_lines(frame.select(polars.col(wanted).cast(polars.String)).to_dicts(), rows)


def _from_lines(lines: Iterable[Mapping[str, str | None]], rows: Rows) -> list[Given]:
    known, given = set(rows.ids), []
    for line in lines:
        name, label = line["id"] or "", (line["label"] or "").strip() or None
        source = (line.get("source") or "").strip()
        if label is not None or source == SOURCE_OTHER:
            given.append(Given(name if name in known else name.strip(), label, source if label else ""))
    return given


def _read_label_studio(path: Path, rows: Rows) -> list[Given]:
    """Read tasks with choices: the last annotation of each that was not cancelled."""
    tasks = _json(path, path.read_bytes())
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise ValueError(f"{path} must be a list of tasks as Label Studio exports them, got another JSON; {_CORRECT}")
    find = _RowFinder(rows, path)
    given = []
    for task in tasks:
        data = task.get("data")
        name = find(data if isinstance(data, dict) else task)
        annotations = [one for one in task.get("annotations") or () if isinstance(one, dict)]
        done = [one for one in annotations if not one.get("was_cancelled")]
        source = str((task.get("meta") or {}).get("source") or "")
        if done:
            chosen = _choices(done[-1].get("result"))
            given.append(Given(name, chosen[0] if chosen else None, source if chosen else ""))
        elif annotations:
            given.append(Given(name, None, skipped=True))
        elif isinstance(task.get("choice"), str):  # the short form of an export
            given.append(Given(name, task["choice"]))
    return given


def _choices(results: Any) -> list[str]:
    found = [one for one in results or () if isinstance(one, dict) and one.get("type") == "choices"]
    return [str(name) for one in found for name in (one.get("value") or {}).get("choices") or ()]


def _read_lines(path: Path, rows: Rows) -> list[Given]:
    """Read lines as Prodigy writes them: a label or a choice, and whether it was accepted."""
    find = _RowFinder(rows, path)
    given = []
    for number, text in enumerate(path.read_bytes().splitlines(), start=1):
        if not text.strip():
            continue
        line = _json(path, text, number)
        if not isinstance(line, dict):
            raise ValueError(f"{path} must hold one object a line, got another in line {number}; {_CORRECT}")
        name, answer = find(line), line.get("answer", "accept")
        source = str((line.get("meta") or {}).get("source") or "") if isinstance(line.get("meta"), dict) else ""
        chosen = (
            line["accept"] if isinstance(line.get("accept"), list) else [line["label"]] if "label" in line else None
        )
        if answer == "ignore":
            given.append(Given(name, None, skipped=True))
        elif answer == "accept" and chosen is not None:
            given.append(Given(name, str(chosen[0]) if chosen else None, source if chosen else ""))
    return given  # a label that was rejected says which class it is not


def _json(path: Path, text: bytes, line: int | None = None) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        where = "" if line is None else f" in line {line}"
        raise ValueError(f"{path} must hold JSON, got {error}{where}; {_CORRECT}") from None


class _RowFinder:
    """Finds the row that a task is about: by its id, the name of its image, or its text."""

    def __init__(self, rows: Rows, path: Path) -> None:
        self._ids, self._path = set(rows.ids), path
        names = Counter(PurePosixPath(name).name for name in rows.ids) if rows.kind == "images" else Counter[str]()
        self._by_name = {PurePosixPath(name).name: name for name in rows.ids if names[PurePosixPath(name).name] == 1}
        texts = Counter(rows.content) if rows.kind == "text" else Counter[str]()
        pairs = zip(rows.ids, rows.content, strict=True) if rows.kind == "text" else ()
        self._by_text = {text: name for name, text in pairs if texts[text] == 1}

    def __call__(self, data: Mapping[str, Any]) -> str:
        places = [data, data.get("meta")]
        named = [str(place[key]) for place in places if isinstance(place, dict) for key in _IDS if key in place]
        for name in named:
            if name in self._ids:
                return name
        for name in named:
            file = PurePosixPath(unquote(urlsplit(name).path)).name
            short = file.split("-", 1)[-1]  # Label Studio puts a code before the name of an uploaded file
            for one in (file, short):
                if one in self._by_name:
                    return self._by_name[one]
        if isinstance(text := data.get("text"), str) and text in self._by_text:
            return self._by_text[text]
        shown = named[0] if named else "none of " + ", ".join(_IDS)
        raise ValueError(
            f"{self._path} must name rows of the input by {', '.join(_IDS[:3])} or a text, got {shown!r} that is none "
            "of them; correct it"
        )


def read_imports(paths: Sequence[Path], rows: Rows) -> list[Import]:
    """Read several files, see :func:`read_import`."""
    return [read_import(path, rows) for path in paths]
