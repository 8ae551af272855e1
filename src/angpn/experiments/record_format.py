"""The format of one line of a results file, checked where it is read."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

Record = dict[str, Any]

CLUSTERING_TASK = "clustering"
_LARGEST = 1e300


class _Field(NamedTuple):
    must_be: str
    is_valid: Callable[[Any], bool]


def _is_whole(value: Any) -> bool:
    return type(value) is int  # a bool is none


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < _LARGEST  # and not NaN


_NAME = _Field("a text", lambda value: isinstance(value, str) and bool(value.strip()))
_WHOLE = _Field("a whole number >= 0", lambda value: _is_whole(value) and value >= 0)
_SECONDS = _Field("a number >= 0", lambda value: _is_number(value) and value >= 0)
_PERCENT = _Field("a number from 0 to 100", lambda value: _is_number(value) and 0 <= value <= 100)

_SHARE = _Field("a number from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1)

_OF_EVERY_RUN = {
    "dataset": _NAME,
    "rate": _WHOLE,
    "split": _WHOLE,
    "method": _NAME,
    "hyperparameters": _Field(
        "a list of objects",
        lambda value: isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value),
    ),
    "error": _Field("null or a text", lambda value: value is None or _NAME.is_valid(value)),
}
_OF_A_GOOD_RUN = {
    "seconds": _SECONDS,
    "wall_seconds": _SECONDS,
    "peak_mb": _Field("null or a number", lambda value: value is None or _is_number(value)),
    "parameters": _Field("an object", lambda value: isinstance(value, dict)),
}
_WITH_LABELS = {
    "test_accuracy": _PERCENT,
    # NaN where a study has no validation labels.
    "val_accuracy": _Field("a number from 0 to 100 or NaN", lambda value: value != value or _PERCENT.is_valid(value)),
}
_OF_CLUSTERS = {
    "accuracy": _PERCENT,
    "nmi": _SHARE,
    "ari": _Field("a number from -1 to 1", lambda value: _is_number(value) and -1 <= value <= 1),
    "n_clusters": _WHOLE,
    "noise": _PERCENT,
}
_PURITY = _Field(
    "a list of numbers", lambda value: isinstance(value, list) and bool(value) and all(map(_is_number, value))
)


def parse_record(line: bytes) -> Record:
    """Return the record that a line holds.

    Raises:
        ValueError: If the line is no record of a run; the message says why.
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("text that is no JSON") from None
    if not isinstance(record, dict):
        raise ValueError("JSON that is no object")
    if "settings" in record:  # the key until version 0.1.0
        record["hyperparameters"] = record.pop("settings")
    fields = _OF_EVERY_RUN
    if record.get("error") is None:
        of_task = _OF_CLUSTERS if record.get("task") == CLUSTERING_TASK else _WITH_LABELS
        fields = fields | of_task | _OF_A_GOOD_RUN
    if "purity" in record:
        fields = fields | {"purity": _PURITY}
    for name, field in fields.items():
        if name not in record:
            raise ValueError(f"no {name!r}")
        if not field.is_valid(record[name]):
            raise ValueError(f"{name!r} that is not {field.must_be}")
    return record
