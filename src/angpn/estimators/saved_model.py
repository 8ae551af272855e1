"""Schema of a model file: what its header holds, and the parameters of both estimators."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
import numpy as np
import torch
from msgspec import UNSET, Meta, UnsetType

from angpn.anfp.neighbor_graph import Rule
from angpn.anfp.propagation import Direction
from angpn.ensemble.config import EnsembleConfig
from angpn.ensemble.ensemble import EnsembleState
from angpn.ensemble.scaling import ScalingName
from angpn.neighbors.exact import Metric
from angpn.network.coverage import Coverage
from angpn.network.model import NetworkState
from angpn.utils.label_state import ClassesState
from angpn.utils.schema import MAX_STEPS, Flag, NotNegative, Saved, Seed, Share, Size
from angpn.utils.typing import Array

_NAMES = {"ensemble": "ANGPNClassifier", "network": "ANGPNNetworkClassifier"}
_NOT_SAVED = "checkpoint", "resume"  # a path to write to, which never comes from a file, and what belongs to it


class NonFinite(Saved, frozen=True):
    """A number that JSON does not have."""

    number: Literal["inf", "-inf", "nan"]


class ClassKey(Saved, frozen=True):
    """A class by its position, where its name is not a plain value."""

    position: Annotated[int, Meta(ge=0)]


class ClassWeights(Saved, frozen=True):
    """The weight of each class."""

    mapping: list[tuple[bool | int | float | str | ClassKey, NotNegative]]


Number = int | float | NonFinite
Plain = bool | int | float | str | NonFinite | None


def _optional(name: str, types: Mapping[str, Any]) -> Any:
    """Return a schema of values that may be absent: a user's subclass may have other parameters."""
    described = [(field, kind | UnsetType, UNSET) for field, kind in types.items()]
    return msgspec.defstruct(name, described, bases=(Saved,), kw_only=True)


# Types only, but for what predictions depend on: a later fit checks the ranges as it always does.
_SHARED = {
    "n_neighbors": Number,
    "n_candidates": Number | None,
    "recall": Annotated[float, Meta(gt=0, le=1)],
    "beta": Number,
    "gamma": Number | str,
    "rule": Rule,
    "direction": Direction,
    "class_weight": str | ClassWeights | None,
    "distributed": Flag | None,
    "random_state": int | None,
    "warm_start": Flag,
    "verbose": Flag,
    "more": dict[str, Plain],  # that a user's subclass has
}
_RETIRED = {"n_base_learners": int}  # fields of EnsembleConfig in older files, which decide nothing any more
ConfigState = _optional("ConfigState", {**get_type_hints(EnsembleConfig, include_extras=True), **_RETIRED})
EnsembleParameters = _optional(
    "EnsembleParameters",
    {
        **_SHARED,
        "metric": Metric | Literal["auto"],
        "scaling": ScalingName | Literal["auto"],
        "alpha": Number | str,
        "max_rounds": Number | None,
        "config": ConfigState | None,
    },
)
NetworkParameters = _optional(
    "NetworkParameters",
    {
        **_SHARED,
        "hidden_layer_sizes": Number | list[Number],
        "metric": Metric,
        "normalize": Flag,
        "normalize_hidden": Flag,
        "alpha": Number,
        "num_steps": Annotated[int, Meta(le=MAX_STEPS)] | None,
        "graph_gradient": Flag,
        "dropout": Number,
        "learning_rate": Number,
        "weight_decay": Number,
        "self_supervised": Number,
        "max_iter": Number,
        "n_iter_no_change": Number,
        "tol": Number,
        "validation_fraction": Number,
        "device": str | int,
    },
)


class FittedHeader(Saved, frozen=True):
    """What files of both estimators hold, in every format so far."""

    shape: tuple[Size, Size]  # of the features
    metric: Metric
    seed: Seed
    n_neighbors: Size
    best_validation_score: Share | None
    best_iter: Size
    recall: Share
    neighbor_seconds: NotNegative
    feature_names: list[str] | None


class EnsembleHeader(FittedHeader, tag_field="estimator", tag=_NAMES["ensemble"], frozen=True):
    """The header of an ANGPNClassifier."""

    classes: ClassesState
    parameters: EnsembleParameters  # type: ignore[valid-type]
    ensemble: EnsembleState


class NetworkHeader(FittedHeader, tag_field="estimator", tag=_NAMES["network"], frozen=True):
    """The header of an ANGPNNetworkClassifier."""

    classes: ClassesState
    parameters: NetworkParameters  # type: ignore[valid-type]
    unit_rows: bool
    coverage: Coverage | None
    network: NetworkState


def parameters_to_state(estimator: str, parameters: Mapping[str, Any], classes: Array) -> Any:
    """Return what a file keeps of the constructor's parameters.

    Args:
        estimator: The name of the estimator.
        parameters: The parameters by name.
        classes: The classes, which weights may be keyed by.

    Returns:
        The schema's own object.

    Raises:
        ValueError: If a parameter has a type or a value that cannot be saved, and so cannot be fitted with.
    """
    schema = NetworkParameters if estimator == _NAMES["network"] else EnsembleParameters
    known = {field.name for field in msgspec.structs.fields(schema)}
    plain = {name: _plain(value, classes) for name, value in parameters.items() if name not in _NOT_SAVED}
    own = {name: value for name, value in plain.items() if name in known}
    more = {name: value for name, value in plain.items() if name not in known}
    try:
        return msgspec.convert(own | ({"more": more} if more else {}), schema)
    except msgspec.ValidationError as error:
        raise ValueError(
            f"the parameters of {estimator} must be as its documentation describes them, got another value: {error}; "
            "change that parameter"
        ) from None


def parameters_from_state(state: Any, classes: Array) -> dict[str, Any]:
    """Return the constructor's parameters.

    Args:
        state: What :func:`parameters_to_state` returned.
        classes: The classes.

    Returns:
        The parameters by name.

    Raises:
        ValueError: If a weight is that of no class.
    """
    values = {name: value for name, value in msgspec.structs.asdict(state).items() if value is not UNSET}
    found = {name: _restored(value, classes) for name, value in values.items() if name != "more"}
    return found | {name: _restored(value, classes) for name, value in values.get("more", {}).items()}


def _plain(value: Any, classes: Array) -> Any:
    """Return a parameter as builtin values; what has none, a generator of random numbers, is None."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, EnsembleConfig):
        return {field.name: _plain(getattr(value, field.name), classes) for field in fields(value)}
    if isinstance(value, Mapping):
        pairs = [(_class_key(key, classes), _plain(weight, classes)) for key, weight in value.items()]
        return {"mapping": [pair for pair in pairs if pair[0] is not None]}
    if isinstance(value, Sequence | np.ndarray):
        return [_plain(item, classes) for item in value]
    return str(value) if isinstance(value, torch.device) else None


def _class_key(key: Any, classes: Array) -> Any:
    """Return the key of a class weight; None where it is neither a plain value nor a class, and so without effect."""
    key = key.item() if isinstance(key, np.generic) and key.dtype.kind in "biufU" else key
    if isinstance(key, bool | int | float | str):
        return key
    places = np.flatnonzero(classes == key).tolist() if classes.dtype.kind in "SmM" else []
    return {"position": places[0]} if places else None


def _restored(value: Any, classes: Array) -> Any:
    if isinstance(value, NonFinite):
        return float(value.number)
    if isinstance(value, ClassWeights):
        return {_restored_key(key, classes): weight for key, weight in value.mapping}
    if isinstance(value, ConfigState):
        known = msgspec.structs.asdict(value).items()
        return EnsembleConfig(**{name: found for name, found in known if found is not UNSET and name not in _RETIRED})
    return tuple(_restored(item, classes) for item in value) if isinstance(value, list) else value


def _restored_key(key: Any, classes: Array) -> Any:
    if not isinstance(key, ClassKey):
        return key
    if key.position >= len(classes):
        raise ValueError(f"a weight is that of class {key.position}, and there are {len(classes)}")
    return classes[key.position]
