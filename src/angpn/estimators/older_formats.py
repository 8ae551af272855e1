"""Model files of older formats.

Format 1 is that of 0.1.0, when one estimator was both the ensemble and the network. Format 2, of no release, had the
classes in the header with numpy's name of their type.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from angpn.ensemble.ensemble import EnsembleState
from angpn.ensemble.user_options import GraphOptions
from angpn.estimators.saved_model import EnsembleHeader, FittedHeader, NetworkHeader
from angpn.network.coverage import Coverage
from angpn.utils.label_state import classes_to_state
from angpn.utils.schema import Saved
from angpn.utils.typing import Array

_SCALINGS = {"unit": "unit", "rare": "idf", "standard": "standard", "both": "unit_standard", "none": "none"}
_ARRAYS = {"spread": "scale", "beliefs": "graph_probabilities"}
_OF_NETWORK = (
    "hidden_layer_sizes",
    "normalize",
    "normalize_hidden",
    "num_steps",
    "graph_gradient",
    "dropout",
    "learning_rate",
    "weight_decay",
    "max_iter",
    "n_iter_no_change",
    "tol",
    "validation_fraction",
    "device",
)
_NOT_READ = "checkpoint", "resume"  # a path to write to never comes from a file
_MAX_DEPTH = 5  # of a parameter


class Marked(Struct, forbid_unknown_fields=True):
    """A value that JSON does not have, marked by its kind."""

    number: str | UnsetType = UNSET
    sequence: "list[Value] | UnsetType" = UNSET
    mapping: "list[tuple[Value, Value]] | UnsetType" = UNSET
    config: "dict[str, Value] | UnsetType" = UNSET


Value = bool | int | float | str | Marked | None


class OldClasses(Saved, frozen=True):
    """Class names, and numpy's name of their type."""

    values: list[bool | int | float | str]
    dtype: Annotated[str, Meta(pattern=r"^(object|[<>|]([biuf][1248]|U[0-9]+))$")]


class OldHeader(FittedHeader, kw_only=True, frozen=True):
    """What both formats have."""

    parameters: dict[str, Value]
    classes: OldClasses
    coverage: Coverage | UnsetType | None = UNSET
    unit_rows: bool | UnsetType = UNSET
    network: dict[str, Value] | UnsetType = UNSET


class Committee(Saved, frozen=True):
    """The ensemble of 0.1.0."""

    scaling: Literal["unit", "rare", "standard", "both", "none"]
    metric: str
    options: GraphOptions
    settings: list[list[int | float | None]]
    temperature: float
    scales: list[float | None]
    rates: list[float | None]


class Format1(OldHeader, kw_only=True, frozen=True):
    """The header of 0.1.0."""

    committee: Committee | UnsetType = UNSET


class Format2(OldHeader, kw_only=True, frozen=True):
    """The header before format 3."""

    estimator: Literal["ANGPNClassifier", "ANGPNNetworkClassifier"]
    ensemble: EnsembleState | UnsetType = UNSET


OLDER_FORMATS = {1: Format1, 2: Format2}


def upgrade(
    old: Format1 | Format2, arrays: Mapping[str, Array]
) -> tuple[EnsembleHeader | NetworkHeader, dict[str, Array]]:
    """Return header and arrays of a file of an older format as this version writes them.

    Args:
        old: The header.
        arrays: The arrays.

    Returns:
        The current header and arrays.

    Raises:
        ValueError: If the header is that of no model.
    """
    common = {field.name: getattr(old, field.name) for field in msgspec.structs.fields(FittedHeader)}
    classes, of_classes = classes_to_state(_classes(old.classes))
    parameters = {name: _plain(value) for name, value in old.parameters.items() if name not in _NOT_READ}
    common |= {"classes": msgspec.to_builtins(classes), "parameters": parameters}
    arrays = {**arrays, **of_classes}
    if old.network is not UNSET:
        if isinstance(old, Format1):
            parameters["metric"] = "chord" if parameters.get("metric") == "auto" else parameters.get("metric")
            parameters["alpha"] = 0.7 if parameters.get("alpha") == "auto" else parameters.get("alpha")
        network = {name: _plain(value) for name, value in old.network.items()}
        parts = {"network": network, "unit_rows": old.unit_rows, "coverage": old.coverage}
        return _checked({**common, **parts}, NetworkHeader), arrays
    if isinstance(old, Format2):
        return _checked({**common, "ensemble": msgspec.to_builtins(old.ensemble)}, EnsembleHeader), arrays
    if old.committee is UNSET:
        raise ValueError("there is neither a network nor an ensemble")
    of_network = {name: parameters.pop(name, None) for name in _OF_NETWORK}
    given = parameters.get("metric") != "auto"
    parameters["max_rounds"] = of_network["num_steps"]
    parameters["scaling"] = ("unit" if of_network["normalize"] else "none") if given else "auto"
    header = {**common, "ensemble": _ensemble(old.committee)}
    return _checked(header, EnsembleHeader), {_renamed(name): array for name, array in arrays.items()}


def _checked(header: dict[str, Any], schema: Any) -> Any:
    present = {name: value for name, value in header.items() if value is not UNSET}
    return msgspec.convert({**present, "estimator": schema.__struct_config__.tag}, schema)


def _classes(old: OldClasses) -> Array:
    """Return the classes; text is as wide as its longest, whatever the header says."""
    if old.dtype == "object" or "U" in old.dtype:
        if not all(isinstance(name, str) for name in old.values):
            raise ValueError(f"classes of type {old.dtype} are not all text")
        if old.dtype == "object":
            return np.array(old.values, dtype=object)
        lengths = [len(str(name)) for name in old.values]
        if len(lengths) * max(lengths, default=0) > 2**18 + 64 * sum(lengths):
            raise ValueError("one class has a far longer name than the others")
        return np.array(old.values, dtype=str)
    try:
        return np.array(old.values, dtype=np.dtype(old.dtype).newbyteorder("="))
    except (TypeError, OverflowError) as error:
        raise ValueError(f"classes are not of type {old.dtype}: {error}") from None


def _plain(value: Value, depth: int = 0) -> Any:
    """Return a value as the current format has it."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"a parameter is nested deeper than {_MAX_DEPTH} times")
    if not isinstance(value, Marked):
        return value
    if value.sequence is not UNSET:
        return [_plain(item, depth + 1) for item in value.sequence]
    if value.config is not UNSET:
        return {name: _plain(item, depth + 1) for name, item in value.config.items()}
    if value.mapping is not UNSET:
        return {"mapping": [[_plain(part, depth + 1) for part in pair] for pair in value.mapping]}
    return {"number": None if value.number is UNSET else value.number}


def _ensemble(old: Committee) -> dict[str, Any]:
    learners = [
        {"kind": "label_spreading", "parameters": settings}
        if scale is None
        else {"kind": "head", "parameters": settings, "scale": scale, "rate": rate}
        for settings, scale, rate in zip(old.settings, old.scales, old.rates, strict=True)
    ]
    return {
        "scaling": _SCALINGS[old.scaling],
        "metric": old.metric,
        "options": list(old.options),
        "temperature": old.temperature,
        "learners": learners,
    }


def _renamed(name: str) -> str:
    room, _, part = name.partition(".")
    return name if room != "committee" else f"ensemble.{_ARRAYS.get(part, part)}"
